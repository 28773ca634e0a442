/*
 * Set R in ClickHouse, run in this process by chDB: a row per sample with the hash of its stack,
 * and a table of stacks; the layout that takes the least space there.
 *
 *     rival_chdb DIR PODS WINDOWS WORK LIBCHDB
 *
 * Rows go in at once, as ClickHouse likes it, and nothing is synced. Asking for an hour gives the
 * sum per stack and the names of the stacks. libchdb comes without a header: what is used of it is
 * declared here.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rival.h"

struct chdb {
    void *connection;
    void **(*connect)(int argc, char **argv);
    void (*close)(void **connection);
    void *(*query)(void *connection, const char *sql, size_t len, const char *format,
                   size_t format_len);
    char *(*buffer)(void *result);
    size_t (*length)(void *result);
    const char *(*error)(void *result);
    void (*destroy)(void *result);
    struct rival_rows rows;
};

static void *symbol(void *lib, const char *name)
{
    void *found = dlsym(lib, name);
    if (!found)
        rival_die(name, "is not in libchdb");
    return found;
}

static void **open_chdb(struct chdb *c, const char *path, const char *dir)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    char data[4096];
    char name[] = "clickhouse";
    char *argv[] = {name, data, NULL};

    if (!lib)
        rival_die(path, dlerror());
    *(void **)&c->connect = symbol(lib, "chdb_connect");
    *(void **)&c->close = symbol(lib, "chdb_close_conn");
    *(void **)&c->query = symbol(lib, "chdb_query_n");
    *(void **)&c->buffer = symbol(lib, "chdb_result_buffer");
    *(void **)&c->length = symbol(lib, "chdb_result_length");
    *(void **)&c->error = symbol(lib, "chdb_result_error");
    *(void **)&c->destroy = symbol(lib, "chdb_destroy_query_result");
    snprintf(data, sizeof(data), "--path=%s", dir);
    void **connection = c->connect(2, argv);
    if (!connection || !*connection)
        rival_die(path, "could not be started");
    c->connection = *connection;
    return connection;
}

/* The answer's bytes; the caller destroys it. */
static void *ask(struct chdb *c, const char *sql, const char *format)
{
    void *result = c->query(c->connection, sql, strlen(sql), format, strlen(format));
    const char *why = result ? c->error(result) : "no answer";

    if (why && *why)
        rival_die(sql, why);
    return result;
}

static void run(struct chdb *c, const char *sql)
{
    c->destroy(ask(c, sql, "TabSeparated"));
}

static int64_t ask_number(struct chdb *c, const char *sql)
{
    char text[32] = "";
    void *result = ask(c, sql, "TabSeparated");
    size_t n = c->length(result);

    memcpy(text, c->buffer(result), n < sizeof(text) - 1 ? n : sizeof(text) - 1);
    c->destroy(result);
    return strtoll(text, NULL, 10);
}

/* Inline binary data is cut short by its parser, so it reads a file that is only memory. */
static void insert(struct chdb *c, const char *table, const struct buf *data)
{
    int fd = memfd_create(table, 0);
    char sql[256];

    for (size_t done = 0; done < data->len;) {
        ssize_t n = fd < 0 ? -1 : write(fd, data->data + done, data->len - done);
        if (n < 0)
            rival_die("memfd", strerror(errno));
        done += (size_t)n;
    }
    snprintf(sql, sizeof(sql),
             "INSERT INTO %s FROM INFILE '/proc/self/fd/%d' COMPRESSION 'none' FORMAT RowBinary",
             table, fd);
    run(c, sql);
    close(fd);
}

static uint64_t stack_hash(uint32_t stack)
{
    struct data_random r = {stack};
    return data_random64(&r);
}

static void put_text(struct buf *out, const void *text, size_t n)
{
    size_t left = n;

    for (; left >= 0x80; left >>= 7)
        buf_add_byte(out, (uint8_t)(left | 0x80));
    buf_add_byte(out, (uint8_t)left);
    buf_add(out, text, n);
}

static void encode_rows(const struct rival_rows *rows, struct buf *out)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct rival_row *row = &rows->rows[i];
        uint64_t hash = stack_hash(row->stack);
        char pod[16];
        int n = snprintf(pod, sizeof(pod), "pod-%u", row->pod);
        put_text(out, "shop", 4);
        put_text(out, pod, (size_t)n);
        buf_add(out, &row->time_ns, 8);
        buf_add(out, &hash, 8);
        buf_add(out, &row->count, 8);
        buf_add(out, &row->cpu, 8);
    }
}

