#include <errno.h>

#include "base/cleanup.h"
#include "formats/formats.h"
#include "lib/test.h"
#include "scrape/turn.h"

#define SECOND_NS ((int64_t)1000000000)

/* A heap profile as Go has it: {function, alloc_objects, alloc_space, inuse_objects, inuse_space}.
 */
struct row {
    const char *name;
    int64_t values[4];
};

static const char *const heap_types[][2] = {{"alloc_objects", "count"},
                                            {"alloc_space", "bytes"},
                                            {"inuse_objects", "count"},
                                            {"inuse_space", "bytes"}};
static const char *const mutex_types[][2] = {{"contentions", "count"}, {"delay", "nanoseconds"}};

static void make(struct buf *out, const char *const (*types)[2], size_t n_types,
                 const struct row *rows, size_t n_rows)
{
    CLEANUP(buf_done) struct buf losses = {0};
    struct budget budget;
    struct error err = {""};

    budget_init(&budget, 1 << 24);
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&budget);
    struct profile *p = profile_set_add(set);
    for (size_t i = 0; i < n_types; i++)
        profile_add_ctype(p, types[i][0], types[i][1]);
    for (size_t i = 0; i < n_rows; i++) {
        struct function f = {.name = dict_cstring(set->dict, rows[i].name),
                             .file = dict_cstring(set->dict, "/src/main.go")};
        profile_add(p, &(struct sample){.node = dict_frame(set->dict, 0, f, 7, 0, 0),
                                        .values = rows[i].values});
    }
    p->time_unix_ns = 77 * SECOND_NS;
    if (format_pprof.encode(set, out, &losses, &err) < 0)
        abort();
}

static const struct scrape_kind heap = {
    .name = "heap", .path = "/x", .is_cumulative = true, .is_builtin = true};
static const struct scrape_kind mutex = {
    .name = "mutex", .path = "/x", .is_cumulative = true, .is_builtin = true};
static const struct scrape_kind cpu = {
    .name = "cpu", .path = "/x", .seconds = 10, .is_builtin = true};

struct turned {
    struct buf otlp;
    struct turn_result result;
    struct error err;
    struct budget budget;
    struct profile_set *set;
    int r;
};

static void turn(struct turned *t, const struct scrape_kind *kind, const struct buf *before,
                 const struct buf *now)
{
    struct tags tags = {0};

    tags_set(&tags, BYTES("job"), BYTES("shop"));
    tags_set(&tags, BYTES("instance"), BYTES("h:1"));
    tags_set(&tags, BYTES("env"), BYTES("prod"));
    *t = (struct turned){0};
    t->r =
        turn_profile(&(struct turn_input){.kind = kind,
                                          .tags = &tags,
                                          .url = "http://h:1/x",
                                          .body = buf_bytes(now),
                                          .before = before ? buf_bytes(before) : (struct bytes){0},
                                          .before_ns = 1000 * SECOND_NS,
                                          .start_ns = 1010 * SECOND_NS,
                                          .end_ns = 1020 * SECOND_NS,
                                          .memory_max = 1 << 24},
                     &t->otlp, &t->result, &t->err);
    tags_done(&tags);
    budget_init(&t->budget, 1 << 24);
    t->set = profile_set_new(&t->budget);
    if (t->otlp.len > 0) {
        CLEANUP(input_closep)
        struct input *in = input_from_bytes(buf_bytes(&t->otlp), "otlp", &t->budget);
        if (format_read(in, &format_otlp, t->set, NULL, &t->err) < 0)
            abort();
    }
}

static void turned_done(struct turned *t)
{
    profile_set_free(t->set);
    buf_done(&t->otlp);
}

/* "type=total ..." of a profile. */
static const char *totals(const struct profile *p, char text[256])
{
    int n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < p->n_types; i++)
        n += snprintf(text + n, 256 - (size_t)n, "%s%s=%lld", i ? " " : "",
                      dict_cstr(p->dict, p->types[i].type), (long long)profile_total(p, i));
    return text;
}

static const char *attribute(const struct profile *p, const char *key)
{
    struct dict *d = p->dict;
    uint32_t id = dict_attrs_get(d, p->resource_attrs, dict_find_string(d, bytes_of(key)));

    return id ? dict_cstr(d, d->attributes.data[id].text) : "(none)";
}

