#include <fcntl.h>
#include <pthread.h>

#include "segment/file_name.h"
#include "store_local/flush.h"
#include "store_local/span_codec.h"
#include "store_local/span_file.h"
#include "store_local/span_maker.h"
#include "store_local/spans.h"
#include "store_local/store_fixture.h"
#include "store_local/version.h"

#define TENANT bytes_of("default")

/* ---- What should be found */

struct expected {
    struct test *t;
    const struct span_maker *all;
    struct store_span_find find;
    size_t at, n_found, n_wrong;
};

static int by_order(const void *a, const void *b)
{
    return span_compare(a, b);
}

static bool is_asked(const struct store_span_find *f, const struct store_span *s)
{
    if (s->start_ns < f->from_ns || s->start_ns >= f->to_ns || s->duration_ns < f->min_duration_ns)
        return false;
    if (f->has_trace && memcmp(f->trace_id, s->trace_id, 16) != 0)
        return false;
    if (f->has_span && memcmp(f->span_id, s->span_id, 8) != 0)
        return false;
    return (!f->service.len || bytes_equal(f->service, s->service)) &&
           (!f->name.len || bytes_equal(f->name, s->name));
}

static int compare_next(void *ctx, const struct store_span *span)
{
    struct expected *e = ctx;

    while (e->at < e->all->spans.len && !is_asked(&e->find, &e->all->spans.data[e->at]))
        e->at++;
    if (e->at == e->all->spans.len || !span_equal(span, &e->all->spans.data[e->at]))
        e->n_wrong++;
    e->at++;
    e->n_found++;
    return 0;
}

static size_t count_asked(const struct span_maker *m, const struct store_span_find *f)
{
    size_t n = 0;

    for (size_t i = 0; i < m->spans.len; i++)
        n += is_asked(f, &m->spans.data[i]);
    return f->limit && n > f->limit ? f->limit : n;
}

static void check_find(struct test *t, struct fixture *f, struct span_maker *m,
                       struct store_span_find find)
{
    struct expected e = {.t = t, .all = m, .find = find};

    if (m->spans.len > 0)
        qsort(m->spans.data, m->spans.len, sizeof(struct store_span), by_order);
    CHECK_INT(t, store_spans(f->store, &find, compare_next, &e, &f->err), 0);
    CHECK_INT(t, e.n_found, count_asked(m, &find));
    CHECK_INT(t, e.n_wrong, 0);
}

static struct store_span_find everything(void)
{
    return (struct store_span_find){.tenant = TENANT, .to_ns = INT64_MAX};
}

/* All questions of the seam, a few of each. */
static void check_all(struct test *t, struct fixture *f, struct span_maker *m)
{
    check_find(t, f, m, everything());
    for (size_t i = 0; i < 8; i++) {
        struct store_span s = m->spans.data[random_below(&m->random, m->spans.len)];
        struct store_span_find find = everything();
        find.has_trace = true;
        memcpy(find.trace_id, s.trace_id, 16);
        check_find(t, f, m, find);
        find.has_span = true;
        memcpy(find.span_id, s.span_id, 8);
        check_find(t, f, m, find);
        find.has_trace = false;
        check_find(t, f, m, find);
        find = everything();
        find.service = s.service;
        check_find(t, f, m, find);
        find.name = s.name;
        find.limit = 3;
        check_find(t, f, m, find);
        find = everything();
        find.from_ns = s.start_ns;
        find.to_ns = s.start_ns + (int64_t)random_below(&m->random, (uint64_t)HOUR_NS);
        find.min_duration_ns = s.duration_ns;
        check_find(t, f, m, find);
    }
    struct store_span_find none = everything();
    none.has_trace = true;
    memset(none.trace_id, 0xab, 16);
    check_find(t, f, m, none);
}

static void append(struct test *t, struct fixture *f, const struct store_span *spans, size_t n)
{
    int r = store_append_spans(f->store, TENANT, spans, n, &f->err);

    CHECK_INT(t, r, 0);
    if (r < 0)
        printf("# %s\n", f->err.text);
}

