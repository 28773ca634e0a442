#include "otlp_helpers.h"

/* Writing OTLP: whatever was written must keep the rules and read back as what it was. */

/* Encodes, checks the message by the rules, and returns it. */
static struct buf encode(struct test *t, const struct profile_set *set, struct buf *losses)
{
    struct buf out = {0}, problems = {0};
    struct error err = {0};

    CHECK_INT(t, format_otlp.encode(set, &out, losses, &err), 0);
    CHECK_INT(t, otlp_check(buf_bytes(&out), &problems), set->profiles.len == 0);
    if (set->profiles.len > 0)
        CHECK_STR(t, buf_cstr(&problems), "");
    buf_done(&problems);
    return out;
}

static void check_round_trip(struct test *t, const struct profile_set *set)
{
    struct buf losses = {0}, out = encode(t, set, &losses), json = {0}, again = {0};
    struct error err = {0};

    CHECK_STR(t, buf_cstr(&losses), "");
    CHECK_SAME_TEXT(t, read_as_text(NULL, buf_bytes(&out)), dump_set(set));
    CHECK_INT(t, format_otlp_json.encode(set, &json, &losses, &err), 0);
    CHECK_SAME_TEXT(t, read_as_text(NULL, buf_bytes(&json)), dump_set(set));

    /* Writing what was read yields the same bytes: nothing depends on ids. */
    struct reading r;
    read_into(&r, NULL, buf_bytes(&out), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, format_otlp.encode(r.set, &again, &losses, &err), 0);
    CHECK_INT(t, again.len, out.len);
    reading_done(&r);
    buf_done(&losses);
    buf_done(&out);
    buf_done(&json);
    buf_done(&again);
}

