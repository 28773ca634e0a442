#include <errno.h>

#include "lib/decode.h"

#define FORMAT (&format_speedscope)

#define FRAMES                                                                                     \
    "\"shared\":{\"x\":0,\"frames\":[{\"name\":\"a\"},{\"name\":\"b\",\"file\":\"b.c\",\"line\":"  \
    "7,"                                                                                           \
    "\"col\":2,\"y\":0},{\"name\":\"c\",\"line\":null,\"col\":null}]}"
#define SAMPLED                                                                                    \
    "{\"type\":\"sampled\",\"name\":\"one\",\"unit\":\"milliseconds\",\"startValue\":1,"           \
    "\"endValue\":6,\"samples\":[[0,1],[0,1,2],[],[0]],\"weights\":[1,2.5,0.5,1],\"z\":0}"
#define EVENTED                                                                                    \
    "{\"endValue\":14,\"events\":[{\"type\":\"O\",\"frame\":0,\"at\":1},{\"type\":\"O\","          \
    "\"frame\":2,"                                                                                 \
    "\"at\":3},{\"type\":\"C\",\"frame\":2,\"at\":3},{\"type\":\"O\",\"frame\":1,\"at\":4,\"w\":"  \
    "0},"                                                                                          \
    "{\"type\":\"C\",\"frame\":1,\"at\":9},{\"type\":\"C\",\"frame\":0,\"at\":10},"                \
    "{\"type\":\"O\",\"frame\":1,\"at\":12},{\"type\":\"C\",\"frame\":1,\"at\":13}],"              \
    "\"name\":\"two\",\"startValue\":0,\"type\":\"evented\",\"unit\":\"none\"}"

static const char both[] = "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
                           "\"profiles\":[" SAMPLED "," EVENTED "]," FRAMES "}";

static void reads_samples_and_events_whatever_comes_first(struct test *t)
{
    static const char *const texts[] = {both, "{" FRAMES ",\"profiles\":[" SAMPLED "," EVENTED
                                              "],\"exporter\":\"x\"}"};
    for (size_t i = 0; i < 2; i++) {
        struct decoded d;
        decode_text(&d, NULL, texts[i]);
        CHECK_INT(t, d.r, 0);
        CHECK_STR(t, d.format->name, "speedscope");
        CHECK_INT(t, d.set->profiles.len, 2);
        const struct profile *one = d.set->profiles.data[0], *two = d.set->profiles.data[1];
        CHECK_INT(t, decoded_total(t, &d, "wall", "nanoseconds"), 5000000);
        CHECK_INT(t, one->duration_ns, 5000000);
        CHECK_INT(t, one->n_samples, 4);
        CHECK_STACK(t, one->dict, one->node[1], "a;b;c");
        CHECK_STACK(t, one->dict, one->node[2], "");
        CHECK_INT(t, one->values[0][1], 2500000);
        CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 10);
        CHECK_INT(t, two->n_samples, 5);
        CHECK_STACK(t, two->dict, two->node[0], "a");
        CHECK_INT(t, two->values[0][0], 2);
        CHECK_STACK(t, two->dict, two->node[2], "a;b");
        CHECK_INT(t, two->values[0][2], 5);
        CHECK_STACK(t, two->dict, two->node[4], "b");
        uint32_t key = dict_find_string(d.set->dict, BYTES("profile.name"));
        uint32_t id = dict_attrs_get(d.set->dict, two->attrs[0], key);
        CHECK_STR(t, dict_cstr(d.set->dict, d.set->dict->attributes.data[id].text), "two");
        decoded_done(t, &d);
    }
}

static void keeps_the_places_of_frames(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, "{" FRAMES ",\"profiles\":[" SAMPLED "]}");
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[0];
    const struct dict *dict = d.set->dict;
    const struct location *l = &dict->locations.data[dict->node_location.data[p->node[0]]];
    const struct line *line = &dict->lines.data[l->first_line];
    CHECK_INT(t, line->line, 7);
    CHECK_INT(t, line->column, 2);
    CHECK_STR(t, dict_cstr(dict, dict->functions.data[line->function].file), "b.c");
    CHECK(t, p->attrs == NULL);
    decoded_done(t, &d);
}

