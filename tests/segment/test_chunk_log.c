#include <errno.h>

#include "base/checksum.h"
#include "base/le.h"
#include "lib/scratch.h"
#include "lib/sim_fs.h"
#include "lib/test.h"
#include "segment/chunk_log.h"
#include "segment/file_head.h"

#define ID     5
#define PATH   "dict/0000000005.dict"
#define HEADER 24
#define HEAD   32

struct fixture {
    struct scratch scratch;
    struct fs *fs;
    struct chunk_log log;
    uint64_t end;
};

static void fixture_init(struct fixture *x)
{
    scratch_init(&x->scratch);
    if (fs_real_new(x->scratch.path, &x->fs, NULL) < 0 || fs_mkdir(x->fs, "dict", NULL) < 0)
        abort();
    x->log = (struct chunk_log){x->fs, PATH, ID};
    x->end = 0;
}

static void fixture_done(struct fixture *x)
{
    fs_free(x->fs);
    scratch_done(&x->scratch);
}

static const char *const payloads[] = {"first", "the second chunk", "", "4th"};
#define N ARRAY_SIZE(payloads)

static uint64_t offset_of(size_t i)
{
    uint64_t at = HEADER;

    for (size_t k = 0; k < i; k++)
        at += HEAD + strlen(payloads[k]);
    return at;
}

static void write_log(struct test *t, struct fixture *x)
{
    for (size_t i = 0; i < N; i++)
        CHECK_INT(t, chunk_log_append(&x->log, x->end, bytes_of(payloads[i]), &x->end, NULL), 0);
    CHECK_INT(t, x->end, offset_of(N));
}

/* The chunks that were read, as bits; anything that was never written ends the program. */
static int collect(void *arg, uint64_t offset, struct bytes payload, struct error *err)
{
    unsigned *seen = arg;

    (void)err;
    for (size_t i = 0; i < N; i++) {
        if (offset == offset_of(i) && bytes_are(payload, payloads[i]) && *seen >> i == 0) {
            *seen |= 1u << i;
            return 0;
        }
    }
    abort();
}

static unsigned read_log(struct test *t, struct fixture *x, struct chunk_report *report)
{
    struct error err = {{0}};
    unsigned seen = 0;

    CHECK_INT(t,
              chunk_log_read(&x->log, x->end, (struct chunk_visitor){collect, &seen}, report, &err),
              0);
    CHECK_STR(t, err.text, "");
    return seen;
}

static void flip(struct fixture *x, uint64_t at, uint8_t bits)
{
    CLEANUP(fs_closep) struct fs_file *f = NULL;
    uint8_t c;

    if (fs_open(x->fs, PATH, FS_WRITE, &f, NULL) < 0 || fs_pread(f, &c, 1, at, NULL) != 1)
        abort();
    c ^= bits;
    if (fs_pwrite(f, &c, 1, at, NULL) < 0)
        abort();
}

static void set_size(struct fixture *x, uint64_t size)
{
    CLEANUP(fs_closep) struct fs_file *f = NULL;

    if (fs_open(x->fs, PATH, FS_WRITE, &f, NULL) < 0 || fs_truncate(f, size, NULL) < 0)
        abort();
}

static void gives_back_what_was_appended(struct test *t)
{
    struct fixture x;
    struct chunk_report report;

    fixture_init(&x);
    CHECK_INT(t, read_log(t, &x, &report), 0); /* a length of 0 needs no file */
    write_log(t, &x);
    CHECK_INT(t, read_log(t, &x, &report), 15);
    CHECK_INT(t, report.n_chunks, 4);
    CHECK(t, chunk_report_is_clean(&report));
    fixture_done(&x);
}

