/*
 * The write-ahead log. Input that begins with an even byte is a log file: any outcome but a crash,
 * a hang or a number that does not add up. Otherwise it is a list of records to log and of damage
 * to do to the file: whatever is read must have been logged, in that order, and damage costs only
 * the records it touches.
 *
 * Links: segment, the simulated disk of the tests.
 */
#include <errno.h>

#include "fuzz_fs.h"
#include "segment/wal.h"

#define ID         7
#define PATH       "wal/0000000007.wal"
#define HEAD       24
#define FRAME      32
#define COUNT_MAX  16
#define DAMAGE_MAX 8

struct log {
    size_t n;
    struct bytes payload[COUNT_MAX];
    uint64_t offset[COUNT_MAX + 1];
    bool was_touched[COUNT_MAX], was_read[COUNT_MAX];
    size_t next; /* the first that may be read now */
};

static int any(void *arg, const struct wal_record *r, struct error *err)
{
    uint64_t *bytes = arg;

    (void)err;
    *bytes += FRAME + r->payload.len;
    return 0;
}

static void read_file(struct bytes file)
{
    struct sim_fs *sim = fuzz_disk("wal", PATH, file);
    struct wal_report report;
    struct error err = {{0}};
    uint64_t bytes = 0;

    int r = wal_read(sim_fs_fs(sim), "wal", ID, (struct wal_visitor){any, &bytes}, &report, &err);
    REQUIRE(r == 0 || (r == -EPROTONOSUPPORT && err.text[0] != '\0'));
    REQUIRE(report.bytes == file.len);
    REQUIRE(bytes + report.skipped_bytes + report.torn_bytes <= file.len);
    sim_fs_free(sim);
}

static int check(void *arg, const struct wal_record *r, struct error *err)
{
    struct log *log = arg;
    size_t i = log->next;

    (void)err;
    while (i < log->n && log->offset[i] != r->offset)
        i++;
    if (i == log->n)
        return 0; /* a payload that looks like a record, in one whose head is damaged */
    REQUIRE(r->seq == i && r->type == (uint8_t)(i * 3) && bytes_equal(r->payload, log->payload[i]));
    log->was_read[i] = true;
    log->next = i + 1;
    return 0;
}

static void write_records(struct fs *fs, struct log *log, struct bytes *in)
{
    struct wal *w = NULL;
    uint8_t n = 0, len;

    REQUIRE(wal_create(fs, "wal", ID, &w, NULL) == 0);
    (void)fuzz_take(in, &n, 1);
    log->offset[0] = HEAD;
    for (size_t i = 0; i < n % (COUNT_MAX + 1u) && fuzz_take(in, &len, 1); i++) {
        log->payload[i] = bytes_head(*in, len);
        *in = bytes_from(*in, log->payload[i].len);
        REQUIRE(wal_add(w, (uint8_t)(i * 3), i, log->payload[i], NULL) == 0);
        if (len % 2)
            REQUIRE(wal_commit(w, NULL) == 0);
        log->n = i + 1;
        log->offset[i + 1] = log->offset[i] + FRAME + log->payload[i].len;
    }
    REQUIRE(wal_commit(w, NULL) == 0);
    REQUIRE(wal_bytes(w) == log->offset[log->n]);
    wal_free(w);
}

static void do_damage(struct fs *fs, struct log *log, struct bytes *in)
{
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    uint8_t d[4], byte;

    REQUIRE(fs_open(fs, PATH, FS_WRITE, &file, NULL) == 0);
    for (size_t k = 0; k < DAMAGE_MAX && fuzz_take(in, d, sizeof(d)); k++) {
        uint64_t at = (uint64_t)(d[0] | d[1] << 8 | d[2] << 16) % log->offset[log->n];
        if (d[3] == 0 || fs_pread(file, &byte, 1, at, NULL) != 1)
            continue;
        byte ^= d[3];
        REQUIRE(fs_pwrite(file, &byte, 1, at, NULL) == 0);
        for (size_t i = 0; i < log->n; i++)
            if (at >= log->offset[i] && at < log->offset[i + 1])
                log->was_touched[i] = true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes in = {data, len};
    struct log log = {0};
    struct wal_report report;
    uint8_t mode = 0;

    (void)fuzz_take(&in, &mode, 1);
    if (mode % 2 == 0) {
        read_file(in);
        return 0;
    }
    struct sim_fs *sim = sim_fs_new(1);
    struct fs *fs = sim_fs_fs(sim);
    REQUIRE(fs_mkdir(fs, "wal", NULL) == 0);
    write_records(fs, &log, &in);
    do_damage(fs, &log, &in);
    REQUIRE(wal_read(fs, "wal", ID, (struct wal_visitor){check, &log}, &report, NULL) == 0);
    for (size_t i = 0; i < log.n; i++)
        REQUIRE(log.was_read[i] || log.was_touched[i]);
    sim_fs_free(sim);
    return 0;
}
