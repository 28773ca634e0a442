#include <errno.h>

#include "base/checksum.h"
#include "base/le.h"
#include "lib/scratch.h"
#include "lib/sim_fs.h"
#include "lib/test.h"
#include "segment/wal.h"

#define ID     3
#define PATH   "wal/0000000003.wal"
#define HEADER 24
#define HEAD   32

struct fixture {
    struct scratch scratch;
    struct fs *fs;
};

static void fixture_init(struct fixture *x)
{
    scratch_init(&x->scratch);
    if (fs_real_new(x->scratch.path, &x->fs, NULL) < 0 || fs_mkdir(x->fs, "wal", NULL) < 0)
        abort();
}

static void fixture_done(struct fixture *x)
{
    fs_free(x->fs);
    scratch_done(&x->scratch);
}

static const char *const payloads[] = {"one", "", "three: a longer one than the others", "4"};
#define N ARRAY_SIZE(payloads)

/* Where each record begins; the end of the file after the last. */
static uint64_t offset_of(size_t i)
{
    uint64_t at = HEADER;

    for (size_t k = 0; k < i; k++)
        at += HEAD + strlen(payloads[k]);
    return at;
}

/* A log of four records in three groups. */
static void write_log(struct test *t, struct fixture *x)
{
    CLEANUP(wal_freep) struct wal *w = NULL;

    CHECK_INT(t, wal_create(x->fs, "wal", ID, &w, NULL), 0);
    for (size_t i = 0; i < N; i++) {
        CHECK_INT(t, wal_add(w, (uint8_t)(i + 1), 100 + i, bytes_of(payloads[i]), NULL), 0);
        if (i != 1)
            CHECK_INT(t, wal_commit(w, NULL), 0);
    }
    CHECK_INT(t, wal_bytes(w), offset_of(N));
    CHECK_INT(t, wal_id(w), ID);
    CHECK_INT(t, wal_group_bytes(w), 0);
}

/* The records that were read, as bits; anything that was never written ends the program. */
static int collect(void *arg, const struct wal_record *r, struct error *err)
{
    unsigned *seen = arg;
    size_t i = (size_t)(r->seq - 100);

    (void)err;
    if (i >= N || r->type != i + 1 || !bytes_are(r->payload, payloads[i]) ||
        r->offset != offset_of(i) || *seen >> i)
        abort();
    *seen |= 1u << i;
    return 0;
}

static unsigned read_log(struct test *t, struct fixture *x, struct wal_report *report)
{
    unsigned seen = 0;
    struct error err = {{0}};

    CHECK_INT(t, wal_read(x->fs, "wal", ID, (struct wal_visitor){collect, &seen}, report, &err), 0);
    CHECK_STR(t, err.text, "");
    return seen;
}

static void put_bytes(struct fixture *x, uint64_t at, const void *bytes, size_t n)
{
    CLEANUP(fs_closep) struct fs_file *f = NULL;

    if (fs_open(x->fs, PATH, FS_WRITE, &f, NULL) < 0 || fs_pwrite(f, bytes, n, at, NULL) < 0)
        abort();
}

static void get_bytes(struct fixture *x, uint64_t at, void *bytes, size_t n)
{
    CLEANUP(fs_closep) struct fs_file *f = NULL;

    if (fs_open(x->fs, PATH, FS_READ, &f, NULL) < 0 || fs_pread(f, bytes, n, at, NULL) < 0)
        abort();
}

static void flip(struct fixture *x, uint64_t at, uint8_t bits)
{
    uint8_t c = 0;

    get_bytes(x, at, &c, 1);
    c ^= bits;
    put_bytes(x, at, &c, 1);
}

static void set_size(struct fixture *x, uint64_t size)
{
    CLEANUP(fs_closep) struct fs_file *f = NULL;

    if (fs_open(x->fs, PATH, FS_WRITE, &f, NULL) < 0 || fs_truncate(f, size, NULL) < 0)
        abort();
}

static void gives_back_what_was_committed(struct test *t)
{
    struct fixture x;
    struct wal_report report;

    fixture_init(&x);
    write_log(t, &x);
    CHECK_INT(t, read_log(t, &x, &report), 15);
    CHECK_INT(t, report.n_records, 4);
    CHECK_INT(t, report.bytes, offset_of(N));
    CHECK_INT(t, report.n_skipped + report.skipped_bytes + report.torn_bytes, 0);
    CHECK(t, !report.is_header_bad);
    fixture_done(&x);
}