static void the_first_heap_profile_tells_what_is_live_only(struct test *t)
{
    CLEANUP(buf_done) struct buf now = {0};
    CLEANUP(turned_done) struct turned got;
    char text[256];

    make(&now, heap_types, 4, (struct row[]){{"a", {10, 1000, 1, 100}}, {"b", {5, 50, 0, 0}}}, 2);
    turn(&got, &heap, NULL, &now);
    CHECK_INT(t, got.r, 0);
    CHECK_STR(t, got.err.text, "");
    CHECK_INT(t, got.set->profiles.len, 1);
    if (got.set->profiles.len != 1)
        return;
    const struct profile *p = got.set->profiles.data[0];
    CHECK_STR(t, totals(p, text), "inuse_objects=1 inuse_space=100");
    CHECK_INT(t, p->n_samples, 1);
    CHECK_INT(t, p->time_unix_ns, 1020 * SECOND_NS);
    CHECK_STR(t, attribute(p, "service.name"), "shop");
    CHECK_STR(t, attribute(p, "service.instance.id"), "h:1");
    CHECK_STR(t, attribute(p, "env"), "prod");
    CHECK_STR(t, attribute(p, "process.runtime.name"), "go");
    CHECK_STR(t, attribute(p, "profile.kind"), "(none)");
}

static void the_next_tells_what_was_added(struct test *t)
{
    CLEANUP(buf_done) struct buf before = {0}, now = {0};
    CLEANUP(turned_done) struct turned got;
    char text[256];

    make(&before, heap_types, 4, (struct row[]){{"a", {10, 1000, 1, 100}}, {"b", {5, 50, 0, 0}}},
         2);
    make(&now, heap_types, 4,
         (struct row[]){{"b", {5, 50, 0, 0}}, {"a", {13, 1300, 2, 200}}, {"c", {1, 7, 1, 7}}}, 3);
    turn(&got, &heap, &before, &now);
    CHECK_INT(t, got.r, 0);
    CHECK(t, !got.result.is_reset);
    CHECK_INT(t, got.set->profiles.len, 2);
    if (got.set->profiles.len != 2)
        return;
    const struct profile *live = got.set->profiles.data[0], *added = got.set->profiles.data[1];
    CHECK_STR(t, totals(live, text), "inuse_objects=3 inuse_space=207");
    CHECK_STR(t, totals(added, text), "alloc_objects=4 alloc_space=307");
    CHECK_INT(t, added->n_samples, 2); /* b is as it was */
    CHECK_INT(t, added->time_unix_ns, 1000 * SECOND_NS);
    CHECK_INT(t, added->duration_ns, 20 * SECOND_NS);
    CHECK_INT(t, live->duration_ns, 0);
}

static void a_process_that_began_anew_is_seen(struct test *t)
{
    CLEANUP(buf_done) struct buf before = {0}, now = {0}, other = {0};
    CLEANUP(turned_done) struct turned fell = {0}, gone = {0};
    char text[256];

    make(&before, heap_types, 4, (struct row[]){{"a", {10, 1000, 1, 100}}, {"b", {5, 50, 0, 0}}},
         2);
    make(&now, heap_types, 4, (struct row[]){{"a", {2, 200, 2, 200}}}, 1);
    turn(&fell, &heap, &before, &now);
    CHECK(t, fell.result.is_reset);
    CHECK_INT(t, fell.set->profiles.len, 1);
    CHECK_STR(t, totals(fell.set->profiles.data[0], text), "inuse_objects=2 inuse_space=200");
    /* More than before, but of other code. */
    make(&other, heap_types, 4, (struct row[]){{"z", {100, 100000, 1, 1}}}, 1);
    turn(&gone, &heap, &before, &other);
    CHECK(t, gone.result.is_reset);
    CHECK_INT(t, gone.set->profiles.len, 1);
}

