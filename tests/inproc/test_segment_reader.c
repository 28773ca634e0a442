#include <errno.h>

#include "base/random.h"
#include "inproc/segment_reader.h"
#include "inproc/segment_writer.h"
#include "lib/test.h"

#define SECOND ((uint64_t)1000000000)

struct taken {
    size_t n;
    uint64_t sum, last;
};

static void take(void *arg, const struct preload_record *r)
{
    struct taken *t = arg;

    t->n++;
    t->sum += r->value;
    t->last = r->value;
}

static struct segment_reader *reader_of(struct test *t, struct segment_writer *w)
{
    struct segment_reader *r = NULL;
    struct error err = {""};

    CHECK_INT(t, segment_reader_open(dup(w->fd), &(struct segment_options){0}, &r, &err), 0);
    return r;
}

static struct preload_record record(uint64_t value)
{
    return (struct preload_record){
        .kind = PRELOAD_ALLOC, .what = PRELOAD_WHAT_MALLOC, .value = value};
}

static void records_come_once_and_in_order(struct test *t)
{
    struct segment_writer w;
    struct taken got = {0};

    writer_open(&w);
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    uint64_t sum = 0;
    for (uint64_t round = 0; round < 5; round++) {
        for (uint64_t i = 0; i < 200; i++, sum += i)
            CHECK(t, writer_put(&w, record(i + 1)));
        CHECK_INT(t, segment_reader_drain(r, SECOND, false, take, &got, NULL), 200);
        CHECK_INT(t, got.n, 200 * (round + 1));
        CHECK_INT(t, got.last, 200);
        CHECK_INT(t, w.h->ring_tail, w.h->ring_head);
    }
    CHECK_INT(t, got.sum, sum);
    CHECK_INT(t, segment_reader_drain(r, SECOND, false, take, &got, NULL), 0);
    writer_close(&w);
}

static void a_record_that_nobody_finishes_is_skipped_in_time(struct test *t)
{
    struct segment_writer w;
    struct taken got = {0};

    writer_open(&w);
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    writer_put(&w, record(1));
    writer_claim(&w);
    writer_put(&w, record(3));
    segment_reader_drain(r, SECOND, false, take, &got, NULL);
    CHECK_INT(t, got.n, 1);
    segment_reader_drain(r, SECOND + SEGMENT_STALL_NS / 2, false, take, &got, NULL);
    CHECK_INT(t, got.n, 1);
    segment_reader_drain(r, SECOND + SEGMENT_STALL_NS, false, take, &got, NULL);
    CHECK_INT(t, got.n, 2);
    CHECK_INT(t, segment_reader_doubts(r)->unfinished, 1);
    /* Nobody is left to finish it. */
    writer_claim(&w);
    writer_put(&w, record(5));
    segment_reader_drain(r, SECOND + SEGMENT_STALL_NS, true, take, &got, NULL);
    CHECK_INT(t, got.n, 3);
    CHECK_INT(t, w.h->ring_tail, w.h->ring_head);
    writer_close(&w);
}

static void what_is_finished_late_counts(struct test *t)
{
    struct segment_writer w;
    struct taken got = {0};

    writer_open(&w);
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    uint64_t number = writer_claim(&w);
    segment_reader_drain(r, SECOND, false, take, &got, NULL);
    CHECK_INT(t, got.n, 0);
    struct preload_record late = record(7);
    late.state = (uint32_t)(number + 1);
    *writer_slot(&w, number) = late;
    segment_reader_drain(r, SECOND + 1, false, take, &got, NULL);
    CHECK_INT(t, got.n, 1);
    CHECK_INT(t, got.last, 7);
    writer_close(&w);
}