static void knows_every_unit(struct test *t)
{
    static const struct {
        const char *unit, *type, *our_unit;
        int64_t total;
    } units[] = {
        {"none", "samples", "count", 3},
        {"nanoseconds", "wall", "nanoseconds", 3},
        {"microseconds", "wall", "nanoseconds", 3000},
        {"milliseconds", "wall", "nanoseconds", 3000000},
        {"seconds", "wall", "nanoseconds", 3000000000},
        {"bytes", "space", "bytes", 3},
    };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        struct buf text = {0};
        struct decoded d;
        buf_addf(&text,
                 "{" FRAMES ",\"profiles\":[{\"weights\":[3],\"samples\":[[0]],\"unit\":\"%s\","
                 "\"type\":\"sampled\"}]}",
                 units[i].unit);
        decode_bytes(&d, NULL, buf_bytes(&text), (size_t)1 << 24);
        CHECK_INT(t, d.r, 0);
        CHECK_INT(t, decoded_total(t, &d, units[i].type, units[i].our_unit), units[i].total);
        decoded_done(t, &d);
        buf_done(&text);
    }
}

static void says_when_a_fraction_was_rounded(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "{" FRAMES
                ",\"profiles\":[{\"type\":\"sampled\",\"unit\":\"none\",\"samples\":[[0],"
                "[1]],\"weights\":[0.6,1]}]}");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 2);
    CHECK(t, has_note(&d, "values with a fraction were rounded"));
    decoded_done(t, &d);
}

#define WITH(profile) "{\"shared\":{\"frames\":[{\"name\":\"a\"}]},\"profiles\":[" profile "]}"

static void refuses_what_contradicts_itself_and_says_where(struct test *t)
{
    static const struct refusal wrong[] = {
        {"{}", "byte 2: there are no \"profiles\""},
        {WITH("{}"), "byte 48: a profile has no type"},
        {WITH("{\"type\":\"x\"}"), "byte 59: a profile is neither sampled nor evented"},
        {WITH("{\"unit\":\"hours\"}"), "byte 63: the unit is none of the format's"},
        {WITH("{\"type\":\"sampled\",\"samples\":[[0],[0]],\"weights\":[1]}"),
         "byte 48: a profile has 2 samples and 1 weights"},
        {WITH("{\"type\":\"sampled\",\"samples\":[[1]],\"weights\":[1]}"),
         "byte 80: frame 1 does not exist: there are 1"},
        {WITH("{\"type\":\"sampled\",\"samples\":[[-1]],\"weights\":[1]}"),
         "byte 81: there cannot be a frame -1"},
        {WITH("{\"type\":\"sampled\",\"samples\":[],\"events\":[]}"),
         "byte 88: a profile has more than one list of samples or events"},
        {WITH("{\"type\":\"sampled\",\"unit\":\"seconds\",\"samples\":[[0]],\"weights\":[1e12]}"),
         "byte 48: a value is out of range"},
        {WITH("{\"events\":[{\"type\":\"O\",\"frame\":0,\"at\":5},{\"type\":\"C\",\"frame\":0,"
              "\"at\":4}]}"),
         "byte 89: an event is earlier than the one before it"},
        {WITH("{\"events\":[{\"type\":\"C\",\"frame\":0,\"at\":5}]}"),
         "byte 59: frame 0 is closed but is not the innermost open one"},
        {WITH("{\"events\":[{\"type\":\"O\",\"frame\":0,\"at\":5},{\"type\":\"C\",\"frame\":1,"
              "\"at\":6}]}"),
         "byte 89: frame 1 is closed but is not the innermost open one"},
        {WITH("{\"events\":[{\"type\":\"O\",\"frame\":0,\"at\":5}]}"),
         "byte 89: the events end with 1 frames open"},
        {WITH("{\"events\":[{\"type\":\"Q\",\"frame\":0,\"at\":5}]}"),
         "byte 59: an event is neither of type O nor C"},
        {WITH("{\"events\":[{\"type\":\"O\",\"at\":5}]}"), "byte 59: an event names no frame"},
        {WITH("{\"weights\":[1e999]}"), "byte 65: a number is out of range for a double"},
    };

    check_refusals(t, FORMAT, "speedscope at ", wrong, ARRAY_SIZE(wrong));
}