static void append_in_pieces(struct test *t, struct fixture *f, const struct span_maker *m,
                             size_t from, size_t piece)
{
    for (size_t i = from; i < m->spans.len; i += piece)
        append(t, f, m->spans.data + i, m->spans.len - i < piece ? m->spans.len - i : piece);
}

static void flush(struct test *t, struct fixture *f)
{
    int r = store_upkeep(f->store, UPKEEP_FLUSH, &f->err);

    CHECK(t, r >= 0);
    if (r < 0)
        printf("# %s\n", f->err.text);
}

static size_t n_segments(struct fixture *f)
{
    const struct version *v = local_of(f->store)->version;
    size_t n = 0;

    for (size_t i = 0; i < v->segments.len; i++)
        n += v->segments.data[i]->kind == SEGMENT_SPANS;
    return n;
}

static int compact(struct fixture *f, int64_t now_ns, bool all)
{
    struct local *l = local_of(f->store);

    pthread_mutex_lock(&l->upkeep_lock);
    int r = spans_compact(l, now_ns, all, &f->err);
    pthread_mutex_unlock(&l->upkeep_lock);
    return r;
}

static void compact_all(struct test *t, struct fixture *f, int64_t now_ns, bool all)
{
    int r;

    while ((r = compact(f, now_ns, all)) > 0)
        ;
    CHECK_INT(t, r, 0);
    if (r < 0)
        printf("# %s\n", f->err.text);
}

#define FIXTURE(f, m, start_ns)                                                                    \
    struct fixture f;                                                                              \
    CLEANUP(span_maker_done) struct span_maker m;                                                  \
    fixture_init(t, &f);                                                                           \
    span_maker_init(&m, 5, (start_ns))

/* ---- */

static void finds_spans_at_once_in_the_order_of_starts(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 10 * SEC_NS);
    span_maker_add(&m, 700);
    append_in_pieces(t, &f, &m, 0, 50);
    check_all(t, &f, &m);
    struct store_stat stat;
    store_stat(f.store, &stat);
    CHECK_INT(t, stat.spans, m.spans.len);
    fixture_done(&f);
}

static void finds_them_after_a_crash_a_flush_and_a_restart(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 3 * HOUR_NS);
    m.gap_ns = 60 * (uint64_t)SEC_NS;
    span_maker_add(&m, 700);
    append_in_pieces(t, &f, &m, 0, 64);
    fixture_reopen(t, &f);
    check_all(t, &f, &m);
    flush(t, &f);
    CHECK(t, n_segments(&f) >= 2); /* hours */
    check_all(t, &f, &m);
    size_t n = m.spans.len;
    span_maker_add(&m, n + 100);
    append_in_pieces(t, &f, &m, n, 1); /* some in memory, some in files */
    check_all(t, &f, &m);
    fixture_close(&f);
    CHECK_INT(t, fixture_open(&f), 0);
    check_all(t, &f, &m);
    CHECK_STR(t, f.log, "");
    struct store_stat stat;
    store_stat(f.store, &stat);
    CHECK_INT(t, stat.spans, m.spans.len);
    fixture_done(&f);
}

static void stores_a_batch_that_is_sent_again_once(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 60 * SEC_NS);
    span_maker_add(&m, 300);
    size_t n = m.spans.len;
    append_in_pieces(t, &f, &m, 0, 100);
    append(t, &f, m.spans.data, n);
    check_find(t, &f, &m, everything());
    struct store_stat stat;
    store_stat(f.store, &stat);
    CHECK_INT(t, stat.spans, n);
    fixture_reopen(t, &f);
    append(t, &f, m.spans.data, n);
    store_stat(f.store, &stat);
    CHECK_INT(t, stat.spans, n);
    flush(t, &f);
    append(t, &f, m.spans.data, n); /* now they are in a file */
    store_stat(f.store, &stat);
    CHECK_INT(t, stat.spans, n);
    CHECK_INT(t, local_of(f.store)->head->span_keys.len, 0);

    /* Some old ones, some new ones, one of them twice. */
    span_maker_add(&m, n + 20);
    append(t, &f, m.spans.data + n - 100, m.spans.len - n + 100);
    struct store_span twice[] = {m.spans.data[n], m.spans.data[n]};
    append(t, &f, twice, 2);
    store_stat(f.store, &stat);
    CHECK_INT(t, stat.spans, m.spans.len);
    check_all(t, &f, &m);
    fixture_done(&f);
}