static void equal_texts_have_one_number(struct test *t)
{
    struct segment_writer w;

    writer_open(&w);
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    uint32_t a = writer_stack(&w, 0x1000, 0x2000, 0), b = writer_stack(&w, 0x1000, 0x2000, 0);
    uint32_t c = writer_stack(&w, 0x1000, 0x3000, 0);
    uint32_t name = writer_text(&w, PRELOAD_TEXT_STRING, "worker", 6, 0);
    uint32_t id = segment_reader_text(r, a, PRELOAD_TEXT_STACK);
    CHECK(t, a != b && id != 0);
    CHECK_INT(t, segment_reader_text(r, b, PRELOAD_TEXT_STACK), id);
    CHECK(t, segment_reader_text(r, c, PRELOAD_TEXT_STACK) != id);
    CHECK_INT(t, segment_reader_get(r, id)->size, 16);
    uint32_t text = segment_reader_text(r, name, PRELOAD_TEXT_STRING);
    CHECK(t, memcmp(segment_reader_get(r, text)->data, "worker", 6) == 0);
    /* A name is no stack. */
    CHECK_INT(t, segment_reader_text(r, name, PRELOAD_TEXT_STACK), 0);
    CHECK_INT(t, segment_reader_text(r, 0, PRELOAD_TEXT_STACK), 0);
    writer_close(&w);
}

static void hostile_texts_are_none(struct test *t)
{
    struct segment_writer w;

    writer_open(&w);
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    uint32_t too_long = writer_stack(&w, 1, 2, 3), odd = writer_stack(&w, 1, 2, 3);
    uint32_t labels = writer_text(&w, PRELOAD_TEXT_LABELS, "\x03\x09keyvalue", 10, 0);
    uint64_t *texts = (void *)(w.base + w.h->texts.offset);
    ((struct preload_text *)(texts + too_long))->size = UINT32_MAX;
    ((struct preload_text *)(texts + odd))->size = 13;
    CHECK_INT(t, segment_reader_text(r, too_long, PRELOAD_TEXT_STACK), 0);
    CHECK_INT(t, segment_reader_text(r, odd, PRELOAD_TEXT_STACK), 0);
    CHECK_INT(t, segment_reader_text(r, labels, PRELOAD_TEXT_LABELS), 0);
    CHECK_INT(t, segment_reader_text(r, UINT32_MAX, PRELOAD_TEXT_STACK), 0);
    CHECK_INT(t, segment_reader_text(r, WRITER_TEXTS / 8 - 1, PRELOAD_TEXT_STACK), 0);
    CHECK_INT(t, segment_reader_doubts(r)->bad_texts, 5);
    /* Each counts once, however many mean it. */
    for (int i = 0; i < 100; i++)
        CHECK_INT(t, segment_reader_text(r, odd, PRELOAD_TEXT_STACK), 0);
    CHECK_INT(t, segment_reader_doubts(r)->bad_texts, 5);
    writer_close(&w);
}

/* A generation of texts is as long as its half is written, and the next one is. */
static void texts_make_room_for_others(struct test *t)
{
    struct segment_writer w;
    struct taken got = {0};
    uint64_t half = WRITER_TEXTS / 16;

    writer_open(&w);
    w.h->texts_used += 0xfffffffe * half; /* numbers begin anew in between */
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    uint32_t first = writer_stack(&w, 0x1000, 0, 0), later = 0, last = 0;
    uint64_t begun = w.h->texts_used / half, n = 1;
    uint32_t id = segment_reader_text(r, first, PRELOAD_TEXT_STACK);
    CHECK(t, first != 0 && id != 0);
    for (; w.h->texts_used / half < begun + 3; n++) {
        uint32_t number = writer_stack(&w, 0x1000 + n, 0, 0);
        later = later == 0 && w.h->texts_used / half == begun + 2 ? last : later;
        last = number;
        CHECK(t, number != 0);
        CHECK_INT(t, segment_reader_drain(r, SECOND, false, take, &got, NULL), 0);
        uint32_t text = segment_reader_text(r, number, PRELOAD_TEXT_STACK);
        CHECK(t, text != 0 && *(const uint64_t *)(const void *)segment_reader_get(r, text)->data ==
                                  0x1000 + n);
    }
    CHECK_INT(t, segment_reader_doubts(r)->bad_texts, 0);
    /* They are known no more, but what they stood for is the same. */
    CHECK_INT(t, segment_reader_text(r, first, PRELOAD_TEXT_STACK), 0);
    CHECK_INT(t, segment_reader_text(r, later, PRELOAD_TEXT_STACK), 0);
    CHECK_INT(t, segment_reader_doubts(r)->bad_texts, 2);
    CHECK_INT(t, segment_reader_text(r, writer_stack(&w, 0x1000, 0, 0), PRELOAD_TEXT_STACK), id);
    writer_close(&w);
}

