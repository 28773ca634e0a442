#include <errno.h>

#include "lib/test.h"
#include "server/ingest.h"
#include "server/metadata.h"

struct fixture {
    struct budget budget, call;
    struct profile_set *set;
    struct profile *p;
    struct arena arena;
    struct server_config config;
    struct error err;
};

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){.config = {.labels_max = 64, .label_value_max = 2048}};
    budget_init(&f->budget, (size_t)16 << 20);
    budget_init(&f->call, (size_t)16 << 20);
    f->set = profile_set_new(&f->budget);
    f->p = profile_set_add(f->set);
    arena_init(&f->arena, &f->call);
}

static void fixture_done(struct test *t, struct fixture *f)
{
    arena_done(&f->arena);
    profile_set_free(f->set);
    CHECK_INT(t, f->budget.used, 0);
    CHECK_INT(t, f->call.used, 0);
}

static void set_resource(struct fixture *f, const char *const *pairs)
{
    struct dict *d = f->set->dict;
    uint32_t ids[300];
    size_t n = 0;
    for (; *pairs; pairs += 2)
        ids[n++] = dict_string_attribute(d, dict_cstring(d, pairs[0]), dict_cstring(d, pairs[1]));
    f->p->resource_attrs = dict_attrs(d, ids, n);
}

/* The labels as a=b,c=d; or the error. */
static const char *labels_of(struct fixture *f, const struct label *given, size_t n)
{
    static char text[4096];
    struct metadata m = {&f->config, given, n};
    struct label *labels;
    size_t n_labels, at = 0;
    int r = metadata_labels(&m, f->p, &f->arena, &labels, &n_labels, &f->err);
    if (r < 0)
        return f->err.text;
    text[0] = '\0';
    for (size_t i = 0; i < n_labels && at < sizeof(text); i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s=%.*s", i ? "," : "",
                               (int)labels[i].name.len, (const char *)labels[i].name.data,
                               (int)labels[i].value.len, (const char *)labels[i].value.data);
    return text;
}

static struct label pair(const char *name, const char *value)
{
    return (struct label){bytes_of(name), bytes_of(value)};
}

