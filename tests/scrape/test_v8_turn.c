/* Answers of V8's profilers become profiles of a process. */
#include <errno.h>

#include "base/cleanup.h"
#include "formats/formats.h"
#include "lib/test.h"
#include "scrape/v8_turn.h"

#define SECOND_NS ((int64_t)1000000000)

#define FRAME(name, url)                                                                           \
    "\"callFrame\":{\"functionName\":\"" name "\",\"scriptId\":\"1\",\"url\":\"" url               \
    "\",\"lineNumber\":4,\"columnNumber\":2}"

/* 10 ms of burn, 20 ms idle, 10 ms of burn; the last sample is worth nothing. */
#define CPU                                                                                        \
    "{\"profile\":{\"nodes\":[{\"id\":1," FRAME(                                                   \
        "(root)",                                                                                  \
        "") ",\"children\":[2,3]},"                                                                \
            "{\"id\":2," FRAME(                                                                    \
                "burn",                                                                            \
                "file:///srv/ada/app.js") "},"                                                     \
                                          "{\"id\":3," FRAME(                                      \
                                              "(idle)",                                            \
                                              "") "}],"                                            \
                                                  "\"startTime\":1000,\"endTime\":51000,"          \
                                                  "\"samples\":[2,3,3,2,2],"                       \
                                                  "\"timeDeltas\":[0,10000,10000,10000,10000]}}"

#define HEAP                                                                                       \
    "{\"profile\":{\"head\":{" FRAME(                                                              \
        "(root)",                                                                                  \
        "") ",\"selfSize\":0,\"id\":1,\"children\":["                                              \
            "{" FRAME("keep",                                                                      \
                      "file:///srv/ada/app.js") ",\"selfSize\":4096,\"id\":2,\"children\":[]}]},"  \
                                                "\"samples\":[{\"size\":4096,\"nodeId\":2,"        \
                                                "\"ordinal\":1}]}}"

struct turned {
    struct buf otlp;
    size_t n_samples;
    struct error err;
    struct budget budget;
    struct profile_set *set;
    int r;
};

