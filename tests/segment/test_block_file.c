#include <errno.h>

#include "base/checksum.h"
#include "base/le.h"
#include "lib/scratch.h"
#include "lib/sim_fs.h"
#include "lib/test.h"
#include "segment/block_cache.h"
#include "segment/block_file.h"
#include "segment/file_name.h"

#define KIND 7
#define ID   12
#define PATH "seg/0000000012.seg"
#define TMP  "seg/tmp-0000000012"

struct fixture {
    struct scratch scratch;
    struct fs *fs;
    struct block_ref refs[3];
    uint64_t bytes;
};

static const char *const contents[3] = {"the first block", "", "the third, which follows nothing"};

static void fixture_init(struct fixture *x)
{
    scratch_init(&x->scratch);
    if (fs_real_new(x->scratch.path, &x->fs, NULL) < 0 || fs_mkdir(x->fs, "seg", NULL) < 0)
        abort();
}

static void fixture_done(struct fixture *x)
{
    fs_free(x->fs);
    scratch_done(&x->scratch);
}

/* A file of three blocks. */
static void write_file(struct test *t, struct fixture *x)
{
    CLEANUP(block_writer_freep) struct block_writer *w = NULL;

    CHECK_INT(t, block_writer_new(x->fs, "seg", ID, KIND, &w, NULL), 0);
    for (size_t i = 0; i < 3; i++)
        CHECK_INT(t, block_writer_add(w, bytes_of(contents[i]), false, &x->refs[i], NULL), 0);
    CHECK_INT(t, block_writer_finish(w, BYTES("the footer"), &x->bytes, NULL), 0);
}

static int open_file(struct fixture *x, struct block_file **ret, struct error *err)
{
    return block_file_open(x->fs, "seg", ID, KIND, ret, err);
}

static void put_byte(struct fixture *x, uint64_t at, uint8_t flip)
{
    CLEANUP(fs_closep) struct fs_file *f = NULL;
    uint8_t c;

    if (fs_open(x->fs, PATH, FS_WRITE, &f, NULL) < 0 || fs_pread(f, &c, 1, at, NULL) != 1)
        abort();
    c ^= flip;
    if (fs_pwrite(f, &c, 1, at, NULL) < 0)
        abort();
}

static void set_size(struct fixture *x, uint64_t size)
{
    CLEANUP(fs_closep) struct fs_file *f = NULL;

    if (fs_open(x->fs, PATH, FS_WRITE, &f, NULL) < 0 || fs_truncate(f, size, NULL) < 0)
        abort();
}

static void gives_back_what_was_written(struct test *t)
{
    struct fixture x;
    struct block_file *f = NULL;
    struct block *b = NULL;

    fixture_init(&x);
    write_file(t, &x);
    CHECK_INT(t, fs_exists(x.fs, TMP, NULL), 0);
    CHECK_INT(t, open_file(&x, &f, NULL), 0);
    CHECK_INT(t, block_file_id(f), ID);
    CHECK_INT(t, block_file_bytes(f), x.bytes);
    for (size_t i = 0; i < 3; i++) {
        CHECK_INT(t, block_file_read(f, x.refs[i], NULL, &b, NULL), 0);
        CHECK(t, bytes_are(block_bytes(b), contents[i]));
        CHECK_INT(t, block_ref_size(x.refs[i]), strlen(contents[i]));
        block_unref(b);
    }
    CHECK_INT(t, block_file_read(f, block_file_footer(f), NULL, &b, NULL), 0);
    CHECK(t, bytes_are(block_bytes(b), "the footer"));
    block_unref(b);
    CHECK_INT(t, block_file_check_header(f, NULL), 0);
    CHECK_INT(t, block_file_check_all(f, NULL), 0);
    block_file_close(f);
    fixture_done(&x);
}