static void names_that_mean_the_same_become_one(struct test *t)
{
    static const char *const cases[][2] = {
        {"service_name", "service.name"},
        {"service", "service.name"},
        {"app", "service.name"},
        {"env", "deployment.environment.name"},
        {"deployment.environment", "deployment.environment.name"},
        {"deployment_environment", "deployment.environment.name"},
        {"deployment_id", "deployment.id"},
        {"version", "service.version"},
        {"commit", "vcs.ref.head.revision"},
        {"git.commit", "vcs.ref.head.revision"},
        {"git_ref", "vcs.ref.head.revision"},
        {"vcs.ref.head.sha", "vcs.ref.head.revision"},
        {"git.branch", "vcs.ref.head.name"},
        {"branch", "vcs.ref.head.name"},
        {"runtime.version", "process.runtime.version"},
        {"k8s_pod_name", "k8s.pod.name"},
        {"pod", "pod"},
        {"", ""},
        {"a.name.that.is.much.longer.than.any.that.is.known", NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct bytes got = ingest_label_name(bytes_of(cases[i][0]));
        CHECK(t, bytes_are(got, cases[i][1] ? cases[i][1] : cases[i][0]));
    }
}

static void what_is_known_of_a_resource_becomes_labels(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    set_resource(&f,
                 (const char *const[]){"service.name", "shop", "env", "prod", "git.commit", "abc",
                                       "process.command_line", "x --secret", "team", "red",
                                       "k8s.pod.name", "shop-1", "process.pid", "7", NULL});
    CHECK_STR(t, labels_of(&f, NULL, 0),
              "deployment.environment.name=prod,k8s.pod.name=shop-1,service.name=shop,"
              "vcs.ref.head.revision=abc");
    f.config.resource_labels = (struct config_list){{"team"}, 1};
    CHECK_STR(t, labels_of(&f, NULL, 0),
              "deployment.environment.name=prod,k8s.pod.name=shop-1,service.name=shop,team=red,"
              "vcs.ref.head.revision=abc");
    fixture_done(t, &f);
}

static void what_a_request_says_wins(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    set_resource(&f, (const char *const[]){"service.name", "shop", "service.version", "1", NULL});
    struct label given[] = {pair("service_name", "cart"), pair("color", "blue"), pair("env", "")};
    CHECK_STR(t, labels_of(&f, given, 3), "color=blue,service.name=cart,service.version=1");
    fixture_done(t, &f);
}

static void the_plain_name_counts_more_than_others_for_it(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct label given[] = {pair("app", "other"), pair("service.name", "cart"),
                            pair("service", "third")};
    CHECK_STR(t, labels_of(&f, given, 3), "app=other,service=third,service.name=cart");
    given[1].value = (struct bytes){0};
    CHECK_STR(t, labels_of(&f, given, 3), "app=other,service.name=third");
    fixture_done(t, &f);
}

static void a_service_without_a_name_is_called_by_its_program(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    CHECK_STR(t, labels_of(&f, NULL, 0), "service.name=unknown_service");
    set_resource(&f, (const char *const[]){"process.executable.name", "nginx", NULL});
    CHECK_STR(t, labels_of(&f, NULL, 0),
              "process.executable.name=nginx,service.name=unknown_service:nginx");
    fixture_done(t, &f);
}

static void a_process_id_is_kept_only_where_nothing_else_tells_instances_apart(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    uint32_t ids[2] = {
        dict_int_attribute(d, dict_cstring(d, "process.pid"), 4711, 0),
        dict_string_attribute(d, dict_cstring(d, "host.name"), dict_cstring(d, "h"))};
    f.p->resource_attrs = dict_attrs(d, (uint32_t[]){ids[0]}, 1);
    CHECK_STR(t, labels_of(&f, NULL, 0), "process.pid=4711,service.name=unknown_service");
    uint64_t one = metadata_sender(d, f.p->resource_attrs);
    f.p->resource_attrs = dict_attrs(d, ids, 2);
    CHECK_STR(t, labels_of(&f, NULL, 0), "host.name=h,service.name=unknown_service");
    CHECK(t, metadata_sender(d, f.p->resource_attrs) != one);
    CHECK_INT(t, metadata_sender(d, 0), 0);
    fixture_done(t, &f);
}

static void limits_are_named(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct label given[300];
    char names[300][8], big[40];
    for (int i = 0; i < 300; i++) {
        snprintf(names[i], sizeof(names[i]), "l%03d", i);
        given[i] = pair(names[i], "v");
    }
    f.config.labels_max = 10;
    CHECK_STR(t, labels_of(&f, given, 10), "11 labels are more than the 10 of limits.labels");
    CHECK_STR(t, labels_of(&f, given, 300), "300 labels are more than the 10 of limits.labels");
    memset(big, 'x', sizeof(big));
    given[3].value = (struct bytes){(const uint8_t *)big, sizeof(big)};
    f.config.label_value_max = 39;
    CHECK_STR(t, labels_of(&f, given, 9),
              "the value of label \"l003\" has 40 bytes: limits.label_value is 39");
    f.config.label_value_max = 40;
    CHECK(t, strstr(labels_of(&f, given, 9), "l003=xxx") != NULL);
    fixture_done(t, &f);
}

static const struct test_case cases[] = {
    TEST(names_that_mean_the_same_become_one),
    TEST(what_is_known_of_a_resource_becomes_labels),
    TEST(what_a_request_says_wins),
    TEST(the_plain_name_counts_more_than_others_for_it),
    TEST(a_service_without_a_name_is_called_by_its_program),
    TEST(a_process_id_is_kept_only_where_nothing_else_tells_instances_apart),
    TEST(limits_are_named),
};
TEST_MAIN(cases)