static void drops_what_was_not_committed(struct test *t)
{
    struct fixture x;
    struct wal *w = NULL;
    struct wal_report report;

    fixture_init(&x);
    CHECK_INT(t, wal_create(x.fs, "wal", ID, &w, NULL), 0);
    CHECK_INT(t, wal_commit(w, NULL), 0);
    CHECK_INT(t, wal_bytes(w), HEADER);
    CHECK_INT(t, wal_add(w, 9, 99, BYTES("dropped"), NULL), 0);
    CHECK_INT(t, wal_group_bytes(w), HEAD + 7);
    wal_drop(w);
    CHECK_INT(t, wal_add(w, 1, 100, BYTES("one"), NULL), 0);
    CHECK_INT(t, wal_commit(w, NULL), 0);
    CHECK_INT(t, wal_add(w, 9, 99, BYTES("never"), NULL), 0);
    wal_free(w);
    wal_free(NULL);
    CHECK_INT(t, read_log(t, &x, &report), 1);
    fixture_done(&x);
}

/* The record that a byte belongs to; N + 1: the header. */
static size_t record_at(uint64_t at)
{
    size_t i = 0;

    if (at < HEADER)
        return N + 1;
    while (at >= offset_of(i + 1))
        i++;
    return i;
}

static void a_changed_byte_costs_its_record_and_no_other(struct test *t)
{
    struct fixture x;

    fixture_init(&x);
    write_log(t, &x);
    for (uint64_t at = 0; at < offset_of(N); at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct wal_report report;
            size_t i = record_at(at);
            flip(&x, at, (uint8_t)(1u << bit));
            unsigned seen = read_log(t, &x, &report);
            flip(&x, at, (uint8_t)(1u << bit));
            CHECK_INT(t, report.is_header_bad, i > N);
            CHECK_INT(t, seen, i > N ? 15 : 15 & ~(1u << i));
            CHECK_INT(t, report.n_skipped, i < N - 1);
            CHECK_INT(t, report.skipped_bytes, i < N - 1 ? offset_of(i + 1) - offset_of(i) : 0);
            CHECK_INT(t, report.torn_bytes, i == N - 1 ? offset_of(N) - offset_of(N - 1) : 0);
        }
    }
    fixture_done(&x);
}

static void a_cut_costs_what_is_behind_it(struct test *t)
{
    struct fixture x;

    fixture_init(&x);
    write_log(t, &x);
    for (uint64_t size = offset_of(N); size-- > 0;) {
        struct wal_report report;
        set_size(&x, size);
        unsigned seen = read_log(t, &x, &report);
        size_t whole = 0;
        while (whole < N && offset_of(whole + 1) <= size)
            whole++;
        CHECK_INT(t, seen, (1u << whole) - 1);
        CHECK_INT(t, report.n_skipped, 0);
        CHECK_INT(t, report.bytes, size);
        if (size < HEADER)
            CHECK_INT(t, report.torn_bytes, size);
        else if (size < offset_of(whole) + 16) /* the bytes written here do not end in zeros */
            CHECK_INT(t, report.torn_bytes, size - offset_of(whole));
    }
    fixture_done(&x);
}

static void zeros_at_the_end_are_no_damage(struct test *t)
{
    struct fixture x;
    struct wal_report report;

    fixture_init(&x);
    write_log(t, &x);
    set_size(&x, (uint64_t)3 << 20);
    CHECK_INT(t, read_log(t, &x, &report), 15);
    CHECK_INT(t, report.n_skipped + report.torn_bytes, 0);
    put_bytes(&x, (2 << 20) + 5, "x", 1); /* something was being written far behind */
    CHECK_INT(t, read_log(t, &x, &report), 15);
    CHECK_INT(t, report.torn_bytes, (2 << 20) + 6 - offset_of(N));
    fixture_done(&x);
}