static void the_same_id_at_another_time_is_another_span(struct test *t)
{
    FIXTURE(f, m, NOW_NS);
    struct store_span spans[] = {
        {.service = BYTES("a"), .span_id = {1}, .trace_id = {2}, .start_ns = NOW_NS},
        {.service = BYTES("a"), .span_id = {1}, .trace_id = {2}, .start_ns = NOW_NS + 1},
        {.service = BYTES("a"), .span_id = {1}, .trace_id = {3}, .start_ns = NOW_NS},
    };
    for (size_t i = 0; i < ARRAY_SIZE(spans); i++) {
        append(t, &f, &spans[i], 1);
        CHECK(t, vec_push(&m.budget, &m.spans, spans[i]));
        flush(t, &f);
    }
    check_all(t, &f, &m);
    append(t, &f, spans, 3);
    check_all(t, &f, &m);
    CHECK(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err) >= 0);
    CHECK_INT(t, n_segments(&f), 1);
    check_all(t, &f, &m);
    fixture_done(&f);
}

static void tenants_do_not_see_each_other(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 10 * SEC_NS);
    span_maker_add(&m, 60);
    append_in_pieces(t, &f, &m, 0, 60);
    struct store_span other = {.service = BYTES("x"), .start_ns = NOW_NS - 5 * SEC_NS};
    CHECK_INT(t, store_append_spans(f.store, bytes_of("other"), &other, 1, &f.err), 0);
    check_all(t, &f, &m);
    flush(t, &f);
    CHECK_INT(t, n_segments(&f), 2);
    check_all(t, &f, &m);
    CLEANUP(span_maker_done) struct span_maker o;
    span_maker_init(&o, 1, 0);
    struct store_span_find find = everything();
    find.tenant = bytes_of("nobody");
    check_find(t, &f, &o, find);
    CHECK(t, vec_push(&o.budget, &o.spans, other));
    find.tenant = bytes_of("other");
    check_find(t, &f, &o, find);
    fixture_done(&f);
}

static void refuses_what_is_over_a_limit_and_names_it(struct test *t)
{
    FIXTURE(f, m, NOW_NS);
    static uint8_t long_text[5000];
    struct label labels[65] = {{BYTES("k"), BYTES("v")}};
    struct label long_name = {{long_text, 257}, BYTES("v")},
                 long_value = {BYTES("k"), {long_text, 4097}};
    const struct {
        struct store_span span;
        const char *why;
    } cases[] = {
        {{.start_ns = NOW_NS, .name = {long_text, 1025}},
         "span 1: its name has 1025 bytes: at most 1024 are allowed"},
        {{.start_ns = NOW_NS, .service = {long_text, 1025}},
         "span 1: its service has 1025 bytes: at most 1024 are allowed"},
        {{.start_ns = 0}, "span 1 does not say when it began"},
        {{.start_ns = NOW_NS, .duration_ns = -1}, "span 1: a duration of -1 ns cannot be"},
        {{.start_ns = NOW_NS, .duration_ns = INT64_MAX},
         "span 1: a duration of 9223372036854775807 ns cannot be"},
        {{.start_ns = NOW_NS + 3601 * SEC_NS},
         "span 1 is from 1h1s in the future: the limit is 1h"},
        {{.start_ns = NOW_NS, .attributes = labels, .n_attributes = 65},
         "span 1 has 65 attributes: at most 64 are allowed"},
        {{.start_ns = NOW_NS, .attributes = &long_name, .n_attributes = 1},
         "span 1: the name of an attribute has 257 bytes: at most 256 are allowed"},
        {{.start_ns = NOW_NS, .attributes = &long_value, .n_attributes = 1},
         "span 1: the value of an attribute has 4097 bytes: at most 4096 are allowed"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct store_span spans[] = {{.start_ns = NOW_NS}, cases[i].span};
        CHECK_INT(t, store_append_spans(f.store, TENANT, spans, 2, &f.err), -EINVAL);
        CHECK_STR(t, f.err.text, cases[i].why);
    }
    struct store_span sound = {.start_ns = NOW_NS};
    CHECK_INT(t, store_append_spans(f.store, bytes_of("no/such"), &sound, 1, &f.err), -EINVAL);
    append(t, &f, NULL, 0);
    check_find(t, &f, &m, everything()); /* nothing was stored */
    fixture_done(&f);
}

static void takes_more_than_a_record_at_once(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 100 * SEC_NS);
    span_maker_add(&m, 9000);
    append(t, &f, m.spans.data, m.spans.len);
    check_find(t, &f, &m, everything());
    flush(t, &f); /* several blocks */
    check_all(t, &f, &m);
    fixture_done(&f);
}

