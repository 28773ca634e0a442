/*
 * Set R in SQLite, two ways: a row per sample with a table of stacks, and a row per profile that
 * holds the packed file. Every profile is one transaction and on disk before the next, as it is in
 * our store.
 *
 *     rival_sqlite DIR PODS WINDOWS WORK
 *
 * Asking for an hour gives the sum per stack and the names of the stacks (rows), or decodes the
 * files and merges them with our own code (files).
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/formats.h"
#include "profile/merge.h"
#include "rival.h"

struct rival_db {
    sqlite3 *db;
    struct rival_rows rows;
};

static void run(struct rival_db *r, const char *sql)
{
    if (sqlite3_exec(r->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        rival_die(sql, sqlite3_errmsg(r->db));
}

static sqlite3_stmt *prepare(struct rival_db *r, const char *sql)
{
    sqlite3_stmt *s;

    if (sqlite3_prepare_v2(r->db, sql, -1, &s, NULL) != SQLITE_OK)
        rival_die(sql, sqlite3_errmsg(r->db));
    return s;
}

static void step(struct rival_db *r, sqlite3_stmt *s)
{
    if (sqlite3_step(s) != SQLITE_DONE || sqlite3_reset(s) != SQLITE_OK)
        rival_die("insert", sqlite3_errmsg(r->db));
}

/* A new database in the folder. */
static void open_db(struct rival_db *r, const char *dir, const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s.db", dir, name);
    remove(path);
    if (sqlite3_open(path, &r->db) != SQLITE_OK)
        rival_die(path, sqlite3_errmsg(r->db));
    run(r, "PRAGMA journal_mode=WAL");
    run(r, "PRAGMA synchronous=FULL");
}

/* Bytes per sample, everything included, when nothing is left to do. */
static double settled_bytes(struct rival_db *r, const char *dir, const char *name)
{
    char path[4096];
    struct stat st;

    run(r, "VACUUM");
    run(r, "PRAGMA wal_checkpoint(TRUNCATE)");
    snprintf(path, sizeof(path), "%s/%s.db", dir, name);
    if (stat(path, &st) < 0)
        rival_die(path, "is not there");
    return (double)st.st_size / (double)r->rows.n;
}

static void insert_stacks(struct rival_db *r)
{
    sqlite3_stmt *s = prepare(r, "INSERT INTO stack VALUES(?, ?)");
    struct buf text = {0};

    run(r, "BEGIN");
    for (size_t i = 0; i < r->rows.n_stacks; i++) {
        buf_clear(&text);
        rival_stack_text(&r->rows, i, &text);
        sqlite3_bind_int64(s, 1, (int64_t)i);
        sqlite3_bind_text(s, 2, (const char *)text.data, (int)text.len, SQLITE_STATIC);
        step(r, s);
    }
    run(r, "COMMIT");
    sqlite3_finalize(s);
    buf_done(&text);
}

static void insert_rows(struct rival_db *r)
{
    const struct rival_rows *rows = &r->rows;
    sqlite3_stmt *s = prepare(r, "INSERT INTO sample VALUES(?, ?, ?, ?, ?)");

    for (size_t i = 0; i < rows->n; i++) {
        const struct rival_row *row = &rows->rows[i];
        bool is_first = i == 0 || row[-1].time_ns != row->time_ns || row[-1].pod != row->pod;
        if (is_first)
            run(r, i == 0 ? "BEGIN" : "COMMIT; BEGIN");
        sqlite3_bind_int64(s, 1, row->pod);
        sqlite3_bind_int64(s, 2, row->time_ns / 1000000);
        sqlite3_bind_int64(s, 3, row->stack);
        sqlite3_bind_int64(s, 4, row->count);
        sqlite3_bind_int64(s, 5, row->cpu);
        step(r, s);
    }
    run(r, "COMMIT");
    sqlite3_finalize(s);
}

static int64_t ask_rows(void *ctx, bool one_pod)
{
    struct rival_db *r = ctx;
    char sql[512], pods[64] = "pod >= 0";
    int64_t sum = 0;

    if (one_pod)
        snprintf(pods, sizeof(pods), "pod = %d", RIVAL_POD);
    snprintf(sql, sizeof(sql),
             "SELECT names, total FROM (SELECT stack, sum(cpu) AS total FROM sample WHERE %s AND "
             "time >= %lld AND time < %lld GROUP BY stack) JOIN stack ON stack.id = stack",
             pods, (long long)(DATA_R_FROM_NS / 1000000), (long long)(DATA_R_TO_NS / 1000000));
    sqlite3_stmt *s = prepare(r, sql);
    while (sqlite3_step(s) == SQLITE_ROW) {
        sum += sqlite3_column_bytes(s, 0) > 0 ? sqlite3_column_int64(s, 1) : 0;
    }
    sqlite3_finalize(s);
    return sum;
}

