#include <errno.h>

#include "lib/sim_fs.h"
#include "lib/test.h"
#include "segment/block_cache.h"
#include "store_local/span_codec.h"
#include "store_local/span_file.h"
#include "store_local/span_maker.h"
#include "store_local/version.h"

#define T0 INT64_C(1700000000000000000)

/* As much of a store as files need. */
struct room {
    struct sim_fs *sim;
    struct local l;
    struct span_maker made;
    struct error err;
};

static int by_order(const void *a, const void *b)
{
    return span_compare(a, b);
}

static void room_init(struct room *x, size_t n_spans)
{
    *x = (struct room){.sim = sim_fs_new(1)};
    x->l.fs = sim_fs_fs(x->sim);
    x->l.cache = block_cache_new(1 << 20);
    fs_mkdir(x->l.fs, "seg", NULL);
    span_maker_init(&x->made, 4, T0);
    span_maker_add(&x->made, n_spans);
    qsort(x->made.spans.data, x->made.spans.len, sizeof(struct store_span), by_order);
}

static void room_done(struct room *x)
{
    span_maker_done(&x->made);
    block_cache_free(x->l.cache);
    sim_fs_free(x->sim);
}

static struct span_file_options options(uint64_t id)
{
    return (struct span_file_options){
        .id = id, .tenant = 7, .tier = 1, .window_start_ns = T0, .window_len_ns = HOUR_NS};
}

static int write_file(struct room *x, struct span_file_options o, struct segment **ret)
{
    CLEANUP(span_writer_freep) struct span_writer *w = NULL;

    int r = span_writer_new(&x->l, &o, &w, &x->err);
    for (size_t i = 0; i < x->made.spans.len && r == 0; i++)
        r = span_writer_add(w, &x->made.spans.data[i], &x->err);
    return r < 0 ? r : span_writer_finish(w, ret, &x->err);
}

struct blocks {
    uint32_t list[64];
    size_t n;
};

static int take_block(void *arg, uint32_t block)
{
    struct blocks *b = arg;

    if (b->n < ARRAY_SIZE(b->list))
        b->list[b->n++] = block;
    return 0;
}

static int stop(void *arg, uint32_t block)
{
    (void)arg, (void)block;
    return -42;
}

/* Whether the blocks named for the trace of a span are those that have it. */
static bool finds_trace(struct room *x, const struct span_file *f, const struct store_span *s)
{
    struct blocks got = {0};
    bool found = false;

    if (span_file_trace(&x->l, f, s->trace_id, take_block, &got, &x->err) < 0)
        return false;
    for (size_t i = 0; i < got.n; i++) {
        const struct span_block *b = &f->blocks[got.list[i]];
        found |= s->start_ns >= b->min_ns && s->start_ns <= b->max_ns;
    }
    return found && (got.n <= 2 || !f->has_all_traces);
}

static void says_which_blocks_have_a_trace_and_a_service(struct test *t)
{
    CLEANUP(room_done) struct room x;
    CLEANUP(segment_freep) struct segment *s = NULL;
    struct span_file *f = NULL;
    struct blocks none = {0};
    static const uint8_t unknown[16] = {0xff};

    room_init(&x, 20000);
    CHECK_INT(t, write_file(&x, options(1), &s), 0);
    CHECK_INT(t, s->n_rows, x.made.spans.len);
    CHECK_INT(t, s->min_ns, x.made.spans.data[0].start_ns);
    CHECK_INT(t, s->max_ns, vec_last(&x.made.spans).start_ns);
    CHECK_INT(t, span_file_get(&x.l, s, &f, &x.err), 0);
    CHECK_INT(t, f->n_blocks, 5);
    CHECK(t, f->n_pages > 1);
    size_t n_missed = 0;
    for (size_t i = 0; i < x.made.spans.len; i += 7)
        n_missed += !finds_trace(&x, f, &x.made.spans.data[i]);
    CHECK_INT(t, n_missed, 0);
    CHECK_INT(t, span_file_trace(&x.l, f, unknown, take_block, &none, &x.err), 0);
    CHECK_INT(t, none.n, 0);
    CHECK_INT(t, span_file_trace(&x.l, f, x.made.spans.data[0].trace_id, stop, NULL, NULL), -42);
    CHECK(t, span_block_has_service(f, &f->blocks[0], BYTES("service-3")));
    CHECK(t, !span_block_has_service(f, &f->blocks[0], BYTES("service-99")));

    struct span_file *again = NULL;
    CHECK_INT(t, span_file_get(&x.l, s, &again, &x.err), 0);
    CHECK(t, again == f);
}