static void merges_hours_and_days_when_they_are_over(struct test *t)
{
    /* Noon, so that a day has hours before and after. */
    const int64_t day = NOW_NS / DAY_NS * DAY_NS, start = day - DAY_NS + 10 * HOUR_NS;
    FIXTURE(f, m, start);
    m.gap_ns = 20 * (uint64_t)SEC_NS;
    f.clock.wall_ns = day;
    size_t n = 0;
    for (int i = 0; i < 12; i++) { /* files of overlapping times */
        span_maker_add(&m, n + 200);
        append_in_pieces(t, &f, &m, n, 70);
        n = m.spans.len;
        flush(t, &f);
    }
    size_t before = n_segments(&f);
    check_all(t, &f, &m);

    /* While the day is not over: hours only. */
    compact_all(t, &f, day - SEC_NS, false);
    size_t hours = n_segments(&f);
    CHECK(t, hours < before);
    check_all(t, &f, &m);
    compact_all(t, &f, day + HOUR_NS, false);
    CHECK_INT(t, n_segments(&f), 1);
    CHECK_INT(t, local_of(f.store)->version->segments.data[0]->tier, 2);
    check_all(t, &f, &m);
    CHECK_INT(t, compact(&f, day + HOUR_NS, true), 0);

    /* A few late ones wait; many do not. */
    m.now_ns = start;
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(t, compact(&f, day + HOUR_NS, false), 0);
        CHECK_INT(t, n_segments(&f), 1 + i);
        span_maker_add(&m, m.spans.len + 1);
        append_in_pieces(t, &f, &m, n, 100);
        n = m.spans.len;
        flush(t, &f);
    }
    compact_all(t, &f, day + HOUR_NS, false);
    CHECK_INT(t, n_segments(&f), 1);
    check_all(t, &f, &m);
    fixture_reopen(t, &f);
    check_all(t, &f, &m);
    fixture_done(&f);
}

static void merges_many_young_files(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 30 * SEC_NS);
    for (size_t i = 0, n = 0; i < 9; i++) {
        CHECK_INT(t, compact(&f, NOW_NS, false), 0);
        span_maker_add(&m, n + 10);
        append_in_pieces(t, &f, &m, n, 100);
        n = m.spans.len;
        flush(t, &f);
    }
    CHECK_INT(t, compact(&f, NOW_NS, false), 1);
    CHECK_INT(t, n_segments(&f), 1);
    CHECK_INT(t, local_of(f.store)->version->segments.data[0]->tier, 0);
    check_all(t, &f, &m);
    fixture_done(&f);
}