static void writes_what_it_read_in_any_layout(struct test *t)
{
    for (int layout = V7; layout <= V10; layout++) {
        struct buf b = example(layout);
        struct reading r;
        read_into(&r, NULL, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
        CHECK_INT(t, r.result, 0);
        check_round_trip(t, r.set);
        reading_done(&r);
        buf_done(&b);
    }
}

/* A set that a test fills. */
struct making {
    struct budget budget;
    struct profile_set *set;
    struct dict *d;
};

static void making_init(struct making *m)
{
    budget_init(&m->budget, BUDGET_DEFAULT_BYTES);
    m->set = profile_set_new(&m->budget);
    m->d = m->set->dict;
}

static uint32_t str(struct making *m, const char *text)
{
    return dict_cstring(m->d, text);
}

static uint32_t stack_of(struct making *m, const char *leaf)
{
    uint32_t node = dict_frame(m->d, 0, (struct function){.name = str(m, "main")}, 3, 0, 0);
    return dict_frame(m->d, node, (struct function){.name = str(m, leaf)}, 7, 1, str(m, "native"));
}

static struct profile *heap_profile(struct making *m)
{
    struct profile *p = profile_set_add(m->set);

    profile_add_ctype(p, "alloc_objects", "count");
    profile_add_ctype(p, "alloc_space", "bytes");
    profile_add_ctype(p, "inuse_objects", "count");
    profile_add_ctype(p, "inuse_space", "bytes");
    p->time_unix_ns = 5000;
    p->duration_ns = 100;
    p->period = 512;
    p->period_type = (struct value_type){str(m, "space"), str(m, "bytes")};
    p->drop_frames = str(m, "malloc");
    p->keep_frames = str(m, "keep");
    p->doc_url = str(m, "http://doc");
    vec_push(&m->budget, &p->comments, str(m, "hello"));
    vec_push(&m->budget, &p->comments, 0);
    uint32_t key = str(m, "bytes"), tag = str(m, "tag");
    uint32_t ids[] = {dict_int_attribute(m->d, key, 16, str(m, "kb")),
                      dict_string_attribute(m->d, tag, str(m, "b")),
                      dict_string_attribute(m->d, tag, str(m, "a"))};
    uint32_t attrs = dict_attrs(m->d, ids, 3);
    uint32_t size = str(m, "size");
    uint32_t mixed[] = {dict_int_attribute(m->d, size, 5, 0), dict_int_attribute(m->d, size, -5, 0),
                        dict_string_attribute(m->d, size, str(m, "five"))};
    profile_add(p, &(struct sample){.node = stack_of(m, "f"),
                                    .attrs = attrs,
                                    .values = (int64_t[]){1, 2, 3, -4}});
    profile_add(p, &(struct sample){.node = stack_of(m, "g"), .values = (int64_t[]){0, 0, 0, 0}});
    profile_add(p, &(struct sample){.node = 0,
                                    .attrs = dict_attrs(m->d, mixed, 3),
                                    .values = (int64_t[]){1, 1, 1, 1}});
    return p;
}

static void writes_the_types_of_pprof_as_profiles_and_joins_them_again(struct test *t)
{
    struct making m;
    making_init(&m);
    heap_profile(&m);
    check_round_trip(t, m.set);
    profile_set_free(m.set);

    making_init(&m);
    struct profile *p = heap_profile(&m);
    p->default_type = str(&m, "inuse_objects");
    memset(p->profile_id, 7, sizeof(p->profile_id));
    p->dropped_attributes = 2;
    p->original_format = str(&m, "pprof");
    p->original_payload = str(&m, "xyz");
    heap_profile(&m)->resource_index = 1;
    check_round_trip(t, m.set);

    /* The default comes first, and the scope says where each was. */
    struct buf losses = {0}, json = {0};
    CHECK_INT(t, format_otlp_json.encode(m.set, &json, &losses, NULL), 0);
    CHECK(t, strstr(buf_cstr(&json),
                    "\"scope\":{\"attributes\":[{\"key\":\"pprof.scope.default_sample_type\","
                    "\"value\":{\"stringValue\":\"inuse_objects\"}},"
                    "{\"key\":\"pprof.scope.sample_type_order\",\"value\":{\"arrayValue\":"
                    "{\"values\":[{\"intValue\":\"2\"},{\"intValue\":\"0\"},{\"intValue\":\"1\"},"
                    "{\"intValue\":\"3\"}]}}}]}") != NULL);
    buf_done(&losses);
    buf_done(&json);
    profile_set_free(m.set);
}

static void keeps_profiles_apart_that_do_not_belong_together(struct test *t)
{
    static const char *const heads[] = {
        /* another number of types, not a permutation, not numbers, no order at all */
        "\"arrayValue\":{\"values\":[{\"intValue\":\"0\"}]}",
        "\"arrayValue\":{\"values\":[{\"intValue\":\"0\"},{\"intValue\":\"0\"}]}",
        "\"arrayValue\":{\"values\":[{\"intValue\":\"0\"},{\"intValue\":\"5\"}]}",
        "\"arrayValue\":{\"values\":[{\"stringValue\":\"0\"},{\"intValue\":\"1\"}]}",
        "\"stringValue\":\"0 1\"",
    };
    static const char *const pairs[] = {
        "{\"sampleType\":{\"typeStrindex\":1},\"samples\":[{\"values\":[1]}]},"
        "{\"sampleType\":{\"typeStrindex\":2},\"samples\":[{\"values\":[1]},{\"values\":[1]}]}",
        "{\"sampleType\":{\"typeStrindex\":1},\"samples\":[{\"values\":[1]}]},"
        "{\"sampleType\":{\"typeStrindex\":2},\"period\":4,\"samples\":[{\"values\":[1]}]}",
        "{\"sampleType\":{\"typeStrindex\":1},\"samples\":[{\"values\":[1]}]},"
        "{\"sampleType\":{\"typeStrindex\":1},\"samples\":[{\"values\":[1]}]}",
        "{\"sampleType\":{\"typeStrindex\":1},\"samples\":[{\"values\":[1]}]},"
        "{\"sampleType\":{\"typeStrindex\":2},\"profileId\":"
        "\"000102030405060708090a0b0c0d0e0f\",\"samples\":[{\"values\":[1]}]}",
        "{\"sampleType\":{\"typeStrindex\":1},\"samples\":[{\"values\":[1]}]},"
        "{\"sampleType\":{\"typeStrindex\":2},\"samples\":"
        "[{\"values\":[1],\"timestampsUnixNano\":[7]}]}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(heads) + ARRAY_SIZE(pairs); i++) {
        bool head = i < ARRAY_SIZE(heads);
        struct buf b = {0};
        buf_addf(&b,
                 "{\"dictionary\":{\"stringTable\":[\"\",\"a\",\"b\"]},\"resourceProfiles\":[{"
                 "\"scopeProfiles\":[{\"scope\":{\"attributes\":[{\"key\":"
                 "\"pprof.scope.sample_type_order\",\"value\":{%s}}]},\"profiles\":[%s]}]}]}",
                 head ? heads[i]
                      : "\"arrayValue\":{\"values\":[{\"intValue\":\"1\"},{\"intValue\":\"0\"}]}",
                 head
                     ? "{\"sampleType\":{\"typeStrindex\":1}},{\"sampleType\":{\"typeStrindex\":2}}"
                     : pairs[i - ARRAY_SIZE(heads)]);
        struct reading r;
        read_into(&r, NULL, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
        CHECK_STR(t, r.err.text, "");
        CHECK_INT(t, r.set->profiles.len, 2);
        if (r.set->profiles.len == 2)
            CHECK(t, r.set->profiles.data[0]->scope_attrs != 0);
        reading_done(&r);
        buf_done(&b);
    }
}

static struct profile *timed_profile(struct making *m)
{
    struct profile *p = profile_set_add(m->set);
    struct link link = {.trace_id = {1}, .span_id = {2}};

    profile_add_ctype(p, "events", "count");
    p->time_unix_ns = 100;
    p->duration_ns = 50;
    uint32_t node = stack_of(m, "f"), id = dict_link(m->d, link);
    for (uint64_t time = 100; time < 104; time++)
        profile_add(p, &(struct sample){.node = node,
                                        .link = time % 2 ? id : 0,
                                        .time_ns = time,
                                        .values = (int64_t[]){1}});
    return p;
}

static void writes_times_alone_where_every_value_is_one(struct test *t)
{
    struct making m;
    struct buf losses = {0}, json = {0};

    making_init(&m);
    struct profile *p = timed_profile(&m);
    CHECK_INT(t, format_otlp_json.encode(m.set, &json, &losses, NULL), 0);
    CHECK(t, strstr(buf_cstr(&json), "{\"stackIndex\":1,\"timestampsUnixNano\":[\"100\",\"102\"]},"
                                     "{\"stackIndex\":1,\"linkIndex\":1,"
                                     "\"timestampsUnixNano\":[\"101\",\"103\"]}") != NULL);
    p->values[0][3] = 5;
    buf_clear(&json);
    CHECK_INT(t, format_otlp_json.encode(m.set, &json, &losses, NULL), 0);
    CHECK(t, strstr(buf_cstr(&json), "\"values\":[\"1\",\"5\"],\"timestampsUnixNano\":"
                                     "[\"101\",\"103\"]") != NULL);
    CHECK_STR(t, buf_cstr(&losses), "");
    buf_done(&json);
    buf_done(&losses);
    profile_set_free(m.set);
}

static void sums_up_rows_without_times_that_are_one_sample(struct test *t)
{
    struct making m;
    struct buf losses = {0};
    struct reading r;

    making_init(&m);
    struct profile *p = profile_set_add(m.set);
    profile_add_ctype(p, "samples", "count");
    for (int64_t i = 1; i <= 3; i++)
        profile_add_value(p, stack_of(&m, i == 2 ? "g" : "f"), i);
    struct buf out = encode(t, m.set, &losses);
    read_into(&r, NULL, buf_bytes(&out), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, r.set->profiles.data[0]->n_samples, 2);
    CHECK_INT(t, r.set->profiles.data[0]->values[0][0], 4);
    reading_done(&r);
    buf_done(&out);
    buf_done(&losses);
    profile_set_free(m.set);
}

static void parts_rows_with_times_from_rows_without(struct test *t)
{
    struct making m;
    struct buf losses = {0};
    struct reading r;

    making_init(&m);
    struct profile *p = timed_profile(&m);
    profile_add_value(p, stack_of(&m, "g"), 9);
    struct buf out = encode(t, m.set, &losses);
    CHECK_STR(t, buf_cstr(&losses), "");
    read_into(&r, NULL, buf_bytes(&out), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, r.set->profiles.len, 2);
    if (r.set->profiles.len == 2) {
        CHECK_INT(t, r.set->profiles.data[0]->n_samples, 4);
        CHECK_INT(t, r.set->profiles.data[1]->n_samples, 1);
        CHECK_INT(t, r.set->profiles.data[1]->scope_index, 0);
    }
    reading_done(&r);
    buf_done(&out);
    buf_done(&losses);
    profile_set_free(m.set);
}

static void makes_the_window_hold_the_times(struct test *t)
{
    static const struct {
        int64_t time, duration, want_time, want_duration;
        const char *losses;
    } cases[] = {
        {0, 0, 100, 4, ""},
        {100, 4, 100, 4, ""},
        {101, 2, 100, 4, "the time and duration were widened to hold the times of all samples\n"},
        {90, -1, 90, 14, "the time and duration were widened to hold the times of all samples\n"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct making m;
        struct reading r;
        struct buf losses = {0};
        making_init(&m);
        struct profile *p = timed_profile(&m);
        p->time_unix_ns = cases[i].time;
        p->duration_ns = cases[i].duration;
        struct buf out = encode(t, m.set, &losses);
        CHECK_STR(t, buf_cstr(&losses), cases[i].losses);
        read_into(&r, NULL, buf_bytes(&out), BUDGET_DEFAULT_BYTES);
        CHECK_INT(t, r.set->profiles.data[0]->time_unix_ns, cases[i].want_time);
        CHECK_INT(t, r.set->profiles.data[0]->duration_ns, cases[i].want_duration);
        reading_done(&r);
        buf_done(&out);
        buf_done(&losses);
        profile_set_free(m.set);
    }
}

static void says_what_is_lost(struct test *t)
{
    struct making m;
    struct buf losses = {0};

    making_init(&m);
    struct profile *p = profile_set_add(m.set);
    profile_add_ctype(p, "samples", "count");
    p->is_cumulative = true;
    struct function f = {.name = str(&m, "caf\xe9 \xed\xa0\x80 \xf0\x9f\x98\x80"),
                         .start_line = -1};
    struct line line = {.function = dict_function(m.d, f), .line = -5};
    uint32_t mapping =
        dict_mapping(m.d, (struct mapping){.start = 5, .limit = 5, .file = str(&m, "x")});
    uint32_t unused = dict_mapping(m.d, (struct mapping){.limit = 9});
    uint32_t location = dict_location(m.d, (struct location){.mapping = mapping}, &line, 1);
    vec_push(&m.budget, &p->mappings, unused);
    uint32_t key = str(&m, "k");
    uint32_t labels[] = {dict_int_attribute(m.d, key, 1, str(&m, "a")),
                         dict_int_attribute(m.d, key, 2, str(&m, "b"))};
    uint32_t flags[] = {
        dict_attribute(m.d, (struct attribute){.key = key, .kind = ATTRIBUTE_BOOL}),
        dict_attribute(m.d, (struct attribute){.key = key, .number = 1, .kind = ATTRIBUTE_BOOL})};
    p->resource_attrs = dict_attrs(m.d, labels, 1);
    p->profile_attrs = dict_attrs(m.d, flags, 2);
    profile_add(p, &(struct sample){.node = dict_node(m.d, 0, location),
                                    .attrs = dict_attrs(m.d, labels, 2),
                                    .values = (int64_t[]){1}});
    struct buf out = {0};
    CHECK_INT(t, format_otlp.encode(m.set, &out, &losses, NULL), 0);
    CHECK_STR(t, buf_cstr(&losses),
              "bytes that are not UTF-8 were replaced\n"
              "negative line numbers were left out\n"
              "the addresses of mappings that end before they begin were left out\n"
              "mappings that no location refers to were left out\n"
              "units of resource and scope attributes were left out\n"
              "of attributes with the same key but another unit, or of a kind that is neither text "
              "nor a whole number, only the first was kept\n"
              "the mark that values count since the start of the process\n");
    char *text = read_as_text(NULL, buf_bytes(&out));
    CHECK(t, strstr(text, "caf\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd "
                          "\xf0\x9f\x98\x80") != NULL);
    free(text);
    buf_done(&out);
    buf_done(&losses);
    profile_set_free(m.set);
}

static void keeps_every_kind_of_attribute(struct test *t)
{
    struct making m;
    double d = 0.25;
    int64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    making_init(&m);
    struct profile *p = timed_profile(&m);
    uint32_t ids[] = {
        dict_attribute(m.d, (struct attribute){.key = str(&m, "none"), .kind = ATTRIBUTE_NONE}),
        dict_attribute(m.d, (struct attribute){.key = str(&m, "no"), .kind = ATTRIBUTE_BOOL}),
        dict_attribute(
            m.d,
            (struct attribute){.key = str(&m, "half"), .number = bits, .kind = ATTRIBUTE_DOUBLE}),
        dict_attribute(m.d, (struct attribute){.key = str(&m, "raw"),
                                               .text = str(&m, "\xff"),
                                               .kind = ATTRIBUTE_BYTES}),
        dict_attribute(m.d, (struct attribute){.key = str(&m, "list"),
                                               .text = str(&m, "\x2a\x04\x0a\x02\x18\x05"),
                                               .kind = ATTRIBUTE_OTHER}),
        dict_string_attribute(m.d, str(&m, "empty"), 0),
        dict_int_attribute(m.d, 0, -3, 0),
    };
    p->resource_attrs = p->scope_attrs = p->profile_attrs = dict_attrs(m.d, ids, ARRAY_SIZE(ids));
    p->scope_name = str(&m, "scope");
    p->resource_dropped_attributes = 1;
    p->scope_schema_url = str(&m, "u");
    for (size_t i = 0; i < p->n_samples; i++)
        p->link[i] = 0;
    check_round_trip(t, m.set);
    profile_set_free(m.set);
}

static void writes_frames_of_which_nothing_is_known(struct test *t)
{
    struct making m;
    making_init(&m);
    struct profile *p = profile_set_add(m.set);
    profile_add_ctype(p, "samples", "count");
    uint32_t unknown = dict_location(m.d, (struct location){0}, NULL, 0);
    profile_add_value(p, dict_node(m.d, stack_of(&m, "f"), unknown), 3);
    check_round_trip(t, m.set);
    profile_set_free(m.set);
}

static void writes_sets_without_samples_and_without_profiles(struct test *t)
{
    struct making m;
    making_init(&m);
    struct buf losses = {0}, out = encode(t, m.set, &losses);
    CHECK_SAME_TEXT(t, read_as_text(&format_otlp, buf_bytes(&out)), strdup(""));
    buf_done(&out);
    profile_set_add(m.set);
    out = encode(t, m.set, &losses);
    struct reading r;
    read_into(&r, NULL, buf_bytes(&out), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, r.set->profiles.len, 1);
    reading_done(&r);
    buf_done(&out);
    buf_done(&losses);
    profile_set_free(m.set);
}

static const struct test_case cases[] = {
    TEST(writes_what_it_read_in_any_layout),
    TEST(writes_the_types_of_pprof_as_profiles_and_joins_them_again),
    TEST(keeps_profiles_apart_that_do_not_belong_together),
    TEST(writes_times_alone_where_every_value_is_one),
    TEST(sums_up_rows_without_times_that_are_one_sample),
    TEST(parts_rows_with_times_from_rows_without),
    TEST(makes_the_window_hold_the_times),
    TEST(says_what_is_lost),
    TEST(keeps_every_kind_of_attribute),
    TEST(writes_frames_of_which_nothing_is_known),
    TEST(writes_sets_without_samples_and_without_profiles),
};
TEST_MAIN(cases)