/* A profile with two types, an inlined frame, a frame without a name, labels and times. */
static void build(struct profile_set *set)
{
    struct dict *d = set->dict;
    struct profile *p = profile_set_add(set);
    uint32_t f = dict_function(d, (struct function){.name = dict_cstring(d, "f"),
                                                    .file = dict_cstring(d, "f.c"),
                                                    .start_line = 3});
    uint32_t g = dict_function(d, (struct function){.name = dict_cstring(d, "g")});
    uint32_t m = dict_mapping(d, (struct mapping){.file = dict_cstring(d, "/bin/prog")});
    struct line inlined[] = {{g, 8, 0}, {f, 4, 0}};
    uint32_t named = dict_location(d, (struct location){.address = 0x10, .mapping = m}, inlined, 2);
    uint32_t unnamed = dict_location(d, (struct location){.address = 0x20, .mapping = m}, NULL, 0);
    uint32_t unknown = dict_location(d, (struct location){.address = 0}, NULL, 0);
    (void)dict_location(d, (struct location){.address = 0x30, .mapping = m}, NULL, 0); /* unused */
    uint32_t outer = dict_node(d, 0, named), inner = dict_node(d, outer, unnamed);

    profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "cpu", "nanoseconds");
    profile_add_ctype(p, "loops", "furlongs");
    p->default_type = dict_cstring(d, "cpu");
    profile_add(p, &(struct sample){.node = inner, .values = (int64_t[]){1, 10, 0}});
    profile_add(p, &(struct sample){.node = outer, .values = (int64_t[]){1, 20, 0}});
    profile_add(p, &(struct sample){.node = inner, .values = (int64_t[]){1, 30, 0}});
    profile_add(p,
                &(struct sample){.node = dict_node(d, 0, unknown), .values = (int64_t[]){0, 0, 4}});
}

static void writes_one_profile_per_sample_type(struct test *t)
{
    struct budget b;
    budget_init(&b, 1 << 24);
    struct profile_set *set = profile_set_new(&b);
    struct buf out = {0}, lost = {0};
    struct error err = {""};

    build(set);
    CHECK_INT(t, FORMAT->encode(set, &out, &lost, &err), 0);
    CHECK_STR(
        t, buf_cstr(&out),
        "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
        "\"exporter\":\"vesta@" VESTA_VERSION "\",\"activeProfileIndex\":1,"
        "\"shared\":{\"frames\":[{\"name\":\"f\",\"file\":\"f.c\",\"line\":3},{\"name\":\"g\"},"
        "{\"name\":\"prog+0x20\"},{\"name\":\"[unknown]\"}]},\"profiles\":["
        "{\"type\":\"sampled\",\"name\":\"samples\",\"unit\":\"none\","
        "\"samples\":[[0,1],[0,1,2]],\"weights\":[1,2],\"startValue\":0,\"endValue\":3},"
        "{\"type\":\"sampled\",\"name\":\"cpu\",\"unit\":\"nanoseconds\","
        "\"samples\":[[0,1],[0,1,2]],\"weights\":[20,40],\"startValue\":0,\"endValue\":60},"
        "{\"type\":\"sampled\",\"name\":\"loops\",\"unit\":\"none\","
        "\"samples\":[[3]],\"weights\":[4],\"startValue\":0,\"endValue\":4}]}");
    CHECK_STR(t, buf_cstr(&lost),
              "addresses and mappings of frames that have names\n"
              "line numbers within functions\nunits that the format does not know\n"
              "that sample types are of the same samples (each is a profile)\n");
    buf_done(&out);
    buf_done(&lost);
    profile_set_free(set);
    CHECK_INT(t, b.used, 0);
}