static void count_live(void *arg, uint64_t address, const struct preload_live *live)
{
    struct taken *t = arg;

    t->n++;
    t->sum += live->size;
    t->last = address;
}

static void live_memory_is_told(struct test *t)
{
    struct segment_writer w;
    struct taken got = {0};

    writer_open(&w);
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    writer_live(&w, 3, 0x7000, (struct preload_live){.size = 100, .what = PRELOAD_WHAT_MALLOC});
    writer_live(&w, WRITER_LIVE - 1, 0x8000, (struct preload_live){.size = 11});
    writer_live(&w, 9, 0x9000, (struct preload_live){.size = 5, .what = 200});
    writer_live(&w, 10, 1, (struct preload_live){.size = 1000}); /* it is being written */
    CHECK_INT(t, segment_reader_live(r, count_live, &got, NULL), 0);
    CHECK_INT(t, got.n, 2);
    CHECK_INT(t, got.sum, 111);
    CHECK_INT(t, segment_reader_doubts(r)->bad_live, 1);
    writer_close(&w);
}

/* What is being written, or never was finished because its thread was killed. */
static void claimed_places_are_no_live_memory(struct test *t)
{
    struct segment_writer w;
    struct taken got = {0};

    writer_open(&w);
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    writer_live(&w, 3, 1, (struct preload_live){.size = 1000});
    writer_live(&w, 4, 0x8000, (struct preload_live){.size = 11});
    writer_live(&w, 5, 1, (struct preload_live){.size = 1000, .what = 200});
    CHECK_INT(t, segment_reader_live(r, count_live, &got, NULL), 0);
    CHECK_INT(t, got.n, 1);
    CHECK_INT(t, got.sum, 11);
    CHECK_INT(t, segment_reader_doubts(r)->bad_live, 0);
    writer_close(&w);
}

static void later_modules_replace_earlier_ones(struct test *t)
{
    struct segment_writer w;

    writer_open(&w);
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    writer_module(&w, (struct preload_module){.start = 0x1000, .end = 0x3000}, "/old");
    CHECK_INT(t, segment_reader_read_modules(r, NULL), 0);
    CHECK_STR(t, segment_reader_module(r, 0x1fff)->path, "/old");
    writer_module(&w, (struct preload_module){.start = 0x1000, .end = 0x2000}, "/new");
    CHECK_INT(t, segment_reader_read_modules(r, NULL), 0);
    CHECK_STR(t, segment_reader_module(r, 0x1fff)->path, "/new");
    CHECK_STR(t, segment_reader_module(r, 0x2000)->path, "/old");
    CHECK(t, !segment_reader_module(r, 0x3000));
    CHECK_INT(t, segment_reader_n_modules(r), 2);
    writer_close(&w);
}

static void switches_reach_the_library(struct test *t)
{
    struct segment_writer w;
    struct segment_counters c;

    writer_open(&w);
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    CHECK_INT(t, segment_reader_set(r, PRELOAD_WANTS(PRELOAD_LOCK), 4096, 0, NULL), 0);
    CHECK_INT(t, w.h->wanted, PRELOAD_WANTS(PRELOAD_LOCK));
    CHECK_INT(t, w.h->alloc_rate, 4096);
    CHECK_INT(t, w.h->lock_rate, 1);
    w.h->lost[PRELOAD_LOSS_LIVE] = 9;
    CHECK_INT(t, segment_reader_counters(r, &c, NULL), 0);
    CHECK_INT(t, c.lost[PRELOAD_LOSS_LIVE], 9);
    CHECK_INT(t, segment_reader_facts(r)->pid, 4711);
    writer_close(&w);
}

