#include <errno.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "scrape/relabel.h"

/* Rules as YAML; *ret is due relabel_done() when it returns 0. */
static int parse(const char *yaml, struct relabel *ret, struct error *err)
{
    const struct config_node *list = NULL;
    struct budget budget;
    struct arena arena;

    budget_init(&budget, 1 << 20);
    arena_init(&arena, &budget);
    int r = config_node_read(bytes_of(yaml), &arena, &list, err);
    if (r == 0)
        r = relabel_parse(list, ret, err);
    arena_done(&arena);
    return r;
}

static struct tags make(const char *const (*pairs)[2])
{
    struct tags t = {0};

    for (size_t i = 0; pairs[i][0]; i++)
        tags_set(&t, bytes_of(pairs[i][0]), bytes_of(pairs[i][1]));
    return t;
}

/* "a=1,b=2" of the tags below after these rules; "dropped". */
static void check_rules(struct test *t, const char *yaml, const char *want)
{
    static const char *const pairs[][2] = {{"__address__", "10.0.0.7:8080"},
                                           {"__meta_zone", "eu-1"},
                                           {"__meta_team", "Bread"},
                                           {"env", "prod"},
                                           {"job", "shop"},
                                           {NULL, NULL}};
    CLEANUP(buf_done) struct buf got = {0};
    struct tags tags = make(pairs);
    struct relabel rules = {0};
    struct error err = {""};

    CHECK_INT(t, parse(yaml, &rules, &err), 0);
    CHECK_STR(t, err.text, "");
    if (!relabel_apply(&rules, &tags))
        buf_add_str(&got, "dropped");
    else
        for (size_t i = 0; i < tags.n; i++)
            buf_addf(&got, "%s%s=%s", i ? "," : "", tags.items[i].name, tags.items[i].value);
    CHECK_STR(t, buf_cstr(&got), want);
    tags_done(&tags);
    relabel_done(&rules);
}

#define REST "__meta_team=Bread,__meta_zone=eu-1,env=prod,job=shop"
#define ALL  "__address__=10.0.0.7:8080," REST

static void replace_sets_what_the_expression_found(struct test *t)
{
    check_rules(t, "[]", ALL);
    check_rules(t,
                "- {source_labels: [__address__], regex: '(.*):(\\d+)', target_label: __address__, "
                "replacement: '$1:9${2}'}",
                "__address__=10.0.0.7:98080," REST);
    check_rules(t, "- {source_labels: [env, job], target_label: zz}", ALL ",zz=prod;shop");
    check_rules(t, "- {source_labels: [env, job], separator: '/', target_label: zz}",
                ALL ",zz=prod/shop");
    check_rules(t, "- {target_label: zz, replacement: 'a$$b'}", ALL ",zz=a$b");
    /* All of the text has to match. */
    check_rules(t, "- {source_labels: [env], regex: 'ro', target_label: zz}", ALL);
    /* Nothing takes the label away. */
    check_rules(t, "- {source_labels: [none], regex: '(.*)', target_label: env}",
                "__address__=10.0.0.7:8080,__meta_team=Bread,__meta_zone=eu-1,job=shop");
    /* The name of the label may come from the text, too. */
    check_rules(t,
                "- {source_labels: [job], regex: '(..)(.*)', target_label: 'z_$1', replacement: "
                "'$2'}",
                ALL ",z_sh=op");
    check_rules(t, "- {source_labels: [__address__], target_label: '$1', replacement: 'x'}", ALL);
}

static void keep_and_drop_choose_targets(struct test *t)
{
    check_rules(t, "- {source_labels: [env], regex: 'prod|test', action: keep}", ALL);
    check_rules(t, "- {source_labels: [env], regex: 'test', action: keep}", "dropped");
    check_rules(t, "- {source_labels: [env], regex: 'prod', action: drop}", "dropped");
    check_rules(t, "- {source_labels: [env], regex: 'pro', action: drop}", ALL);
    check_rules(t, "- {source_labels: [env], target_label: job, action: keepequal}", "dropped");
    check_rules(t, "- {source_labels: [env], target_label: env, action: dropequal}", "dropped");
}