/* Pieces end inside blocks, at their ends and at the end of the file. */
static void writes_files_larger_than_its_buffer(struct test *t)
{
    enum { PIECE = 256 << 10, N = 9 };
    static const uint32_t sizes[N] = {1,         PIECE - 25, PIECE, PIECE - 1, 1,
                                      PIECE * 3, 5,          0,     PIECE - 15};
    struct fixture x;
    struct block_writer *w = NULL;
    struct block_file *f = NULL;
    struct block_ref refs[N];
    CLEANUP(freep) uint8_t *content = malloc((size_t)PIECE * 3);
    uint64_t bytes = 0;

    fixture_init(&x);
    for (uint32_t i = 0; i < PIECE * 3; i++)
        content[i] = (uint8_t)(i * 2654435761u >> 24);
    CHECK_INT(t, block_writer_new(x.fs, "seg", ID, KIND, &w, NULL), 0);
    for (size_t i = 0; i < N; i++)
        CHECK_INT(t, block_writer_add(w, (struct bytes){content, sizes[i]}, false, &refs[i], NULL),
                  0);
    CHECK_INT(t, block_writer_bytes(w) % PIECE, PIECE - 10);
    CHECK_INT(t, block_writer_finish(w, BYTES("ten bytes."), &bytes, NULL), 0);
    CHECK_INT(t, bytes % PIECE, 72);
    block_writer_free(w);

    CHECK_INT(t, open_file(&x, &f, NULL), 0);
    CHECK_INT(t, block_file_check_all(f, NULL), 0);
    for (size_t i = 0; i < N; i++) {
        struct block *b = NULL;
        CHECK_INT(t, block_file_read(f, refs[i], NULL, &b, NULL), 0);
        CHECK(t, bytes_equal(block_bytes(b), (struct bytes){content, sizes[i]}));
        CHECK_INT(t, le64_get(b->data + b->len) | le64_get(b->data + b->len + 8), 0);
        block_unref(b);
    }
    block_file_close(f);
    fixture_done(&x);
}

static void refs_survive_encoding(struct test *t)
{
    struct block_ref ref = {0x1122334455667788u, 0x99aabbcc, 0xddeeff00, 0x0123456789abcdefu};
    uint8_t to[BLOCK_REF_BYTES];

    block_ref_encode(ref, to);
    struct block_ref got = block_ref_decode(to);
    CHECK(t, memcmp(&ref, &got, sizeof(ref)) == 0);
}

/* Opens and reads everything; 0 or the first error. *n_bad counts blocks that could not be read. */
static int read_everything(struct fixture *x, unsigned *n_bad, struct error *err)
{
    CLEANUP(block_file_closep) struct block_file *f = NULL;
    int r = open_file(x, &f, err), first = 0;

    *n_bad = 0;
    if (r < 0)
        return r;
    first = block_file_check_header(f, err);
    for (size_t i = 0; i < 4; i++) {
        CLEANUP(block_unrefp) struct block *b = NULL;
        r = block_file_read(f, i < 3 ? x->refs[i] : block_file_footer(f), NULL, &b,
                            first < 0 ? NULL : err);
        if (r == 0 && i < 3 && !bytes_are(block_bytes(b), contents[i]))
            abort();
        *n_bad += r < 0;
        first = first < 0 ? first : r;
    }
    if ((block_file_check_all(f, NULL) < 0) != (first < 0))
        abort();
    return first;
}

static void finds_every_changed_byte(struct test *t)
{
    struct fixture x;

    fixture_init(&x);
    write_file(t, &x);
    for (uint64_t at = 0; at < x.bytes; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct error err = {{0}};
            unsigned n_bad;
            put_byte(&x, at, (uint8_t)(1u << bit));
            CHECK_INT(t, read_everything(&x, &n_bad, &err), -EBADMSG);
            CHECK(t, strstr(err.text, "\"" PATH "\" is damaged: "));
            CHECK(t, n_bad <= 1); /* only the block that it stands in */
            put_byte(&x, at, (uint8_t)(1u << bit));
        }
    }
    fixture_done(&x);
}