static void names_all_blocks_when_there_are_too_many_traces(struct test *t)
{
    CLEANUP(room_done) struct room x;
    CLEANUP(segment_freep) struct segment *s = NULL;
    struct span_file *f = NULL;
    struct span_file_options o = options(1);

    room_init(&x, 5000);
    o.max_entries = 100;
    CHECK_INT(t, write_file(&x, o, &s), 0);
    CHECK_INT(t, span_file_get(&x.l, s, &f, &x.err), 0);
    CHECK_INT(t, f->n_pages, 0);
    CHECK(t, !f->has_all_traces);
    CHECK(t, finds_trace(&x, f, &x.made.spans.data[0]));
    CHECK(t, finds_trace(&x, f, &vec_last(&x.made.spans)));
    CHECK_INT(t, span_file_trace(&x.l, f, x.made.spans.data[0].trace_id, stop, NULL, NULL), -42);
}

static void large_spans_make_small_blocks(struct test *t)
{
    CLEANUP(room_done) struct room x;
    CLEANUP(segment_freep) struct segment *s = NULL;
    struct span_file *f = NULL;
    static uint8_t text[4096];
    struct label labels[64];

    room_init(&x, 100);
    for (size_t i = 0; i < 64; i++)
        labels[i] = (struct label){BYTES("k"), {text, sizeof(text)}};
    for (size_t i = 0; i < x.made.spans.len; i++) {
        x.made.spans.data[i].attributes = labels;
        x.made.spans.data[i].n_attributes = 64;
    }
    CHECK_INT(t, write_file(&x, options(1), &s), 0);
    CHECK_INT(t, span_file_get(&x.l, s, &f, &x.err), 0);
    CHECK(t, f->n_blocks > 3);
}

static void refuses_disorder_and_nothing(struct test *t)
{
    CLEANUP(room_done) struct room x;
    struct segment *s = NULL;

    room_init(&x, 2);
    struct store_span first = x.made.spans.data[0];
    x.made.spans.data[0] = x.made.spans.data[1];
    x.made.spans.data[1] = first;
    CHECK_INT(t, write_file(&x, options(1), &s), -EINVAL);
    CHECK_STR(t, x.err.text, "could not write a segment of spans: they do not ascend");
    x.made.spans.len = 0;
    CHECK_INT(t, write_file(&x, options(2), &s), -EINVAL);
    CHECK_STR(t, x.err.text, "could not write a segment of spans: there are none");
    CHECK_INT(t, fs_exists(x.l.fs, "seg/tmp-0000000001", NULL), 0);
}

static void every_write_may_fail(struct test *t)
{
    CLEANUP(room_done) struct room x;
    struct segment *s = NULL;
    int r = -EIO, n = 0;

    room_init(&x, 15000);
    for (; r < 0 && n < 100; n++) {
        sim_fs_fault(x.sim, (struct sim_fault){.op = SIM_CHANGE, .nth = (uint64_t)n + 1});
        r = write_file(&x, options((uint64_t)n + 1), &s);
        CHECK(t, r == 0 || (r == -EIO && x.err.text[0]));
        sim_fs_clear_faults(x.sim);
    }
    CHECK_INT(t, r, 0);
    CHECK(t, n > 3);
    segment_free(s);
}

/* ---- Footers that are wrong in themselves: their sums are right */

static void write_footer(struct room *x, uint64_t id, struct bytes footer)
{
    CLEANUP(block_writer_freep) struct block_writer *w = NULL;
    uint64_t bytes;

    if (block_writer_new(x->l.fs, "seg", id, SEGMENT_SPANS, &w, &x->err) < 0 ||
        block_writer_finish(w, footer, &bytes, &x->err) < 0)
        abort();
}

static int open_footer(struct room *x, uint64_t id, struct bytes footer)
{
    CLEANUP(segment_freep) struct segment *s = calloc(1, sizeof(*s));
    struct span_file *f = NULL;
    struct blocks blocks = {0};

    write_footer(x, id, footer);
    s->id = id;
    s->kind = SEGMENT_SPANS;
    s->tenant = 7;
    x->err.text[0] = '\0';
    int r = span_file_get(&x->l, s, &f, &x->err);
    if (r == 0) /* whatever it says can be asked */
        (void)span_file_trace(&x->l, f, x->made.spans.data[0].trace_id, take_block, &blocks, NULL);
    for (uint32_t i = 0; r == 0 && i < f->n_blocks; i++)
        (void)span_block_has_service(f, &f->blocks[i], BYTES("a"));
    return r;
}