static void a_hole_in_the_middle_costs_what_was_there(struct test *t)
{
    struct fixture x;
    struct wal_report report;
    static const uint8_t zeros[200];

    fixture_init(&x);
    write_log(t, &x);
    put_bytes(&x, offset_of(1) + 3, zeros, offset_of(3) - offset_of(1) - 3);
    CHECK_INT(t, read_log(t, &x, &report), 9);
    CHECK_INT(t, report.n_skipped, 1);
    CHECK_INT(t, report.skipped_bytes, offset_of(3) - offset_of(1));
    fixture_done(&x);
}

static void records_of_other_files_are_not_accepted(struct test *t)
{
    struct fixture x;
    struct wal *w = NULL;
    struct wal_report report;
    unsigned seen = 0;

    fixture_init(&x);
    CHECK_INT(t, wal_create(x.fs, "wal", ID - 1, &w, NULL), 0);
    for (size_t i = 0; i < N; i++)
        CHECK_INT(t, wal_add(w, (uint8_t)(i + 1), 100 + i, bytes_of(payloads[i]), NULL), 0);
    CHECK_INT(t, wal_commit(w, NULL), 0);
    wal_free(w);
    CHECK_INT(t, fs_rename(x.fs, "wal/0000000002.wal", PATH, NULL), 0);
    CHECK_INT(t, wal_read(x.fs, "wal", ID, (struct wal_visitor){collect, &seen}, &report, NULL), 0);
    CHECK_INT(t, seen, 0);
    CHECK(t, report.is_header_bad);
    CHECK_INT(t, report.torn_bytes, offset_of(N) - HEADER);
    fixture_done(&x);
}

/* Lengths that lie, with checksums that hold, as another program might write them. */
static void a_length_over_the_limit_is_damage(struct test *t)
{
    struct fixture x;
    struct wal_report report;
    uint8_t h[HEAD];

    fixture_init(&x);
    write_log(t, &x);
    get_bytes(&x, offset_of(1), h, HEAD);
    le32_put(h + 24, WAL_RECORD_BYTES_MAX + 1);
    le32_put(h + 4, (uint32_t)checksum64_seeded(h + 8, HEAD - 8, ID));
    put_bytes(&x, offset_of(1), h, HEAD);
    CHECK_INT(t, read_log(t, &x, &report), 13);
    CHECK_INT(t, report.n_skipped, 1);
    le32_put(h + 24, WAL_RECORD_BYTES_MAX);
    le32_put(h + 4, (uint32_t)checksum64_seeded(h + 8, HEAD - 8, ID));
    put_bytes(&x, offset_of(1), h, HEAD);
    CHECK_INT(t, read_log(t, &x, &report), 1);
    CHECK_INT(t, report.torn_bytes, offset_of(N) - offset_of(1));
    fixture_done(&x);
}

static void refuses_a_version_it_does_not_know(struct test *t)
{
    struct fixture x;
    struct wal_report report;
    struct error err;
    unsigned seen = 0;
    uint8_t h[HEADER];

    fixture_init(&x);
    write_log(t, &x);
    get_bytes(&x, 0, h, HEADER);
    le16_put(h + 4, 2);
    le64_put(h + 16, checksum64(h, 16));
    put_bytes(&x, 0, h, HEADER);
    CHECK_INT(t, wal_read(x.fs, "wal", ID, (struct wal_visitor){collect, &seen}, &report, &err),
              -EPROTONOSUPPORT);
    CHECK_STR(t, err.text, "\"" PATH "\" has format version 2, this program reads version 1");
    CHECK_INT(t, wal_read(x.fs, "wal", 4, (struct wal_visitor){collect, &seen}, &report, &err),
              -ENOENT);
    CHECK(t, strstr(err.text, "wal/0000000004.wal"));
    fixture_done(&x);
}

static void refuses_records_over_the_limit(struct test *t)
{
    struct fixture x;
    struct wal *w = NULL;
    struct error err;

    fixture_init(&x);
    CHECK_INT(t, wal_create(x.fs, "wal", ID, &w, NULL), 0);
    CHECK_INT(t, wal_add(w, 1, 1, (struct bytes){NULL, WAL_RECORD_BYTES_MAX + 1}, &err), -EFBIG);
    CHECK_STR(t, err.text, "could not log a record of 67108865 bytes: the limit is 67108864");
    CHECK_INT(t, wal_group_bytes(w), 0);
    wal_free(w);
    w = NULL;
    CHECK_INT(t, wal_create(x.fs, "wal", ID, &w, &err), -EEXIST);
    CHECK(t, strstr(err.text, PATH));
    CHECK(t, w == NULL);
    fixture_done(&x);
}