static void where_nothing_was_added_nothing_is_sent(struct test *t)
{
    CLEANUP(buf_done) struct buf before = {0}, more = {0};
    CLEANUP(turned_done) struct turned same = {0}, first = {0}, next = {0};
    char text[256];

    make(&before, mutex_types, 2, (struct row[]){{"a", {10, 1000}}}, 1);
    turn(&same, &mutex, &before, &before);
    CHECK_INT(t, same.r, 0);
    CHECK_INT(t, same.otlp.len, 0);
    turn(&first, &mutex, NULL, &before);
    CHECK_INT(t, first.otlp.len, 0);
    make(&more, mutex_types, 2, (struct row[]){{"a", {11, 1500}}}, 1);
    turn(&next, &mutex, &before, &more);
    CHECK_INT(t, next.set->profiles.len, 1);
    CHECK_STR(t, totals(next.set->profiles.data[0], text), "contentions=1 delay=500");
    CHECK_STR(t, attribute(next.set->profiles.data[0], "profile.kind"), "mutex");
}

static void a_window_is_sent_as_it_is(struct test *t)
{
    static const char *const types[][2] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    CLEANUP(buf_done) struct buf now = {0};
    CLEANUP(turned_done) struct turned got;
    char text[256];

    make(&now, types, 2, (struct row[]){{"a", {3, 30000000}}}, 1);
    turn(&got, &cpu, NULL, &now);
    CHECK_INT(t, got.set->profiles.len, 1);
    const struct profile *p = got.set->profiles.data[0];
    CHECK_STR(t, totals(p, text), "samples=3 cpu=30000000");
    /* Our clock, whatever that of the target says. */
    CHECK_INT(t, p->time_unix_ns, 1010 * SECOND_NS);
    CHECK_INT(t, p->duration_ns, 10 * SECOND_NS);
}

static void what_is_no_profile_is_refused(struct test *t)
{
    static const struct {
        const char *body, *want;
    } cases[] = {
        {"<html><body>login</body></html>",
         "http://h:1/x answered no pprof profile but \"<html><body>login</body></html>\""},
        {"", "http://h:1/x answered no pprof profile but nothing"},
        {"\x01\x02\x03", "http://h:1/x answered no pprof profile but other bytes"},
        {"main;parse 5\n", "http://h:1/x answered no pprof profile but \"main;parse 5\""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(buf_done) struct buf body = {0};
        CLEANUP(turned_done) struct turned got;
        buf_add_str(&body, cases[i].body);
        turn(&got, &cpu, NULL, &body);
        CHECK_INT(t, got.r, -EBADMSG);
        CHECK_STR(t, got.err.text, cases[i].want);
        CHECK_INT(t, got.otlp.len, 0);
    }
}

static void every_limit_of_memory_fails_cleanly(struct test *t)
{
    CLEANUP(buf_done) struct buf before = {0}, now = {0};
    struct tags tags = {0};
    int r = -ENOBUFS;

    make(&before, heap_types, 4, (struct row[]){{"a", {10, 1000, 1, 100}}, {"b", {5, 50, 0, 0}}},
         2);
    make(&now, heap_types, 4, (struct row[]){{"a", {13, 1300, 2, 200}}, {"b", {5, 50, 0, 0}}}, 2);
    tags_set(&tags, BYTES("job"), BYTES("shop"));
    for (uint64_t max = 0; r == -ENOBUFS && max < 1 << 22; max += 997) {
        CLEANUP(buf_done) struct buf otlp = {0};
        struct turn_result result;
        struct error err = {""};
        r = turn_profile(&(struct turn_input){.kind = &heap,
                                              .tags = &tags,
                                              .url = "u",
                                              .body = buf_bytes(&now),
                                              .before = buf_bytes(&before),
                                              .end_ns = 1,
                                              .memory_max = max},
                         &otlp, &result, &err);
        CHECK(t, (r == 0) == (err.text[0] == '\0'));
        CHECK(t, r == 0 || otlp.len == 0);
    }
    CHECK_INT(t, r, 0);
    tags_done(&tags);
}

static const struct test_case cases[] = {
    TEST(the_first_heap_profile_tells_what_is_live_only),
    TEST(the_next_tells_what_was_added),
    TEST(a_process_that_began_anew_is_seen),
    TEST(where_nothing_was_added_nothing_is_sent),
    TEST(a_window_is_sent_as_it_is),
    TEST(what_is_no_profile_is_refused),
    TEST(every_limit_of_memory_fails_cleanly),
};
TEST_MAIN(cases)