static void survives_any_footer(struct test *t)
{
    CLEANUP(room_done) struct room x;
    CLEANUP(segment_freep) struct segment *s = NULL;
    CLEANUP(buf_done) struct buf footer = {0};
    struct span_file *f = NULL;
    uint64_t id = 10;

    room_init(&x, 9000);
    CHECK_INT(t, write_file(&x, options(1), &s), 0);
    CHECK_INT(t, span_file_get(&x.l, s, &f, &x.err), 0);
    buf_add_bytes(&footer, block_bytes(f->footer));
    CHECK_INT(t, open_footer(&x, id++, buf_bytes(&footer)), 0);
    for (size_t n = 0; n < footer.len; n++) {
        CHECK_INT(t, open_footer(&x, id++, bytes_head(buf_bytes(&footer), n)), -EBADMSG);
        CHECK(t, strstr(x.err.text, "its footer is malformed") != NULL);
    }
    for (size_t i = 0; i < footer.len; i++) {
        for (unsigned bit = 0; bit < 8; bit += 7) {
            footer.data[i] ^= (uint8_t)(1u << bit);
            int r = open_footer(&x, id++, buf_bytes(&footer));
            CHECK(t, r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT);
            footer.data[i] ^= (uint8_t)(1u << bit);
        }
    }
    footer.data[0] = 2;
    CHECK_INT(t, open_footer(&x, id, buf_bytes(&footer)), -EPROTONOSUPPORT);
    char want[128];
    snprintf(want, sizeof(want), "segment %d: it has format 2, known is up to 1", (int)id++);
    CHECK_STR(t, x.err.text, want);
    footer.data[0] = 1;
    footer.data[1] = 8;
    CHECK_INT(t, open_footer(&x, id, buf_bytes(&footer)), -EBADMSG);
    snprintf(want, sizeof(want), "segment %d: it belongs to tenant 8, not 7", (int)id);
    CHECK_STR(t, x.err.text, want);
}

static void report(void *ctx, bool is_bad, const char *text)
{
    buf_addf(ctx, "%d %s;", is_bad, text);
}

static void verify_says_what_does_not_agree(struct test *t)
{
    CLEANUP(room_done) struct room x;
    CLEANUP(segment_freep) struct segment *s = NULL;
    CLEANUP(buf_done) struct buf text = {0};

    room_init(&x, 100);
    CHECK_INT(t, write_file(&x, options(1), &s), 0);
    CHECK(t, span_file_verify(&x.l, s, report, &text));
    s->n_rows++;
    CHECK(t, !span_file_verify(&x.l, s, report, &text));
    CHECK_STR(t, buf_cstr(&text),
              "1 segment 1: it does not have as many spans as the manifest says;");
    struct span_file *f = NULL;
    CHECK_INT(t, span_file_get(&x.l, s, &f, &x.err), 0);
    s->n_rows--;
    f->blocks[0].max_ns++;
    buf_clear(&text);
    CHECK(t, !span_file_verify(&x.l, s, report, &text));
    CHECK_STR(t, buf_cstr(&text), "1 segment 1: a block of spans is not what the footer says;");
    f->blocks[0].max_ns--;
    f->pages[0].ref.sum++;
    f->blocks[0].ref.sum++;
    block_cache_forget(x.l.cache, 1);
    CHECK(t, !span_file_verify(&x.l, s, report, &text));
    /* Two entries fewer than there are: not what the page says. */
    f->pages[0].ref.sum--;
    f->blocks[0].ref.sum--;
    f->pages[0].n -= 2;
    CHECK(t, !span_file_verify(&x.l, s, report, &text));
    CHECK_INT(t, sim_fs_break(x.sim, "seg/0000000001.seg", EIO), 1);
    CHECK(t, !span_file_verify(&x.l, s, report, &text));
}

static const struct test_case cases[] = {
    TEST(says_which_blocks_have_a_trace_and_a_service),
    TEST(names_all_blocks_when_there_are_too_many_traces),
    TEST(large_spans_make_small_blocks),
    TEST(refuses_disorder_and_nothing),
    TEST(every_write_may_fail),
    TEST(survives_any_footer),
    TEST(verify_says_what_does_not_agree),
};
TEST_MAIN(cases)