struct sizes {
    uint64_t n, bytes, bad_seq;
    uint64_t stop_at;
};

/* Payloads whose every byte is the low byte of their seq. */
static int check_fill(void *arg, const struct wal_record *r, struct error *err)
{
    struct sizes *s = arg;

    s->n++;
    s->bytes += r->payload.len;
    for (size_t i = 0; i < r->payload.len; i++)
        s->bad_seq += r->payload.data[i] != (uint8_t)r->seq;
    return s->n == s->stop_at ? error_set(err, -EINTR, "enough") : 0;
}

/* Records longer than the window, across its ends, and damage in between. */
static void reads_logs_longer_than_its_window(struct test *t)
{
    static const uint32_t sizes[] = {1000,  5 << 20, 0,  (1 << 20) - 32, 900000,
                                     90000, 3 << 20, 70, 1 << 20,        1};
    struct fixture x;
    struct wal *w = NULL;
    struct wal_report report;
    struct sizes seen = {0};
    uint64_t total = 0, starts[ARRAY_SIZE(sizes)];
    CLEANUP(freep) uint8_t *fill = malloc(5 << 20);

    fixture_init(&x);
    CHECK_INT(t, wal_create(x.fs, "wal", ID, &w, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        starts[i] = wal_bytes(w);
        memset(fill, (int)i, sizes[i]);
        CHECK_INT(t, wal_add(w, 1, i, (struct bytes){fill, sizes[i]}, NULL), 0);
        CHECK_INT(t, wal_commit(w, NULL), 0);
        total += sizes[i];
    }
    struct wal_visitor visitor = {check_fill, &seen};
    CHECK_INT(t, wal_read(x.fs, "wal", ID, visitor, &report, NULL), 0);
    CHECK_INT(t, seen.n, ARRAY_SIZE(sizes));
    CHECK_INT(t, seen.bytes, total);
    CHECK_INT(t, seen.bad_seq, 0);

    flip(&x, starts[1] + 4, 1);            /* a head: its payload has to be searched */
    flip(&x, starts[6] + HEAD + 99999, 1); /* a payload */
    seen = (struct sizes){0};
    CHECK_INT(t, wal_read(x.fs, "wal", ID, visitor, &report, NULL), 0);
    CHECK_INT(t, seen.n, ARRAY_SIZE(sizes) - 2);
    CHECK_INT(t, seen.bytes, total - sizes[1] - sizes[6]);
    CHECK_INT(t, report.n_skipped, 2);
    CHECK_INT(t, report.skipped_bytes, sizes[1] + sizes[6] + 2 * HEAD);
    CHECK_INT(t, report.torn_bytes, 0);

    seen = (struct sizes){.stop_at = 2};
    struct error err;
    CHECK_INT(t, wal_read(x.fs, "wal", ID, visitor, &report, &err), -EINTR);
    CHECK_STR(t, err.text, "enough");
    CHECK_INT(t, report.n_records, 2);
    wal_free(w);
    fixture_done(&x);
}

static void does_not_search_terabytes(struct test *t)
{
    struct fixture x;
    struct wal_report report;
    uint64_t size = (uint64_t)1 << 40;

    fixture_init(&x);
    write_log(t, &x);
    set_size(&x, size);
    CHECK_INT(t, read_log(t, &x, &report), 15);
    CHECK_INT(t, report.torn_bytes, size - offset_of(N));
    /* Nor from one thing that looks like a record to the next. */
    put_bytes(&x, (uint64_t)100 << 20, "\xf7VR\x1a", 4);
    put_bytes(&x, (uint64_t)300 << 20, "\xf7VR\x1a", 4);
    CHECK_INT(t, read_log(t, &x, &report), 15);
    CHECK_INT(t, report.torn_bytes, size - offset_of(N));
    fixture_done(&x);
}

static int cut_it(void *arg, const struct wal_record *r, struct error *err)
{
    (void)r;
    (void)err;
    set_size(arg, HEADER + HEAD + 5);
    return 0;
}

/* By someone else, or by a file system that lost its mind. */
static void notices_a_cut_while_reading(struct test *t)
{
    struct fixture x;
    struct wal *w = NULL;
    struct wal_report report;
    struct error err = {{0}};
    CLEANUP(freep) uint8_t *zeros = calloc(1, 3 << 20);

    fixture_init(&x);
    CHECK_INT(t, wal_create(x.fs, "wal", ID, &w, NULL), 0);
    for (size_t i = 0; i < 2; i++)
        CHECK_INT(t, wal_add(w, 1, i, (struct bytes){zeros, 3 << 20}, NULL), 0);
    CHECK_INT(t, wal_commit(w, NULL), 0);
    wal_free(w);
    CHECK_INT(t, wal_read(x.fs, "wal", ID, (struct wal_visitor){cut_it, &x}, &report, &err), -EIO);
    CHECK_STR(t, err.text, "\"" PATH "\" was cut while it was read: nothing is at byte 3145784");
    CHECK_INT(t, report.n_records, 1);
    fixture_done(&x);
}

/* A life of a log on a simulated disk: five groups of three records. */
struct life {
    struct fs *fs;
    unsigned acked; /* records that are said to be on disk, as bits */
    unsigned found;
    bool was_dead;
};

#define LIFE_GROUPS  5
#define LIFE_RECORDS 3

static void life_fill(uint64_t seq, uint8_t fill[700])
{
    memset(fill, (int)(seq * 37 + 1), 700);
}

static int live(struct life *l, struct error *err)
{
    CLEANUP(wal_freep) struct wal *w = NULL;
    uint8_t payload[700];
    int failure = 0;

    int r = fs_mkdir(l->fs, "wal", err);
    if (r == 0)
        r = fs_sync_dir(l->fs, ".", err);
    if (r == 0)
        r = wal_create(l->fs, "wal", ID, &w, err);
    for (uint64_t group = 0; r == 0 && group < LIFE_GROUPS; group++) {
        unsigned bits = 0;
        for (uint64_t i = 0; i < LIFE_RECORDS; i++) {
            uint64_t seq = group * LIFE_RECORDS + i;
            life_fill(seq, payload);
            if (wal_add(w, 1, seq, (struct bytes){payload, 100 + 200 * i}, err) < 0)
                abort();
            bits |= 1u << seq;
        }
        struct error here = {{0}};
        bool was_dead = wal_is_dead(w);
        r = wal_commit(w, &here);
        l->acked |= r == 0 ? bits : 0;
        if (r < 0 && (here.text[0] == '\0' || wal_group_bytes(w) != 0 || (was_dead && r != -EROFS)))
            abort();
        l->was_dead = wal_is_dead(w);
        failure = r < 0 ? r : failure;
        r = 0; /* the next group may do better */
    }
    return r < 0 ? r : failure;
}

static int relive(void *arg, const struct wal_record *r, struct error *err)
{
    struct life *l = arg;
    uint8_t payload[700];

    (void)err;
    life_fill(r->seq, payload);
    if (r->seq >= (uint64_t)LIFE_GROUPS * LIFE_RECORDS || r->type != 1 ||
        !bytes_equal(r->payload,
                     (struct bytes){payload, (size_t)(100 + 200 * (r->seq % LIFE_RECORDS))}))
        abort();
    l->found |= 1u << r->seq;
    return 0;
}

/* What a fault at the nth operation leaves behind; whether it struck. */
static bool live_through(struct test *t, uint64_t seed, struct sim_fault fault)
{
    struct sim_fs *sim = sim_fs_new(seed);
    struct life l = {.fs = sim_fs_fs(sim)};
    struct wal_report report;
    struct error err = {{0}};

    sim_fs_fault(sim, fault);
    int r = live(&l, &err);
    bool struck = sim_fs_struck(sim) > 0;
    if (fault.what != SIM_LIE)
        CHECK_INT(t, r < 0, struck);
    sim_fs_clear_faults(sim);
    sim_fs_restart(sim);
    int e = wal_read(l.fs, "wal", ID, (struct wal_visitor){relive, &l}, &report, &err);
    CHECK(t, e == 0 || (e == -ENOENT && l.acked == 0));
    CHECK_INT(t, l.found & l.acked, l.acked);
    if (l.was_dead && fault.what != SIM_CRASH) /* nothing was acknowledged behind the failure */
        CHECK_INT(t, l.acked & (l.acked + 1), 0);
    sim_fs_free(sim);
    return struck;
}

static void keeps_what_it_acknowledged_whatever_fails(struct test *t)
{
    static const enum sim_fault_what whats[] = {SIM_FAIL, SIM_SHORT, SIM_TORN, SIM_CRASH, SIM_KILL};

    for (uint64_t seed = 0; seed < 10; seed++) {
        for (size_t i = 0; i < ARRAY_SIZE(whats) * 2; i++) {
            struct sim_fault fault = {.op = SIM_ANY,
                                      .nth = 1,
                                      .what = whats[i / 2],
                                      .error = ENOSPC,
                                      .is_lasting = i % 2 == 1};
            while (live_through(t, seed * 100 + fault.nth, fault))
                fault.nth++;
        }
    }
}

static void goes_on_after_a_failed_write(struct test *t)
{
    struct sim_fs *sim = sim_fs_new(1);
    struct fs *fs = sim_fs_fs(sim);
    struct wal *w = NULL;
    struct wal_report report;
    struct error err = {{0}};
    unsigned seen = 0;

    CHECK_INT(t, fs_mkdir(fs, "wal", NULL), 0);
    CHECK_INT(t, wal_create(fs, "wal", ID, &w, NULL), 0);
    CHECK_INT(t, wal_add(w, 9, 9, BYTES("a group that does not fit"), NULL), 0);
    sim_fs_fault(sim,
                 (struct sim_fault){.op = SIM_WRITE, .nth = 1, .what = SIM_SHORT, .error = ENOSPC});
    CHECK_INT(t, wal_commit(w, &err), -ENOSPC);
    CHECK(t, strstr(err.text, PATH));
    CHECK(t, !wal_is_dead(w));
    CHECK_INT(t, wal_bytes(w), HEADER);
    CHECK_INT(t, wal_add(w, 1, 100, BYTES("one"), NULL), 0);
    CHECK_INT(t, wal_commit(w, NULL), 0);
    wal_free(w);
    CHECK_INT(t, wal_read(fs, "wal", ID, (struct wal_visitor){collect, &seen}, &report, NULL), 0);
    CHECK_INT(t, seen, 1);
    CHECK_INT(t, report.n_skipped + report.torn_bytes, 0);
    sim_fs_free(sim);
}

static void is_dead_when_it_cannot_know_what_is_on_disk(struct test *t)
{
    static const enum sim_op ops[] = {SIM_TRUNCATE, SIM_SYNC};

    for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
        struct sim_fs *sim = sim_fs_new(1);
        struct fs *fs = sim_fs_fs(sim);
        struct wal *w = NULL;
        struct error err = {{0}};
        CHECK_INT(t, fs_mkdir(fs, "wal", NULL), 0);
        CHECK_INT(t, wal_create(fs, "wal", ID, &w, NULL), 0);
        if (ops[i] == SIM_TRUNCATE)
            sim_fs_fault(sim, (struct sim_fault){.op = SIM_WRITE, .nth = 1, .what = SIM_TORN});
        sim_fs_fault(sim, (struct sim_fault){.op = ops[i], .nth = 1, .what = SIM_FAIL});
        CHECK_INT(t, wal_add(w, 1, 1, BYTES("x"), NULL), 0);
        CHECK_INT(t, wal_commit(w, &err), -EIO);
        CHECK(t, wal_is_dead(w));
        CHECK_INT(t, wal_add(w, 1, 2, BYTES("y"), NULL), 0);
        uint64_t before = sim_fs_count(sim, SIM_ANY);
        CHECK_INT(t, wal_commit(w, &err), -EROFS);
        CHECK_STR(t, err.text,
                  "could not write to \"" PATH "\": an earlier failure left it in doubt");
        CHECK_INT(t, sim_fs_count(sim, SIM_ANY), before); /* it does not even try */
        CHECK_INT(t, wal_bytes(w), HEADER);
        wal_free(w);
        sim_fs_free(sim);
    }
}