static void labels_are_mapped_and_filtered_by_name(struct test *t)
{
    check_rules(t, "- {regex: '__meta_(.+)', action: labelmap}", ALL ",team=Bread,zone=eu-1");
    check_rules(t, "- {regex: '__meta_.+|env', action: labeldrop}",
                "__address__=10.0.0.7:8080,job=shop");
    check_rules(t, "- {regex: 'env|job', action: labelkeep}", "env=prod,job=shop");
}

static void case_and_shards(struct test *t)
{
    check_rules(t, "- {source_labels: [__meta_team], target_label: zz, action: lowercase}",
                ALL ",zz=bread");
    check_rules(t, "- {source_labels: [__meta_team], target_label: zz, action: Uppercase}",
                ALL ",zz=BREAD");
    /* The same on every machine: agents share targets by it. */
    check_rules(t,
                "- {source_labels: [__address__], modulus: 8, target_label: zz, action: hashmod}",
                ALL ",zz=6");
}

static void what_is_wrong_is_named_with_its_line(struct test *t)
{
    static const struct {
        const char *yaml, *want;
    } cases[] = {
        {"- {action: replace}", "line 1: the action replace needs target_label"},
        {"\n- {target_label: x,\n   action: keeep}",
         "line 3: action is \"keeep\", not one of replace, keep, drop, keepequal, dropequal, "
         "hashmod, labelmap, labeldrop, labelkeep, lowercase, uppercase"},
        {"- {source_label: [a], target_label: x}",
         "line 1: a relabel rule has no key \"source_label\"; did you mean \"source_labels\"?"},
        {"- {source_labels: a, target_label: x}",
         "line 1: source_labels is \"a\", where a list is expected"},
        {"- {target_label: x, action: hashmod}", "line 1: the action hashmod needs modulus"},
        {"- {target_label: x, action: hashmod, modulus: many}",
         "line 1: modulus is \"many\", where a whole number is expected"},
        {"- {target_label: 9x}", "line 1: target_label \"9x\" is no name of a label"},
        {"- {target_label: x, replacement: '$name'}",
         "line 1: in replacement and target_label, \"$\" is followed by the number of a group "
         "below 32 (\"$1\", \"${1}\"), or by \"$\""},
        {"- {target_label: x,\n   regex: '('}",
         "line 2: regex: bad regular expression \"(\" at character 2: missing closing "
         "parenthesis"},
        {"- just text", "line 1: a relabel rule is expected to be a map"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct relabel rules = {0};
        struct error err = {""};
        CHECK_INT(t, parse(cases[i].yaml, &rules, &err), -EINVAL);
        CHECK_STR(t, err.text, cases[i].want);
    }
}

static void tags_have_limits(struct test *t)
{
    struct tags tags = {0};
    static char value[TAG_VALUE_MAX + 2];
    char name[16];

    memset(value, 'x', TAG_VALUE_MAX + 1);
    CHECK(t, !tags_set(&tags, BYTES("a"), bytes_of(value)));
    for (int i = 0; i < TAGS_MAX; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        CHECK(t, tags_set(&tags, bytes_of(name), BYTES("1")));
    }
    CHECK(t, !tags_set(&tags, BYTES("more"), BYTES("1")));
    CHECK(t, tags_set(&tags, BYTES("n5"), BYTES("2")));
    CHECK_STR(t, tags_get(&tags, "n5"), "2");
    CHECK_STR(t, tags_get(&tags, "more"), "");
    tags_done(&tags);
}

static const struct test_case cases[] = {
    TEST(replace_sets_what_the_expression_found), TEST(keep_and_drop_choose_targets),
    TEST(labels_are_mapped_and_filtered_by_name), TEST(case_and_shards),
    TEST(what_is_wrong_is_named_with_its_line),   TEST(tags_have_limits),
};
TEST_MAIN(cases)