static void only_the_named_length_counts(struct test *t)
{
    struct fixture x;
    struct chunk_report report;
    uint64_t end;

    fixture_init(&x);
    write_log(t, &x);
    x.end = offset_of(2);
    CHECK_INT(t, read_log(t, &x, &report), 3);
    CHECK(t, chunk_report_is_clean(&report));
    /* What comes next takes the place of what did not count. */
    CHECK_INT(t, chunk_log_append(&x.log, x.end, BYTES(""), &x.end, NULL), 0);
    CHECK_INT(t, x.end, offset_of(3));
    CHECK_INT(t, fs_path_size(x.fs, PATH, &end, NULL), 0);
    CHECK_INT(t, end, offset_of(3));
    CHECK_INT(t, read_log(t, &x, &report), 7);
    /* Beginning anew replaces the file. */
    CHECK_INT(t, chunk_log_append(&x.log, 0, bytes_of(payloads[0]), &x.end, NULL), 0);
    CHECK_INT(t, read_log(t, &x, &report), 1);
    CHECK_INT(t, fs_path_size(x.fs, PATH, &end, NULL), 0);
    CHECK_INT(t, end, offset_of(1));
    fixture_done(&x);
}

static void a_changed_byte_costs_its_chunk_and_no_other(struct test *t)
{
    struct fixture x;

    fixture_init(&x);
    write_log(t, &x);
    for (uint64_t at = 0; at < x.end; at++) {
        size_t i = 0;
        while (at >= HEADER && at >= offset_of(i + 1))
            i++;
        for (unsigned bit = 0; bit < 8; bit++) {
            struct chunk_report report;
            flip(&x, at, (uint8_t)(1u << bit));
            unsigned seen = read_log(t, &x, &report);
            flip(&x, at, (uint8_t)(1u << bit));
            CHECK(t, !chunk_report_is_clean(&report));
            CHECK_INT(t, report.is_header_bad, at < HEADER);
            CHECK_INT(t, report.n_bad, at >= HEADER);
            CHECK_INT(t, report.first_bad, at < HEADER ? 0 : offset_of(i));
            CHECK_INT(t, report.bad_bytes, at < HEADER ? 0 : offset_of(i + 1) - offset_of(i));
            CHECK_INT(t, seen, at < HEADER ? 15 : 15 & ~(1u << i));
        }
    }
    fixture_done(&x);
}

static void a_cut_costs_what_is_behind_it(struct test *t)
{
    struct fixture x;
    struct error err;
    uint64_t end;

    fixture_init(&x);
    write_log(t, &x);
    for (uint64_t size = x.end; size-- > 0;) {
        struct chunk_report report;
        size_t whole = 0;
        set_size(&x, size);
        unsigned seen = read_log(t, &x, &report);
        while (offset_of(whole + 1) <= size)
            whole++;
        CHECK_INT(t, seen, (1u << whole) - 1);
        CHECK_INT(t, report.n_bad, 1);
        CHECK_INT(t, report.first_bad, offset_of(whole));
        CHECK_INT(t, report.bad_bytes, x.end - offset_of(whole));
        CHECK_INT(t, report.is_header_bad, size < HEADER);
    }
    CHECK_INT(t, chunk_log_append(&x.log, x.end, BYTES("more"), &end, &err), -EBADMSG);
    CHECK_STR(t, err.text, "\"" PATH "\" is damaged: it is 0 bytes long and was 176");
    fixture_done(&x);
}

static void zeros_are_damage(struct test *t)
{
    struct fixture x;
    struct chunk_report report;

    fixture_init(&x);
    write_log(t, &x);
    set_size(&x, offset_of(3));
    set_size(&x, offset_of(4));
    CHECK_INT(t, read_log(t, &x, &report), 7);
    CHECK_INT(t, report.n_bad, 1);
    CHECK_INT(t, report.first_bad, offset_of(3));
    fixture_done(&x);
}