static void says_when_it_cannot_be_read(struct test *t)
{
    struct sim_fs *sim = sim_fs_new(1);
    struct life l = {.fs = sim_fs_fs(sim)};
    bool struck = true;

    CHECK_INT(t, live(&l, NULL), 0);
    for (uint64_t nth = 1; struck; nth++) {
        struct error err = {{0}};
        struct wal_report report;
        uint64_t before = sim_fs_struck(sim);
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_ANY, .nth = nth, .what = SIM_FAIL});
        int r = wal_read(l.fs, "wal", ID, (struct wal_visitor){relive, &l}, &report, &err);
        struck = sim_fs_struck(sim) > before;
        CHECK_INT(t, r, struck ? -EIO : 0);
        CHECK_INT(t, strstr(err.text, PATH) != NULL, struck);
        sim_fs_clear_faults(sim);
    }
    CHECK_INT(t, l.found, (1 << LIFE_GROUPS * LIFE_RECORDS) - 1);
    sim_fs_free(sim);
}

/* Long records and long damage, so that each kind of reading meets the failure. */
static void says_when_a_damaged_log_cannot_be_read(struct test *t)
{
    struct sim_fs *sim = sim_fs_new(1);
    struct fs *fs = sim_fs_fs(sim);
    struct wal *w = NULL;
    bool struck = true;
    uint64_t starts[4] = {0};
    CLEANUP(freep) uint8_t *fill = malloc(3 << 20);

    CHECK_INT(t, fs_mkdir(fs, "wal", NULL), 0);
    CHECK_INT(t, wal_create(fs, "wal", ID, &w, NULL), 0);
    for (size_t i = 0; i < 4; i++) {
        starts[i] = wal_bytes(w);
        memset(fill, (int)i, 3 << 20);
        CHECK_INT(t, wal_add(w, 1, i, (struct bytes){fill, 3 << 20}, NULL), 0);
        CHECK_INT(t, wal_commit(w, NULL), 0);
    }
    wal_free(w);
    CHECK(t, sim_fs_flip(sim, PATH, starts[1] * 8));
    CHECK(t, sim_fs_flip(sim, PATH, starts[3] * 8));
    for (uint64_t nth = 1; struck; nth++) {
        struct error err = {{0}};
        struct wal_report report;
        struct sizes seen = {0};
        uint64_t before = sim_fs_struck(sim);
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_READ, .nth = nth, .what = SIM_FAIL});
        int r = wal_read(fs, "wal", ID, (struct wal_visitor){check_fill, &seen}, &report, &err);
        struck = sim_fs_struck(sim) > before;
        CHECK_INT(t, r, struck ? -EIO : 0);
        CHECK_INT(t, strstr(err.text, PATH) != NULL, struck);
        CHECK_INT(t, report.n_records, seen.n);
        CHECK_INT(t, seen.bad_seq, 0);
        CHECK(t, struck || (seen.n == 2 && report.n_skipped == 1 && report.torn_bytes > 3 << 20));
        sim_fs_clear_faults(sim);
    }
    sim_fs_free(sim);
}

static const struct test_case cases[] = {
    TEST(gives_back_what_was_committed),
    TEST(drops_what_was_not_committed),
    TEST(a_changed_byte_costs_its_record_and_no_other),
    TEST(a_cut_costs_what_is_behind_it),
    TEST(zeros_at_the_end_are_no_damage),
    TEST(a_hole_in_the_middle_costs_what_was_there),
    TEST(records_of_other_files_are_not_accepted),
    TEST(a_length_over_the_limit_is_damage),
    TEST(refuses_a_version_it_does_not_know),
    TEST(refuses_records_over_the_limit),
    TEST(reads_logs_longer_than_its_window),
    TEST(does_not_search_terabytes),
    TEST(notices_a_cut_while_reading),
    TEST(keeps_what_it_acknowledged_whatever_fails),
    TEST(goes_on_after_a_failed_write),
    TEST(is_dead_when_it_cannot_know_what_is_on_disk),
    TEST(says_when_it_cannot_be_read),
    TEST(says_when_a_damaged_log_cannot_be_read),
};
TEST_MAIN(cases)