static void turn(struct turned *t, const char *cpu, const char *heap, struct mask_matcher *mask)
{
    struct tags tags = {0};

    tags_set(&tags, BYTES("service.name"), BYTES("shop"));
    tags_set(&tags, BYTES("team"), BYTES("ada's"));
    *t = (struct turned){0};
    t->r = v8_turn(&(struct v8_turn_input){.cpu = bytes_of(cpu),
                                           .heap = bytes_of(heap),
                                           .sampling_ns = 10000000,
                                           .heap_bytes = 4096,
                                           .attributes = &tags,
                                           .mask = mask,
                                           .start_ns = 1000 * SECOND_NS,
                                           .end_ns = 1015 * SECOND_NS,
                                           .memory_max = 1 << 24},
                   &t->otlp, &t->n_samples, &t->err);
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

static const char *attribute(const struct profile *p, const char *key)
{
    struct dict *d = p->dict;
    uint32_t id = dict_attrs_get(d, p->resource_attrs, dict_find_string(d, bytes_of(key)));

    return id ? dict_cstr(d, d->attributes.data[id].text) : "(none)";
}

/* The profile with a type, and the column that it is. */
static const struct profile *find(const struct turned *t, const char *type, uint32_t *ret)
{
    for (size_t i = 0; i < t->set->profiles.len; i++) {
        const struct profile *p = t->set->profiles.data[i];
        for (*ret = 0; *ret < p->n_types; ++*ret)
            if (strcmp(dict_cstr(p->dict, p->types[*ret].type), type) == 0)
                return p;
    }
    return NULL;
}

static const struct function *leaf(const struct profile *p, size_t row)
{
    const struct dict *d = p->dict;
    const struct location *l = &d->locations.data[d->node_location.data[p->node[row]]];

    return &d->functions.data[d->lines.data[l->first_line].function];
}

static void cpu_time_is_told_without_idling(struct test *t)
{
    CLEANUP(turned_done) struct turned got;
    uint32_t column;

    turn(&got, CPU, "", NULL);
    CHECK_STR(t, got.err.text, "");
    CHECK_INT(t, got.r, 0);
    CHECK_INT(t, got.n_samples, 1); /* equal stacks are added up */
    const struct profile *p = find(&got, "cpu", &column);
    CHECK(t, p != NULL);
    if (!p)
        return;
    CHECK_INT(t, profile_total(p, column), 20000000);
    CHECK_STR(t, dict_cstr(p->dict, leaf(p, 0)->name), "burn");
    CHECK_STR(t, attribute(p, "service.name"), "shop");
    CHECK_STR(t, attribute(p, "profile.kind"), "v8");
    CHECK_INT(t, p->time_unix_ns, 1000 * SECOND_NS);
    CHECK_INT(t, p->duration_ns, 15 * SECOND_NS);
    CHECK_INT(t, p->period, 10000000);
}

static void memory_is_told_as_of_the_end(struct test *t)
{
    CLEANUP(turned_done) struct turned got;
    uint32_t column;

    turn(&got, CPU, HEAP, NULL);
    CHECK_INT(t, got.r, 0);
    CHECK_INT(t, got.set->profiles.len, 2);
    const struct profile *p = find(&got, "inuse_space", &column);
    CHECK(t, p != NULL);
    if (!p)
        return;
    CHECK_INT(t, profile_total(p, column), 4096);
    CHECK_STR(t, dict_cstr(p->dict, leaf(p, 0)->name), "keep");
    CHECK_STR(t, attribute(p, "profile.kind"), "(none)");
    CHECK_INT(t, p->time_unix_ns, 1015 * SECOND_NS);
}

static void what_may_not_be_sent_is_replaced(struct test *t)
{
    static const char *const texts[] = {"paths: /ada/x/", "labels: /ada/y/",
                                        "functions: /burn/warm/"};
    struct mask_rules *rules = NULL;
    CLEANUP(turned_done) struct turned got;
    struct error err;
    uint32_t column;

    CHECK_INT(t, mask_rules_new(true, texts, ARRAY_SIZE(texts), &rules, &err), 0);
    CLEANUP(mask_matcher_freep) struct mask_matcher *mask = mask_matcher_new(rules);
    turn(&got, CPU, "", mask);
    const struct profile *p = find(&got, "cpu", &column);
    CHECK(t, p != NULL);
    if (!p)
        return;
    CHECK_STR(t, dict_cstr(p->dict, leaf(p, 0)->name), "warm");
    CHECK(t, !strstr(dict_cstr(p->dict, leaf(p, 0)->file), "ada"));
    CHECK_STR(t, attribute(p, "team"), "y's");
    CHECK(t, !bytes_find(buf_bytes(&got.otlp), BYTES("ada")));
}

static void a_program_that_did_nothing_has_nothing_to_tell(struct test *t)
{
    CLEANUP(turned_done) struct turned got;

    turn(&got,
         "{\"profile\":{\"nodes\":[{\"id\":3," FRAME(
             "(idle)", "") "}],\"startTime\":1,"
                           "\"endTime\":2,\"samples\":[3,3],\"timeDeltas\":[0,9]}}",
         "", NULL);
    CHECK_INT(t, got.r, 0);
    CHECK_INT(t, got.otlp.len, 0);
}

static void what_is_no_profile_is_refused(struct test *t)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"profile\":7}",
        "{\"profile\":{\"nodes\":[]}}",
        "{\"profile\":{\"nodes\":[{\"id\":1," FRAME("a", "") "}],\"samples\":[2],"
                                                             "\"timeDeltas\":[0]}}",
        "{\"profile\":{}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        CLEANUP(turned_done) struct turned got;
        turn(&got, bad[i], "", NULL);
        CHECK_INT(t, got.r, -EBADMSG);
        CLEANUP(turned_done) struct turned other;
        turn(&other, "", bad[i], NULL);
        CHECK_INT(t, other.r, -EBADMSG);
    }
}

static const struct test_case cases[] = {
    TEST(cpu_time_is_told_without_idling),  TEST(memory_is_told_as_of_the_end),
    TEST(what_may_not_be_sent_is_replaced), TEST(a_program_that_did_nothing_has_nothing_to_tell),
    TEST(what_is_no_profile_is_refused),
};

TEST_MAIN(cases)