/* A chunk with sums that hold, where another one was. */
static void a_chunk_in_the_wrong_place_is_damage(struct test *t)
{
    struct fixture x;
    struct chunk_report report;
    struct fs_file *f = NULL;
    uint8_t copy[HEAD + 3];

    fixture_init(&x);
    write_log(t, &x);
    CHECK_INT(t, fs_open(x.fs, PATH, FS_WRITE, &f, NULL), 0);
    CHECK_INT(t, fs_pread(f, copy, sizeof(copy), offset_of(3), NULL), sizeof(copy));
    CHECK_INT(t, fs_pwrite(f, copy, sizeof(copy), offset_of(0), NULL), 0);
    fs_close(f);
    CHECK_INT(t, read_log(t, &x, &report), 14);
    CHECK_INT(t, report.n_bad, 2); /* it, and what is left of what was there */
    CHECK_INT(t, report.first_bad, offset_of(0));
    CHECK_INT(t, report.bad_bytes, offset_of(1) - offset_of(0));
    fixture_done(&x);
}

static void refuses_other_files_and_versions(struct test *t)
{
    struct fixture x;
    struct chunk_report report;
    struct error err;
    unsigned seen = 0;
    struct chunk_visitor visitor = {collect, &seen};
    uint8_t h[HEADER];

    fixture_init(&x);
    CHECK_INT(t, chunk_log_read(&x.log, 100, visitor, &report, &err), -ENOENT);
    CHECK(t, strstr(err.text, PATH));
    write_log(t, &x);
    x.log.id = 6;
    CHECK_INT(t, read_log(t, &x, &report), 0);
    CHECK(t, report.is_header_bad);
    CHECK_INT(t, report.bad_bytes, x.end - HEADER);
    x.log.id = ID;
    file_head_encode("VCHK", (struct file_head){.version = 2, .id = ID}, h);
    struct fs_file *f = NULL;
    CHECK_INT(t, fs_open(x.fs, PATH, FS_WRITE, &f, NULL), 0);
    CHECK_INT(t, fs_pwrite(f, h, sizeof(h), 0, NULL), 0);
    fs_close(f);
    CHECK_INT(t, chunk_log_read(&x.log, x.end, visitor, &report, &err), -EPROTONOSUPPORT);
    CHECK_STR(t, err.text, "\"" PATH "\" has format version 2, this program reads version 1");
    fixture_done(&x);
}

static int refuse(void *arg, uint64_t offset, struct bytes payload, struct error *err)
{
    (void)arg;
    (void)payload;
    return error_set(err, -EINTR, "not %d", (int)offset);
}

static void passes_on_what_the_callback_says(struct test *t)
{
    struct fixture x;
    struct chunk_report report;
    struct error err;

    fixture_init(&x);
    write_log(t, &x);
    CHECK_INT(t, chunk_log_read(&x.log, x.end, (struct chunk_visitor){refuse, NULL}, &report, &err),
              -EINTR);
    CHECK_STR(t, err.text, "not 24");
    CHECK_INT(t, report.n_chunks, 1);
    fixture_done(&x);
}

static void refuses_chunks_over_the_limit(struct test *t)
{
    struct fixture x;
    struct error err;
    uint64_t end;

    fixture_init(&x);
    CHECK_INT(t, chunk_log_append(&x.log, 0, (struct bytes){NULL, CHUNK_BYTES_MAX + 1}, &end, &err),
              -EFBIG);
    CHECK_STR(t, err.text,
              "could not add a chunk of 67108865 bytes to \"" PATH "\": the limit is 67108864");
    CHECK_INT(t, fs_exists(x.fs, PATH, NULL), 0);
    fixture_done(&x);
}

/* A file may also stand at the top. */
static void needs_no_directory(struct test *t)
{
    struct fixture x;
    struct chunk_report report;

    fixture_init(&x);
    x.log.path = "top";
    CHECK_INT(t, chunk_log_append(&x.log, 0, bytes_of(payloads[0]), &x.end, NULL), 0);
    CHECK_INT(t, read_log(t, &x, &report), 1);
    fixture_done(&x);
}