static void measure_rows(struct rival_db *r, const char *dir)
{
    open_db(r, dir, "rows");
    run(r, "CREATE TABLE stack(id INTEGER PRIMARY KEY, names TEXT)");
    run(r, "CREATE TABLE sample(pod INT, time INT, stack INT, count INT, cpu INT, "
           "PRIMARY KEY(pod, time, stack)) WITHOUT ROWID");
    double start = rival_now();
    insert_stacks(r);
    insert_rows(r);
    printf("sqlite_rows_insert_s: %.2f s\n", rival_now() - start);
    printf("sqlite_rows_bytes_per_sample: %.2f bytes\n", settled_bytes(r, dir, "rows"));
    printf("sqlite_rows_merge_ms: %.1f ms\n", rival_ask(ask_rows, r, false, r->rows.asked_cpu));
    printf("sqlite_rows_merge_one_pod_ms: %.1f ms\n",
           rival_ask(ask_rows, r, true, r->rows.asked_pod_cpu));
    sqlite3_close(r->db);
}

static void insert_files(struct rival_db *r)
{
    sqlite3_stmt *s = prepare(r, "INSERT INTO profile VALUES(?, ?, ?)");

    for (size_t i = 0; i < r->rows.r->n; i++) {
        const struct data_r_profile *p = &r->rows.r->profiles[i];
        sqlite3_bind_int64(s, 1, p->pod);
        sqlite3_bind_int64(s, 2, p->time_ns / 1000000);
        sqlite3_bind_blob(s, 3, p->packed.data, (int)p->packed.len, SQLITE_STATIC);
        step(r, s);
    }
    sqlite3_finalize(s);
}

static int64_t ask_files(void *ctx, bool one_pod)
{
    struct rival_db *r = ctx;
    sqlite3_stmt *s = prepare(
        r, "SELECT file FROM profile WHERE (?1 < 0 OR pod = ?1) AND time >= ?2 AND time < ?3");
    struct budget budget;
    struct error err;

    budget_init(&budget, SIZE_MAX / 2);
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&budget);
    sqlite3_bind_int64(s, 1, one_pod ? RIVAL_POD : -1);
    sqlite3_bind_int64(s, 2, DATA_R_FROM_NS / 1000000);
    sqlite3_bind_int64(s, 3, DATA_R_TO_NS / 1000000);
    while (sqlite3_step(s) == SQLITE_ROW) {
        struct bytes file = {sqlite3_column_blob(s, 0), (size_t)sqlite3_column_bytes(s, 0)};
        CLEANUP(input_closep) struct input *in = input_from_bytes(file, "row", &budget);
        if (format_read(in, &format_pprof, set, NULL, &err) < 0)
            rival_die("decode", err.text);
    }
    sqlite3_finalize(s);
    CLEANUP(profile_freep)
    struct profile *sum =
        profile_merge(set->dict, set->profiles.data, set->profiles.len, (struct merge_options){0});
    return sum ? profile_total(sum, 1) : -1;
}

static void measure_files(struct rival_db *r, const char *dir)
{
    open_db(r, dir, "files");
    run(r, "CREATE TABLE profile(pod INT, time INT, file BLOB)");
    run(r, "CREATE INDEX profile_time ON profile(time, pod)");
    double start = rival_now();
    insert_files(r);
    printf("sqlite_files_insert_s: %.2f s\n", rival_now() - start);
    printf("sqlite_files_bytes_per_sample: %.2f bytes\n", settled_bytes(r, dir, "files"));
    double first = rival_now();
    if (ask_files(r, false) != r->rows.asked_cpu)
        rival_die("merge", "its sum is wrong");
    printf("sqlite_files_merge_ms: %.1f ms\n", (rival_now() - first) * 1e3);
    sqlite3_close(r->db);
}

int main(int argc, char **argv)
{
    struct rival_db r = {0};

    rival_load(argc, argv, &r.rows);
    printf("sqlite: version %s\n", sqlite3_libversion());
    measure_rows(&r, argv[4]);
    measure_files(&r, argv[4]);
    rival_done(&r.rows);
    return 0;
}