static void old_spans_go_by_days_and_are_not_seen_when_too_old(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 6 * DAY_NS);
    m.gap_ns = 3 * (uint64_t)HOUR_NS;
    span_maker_add(&m, 500);
    while (m.spans.len > 0 && vec_last(&m.spans).start_ns > NOW_NS)
        m.spans.len--;
    append_in_pieces(t, &f, &m, 0, 1000);
    flush(t, &f);
    CHECK(t, n_segments(&f) < 7 + 56);
    check_all(t, &f, &m);

    /* Too old to be kept: not an error, not stored. */
    struct store_span old = {.service = BYTES("a"), .start_ns = NOW_NS - 8 * DAY_NS};
    append(t, &f, &old, 1);
    CHECK_INT(t, local_of(f.store)->head->span_keys.len, 0);

    f.clock.wall_ns = NOW_NS + 4 * DAY_NS;
    f.clock.monotonic_ns += 4 * DAY_NS;
    struct store_span_find find = everything();
    find.from_ns = NOW_NS - 3 * DAY_NS;
    struct expected e = {.t = t, .all = &m, .find = find};
    find.from_ns = 0;
    CHECK_INT(t, store_spans(f.store, &find, compare_next, &e, &f.err), 0);
    CHECK_INT(t, e.n_found, count_asked(&m, &e.find));
    CHECK(t, e.n_found < m.spans.len);
    CHECK_INT(t, e.n_wrong, 0);

    /* And then their files go. */
    size_t before = n_segments(&f);
    while (store_upkeep(f.store, UPKEEP_EXPIRE, &f.err) > 0)
        ;
    CHECK(t, n_segments(&f) > 0 && n_segments(&f) < before);
    e.at = e.n_found = 0;
    CHECK_INT(t, store_spans(f.store, &find, compare_next, &e, &f.err), 0);
    CHECK_INT(t, e.n_found, count_asked(&m, &e.find));
    fixture_done(&f);
}

/* ---- Damage */

static void flip(struct fixture *f, uint64_t id, off_t at)
{
    char path[512];
    uint8_t byte;

    snprintf(path, sizeof(path), "%s/%s", f->dir.path, file_name("seg", id, "seg").text);
    CLEANUP(closep) int fd = open(path, O_RDWR);
    if (pread(fd, &byte, 1, at) != 1)
        abort();
    byte ^= 0x10;
    if (pwrite(fd, &byte, 1, at) != 1)
        abort();
}

static int count_span(void *ctx, const struct store_span *span)
{
    *(size_t *)ctx += span->start_ns > 0;
    return 0;
}

static void a_bad_block_costs_its_own_spans_only(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 100 * SEC_NS);
    span_maker_add(&m, 12000);
    append(t, &f, m.spans.data, m.spans.len);
    flush(t, &f);
    uint64_t id = local_of(f.store)->version->segments.data[0]->id;
    append(t, &f, m.spans.data, 1); /* known: the file is open and its blocks partly cached */
    struct store_span late = {.service = BYTES("z"), .start_ns = NOW_NS - 50 * SEC_NS};
    fixture_close(&f);
    flip(&f, id, 40000);
    CHECK_INT(t, fixture_open(&f), 0);
    size_t n = 0;
    struct store_span_find find = everything();
    CHECK_INT(t, store_spans(f.store, &find, count_span, &n, &f.err), -EBADMSG);
    CHECK(t, strstr(f.err.text, "the checksum of the block") != NULL);
    CHECK(t, n >= m.spans.len - 4096 && n < m.spans.len);
    CHECK(t, strstr(f.log, "its spans are left out") != NULL);

    /* It is not merged, and so nothing of it is lost for good. */
    append(t, &f, &late, 1);
    flush(t, &f);
    CHECK_INT(t, n_segments(&f), 2);
    compact_all(t, &f, NOW_NS + 3 * DAY_NS, true);
    CHECK_INT(t, n_segments(&f), 2);
    CHECK(t, strstr(f.log, "is not merged") != NULL);
    fixture_done(&f);
}

static void report(void *ctx, bool is_bad, const char *text)
{
    *(int *)ctx += is_bad && text[0];
}

static void finds_every_changed_byte_and_survives_it(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 10 * SEC_NS);
    span_maker_add(&m, 30);
    append(t, &f, m.spans.data, m.spans.len);
    fixture_close(&f);
    CHECK_INT(t, fixture_open(&f), 0);
    struct local *l = local_of(f.store);
    uint64_t id = l->version->segments.data[0]->id;
    off_t bytes = (off_t)l->version->segments.data[0]->bytes;
    int n_bad = 0, n_missed = 0;
    CHECK(t, span_file_verify(l, l->version->segments.data[0], report, &n_bad));
    CHECK_INT(t, n_bad, 0);
    for (off_t at = 0; at < bytes; at += 7) {
        fixture_close(&f);
        flip(&f, id, at);
        CHECK_INT(t, fixture_open(&f), 0);
        l = local_of(f.store);
        size_t n = 0;
        struct store_span_find find = everything();
        find.has_trace = at % 2;
        memcpy(find.trace_id, m.spans.data[0].trace_id, 16);
        int r = store_spans(f.store, &find, count_span, &n, &f.err);
        CHECK(t, r == -EBADMSG || (r == 0 && (find.has_trace || n == m.spans.len)));
        n_bad = 0;
        struct segment *s = l->version->segments.data[0];
        n_missed += span_file_verify(l, s, report, &n_bad) || n_bad == 0;
        flip(&f, id, at);
    }
    CHECK_INT(t, n_missed, 0);
    fixture_done(&f);
}