static int open_with(struct test *t, void (*spoil)(struct preload_header *h), struct error *err)
{
    struct segment_writer w;
    CLEANUP(segment_reader_freep) struct segment_reader *r = NULL;

    (void)t;
    writer_open(&w);
    spoil(w.h);
    int result = segment_reader_open(dup(w.fd), &(struct segment_options){0}, &r, err);
    writer_close(&w);
    return result;
}

static void no_magic(struct preload_header *h)
{
    h->magic = 0;
}
static void other_magic(struct preload_header *h)
{
    h->magic ^= 1;
}
static void other_version(struct preload_header *h)
{
    h->version++;
}
static void too_large(struct preload_header *h)
{
    h->file_size += 64;
}
static void ring_outside(struct preload_header *h)
{
    h->ring.offset = h->file_size;
}
static void ring_over_header(struct preload_header *h)
{
    h->ring.offset = 0;
}
static void odd_ring(struct preload_header *h)
{
    h->ring.size -= sizeof(struct preload_record);
}
static void texts_wrap(struct preload_header *h)
{
    h->texts.size = UINT64_MAX - 64;
}
static void odd_texts(struct preload_header *h)
{
    h->texts.size -= 64;
}
static void no_texts(struct preload_header *h)
{
    h->texts.size = 0;
}
static void few_values(struct preload_header *h)
{
    h->live.size /= 2;
}
static void odd_keys(struct preload_header *h)
{
    h->live_keys.size -= 8;
}
static void modules_wrap(struct preload_header *h)
{
    h->modules.offset = ~(uint64_t)63;
}

static void hostile_headers_are_refused_with_words(struct test *t)
{
    static void (*const spoils[])(struct preload_header *) = {
        other_magic, too_large, ring_outside, ring_over_header, odd_ring,    texts_wrap,
        odd_texts,   no_texts,  few_values,   odd_keys,         modules_wrap};
    struct error err = {""};

    CHECK_INT(t, open_with(t, no_magic, &err), -EAGAIN);
    CHECK_INT(t, open_with(t, other_version, &err), -EPROTO);
    for (size_t i = 0; i < ARRAY_SIZE(spoils); i++) {
        err.text[0] = '\0';
        CHECK_INT(t, open_with(t, spoils[i], &err), -EBADMSG);
        CHECK(t, err.text[0] != '\0');
    }
}

static void a_file_that_shrinks_is_an_error(struct test *t)
{
    struct segment_writer w;
    struct taken got = {0};
    struct error err = {""};

    writer_open(&w);
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    writer_put(&w, record(1));
    CHECK_INT(t, ftruncate(w.fd, (off_t)w.h->ring.offset), 0);
    CHECK_INT(t, segment_reader_drain(r, SECOND, false, take, &got, &err), -EIO);
    CHECK(t, strstr(err.text, "ends at"));
    CHECK_INT(t, segment_reader_live(r, count_live, &got, &err), -EIO);
    CHECK_INT(t, segment_reader_read_modules(r, &err), -EIO);
    writer_close(&w);
}

static void heads_that_lie_are_not_believed(struct test *t)
{
    struct segment_writer w;
    struct taken got = {0};

    writer_open(&w);
    CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
    w.h->ring_head = UINT64_MAX / 2;
    CHECK_INT(t, segment_reader_drain(r, SECOND, false, take, &got, NULL), 0);
    CHECK_INT(t, got.n, 0);
    w.h->ring_head = 3; /* and back */
    CHECK_INT(t, segment_reader_drain(r, SECOND, false, take, &got, NULL), 0);
    writer_close(&w);
}