struct sums {
    uint64_t n, bytes, last;
};

static int count(void *arg, uint64_t offset, struct bytes payload, struct error *err)
{
    struct sums *s = arg;

    (void)err;
    s->n++;
    s->bytes += payload.len;
    s->last = offset;
    for (size_t i = 1; i < payload.len; i++)
        if (payload.data[i] != payload.data[0])
            abort();
    return 0;
}

static void packs_what_becomes_smaller(struct test *t)
{
    struct fixture x;
    struct chunk_report report;
    struct sums sums = {0};
    struct chunk_visitor visitor = {count, &sums};
    CLEANUP(freep) uint8_t *same = malloc(CHUNK_BYTES_MAX);

    fixture_init(&x);
    memset(same, 'x', CHUNK_BYTES_MAX);
    CHECK_INT(t, chunk_log_append(&x.log, 0, (struct bytes){same, 5000}, &x.end, NULL), 0);
    CHECK(t, x.end < 200);
    CHECK_INT(
        t, chunk_log_append(&x.log, x.end, (struct bytes){same, CHUNK_BYTES_MAX}, &x.end, NULL), 0);
    CHECK(t, x.end < CHUNK_BYTES_MAX / 1000);
    CHECK_INT(t, chunk_log_append(&x.log, x.end, (struct bytes){same, 1}, &x.end, NULL), 0);
    CHECK_INT(t, chunk_log_read(&x.log, x.end, visitor, &report, NULL), 0);
    CHECK(t, chunk_report_is_clean(&report));
    CHECK_INT(t, sums.n, 3);
    CHECK_INT(t, sums.bytes, (uint64_t)CHUNK_BYTES_MAX + 5001);
    fixture_done(&x);
}

/* Chunks whose sums hold and whose length lies. */
static void a_length_that_lies_is_damage(struct test *t)
{
    static const uint32_t tags[] = {1,         4999, 5001, CHUNK_BYTES_MAX, CHUNK_BYTES_MAX + 1,
                                    UINT32_MAX};
    static uint8_t same[5000];

    for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
        struct fixture x;
        struct chunk_report report;
        struct sums sums = {0};
        struct fs_file *f = NULL;
        uint8_t h[HEAD];
        fixture_init(&x);
        CHECK_INT(t, chunk_log_append(&x.log, 0, (struct bytes){same, 5000}, &x.end, NULL), 0);
        uint64_t second = x.end;
        CHECK_INT(t, chunk_log_append(&x.log, x.end, BYTES("a"), &x.end, NULL), 0);
        CHECK_INT(t, fs_open(x.fs, PATH, FS_WRITE, &f, NULL), 0);
        CHECK_INT(t, fs_pread(f, h, HEAD, HEADER, NULL), HEAD);
        le32_put(h + 28, tags[i]);
        le32_put(h + 4, (uint32_t)checksum64_seeded(h + 8, HEAD - 8, ID));
        CHECK_INT(t, fs_pwrite(f, h, HEAD, HEADER, NULL), 0);
        fs_close(f);
        CHECK_INT(
            t, chunk_log_read(&x.log, x.end, (struct chunk_visitor){count, &sums}, &report, NULL),
            0);
        CHECK_INT(t, sums.n, 1);
        CHECK_INT(t, sums.last, second);
        CHECK_INT(t, report.n_bad, 1);
        CHECK_INT(t, report.first_bad, HEADER);
        CHECK_INT(t, report.bad_bytes, second - HEADER);
        fixture_done(&x);
    }
}

/* ---- Lists */

struct listed {
    unsigned n_lists, n_chunks;
    uint64_t last;
};

static int see_chunk(void *arg, uint64_t offset, struct bytes payload, struct error *err)
{
    struct listed *seen = arg;

    (void)err;
    (void)offset;
    if (payload.data[0] != 'p')
        abort();
    seen->n_chunks++;
    return 0;
}