static void a_missing_file_is_named_once(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 10 * SEC_NS);
    span_maker_add(&m, 30);
    append(t, &f, m.spans.data, m.spans.len);
    flush(t, &f);
    uint64_t id = local_of(f.store)->version->segments.data[0]->id;
    fixture_close(&f);
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", f.dir.path, file_name("seg", id, "seg").text);
    CHECK_INT(t, unlink(path), 0);
    CHECK_INT(t, fixture_open(&f), 0);
    f.log[0] = '\0';
    for (int i = 0; i < 2; i++) {
        size_t n = 0;
        struct store_span_find find = everything();
        CHECK_INT(t, store_spans(f.store, &find, count_span, &n, &f.err), -EBADMSG);
        CHECK_INT(t, n, 0);
    }
    const char *first = strstr(f.log, "its spans are left out");
    CHECK(t, first && !strstr(first + 1, "its spans are left out"));
    /* What was lost can be sent again. */
    append(t, &f, m.spans.data, m.spans.len);
    size_t n = 0;
    struct store_span_find find = everything();
    CHECK_INT(t, store_spans(f.store, &find, count_span, &n, &f.err), -EBADMSG);
    CHECK_INT(t, n, m.spans.len);
    fixture_done(&f);
}

static void a_flush_that_fails_loses_nothing(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 10 * SEC_NS);
    span_maker_add(&m, 100);
    append(t, &f, m.spans.data, m.spans.len);
    f.fs->fail_write = ENOSPC;
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), -ENOSPC);
    CHECK_INT(t, n_segments(&f), 0);
    check_all(t, &f, &m);
    append(t, &f, NULL, 0);
    f.fs->fail_write = 0;
    append(t, &f, m.spans.data, m.spans.len); /* known in the frozen table */
    flush(t, &f);
    CHECK_INT(t, n_segments(&f), 1);
    check_all(t, &f, &m);
    f.fs->fail_write = ENOSPC;
    struct store_span other = m.spans.data[0];
    other.span_id[0] ^= 1;
    CHECK_INT(t, store_append_spans(f.store, TENANT, &other, 1, &f.err), -ENOSPC);
    check_all(t, &f, &m);
    f.fs->fail_write = 0;
    fixture_done(&f);
}

static void a_merge_that_fails_changes_nothing(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 10 * SEC_NS);
    for (size_t i = 0, n = 0; i < 2; i++) {
        span_maker_add(&m, n + 50);
        append_in_pieces(t, &f, &m, n, 100);
        n = m.spans.len;
        flush(t, &f);
    }
    f.fs->fail_write = EIO;
    CHECK_INT(t, compact(&f, NOW_NS, true), -EIO);
    f.fs->fail_write = 0;
    f.fs->free_bytes = 100;
    CHECK_INT(t, compact(&f, NOW_NS, true), -ENOSPC);
    CHECK(t, strstr(f.err.text, "half of the 100 that are free") != NULL);
    f.fs->free_bytes = 0;
    CHECK_INT(t, n_segments(&f), 2);
    check_all(t, &f, &m);
    CHECK_INT(t, compact(&f, NOW_NS, true), 1);
    CHECK_INT(t, n_segments(&f), 1);
    check_all(t, &f, &m);
    fixture_done(&f);
}

/* ---- Asking */

static int stop(void *ctx, const struct store_span *span)
{
    (void)span;
    ++*(size_t *)ctx;
    return -42;
}