static void finds_every_cut(struct test *t)
{
    struct fixture x;

    fixture_init(&x);
    write_file(t, &x);
    for (uint64_t size = x.bytes; size-- > 0;) {
        struct block_file *f = NULL;
        struct error err = {{0}};
        set_size(&x, size);
        CHECK_INT(t, open_file(&x, &f, &err), -EBADMSG);
        CHECK(t, strstr(err.text, "\"" PATH "\" is damaged: "));
    }
    fixture_done(&x);
}

/* A trailer with one field changed and the checksum made right again. */
static void forge(struct fixture *x, unsigned at, uint64_t value, unsigned width)
{
    CLEANUP(fs_closep) struct fs_file *f = NULL;
    uint8_t trailer[72];

    if (fs_open(x->fs, PATH, FS_WRITE, &f, NULL) < 0 ||
        fs_pread(f, trailer, 72, x->bytes - 72, NULL) != 72)
        abort();
    memcpy(trailer + at, &value, width);
    le64_put(trailer + 64, checksum64(trailer, 64));
    if (fs_pwrite(f, trailer, 72, x->bytes - 72, NULL) < 0)
        abort();
}

static void says_what_is_wrong(struct test *t)
{
    static const struct {
        unsigned at;
        uint64_t value;
        unsigned width;
        int r;
        const char *why;
    } forged[] = {
        {48, 2, 2, -EPROTONOSUPPORT,
         "\"" PATH "\" has format version 2, this program reads version 1"},
        {50, 8, 2, -EBADMSG,
         "\"" PATH "\" is damaged: its trailer is that of a file of kind 8, not 7"},
        {40, 13, 8, -EBADMSG, "\"" PATH "\" is damaged: its trailer is that of file 13"},
        {32, 99, 8, -EBADMSG, "\"" PATH "\" is damaged: it was 99 bytes long and is 153 now"},
        {0, 1 << 20, 8, -EBADMSG,
         "\"" PATH "\" is damaged: a block of 10 bytes at 1048576 is not inside its 153 bytes"},
        {0, 3, 8, -EBADMSG,
         "\"" PATH "\" is damaged: a block of 10 bytes at 3 is not inside its 153 bytes"},
        {8, 11, 4, -EBADMSG,
         "\"" PATH "\" is damaged: a block of 11 bytes at 71 is not inside its 153 bytes"},
        {12, BLOCK_BYTES_MAX + 1, 4, -EBADMSG,
         "\"" PATH "\" is damaged: the block at 71 has 67108865 bytes, the limit is 67108864"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(forged); i++) {
        struct block_file *f = NULL;
        struct error err = {{0}};
        struct fixture x;
        fixture_init(&x);
        write_file(t, &x);
        forge(&x, forged[i].at, forged[i].value, forged[i].width);
        CHECK_INT(t, open_file(&x, &f, &err), forged[i].r);
        CHECK_STR(t, err.text, forged[i].why);
        fixture_done(&x);
    }
}

static void refuses_other_files_by_name(struct test *t)
{
    struct fixture x;
    struct block_file *f = NULL;
    struct error err;

    fixture_init(&x);
    CHECK_INT(t, open_file(&x, &f, &err), -ENOENT);
    CHECK(t, strstr(err.text, PATH));
    CHECK_INT(t, fs_write_whole(x.fs, PATH, BYTES("short"), NULL), 0);
    CHECK_INT(t, open_file(&x, &f, &err), -EBADMSG);
    CHECK_STR(t, err.text, "\"" PATH "\" is damaged: it is only 5 bytes long");
    set_size(&x, (uint64_t)2 << 40); /* sparse */
    CHECK_INT(t, open_file(&x, &f, &err), -EBADMSG);
    CHECK_STR(t, err.text,
              "\"" PATH "\" is damaged: it does not end as such a file does; it may have been cut");
    CHECK_INT(t, fs_unlink(x.fs, PATH, NULL), 0);

    write_file(t, &x);
    CHECK_INT(t, fs_rename(x.fs, PATH, "seg/0000000044.seg", NULL), 0);
    CHECK_INT(t, block_file_open(x.fs, "seg", 44, KIND, &f, &err), -EBADMSG);
    CHECK_STR(t, err.text, "\"seg/0000000044.seg\" is damaged: its trailer is that of file 12");
    fixture_done(&x);
}

/* A header of another file, sound in itself. */
static void checks_that_the_header_is_its_own(struct test *t)
{
    struct fixture x;
    struct block_file *f = NULL;
    struct error err;
    uint8_t h[24];
    struct fs_file *file = NULL;

    fixture_init(&x);
    write_file(t, &x);
    CHECK_INT(t, fs_open(x.fs, PATH, FS_WRITE, &file, NULL), 0);
    CHECK_INT(t, fs_pread(file, h, sizeof(h), 0, NULL), sizeof(h));
    le64_put(h + 8, 11);
    le64_put(h + 16, checksum64(h, 16));
    CHECK_INT(t, fs_pwrite(file, h, sizeof(h), 0, NULL), 0);
    CHECK_INT(t, open_file(&x, &f, NULL), 0);
    CHECK_INT(t, block_file_check_header(f, &err), -EBADMSG);
    CHECK_STR(t, err.text, "\"" PATH "\" is damaged: its header is that of file 11");
    CHECK_INT(t, block_file_check_all(f, &err), -EBADMSG);
    block_file_close(f);
    fs_close(file);
    fixture_done(&x);
}

static void notices_a_cut_after_opening(struct test *t)
{
    struct fixture x;
    struct block_file *f = NULL;
    struct block *b = NULL;
    struct error err;

    fixture_init(&x);
    write_file(t, &x);
    CHECK_INT(t, open_file(&x, &f, NULL), 0);
    set_size(&x, 30);
    CHECK_INT(t, block_file_read(f, x.refs[0], NULL, &b, &err), -EBADMSG);
    CHECK_STR(t, err.text,
              "\"" PATH "\" is damaged: it ends at byte 30 now, and was 153 bytes long");
    CHECK_INT(t, block_file_check_all(f, &err), -EBADMSG);
    set_size(&x, 0);
    CHECK_INT(t, block_file_check_header(f, &err), -EBADMSG);
    block_file_close(f);
    fixture_done(&x);
}

static void refuses_blocks_over_the_limit(struct test *t)
{
    struct fixture x;
    struct block_writer *w = NULL;
    struct block_ref ref;
    struct error err;

    fixture_init(&x);
    CHECK_INT(t, block_writer_new(x.fs, "seg", ID, KIND, &w, NULL), 0);
    CHECK_INT(t, block_writer_add(w, (struct bytes){NULL, BLOCK_BYTES_MAX + 1}, true, &ref, &err),
              -EFBIG);
    CHECK_STR(t, err.text,
              "could not add a block of 67108865 bytes to \"" TMP "\": the limit is 67108864");
    CHECK_INT(t, fs_exists(x.fs, TMP, NULL), 1);
    block_writer_free(w);
    CHECK_INT(t, fs_exists(x.fs, TMP, NULL), 0);
    fixture_done(&x);
}

static void does_not_write_over_what_is_being_written(struct test *t)
{
    struct fixture x;
    struct block_writer *w = NULL, *other = NULL;
    struct error err;

    fixture_init(&x);
    CHECK_INT(t, block_writer_new(x.fs, "seg", ID, KIND, &w, NULL), 0);
    CHECK_INT(t, block_writer_new(x.fs, "seg", ID, KIND, &other, &err), -EEXIST);
    CHECK(t, strstr(err.text, TMP));
    CHECK(t, other == NULL);
    block_writer_free(w);
    block_writer_free(NULL);
    block_file_close(NULL);
    fixture_done(&x);
}

static void names_files_and_reads_their_names(struct test *t)
{
    static const struct {
        const char *name;
        bool is;
        uint64_t id;
    } cases[] = {
        {"0000000012.seg", true, 12},           {"12345678901.seg", true, 12345678901},
        {"00000000012.seg", false, 0},          {"000000012.seg", false, 0},
        {"0000000012.wal", false, 0},           {"0000000012seg", false, 0},
        {"0000000012.seg.tmp", false, 0},       {"tmp-0000000012", false, 0},
        {"99999999999999999999.seg", false, 0}, {"", false, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t id = 0;
        CHECK_INT(t, file_name_id(cases[i].name, "seg", &id), cases[i].is);
        CHECK_INT(t, id, cases[i].id);
    }
    CHECK_STR(t, file_name("seg", 12, "seg").text, PATH);
    CHECK_STR(t, file_name("seg", 12345678901, "seg").text, "seg/12345678901.seg");
    CHECK_STR(t, file_name_tmp("seg", 12).text, TMP);
    CHECK(t, file_name_is_tmp("tmp-0000000012"));
    CHECK(t, !file_name_is_tmp("0000000012.seg"));
}

/* Bytes that do not pack. */
static void fill(uint8_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(checksum64_seeded("", 0, i) >> 3);
}

static void packs_what_becomes_smaller(struct test *t)
{
    struct fixture x;
    struct block_writer *w = NULL;
    struct block_file *f = NULL;
    struct block_ref refs[4];
    static uint8_t same[10000], mixed[10000];
    const struct bytes all[4] = {
        {same, sizeof(same)}, {mixed, sizeof(mixed)}, {same, sizeof(same)}, {same, 0}};

    fixture_init(&x);
    memset(same, 'a', sizeof(same));
    fill(mixed, sizeof(mixed));
    CHECK_INT(t, block_writer_new(x.fs, "seg", ID, KIND, &w, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        CHECK_INT(t, block_writer_add(w, all[i], i != 2, &refs[i], NULL), 0);
    CHECK_INT(t, block_writer_finish(w, all[0], &x.bytes, NULL), 0);
    block_writer_free(w);
    CHECK_INT(t, refs[0].raw_len, sizeof(same));
    CHECK(t, refs[0].len < 100);
    CHECK_INT(t, block_ref_size(refs[0]), sizeof(same));
    CHECK_INT(t, refs[1].raw_len, 0);
    CHECK_INT(t, refs[1].len, sizeof(mixed));
    CHECK_INT(t, refs[2].raw_len, 0);
    CHECK_INT(t, refs[2].len, sizeof(same));
    CHECK_INT(t, refs[3].len + refs[3].raw_len, 0);

    CHECK_INT(t, open_file(&x, &f, NULL), 0);
    for (size_t i = 0; i < 5; i++) {
        struct block *b = NULL;
        CHECK_INT(t, block_file_read(f, i < 4 ? refs[i] : block_file_footer(f), NULL, &b, NULL), 0);
        CHECK(t, bytes_equal(block_bytes(b), all[i % 4]));
        block_unref(b);
    }
    block_file_close(f);
    fixture_done(&x);
}

/* Refs whose sum holds and whose length lies. */
static void refuses_refs_that_lie(struct test *t)
{
    struct fixture x;
    struct block_writer *w = NULL;
    struct block_file *f = NULL;
    struct block_ref ref, bad;
    struct block *b = NULL;
    struct error err;
    static uint8_t same[10000];

    fixture_init(&x);
    CHECK_INT(t, block_writer_new(x.fs, "seg", ID, KIND, &w, NULL), 0);
    CHECK_INT(t, block_writer_add(w, (struct bytes){same, sizeof(same)}, true, &ref, NULL), 0);
    CHECK_INT(t, block_writer_finish(w, BYTES("footer"), &x.bytes, NULL), 0);
    block_writer_free(w);
    CHECK_INT(t, open_file(&x, &f, NULL), 0);
    bad = ref;
    bad.raw_len--;
    CHECK_INT(t, block_file_read(f, bad, NULL, &b, &err), -EBADMSG);
    CHECK(t, strstr(err.text, "\"" PATH "\" is damaged: the block at 24: "));
    bad = ref;
    bad.raw_len = UINT32_MAX;
    CHECK_INT(t, block_file_read(f, bad, NULL, &b, &err), -EBADMSG);
    CHECK_STR(t, err.text,
              "\"" PATH "\" is damaged: the block at 24 has 4294967295 bytes, the "
              "limit is 67108864");
    bad = ref;
    bad.sum++;
    CHECK_INT(t, block_file_read(f, bad, NULL, &b, &err), -EBADMSG);
    CHECK(t, strstr(err.text, "\"" PATH "\" is damaged: the checksum of the block of "));
    bad = ref;
    bad.offset = UINT64_MAX - 3;
    CHECK_INT(t, block_file_read(f, bad, NULL, &b, &err), -EBADMSG);
    CHECK(t, b == NULL);
    block_file_close(f);
    fixture_done(&x);
}

static void reads_a_block_once_with_a_cache(struct test *t)
{
    struct fixture x;
    struct block_file *f = NULL;
    struct block *b = NULL;
    struct block_cache *cache = block_cache_new(1 << 20);

    fixture_init(&x);
    write_file(t, &x);
    CHECK_INT(t, open_file(&x, &f, NULL), 0);
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < 3; i += 2) {
            CHECK_INT(t, block_file_read(f, x.refs[i], cache, &b, NULL), 0);
            CHECK(t, bytes_are(block_bytes(b), contents[i]));
            block_unref(b);
        }
        set_size(&x, 30);
    }
    CHECK_INT(t, block_cache_stats(cache).hits, 2);
    /* The empty block has no place of its own, and needs none. */
    CHECK_INT(t, x.refs[1].offset, x.refs[2].offset);
    CHECK_INT(t, block_cache_stats(cache).n_blocks, 2);
    block_cache_forget(cache, ID);
    b = NULL;
    CHECK_INT(t, block_file_read(f, x.refs[0], cache, &b, NULL), -EBADMSG);
    CHECK(t, b == NULL);
    CHECK_INT(t, block_cache_stats(cache).n_blocks, 0);
    block_file_close(f);
    block_cache_free(cache);
    fixture_done(&x);
}

static void an_empty_block_is_not_mistaken_for_the_next(struct test *t)
{
    struct fixture x;
    struct block_file *f = NULL;
    struct block_cache *cache = block_cache_new(1 << 20);
    static const uint8_t order[] = {1, 2, 1, 2};

    fixture_init(&x);
    write_file(t, &x);
    CHECK_INT(t, open_file(&x, &f, NULL), 0);
    for (size_t i = 0; i < sizeof(order); i++) {
        struct block *b = NULL;
        CHECK_INT(t, block_file_read(f, x.refs[order[i]], cache, &b, NULL), 0);
        CHECK(t, bytes_are(block_bytes(b), contents[order[i]]));
        block_unref(b);
    }
    block_file_close(f);
    block_cache_free(cache);
    fixture_done(&x);
}

/* Writes on a simulated disk; large enough for a write in the middle. */
static int write_simulated(struct fs *fs, struct block_ref *ret, struct error *err)
{
    CLEANUP(block_writer_freep) struct block_writer *w = NULL;
    static uint8_t content[300000];
    uint64_t bytes;

    int r = fs_mkdir(fs, "seg", err);
    if (r == 0)
        r = fs_sync_dir(fs, ".", err);
    if (r == 0)
        r = block_writer_new(fs, "seg", ID, KIND, &w, err);
    if (r == 0)
        r = block_writer_add(w, (struct bytes){content, sizeof(content)}, false, ret, err);
    if (r == 0)
        r = block_writer_finish(w, BYTES("footer"), &bytes, err);
    return r;
}

static int read_simulated(struct fs *fs, struct block_ref ref, struct error *err)
{
    CLEANUP(block_file_closep) struct block_file *f = NULL;
    CLEANUP(block_unrefp) struct block *b = NULL;

    int r = block_file_open(fs, "seg", ID, KIND, &f, err);
    if (r == 0)
        r = block_file_read(f, ref, NULL, &b, err);
    if (r == 0)
        r = block_file_check_all(f, err);
    return r;
}

/* One fault at every operation in turn: an error that says so, no temporary file left, and a file
 * that was said to be there is there and whole, also after a crash. */
static void is_there_and_whole_or_says_why_not(struct test *t)
{
    static const enum sim_fault_what whats[] = {SIM_FAIL, SIM_SHORT, SIM_TORN, SIM_CRASH};

    for (uint64_t i = 0; i < ARRAY_SIZE(whats); i++) {
        bool struck = true;
        for (uint64_t nth = 1; struck; nth++) {
            struct sim_fs *sim = sim_fs_new(i * 1000 + nth);
            struct fs *fs = sim_fs_fs(sim);
            struct error err = {{0}};
            struct block_ref ref = {0};
            sim_fs_fault(sim, (struct sim_fault){.op = SIM_ANY, .nth = nth, .what = whats[i]});
            int r = write_simulated(fs, &ref, &err);
            struck = sim_fs_struck(sim) > 0;
            CHECK_INT(t, r < 0, struck);
            CHECK_INT(t, err.text[0] != '\0', r < 0);
            sim_fs_clear_faults(sim);
            if (whats[i] != SIM_CRASH)
                CHECK_INT(t, fs_exists(fs, TMP, NULL), 0);
            sim_fs_restart(sim);
            if (r == 0)
                CHECK_INT(t, read_simulated(fs, ref, NULL), 0);
            sim_fs_free(sim);
        }
    }
}

static void says_when_it_cannot_be_read(struct test *t)
{
    struct sim_fs *sim = sim_fs_new(1);
    struct block_ref ref = {0};
    bool struck = true;

    CHECK_INT(t, write_simulated(sim_fs_fs(sim), &ref, NULL), 0);
    for (uint64_t nth = 1; struck; nth++) {
        struct error err = {{0}};
        uint64_t before = sim_fs_struck(sim);
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_ANY, .nth = nth, .what = SIM_FAIL});
        int r = read_simulated(sim_fs_fs(sim), ref, &err);
        struck = sim_fs_struck(sim) > before;
        CHECK_INT(t, r, struck ? -EIO : 0);
        CHECK_INT(t, strstr(err.text, PATH) != NULL, struck);
        sim_fs_clear_faults(sim);
    }
    sim_fs_free(sim);
}

static const struct test_case cases[] = {
    TEST(gives_back_what_was_written),
    TEST(writes_files_larger_than_its_buffer),
    TEST(refs_survive_encoding),
    TEST(finds_every_changed_byte),
    TEST(finds_every_cut),
    TEST(says_what_is_wrong),
    TEST(refuses_other_files_by_name),
    TEST(checks_that_the_header_is_its_own),
    TEST(notices_a_cut_after_opening),
    TEST(refuses_blocks_over_the_limit),
    TEST(does_not_write_over_what_is_being_written),
    TEST(names_files_and_reads_their_names),
    TEST(packs_what_becomes_smaller),
    TEST(refuses_refs_that_lie),
    TEST(reads_a_block_once_with_a_cache),
    TEST(an_empty_block_is_not_mistaken_for_the_next),
    TEST(is_there_and_whole_or_says_why_not),
    TEST(says_when_it_cannot_be_read),
};
TEST_MAIN(cases)