static int see_list(void *arg, uint64_t offset, struct bytes list, struct error *err)
{
    struct listed *seen = arg;

    if (list.data[0] != 'l')
        abort();
    seen->last = offset;
    return ++seen->n_lists == 3 ? error_set(err, -EINTR, "enough") : 0;
}

static void lists_are_read_without_their_chunks(struct test *t)
{
    static uint8_t payload[5000], list[600];
    struct fixture x;
    struct chunk_report report;
    struct listed seen = {0};
    struct chunk_visitor visitor = {see_chunk, &seen, see_list};
    struct error err = {{0}};

    memset(payload, 'p', sizeof(payload));
    memset(list, 'l', sizeof(list));
    struct bytes p = {payload, sizeof(payload)}, l = {list, sizeof(list)};
    fixture_init(&x);
    CHECK_INT(t, chunk_log_read_lists(&x.log, 0, visitor, &err), 0);
    CHECK_INT(t, chunk_log_read_lists(&x.log, 100, visitor, &err), -ENOENT);
    CHECK_INT(t, chunk_log_append_listed(&x.log, 0, p, l, &x.end, NULL), 0);
    uint64_t first = x.end;
    CHECK_INT(t, chunk_log_append(&x.log, x.end, p, &x.end, NULL), 0);
    uint64_t third = x.end;
    CHECK_INT(t, chunk_log_append_listed(&x.log, x.end, p, l, &x.end, NULL), 0);
    CHECK_INT(t, chunk_log_read(&x.log, x.end, visitor, &report, NULL), 0);
    CHECK(t, chunk_report_is_clean(&report));
    CHECK_INT(t, report.n_chunks, 5);
    CHECK_INT(t, seen.n_chunks, 3);
    CHECK_INT(t, seen.n_lists, 2);
    visitor.list = NULL;
    CHECK_INT(t, chunk_log_read(&x.log, x.end, visitor, &report, NULL), 0);
    CHECK_INT(t, report.n_chunks, 5);
    visitor.list = see_list;

    /* What a chunk holds is not looked at; what is in the way has to be right. */
    seen = (struct listed){0};
    for (uint64_t at = HEADER; at < x.end; at++) {
        bool is_seen = at < HEADER + HEAD || (at >= first - HEAD - sizeof(list) && at < first) ||
                       (at >= first && at < first + HEAD) || (at >= third && at < third + HEAD) ||
                       at >= x.end - HEAD - sizeof(list);
        flip(&x, at, 1);
        seen.n_lists = 0;
        CHECK_INT(t, chunk_log_read_lists(&x.log, x.end, visitor, &err), is_seen ? -EBADMSG : 0);
        flip(&x, at, 1);
        CHECK_INT(t, seen.n_lists == 2, !is_seen);
    }
    CHECK_INT(t, seen.n_chunks, 0);
    seen.n_lists = 1;
    CHECK_INT(t, chunk_log_read_lists(&x.log, x.end, visitor, &err), -EINTR);
    CHECK_STR(t, err.text, "enough");
    for (uint64_t end = x.end; --end > HEADER;) {
        seen.n_lists = 0;
        bool is_whole = end == first || end == third || end == first - HEAD - sizeof(list) ||
                        end == x.end - HEAD - sizeof(list);
        CHECK_INT(t, chunk_log_read_lists(&x.log, end, visitor, &err), is_whole ? 0 : -EBADMSG);
    }
    set_size(&x, x.end - 1);
    seen.n_lists = 0;
    CHECK_INT(t, chunk_log_read_lists(&x.log, x.end, visitor, &err), -EBADMSG);
    CHECK_STR(t, err.text, "\"" PATH "\" is cut");
    fixture_done(&x);
}