static void stops_when_told_to(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 10 * SEC_NS);
    span_maker_add(&m, 30);
    append(t, &f, m.spans.data, m.spans.len);
    size_t n = 0;
    struct store_span_find find = everything();
    CHECK_INT(t, store_spans(f.store, &find, stop, &n, &f.err), -42);
    CHECK_INT(t, n, 1);
    atomic_bool cancelled = true;
    find.cancelled = &cancelled;
    CHECK_INT(t, store_spans(f.store, &find, stop, &n, &f.err), -ECANCELED);
    CHECK_STR(t, f.err.text, "the search for spans was cancelled");
    CHECK_INT(t, n, 1);
    local_of(f.store)->options.query_memory_limit = 1000;
    find.cancelled = NULL;
    CHECK_INT(t, store_spans(f.store, &find, stop, &n, &f.err), -ENOBUFS);
    fixture_done(&f);
}

struct worker {
    pthread_t thread;
    struct fixture *f;
    uint64_t seed;
    int r;
};

static void *append_many(void *arg)
{
    struct worker *w = arg;
    CLEANUP(span_maker_done) struct span_maker m;

    span_maker_init(&m, w->seed, NOW_NS - 10 * SEC_NS);
    span_maker_add(&m, 1000);
    m.spans.len = 1000;
    for (size_t i = 0; i < 1000 && w->r == 0; i += 50)
        w->r = store_append_spans(w->f->store, TENANT, m.spans.data + i, 50, NULL);
    return NULL;
}

static void *ask_and_merge(void *arg)
{
    struct worker *w = arg;
    struct store_span_find find = everything();

    for (int i = 0; i < 20 && w->r >= 0; i++) {
        size_t n = 0;
        w->r = store_spans(w->f->store, &find, count_span, &n, NULL);
        if (w->r == 0)
            w->r = store_upkeep(w->f->store, UPKEEP_FLUSH, NULL);
        if (w->r >= 0)
            w->r = compact(w->f, NOW_NS, true);
    }
    return NULL;
}

static void threads_append_ask_and_merge_at_once(struct test *t)
{
    FIXTURE(f, m, NOW_NS);
    struct worker workers[4];
    size_t n = 0;

    for (size_t i = 0; i < 4; i++) {
        workers[i] = (struct worker){.f = &f, .seed = i + 100};
        pthread_create(&workers[i].thread, NULL, i == 3 ? ask_and_merge : append_many, &workers[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(workers[i].thread, NULL);
        CHECK(t, workers[i].r >= 0);
    }
    struct store_span_find find = everything();
    CHECK_INT(t, store_spans(f.store, &find, count_span, &n, &f.err), 0);
    CHECK_INT(t, n, 3000);
    fixture_done(&f);
}

static void a_file_takes_few_bytes_a_span(struct test *t)
{
    FIXTURE(f, m, NOW_NS - 100 * SEC_NS);
    span_maker_add(&m, 40000);
    append_in_pieces(t, &f, &m, 0, 500);
    flush(t, &f);
    const struct segment *s = local_of(f.store)->version->segments.data[0];
    double n = (double)m.spans.len, ids = 10.5; /* a span id, and a trace id for 6.5 spans */
    printf("# %.1f bytes a span on disk, all included\n", (double)s->bytes / n);
    CHECK(t, (double)s->bytes / n <= 30 + ids);
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(finds_spans_at_once_in_the_order_of_starts),
    TEST(finds_them_after_a_crash_a_flush_and_a_restart),
    TEST(stores_a_batch_that_is_sent_again_once),
    TEST(the_same_id_at_another_time_is_another_span),
    TEST(tenants_do_not_see_each_other),
    TEST(refuses_what_is_over_a_limit_and_names_it),
    TEST(takes_more_than_a_record_at_once),
    TEST(merges_hours_and_days_when_they_are_over),
    TEST(merges_many_young_files),
    TEST(old_spans_go_by_days_and_are_not_seen_when_too_old),
    TEST(a_bad_block_costs_its_own_spans_only),
    TEST(finds_every_changed_byte_and_survives_it),
    TEST(a_missing_file_is_named_once),
    TEST(a_flush_that_fails_loses_nothing),
    TEST(a_merge_that_fails_changes_nothing),
    TEST(stops_when_told_to),
    TEST(threads_append_ask_and_merge_at_once),
    TEST(a_file_takes_few_bytes_a_span),
};
TEST_MAIN(cases)