/* Everything behind the header is noise: it is read as far as it holds. */
static void noise_does_no_harm(struct test *t)
{
    struct random random;

    random_init(&random, 7);
    for (int round = 0; round < 20; round++) {
        struct segment_writer w;
        struct taken got = {0};
        writer_open(&w);
        CLEANUP(segment_reader_freep) struct segment_reader *r = reader_of(t, &w);
        for (size_t i = (size_t)w.h->ring.offset; i + 8 <= w.size; i += 8) {
            uint64_t noise = random_u64(&random) >> (random_u64(&random) % 64);
            memcpy(w.base + i, &noise, 8);
        }
        w.h->ring_head = random_below(&random, WRITER_RECORDS + 1);
        for (uint64_t i = 0; i < w.h->ring_head; i += 2)
            writer_slot(&w, i)->state = (uint32_t)(i + 1);
        CHECK(t, segment_reader_drain(r, SECOND, true, take, &got, NULL) >= 0);
        for (uint32_t i = 0; i < 2000; i++)
            (void)segment_reader_text(r, i, PRELOAD_TEXT_STACK);
        CHECK_INT(t, segment_reader_live(r, count_live, &got, NULL), 0);
        CHECK_INT(t, segment_reader_read_modules(r, NULL), 0);
        (void)segment_reader_module(r, random_u64(&random));
        writer_close(&w);
    }
}

static void memory_is_bounded(struct test *t)
{
    struct segment_writer w;
    struct segment_reader *r = NULL;
    size_t n = 0;

    writer_open(&w);
    CHECK_INT(t,
              segment_reader_open(
                  dup(w.fd), &(struct segment_options){.max_memory = (size_t)64 << 10}, &r, NULL),
              0);
    for (uint64_t i = 1; i < 4000; i++)
        n += segment_reader_text(r, writer_stack(&w, i, 0, 0), PRELOAD_TEXT_STACK) != 0;
    CHECK(t, n > 100 && n < 3000);
    CHECK_INT(t, segment_reader_doubts(r)->no_room, 3999 - n);
    segment_reader_free(r);
    writer_close(&w);
}

/* Nor is it the process's fault when this memory is spent, wherever that is noticed. */
static void lack_of_memory_is_no_doubt(struct test *t)
{
    struct segment_writer w;
    uint8_t name[4000] = {0};
    uint64_t none = 0;

    writer_open(&w);
    uint32_t number = writer_text(&w, PRELOAD_TEXT_STRING, name, sizeof(name), 0);
    CHECK(t, number != 0);
    for (size_t memory = 64; memory < 32768; memory += 64) {
        CLEANUP(segment_reader_freep) struct segment_reader *r = NULL;
        struct segment_options o = {.max_memory = memory};
        if (segment_reader_open(dup(w.fd), &o, &r, NULL) < 0)
            continue;
        uint32_t id = segment_reader_text(r, number, PRELOAD_TEXT_STRING);
        CHECK_INT(t, segment_reader_doubts(r)->bad_texts, 0);
        CHECK_INT(t, segment_reader_doubts(r)->no_room, id == 0);
        none += id == 0;
    }
    CHECK(t, none > 0);
    writer_close(&w);
}

static int open_within(const struct segment_options *o, struct error *err)
{
    struct segment_writer w;
    CLEANUP(segment_reader_freep) struct segment_reader *r = NULL;

    writer_open(&w);
    int result = segment_reader_open(dup(w.fd), o, &r, err);
    writer_close(&w);
    return result;
}