static void writes_samples_in_order_of_time_and_names_what_is_lost(struct test *t)
{
    struct budget b;
    budget_init(&b, 1 << 24);
    struct profile_set *set = profile_set_new(&b);
    struct buf out = {0}, lost = {0};
    struct error err = {""};
    struct dict *d = set->dict;
    uint32_t x = dict_frame(d, 0, (struct function){.name = dict_cstring(d, "x")}, 0, 0, 0);
    uint32_t y = dict_frame(d, 0, (struct function){.name = dict_cstring(d, "y")}, 0, 0, 0);
    uint32_t label = dict_int_attribute(d, dict_cstring(d, "thread.id"), 7, 0);

    for (int i = 0; i < 2; i++) {
        struct profile *p = profile_set_add(set);
        profile_add_ctype(p, "alloc", "bytes");
        if (i == 0)
            p->profile_attrs = dict_attrs(d, &label, 1);
        struct sample s = {.attrs = p->profile_attrs,
                           .link = dict_link(d, (struct link){.span_id = {1}})};
        static const struct {
            int is_x;
            uint64_t time;
            int64_t value;
        } rows[] = {{1, 30, 1}, {0, 20, 2}, {1, 10, 4}, {1, 10, 8}, {0, 40, -5}};
        for (size_t k = 0; k < 5; k++) {
            s.node = rows[k].is_x ? x : y;
            s.time_ns = rows[k].time;
            s.values = &rows[k].value;
            profile_add(p, &s);
        }
        p->period = 1;
    }
    CHECK_INT(t, FORMAT->encode(set, &out, &lost, &err), 0);
    CHECK(t,
          strstr(buf_cstr(&out), "{\"type\":\"sampled\",\"name\":\"alloc: 7\",\"unit\":\"bytes\","
                                 "\"samples\":[[0],[1],[0]],\"weights\":[12,2,1],"
                                 "\"startValue\":0,\"endValue\":15}") != NULL);
    CHECK_STR(t, buf_cstr(&lost),
              "labels of samples\nspans that samples were taken in\n"
              "the times of samples (their order is kept)\nsamples with negative values\n"
              "time, period and comments of the profile\n");
    buf_done(&out);
    buf_done(&lost);
    profile_set_free(set);
    CHECK_INT(t, b.used, 0);
}

static void refuses_to_write_nothing_and_runs_out_of_memory_cleanly(struct test *t)
{
    struct buf out = {0}, lost = {0};
    struct error err = {""};
    struct budget b;

    budget_init(&b, 1 << 20);
    struct profile_set *set = profile_set_new(&b);
    CHECK_INT(t, FORMAT->encode(set, &out, &lost, &err), -EOPNOTSUPP);
    CHECK_STR(t, err.text, "speedscope: there is no profile to write");
    build(set);
    size_t used = b.used;
    int r = -ENOBUFS;
    for (size_t more = 0; r == -ENOBUFS && more < 1 << 20; more += 97) {
        b.limit = used + more;
        b.failed = false;
        buf_clear(&out);
        r = FORMAT->encode(set, &out, &lost, &err);
        CHECK_INT(t, b.used, used);
    }
    CHECK_INT(t, r, 0);
    profile_set_free(set);
    CHECK_INT(t, b.used, 0);
    buf_done(&out);
    buf_done(&lost);
}

static void knows_its_files_by_their_content(struct test *t)
{
    CHECK(t, FORMAT->sniff(BYTES("{\"profiles\":[{\"endValue\":1")) > 0);
    CHECK(t, FORMAT->sniff(BYTES("{\"profiles\":[{\"startValue\":1")) > 0);
    CHECK(t, FORMAT->sniff(BYTES("{\"shared\":{\"frames\":[")) > 0);
    CHECK_INT(t, FORMAT->sniff(BYTES("{\"$schema\":\"https://www.speedscope.app/file-format")),
              100);
    CHECK_INT(t, FORMAT->sniff(BYTES("{\"$schema\":\"other\"")), 0);
    CHECK_INT(t, FORMAT->sniff(BYTES("{\"profiles\":[]}")), 0);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    check_budget_sweep(t, FORMAT, BYTES(both), 61);
}

static void survives_being_cut_anywhere(struct test *t)
{
    check_truncation(t, FORMAT, BYTES(both));
}

static const struct test_case cases[] = {
    TEST(reads_samples_and_events_whatever_comes_first),
    TEST(keeps_the_places_of_frames),
    TEST(knows_every_unit),
    TEST(says_when_a_fraction_was_rounded),
    TEST(refuses_what_contradicts_itself_and_says_where),
    TEST(writes_one_profile_per_sample_type),
    TEST(writes_samples_in_order_of_time_and_names_what_is_lost),
    TEST(refuses_to_write_nothing_and_runs_out_of_memory_cleanly),
    TEST(knows_its_files_by_their_content),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)