static void encode_stacks(const struct rival_rows *rows, struct buf *out)
{
    struct buf text = {0};

    for (size_t i = 0; i < rows->n_stacks; i++) {
        uint64_t hash = stack_hash((uint32_t)i);
        buf_clear(&text);
        rival_stack_text(rows, i, &text);
        put_text(out, "shop", 4);
        buf_add(out, &hash, 8);
        put_text(out, text.data, text.len);
    }
    buf_done(&text);
}

static int64_t ask_hour(void *ctx, bool one_pod)
{
    struct chdb *c = ctx;
    char sql[768], pods[64] = "";
    int64_t sum = 0;

    if (one_pod)
        snprintf(pods, sizeof(pods), "AND pod = 'pod-%d'", RIVAL_POD);
    snprintf(
        sql, sizeof(sql),
        "SELECT total, names FROM (SELECT stack, sum(cpu) AS total FROM sample WHERE service = "
        "'shop' %s AND start >= fromUnixTimestamp64Nano(%lld) AND start < "
        "fromUnixTimestamp64Nano(%lld) GROUP BY stack) AS s INNER JOIN (SELECT hash, names "
        "FROM stack WHERE service = 'shop') AS t ON t.hash = s.stack",
        pods, (long long)DATA_R_FROM_NS, (long long)DATA_R_TO_NS);
    void *result = ask(c, sql, "RowBinary");
    const uint8_t *p = (const uint8_t *)c->buffer(result), *end = p + c->length(result);
    while (p < end) {
        int64_t v;
        size_t n = 0;
        unsigned shift = 0;
        memcpy(&v, p, sizeof(v));
        sum += v;
        for (p += sizeof(v); *p >= 0x80; p++, shift += 7)
            n |= (size_t)(*p & 0x7f) << shift;
        n |= (size_t)*p++ << shift;
        p += n;
    }
    c->destroy(result);
    return sum;
}

static void store_all(struct chdb *c)
{
    struct buf rows = {0}, stacks = {0};

    run(c, "CREATE DATABASE r ENGINE = Atomic");
    run(c, "USE r");
    run(c, "CREATE TABLE sample(service LowCardinality(String), pod LowCardinality(String), start "
           "DateTime64(9) CODEC(Delta, ZSTD(1)), stack UInt64 CODEC(ZSTD(1)), count Int64 "
           "CODEC(T64, ZSTD(1)), cpu Int64 CODEC(ZSTD(1))) ENGINE = MergeTree ORDER BY (service, "
           "pod, start)");
    run(c, "CREATE TABLE stack(service LowCardinality(String), hash UInt64, names String "
           "CODEC(ZSTD(1))) ENGINE = ReplacingMergeTree ORDER BY (service, hash)");
    encode_rows(&c->rows, &rows);
    encode_stacks(&c->rows, &stacks);
    double start = rival_now();
    insert(c, "sample", &rows);
    insert(c, "stack", &stacks);
    printf("chdb_insert_s: %.2f s\n", rival_now() - start);
    run(c, "OPTIMIZE TABLE sample FINAL");
    run(c, "OPTIMIZE TABLE stack FINAL");
    buf_done(&rows);
    buf_done(&stacks);
}

int main(int argc, char **argv)
{
    struct chdb c = {0};

    rival_load(argc, argv, &c.rows);
    if (argc < 6)
        rival_die("usage", "DIR PODS WINDOWS WORK LIBCHDB");
    void **connection = open_chdb(&c, argv[5], argv[4]);
    store_all(&c);
    int64_t bytes = ask_number(
        &c, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'r'");
    printf("chdb_bytes_per_sample: %.2f bytes\n", (double)bytes / (double)c.rows.n);
    printf("chdb_merge_ms: %.1f ms\n", rival_ask(ask_hour, &c, false, c.rows.asked_cpu));
    printf("chdb_merge_one_pod_ms: %.1f ms\n", rival_ask(ask_hour, &c, true, c.rows.asked_pod_cpu));
    fflush(stdout);
    c.close(connection);
    rival_done(&c.rows);
    return 0;
}