static void files_beyond_limits_are_refused_by_name(struct test *t)
{
    struct error err = {""};

    CHECK_INT(t,
              open_within(&(struct segment_options){.max_records = WRITER_RECORDS,
                                                    .max_live_keys = WRITER_LIVE,
                                                    .max_texts_bytes = WRITER_TEXTS,
                                                    .max_modules_bytes = WRITER_MODULES},
                          &err),
              0);
    CHECK_INT(t, open_within(&(struct segment_options){.max_records = 128}, &err), -EFBIG);
    CHECK_STR(t, err.text, "the segment has 256 records in its ring, and the limit is 128");
    CHECK_INT(t, open_within(&(struct segment_options){.max_live_keys = 512}, &err), -EFBIG);
    CHECK_STR(t, err.text, "the segment has 1024 keys of live memory, and the limit is 512");
    CHECK_INT(t, open_within(&(struct segment_options){.max_texts_bytes = 1000}, &err), -EFBIG);
    CHECK(t, strstr(err.text, "bytes of texts, and the limit is 1000"));
    CHECK_INT(t, open_within(&(struct segment_options){.max_modules_bytes = 1000}, &err), -EFBIG);
    CHECK(t, strstr(err.text, "bytes of modules, and the limit is 1000"));
}

/* Whatever its header says: its owner can keep those waiting who write to it. */
static void files_that_can_be_large_are_refused(struct test *t)
{
    struct segment_options o = {.max_records = WRITER_RECORDS,
                                .max_live_keys = WRITER_LIVE,
                                .max_texts_bytes = WRITER_TEXTS,
                                .max_modules_bytes = WRITER_MODULES,
                                .must_be_sealed = true};
    struct segment_writer w;
    struct segment_reader *r = NULL;
    struct error err = {""};

    writer_open(&w);
    CHECK_INT(t, segment_reader_open(dup(w.fd), &o, &r, &err), -EPERM);
    CHECK_STR(t, err.text, "the segment's size is not sealed");
    o.must_be_sealed = false;
    CHECK_INT(t, segment_reader_open(dup(w.fd), &o, &r, &err), 0);
    CHECK(t, !segment_reader_has_grown(r));
    CHECK_INT(t, ftruncate(w.fd, (off_t)w.size + 100000), 0);
    CHECK(t, segment_reader_has_grown(r));
    segment_reader_free(r);
    o.must_be_sealed = true;
    CHECK_INT(t, ftruncate(w.fd, (off_t)w.size + 100000), 0);
    writer_seal(&w);
    CHECK_INT(t, segment_reader_open(dup(w.fd), &o, &r, &err), -EFBIG);
    CHECK(t, strstr(err.text, " bytes, and the limit is "));
    writer_close(&w);
    writer_open(&w);
    writer_seal(&w);
    CHECK_INT(t, segment_reader_open(dup(w.fd), &o, &r, &err), 0);
    segment_reader_free(r);
    writer_close(&w);
    int fds[2]; /* no memfd at all */
    CHECK_INT(t, pipe(fds), 0);
    CHECK_INT(t, segment_reader_open(fds[0], &o, &r, &err), -EPERM);
    close(fds[1]);
}

static void a_call_takes_so_many_records(struct test *t)
{
    struct segment_writer w;
    struct segment_reader *r = NULL;
    struct taken got = {0};

    writer_open(&w);
    CHECK_INT(
        t, segment_reader_open(dup(w.fd), &(struct segment_options){.max_drained = 10}, &r, NULL),
        0);
    for (uint64_t i = 0; i < 45; i++)
        writer_put(&w, record(i));
    CHECK_INT(t, segment_reader_drain(r, SECOND, false, take, &got, NULL), 10);
    CHECK_INT(t, segment_reader_drain(r, SECOND, false, take, &got, NULL), 10);
    CHECK_INT(t, w.h->ring_tail, 20);
    /* Nobody makes more of them. */
    CHECK_INT(t, segment_reader_drain(r, SECOND, true, take, &got, NULL), 25);
    CHECK_INT(t, got.last, 44);
    CHECK_INT(t, segment_reader_taken(r), 45);
    segment_reader_free(r);
    writer_close(&w);
}

static void ask_for_stack(void *arg, uint64_t address, const struct preload_live *live)
{
    struct segment_reader *r = arg;

    (void)address;
    (void)segment_reader_text(r, live->stack, PRELOAD_TEXT_STACK);
}

