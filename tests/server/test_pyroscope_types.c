#include <errno.h>

#include "lib/test.h"
#include "server/pyroscope_types.h"

/* A series of one type, "type:unit:period type:period unit", and perhaps a kind. */
struct one {
    struct label label;
    struct store_type type;
    struct store_series series;
};

static const struct store_series *series(struct one *o, const char *const parts[4],
                                         const char *kind)
{
    o->label = (struct label){BYTES(LABEL_PROFILE_KIND), bytes_of(kind)};
    o->type = (struct store_type){bytes_of(parts[0]), bytes_of(parts[1])};
    o->series = (struct store_series){.labels = &o->label,
                                      .n_labels = kind[0] ? 1 : 0,
                                      .types = &o->type,
                                      .n_types = 1,
                                      .period_type = {bytes_of(parts[2]), bytes_of(parts[3])}};
    return &o->series;
}

static void ids_are_those_that_pyroscope_gives(struct test *t)
{
    static const struct {
        const char *parts[4], *kind, *id;
    } cases[] = {
        {{"cpu", "nanoseconds", "cpu", "nanoseconds"},
         "",
         "process_cpu:cpu:nanoseconds:cpu:nanoseconds"},
        {{"samples", "count", "cpu", "nanoseconds"},
         "",
         "process_cpu:samples:count:cpu:nanoseconds"},
        {{"samples", "count", "wall", "nanoseconds"}, "", "wall:samples:count:wall:nanoseconds"},
        {{"wall", "nanoseconds", "wall", "nanoseconds"},
         "",
         "wall:wall:nanoseconds:wall:nanoseconds"},
        {{"alloc_space", "bytes", "space", "bytes"}, "", "memory:alloc_space:bytes:space:bytes"},
        {{"inuse_objects", "count", "space", "bytes"},
         "",
         "memory:inuse_objects:count:space:bytes"},
        {{"goroutine", "count", "goroutine", "count"},
         "",
         "goroutine:goroutine:count:goroutine:count"},
        {{"contentions", "count", "contentions", "count"},
         "",
         "mutex:contentions:count:contentions:count"},
        {{"delay", "nanoseconds", "contentions", "count"},
         "block",
         "block:delay:nanoseconds:contentions:count"},
        {{"delay", "nanoseconds", "block", "count"}, "", "block:delay:nanoseconds:block:count"},
        {{"cycles:u", "count", "", ""}, "", "cycles_u:cycles:u:count::"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct one o;
        struct buf id = {0};
        struct error err;
        struct pyroscope_type back;
        const struct store_series *s = series(&o, cases[i].parts, cases[i].kind);
        pyroscope_series_id(s, 0, &id);
        CHECK_STR(t, buf_cstr(&id), cases[i].id);
        CHECK_INT(t, pyroscope_type_parse(buf_bytes(&id), &back, &err), 0);
        CHECK(t, bytes_are(back.type, cases[i].parts[0]));
        CHECK(t, bytes_are(back.period_unit, cases[i].parts[3]));
        buf_done(&id);
    }
}

static void a_name_selects_what_says_it_and_what_implies_it(struct test *t)
{
    static const struct {
        const char *id, *matcher;
    } cases[] = {
        {"mutex:contentions:count:contentions:count", "profile.kind=~\"|mutex\""},
        {"block:contentions:count:contentions:count", "profile.kind=\"block\""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct pyroscope_type type;
        struct error err;
        struct buf out = {0};
        CHECK_INT(t, pyroscope_type_parse(bytes_of(cases[i].id), &type, &err), 0);
        pyroscope_type_matcher(&type, &out);
        CHECK_STR(t, buf_cstr(&out), cases[i].matcher);
        buf_done(&out);
    }
}

static void what_is_no_id_is_refused(struct test *t)
{
    static const char *const texts[] = {
        "", ":", "cpu", "a:b", "a:b:c", "a:b:c:d", "a::c:d:e", "a b:c:d:e:f", "a\":b:c:d:e",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct pyroscope_type type;
        struct error err = {0};
        CHECK_INT(t, pyroscope_type_parse(bytes_of(texts[i]), &type, &err), -EINVAL);
        CHECK(t, strstr(err.text, "is not a profile type: expected NAME:TYPE") != NULL);
    }
}

static const struct test_case cases[] = {
    TEST(ids_are_those_that_pyroscope_gives),
    TEST(a_name_selects_what_says_it_and_what_implies_it),
    TEST(what_is_no_id_is_refused),
};
TEST_MAIN(cases)