/* Appends as the store does: again at the same place after a failure. The length that counts. */
static uint64_t append_all(struct fs *fs, bool *failed)
{
    struct chunk_log log = {fs, PATH, ID};
    struct error err = {{0}};
    uint64_t end = 0;

    *failed = fs_mkdir(fs, "dict", NULL) < 0 || fs_sync_dir(fs, ".", NULL) < 0;
    for (size_t i = 0; !*failed && i < N;) {
        int r = chunk_log_append(&log, end, bytes_of(payloads[i]), &end, &err);
        if (r == 0)
            i++;
        else if (err.text[0] == '\0')
            abort();
        *failed = r < 0 && r != -ENOSPC;
    }
    return end;
}

static void keeps_what_counts_whatever_fails(struct test *t)
{
    static const enum sim_fault_what whats[] = {SIM_FAIL, SIM_SHORT, SIM_TORN, SIM_CRASH};

    for (uint64_t seed = 0; seed < 10 * ARRAY_SIZE(whats); seed++) {
        bool struck = true;
        for (uint64_t nth = 1; struck; nth++) {
            struct sim_fs *sim = sim_fs_new(seed * 100 + nth);
            struct fs *fs = sim_fs_fs(sim);
            struct chunk_log log = {fs, PATH, ID};
            struct chunk_report report;
            unsigned seen = 0;
            bool failed;
            enum sim_fault_what what = whats[seed % ARRAY_SIZE(whats)];
            sim_fs_fault(sim, (struct sim_fault){.op = SIM_ANY,
                                                 .nth = nth,
                                                 .what = what,
                                                 .error = what == SIM_FAIL ? EIO : ENOSPC});
            uint64_t end = append_all(fs, &failed);
            struck = sim_fs_struck(sim) > 0;
            sim_fs_clear_faults(sim);
            sim_fs_restart(sim);
            if (end > 0) {
                struct chunk_visitor visitor = {collect, &seen};
                CHECK_INT(t, chunk_log_read(&log, end, visitor, &report, NULL), 0);
                CHECK(t, chunk_report_is_clean(&report));
                CHECK_INT(t, end, offset_of(report.n_chunks));
            }
            sim_fs_free(sim);
        }
    }
}

static void says_when_it_cannot_be_read(struct test *t)
{
    struct sim_fs *sim = sim_fs_new(1);
    struct chunk_log log = {sim_fs_fs(sim), PATH, ID};
    bool struck = true, failed;
    uint64_t end = append_all(log.fs, &failed);

    for (uint64_t nth = 1; struck; nth++) {
        struct error err = {{0}};
        struct chunk_report report;
        unsigned seen = 0;
        uint64_t before = sim_fs_struck(sim);
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_ANY, .nth = nth, .what = SIM_FAIL});
        int r = chunk_log_read(&log, end, (struct chunk_visitor){collect, &seen}, &report, &err);
        struck = sim_fs_struck(sim) > before;
        CHECK_INT(t, r, struck ? -EIO : 0);
        CHECK_INT(t, strstr(err.text, PATH) != NULL, struck);
        CHECK_INT(t, seen, struck ? 0 : 15);
        sim_fs_clear_faults(sim);
    }
    sim_fs_free(sim);
}

static const struct test_case cases[] = {
    TEST(gives_back_what_was_appended),
    TEST(only_the_named_length_counts),
    TEST(a_changed_byte_costs_its_chunk_and_no_other),
    TEST(a_cut_costs_what_is_behind_it),
    TEST(zeros_are_damage),
    TEST(a_chunk_in_the_wrong_place_is_damage),
    TEST(refuses_other_files_and_versions),
    TEST(passes_on_what_the_callback_says),
    TEST(refuses_chunks_over_the_limit),
    TEST(needs_no_directory),
    TEST(packs_what_becomes_smaller),
    TEST(a_length_that_lies_is_damage),
    TEST(lists_are_read_without_their_chunks),
    TEST(keeps_what_counts_whatever_fails),
    TEST(says_when_it_cannot_be_read),
};
TEST_MAIN(cases)