static void what_goes_on_making_no_sense_is_given_up(struct test *t)
{
    struct segment_writer w;
    struct segment_reader *r = NULL;
    struct taken got = {0};
    struct error err = {""};

    writer_open(&w);
    CHECK_INT(
        t, segment_reader_open(dup(w.fd), &(struct segment_options){.max_doubts = 100}, &r, NULL),
        0);
    for (size_t i = 0; i < WRITER_LIVE; i++)
        writer_live(&w, i, 0x1000 * (i + 1), (struct preload_live){.stack = 20000 + (uint32_t)i});
    CHECK_INT(t, segment_reader_live(r, ask_for_stack, r, &err), -EBADMSG);
    CHECK(t, strstr(err.text, "101 bad numbers of texts") && strstr(err.text, "limit is 100"));
    CHECK_INT(t, segment_reader_drain(r, SECOND, false, take, &got, &err), -EBADMSG);
    /* A few now and then are forgiven. */
    CHECK(t, !segment_reader_renew(r, 0));
    CHECK_INT(t, segment_reader_drain(r, SECOND, false, take, &got, &err), 0);
    segment_reader_free(r);
    writer_close(&w);
}

static void texts_begin_anew_when_they_are_full(struct test *t)
{
    struct segment_writer w;
    struct segment_reader *r = NULL;
    struct segment_options o = {.max_memory = (size_t)64 << 10};

    writer_open(&w);
    CHECK_INT(t, segment_reader_open(dup(w.fd), &o, &r, NULL), 0);
    writer_module(&w, (struct preload_module){.start = 0x1000, .end = 0x3000}, "/bin/prog");
    CHECK_INT(t, segment_reader_read_modules(r, NULL), 0);
    CHECK(t, !segment_reader_renew(r, 0));
    uint32_t stack = 0;
    for (uint64_t i = 1; i < 4000; i++)
        (void)segment_reader_text(r, stack = writer_stack(&w, i, 0, 0), PRELOAD_TEXT_STACK);
    CHECK_INT(t, segment_reader_text(r, stack, PRELOAD_TEXT_STACK), 0);
    CHECK(t, segment_reader_renew(r, 0));
    CHECK_INT(t, segment_reader_text(r, stack, PRELOAD_TEXT_STACK), 1);
    CHECK_INT(t, segment_reader_read_modules(r, NULL), 0);
    CHECK_STR(t, segment_reader_module(r, 0x1000)->path, "/bin/prog");
    CHECK(t, !segment_reader_renew(r, (size_t)1 << 20));
    for (uint64_t i = 1; i < 500; i++)
        CHECK(t, segment_reader_text(r, writer_stack(&w, i, 1, 0), PRELOAD_TEXT_STACK) != 0);
    CHECK(t, segment_reader_renew(r, (size_t)32 << 10)); /* they need more than that */
    segment_reader_free(r);
    writer_close(&w);
}

static const struct test_case cases[] = {
    TEST(records_come_once_and_in_order),
    TEST(a_record_that_nobody_finishes_is_skipped_in_time),
    TEST(what_is_finished_late_counts),
    TEST(equal_texts_have_one_number),
    TEST(hostile_texts_are_none),
    TEST(texts_make_room_for_others),
    TEST(live_memory_is_told),
    TEST(claimed_places_are_no_live_memory),
    TEST(later_modules_replace_earlier_ones),
    TEST(switches_reach_the_library),
    TEST(hostile_headers_are_refused_with_words),
    TEST(a_file_that_shrinks_is_an_error),
    TEST(heads_that_lie_are_not_believed),
    TEST(noise_does_no_harm),
    TEST(memory_is_bounded),
    TEST(lack_of_memory_is_no_doubt),
    TEST(files_beyond_limits_are_refused_by_name),
    TEST(files_that_can_be_large_are_refused),
    TEST(a_call_takes_so_many_records),
    TEST(what_goes_on_making_no_sense_is_given_up),
    TEST(texts_begin_anew_when_they_are_full),
};
TEST_MAIN(cases)
