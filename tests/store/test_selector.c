#include "lib/test.h"
#include "store/selector.h"

static const struct label checkout[] = {
    {BYTES("deployment.environment.name"), BYTES("prod")},
    {BYTES("odd name"), BYTES("say \"hi\"")},
    {BYTES("pod"), BYTES("a-1")},
    {BYTES("service.name"), BYTES("checkout")},
};

static void selects_by_every_operator(struct test *t)
{
    static const struct {
        const char *text;
        bool matches;
    } cases[] = {
        {"", true},
        {"{}", true},
        {"cpu", true},
        {" cpu { } ", true},
        {"cpu{service.name=\"checkout\"}", true},
        {"{service.name=\"checkou\"}", false},
        {"{service.name!=\"cart\", pod=\"a-1\"}", true},
        {"{service.name!=\"checkout\"}", false},
        {"{deployment.environment.name=~\"prod|stage\"}", true},
        {"{deployment.environment.name=~\"pro\"}", false},
        {"{pod!~\"b-.*\"}", true},
        {"{pod!~\"a-\\d\"}", false},
        {"{pod=~\"a-\\d\"}", true},
        {"{pod=~'a-[0-9]',}", true},
        {"{\"odd name\"=\"say \\\"hi\\\"\"}", true},
        {"{`odd name`='say \"hi\"'}", true},
        {"{missing=\"\"}", true},
        {"{missing!=\"\"}", false},
        {"{pod=~\"a-1\\n\"}", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(selector_freep) struct selector *s = NULL;
        struct error err = {0};
        if (selector_parse(bytes_of(cases[i].text), &s, &err) < 0) {
            CHECK_STR(t, err.text, "");
            continue;
        }
        if (selector_matches(s, checkout, ARRAY_SIZE(checkout)) != cases[i].matches)
            printf("# %s\n", cases[i].text);
        CHECK(t, selector_matches(s, checkout, ARRAY_SIZE(checkout)) == cases[i].matches);
    }
}

static void takes_the_type_before_the_brace(struct test *t)
{
    static const struct {
        const char *text;
        bool takes;
    } cases[] = {{"cpu", true},      {"cpu:nanoseconds{}", true}, {"{}", true},
                 {"samples", false}, {"cpu:count", false},        {"cpu{a!=\"x\"}", true}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(selector_freep) struct selector *s = NULL;
        CHECK_INT(t, selector_parse(bytes_of(cases[i].text), &s, NULL), 0);
        CHECK(t, selector_takes(s, BYTES("cpu"), BYTES("nanoseconds")) == cases[i].takes);
    }
}

static void types_may_have_colons(struct test *t)
{
    static const struct {
        const char *text;
        bool takes;
    } cases[] = {{"cycles:u", true},  {"cycles:u:count{}", true},
                 {"cycles", false},   {"cycles:u:bytes", false},
                 {"cycles:k", false}, {"cycles:u:x:count", false}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(selector_freep) struct selector *s = NULL;
        CHECK_INT(t, selector_parse(bytes_of(cases[i].text), &s, NULL), 0);
        CHECK(t, selector_takes(s, BYTES("cycles:u"), BYTES("count")) == cases[i].takes);
    }
}

static void says_what_is_wrong_and_where(struct test *t)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"cpu{", "selector \"cpu{\" at character 5: expected a label name"},
        {"cpu{a", "selector \"cpu{a\" at character 6: expected one of = != =~ !~"},
        {"cpu{a=", "selector \"cpu{a=\" at character 7: expected a value in quotes"},
        {"cpu{a=\"x", "selector \"cpu{a=\"x\" at character 7: this quote is never closed"},
        {"cpu{a=\"x\"", "selector \"cpu{a=\"x\"\" at character 10: the brace is never closed"},
        {"cpu{a=\"x\" b=\"y\"}",
         "selector \"cpu{a=\"x\" b=\"y\"}\" at character 11: expected , or }"},
        {"cpu{a=b}", "selector \"cpu{a=b}\" at character 7: expected a value in quotes"},
        {"cpu}", "selector \"cpu}\" at character 4: expected { or the end"},
        {":x", "selector \":x\" at character 3: expected type:unit before the brace"},
        {"cpu:{}", "selector \"cpu:{}\" at character 5: expected type:unit before the brace"},
        {"{a=~\"(\"}", "selector \"{a=~\"(\"}\": bad regular expression \"(\" at character 2: "
                       "missing closing parenthesis"},
        {"{a=~\"x)|(?:.*\"}", "selector \"{a=~\"x)|(?:.*\"}\": bad regular expression \"x)|(?:.*\" "
                              "at character 2: unmatched closing parenthesis"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct selector *s = NULL;
        struct error err = {0};
        CHECK_INT(t, selector_parse(bytes_of(cases[i].text), &s, &err), -22);
        CHECK_STR(t, err.text, cases[i].want);
    }
}

static void bounds_what_it_reads(struct test *t)
{
    static char text[8192];
    struct selector *s = NULL;
    struct error err = {0};
    memset(text, 'a', 5000);
    CHECK_INT(t, selector_parse(bytes_of(text), &s, &err), -22);
    CHECK_STR(t, err.text, "selector of 5000 bytes: at most 4096 are allowed");

    char *to = text;
    *to++ = '{';
    for (int i = 0; i < 65; i++)
        to += sprintf(to, "a=\"x\",");
    memcpy(to, "}", 2);
    CHECK_INT(t, selector_parse(bytes_of(text), &s, &err), -22);
    CHECK(t, strstr(err.text, "more than 64 matchers") != NULL);
}

static void a_pattern_without_end_selects_nothing_either_way(struct test *t)
{
    static char value[64];
    memset(value, 'a', sizeof(value) - 2);
    const struct label label = {BYTES("pod"), bytes_of(value)};
    static const char *const cases[] = {"{pod=~\"(a*)*(a*)*(a*)*[bc]\"}",
                                        "{pod!~\"(a*)*(a*)*(a*)*[bc]\"}"};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(selector_freep) struct selector *s = NULL;
        CHECK_INT(t, selector_parse(bytes_of(cases[i]), &s, NULL), 0);
        CHECK(t, !selector_matches(s, &label, 1));
    }
}

static void a_period_counts_only_when_it_was_given(struct test *t)
{
    CLEANUP(selector_freep) struct selector *s = NULL;
    CHECK_INT(t, selector_parse(BYTES("samples"), &s, NULL), 0);
    CHECK(t, selector_takes_period(s, BYTES("wall"), BYTES("nanoseconds")));
    s->has_period = true;
    s->period_type = BYTES("cpu");
    s->period_unit = BYTES("nanoseconds");
    CHECK(t, selector_takes_period(s, BYTES("cpu"), BYTES("nanoseconds")));
    CHECK(t, !selector_takes_period(s, BYTES("wall"), BYTES("nanoseconds")));
    CHECK(t, !selector_takes_period(s, BYTES("cpu"), BYTES("")));
}

static void normalizes_labels(struct test *t)
{
    struct label labels[] = {{BYTES("b"), BYTES("1")}, {BYTES("a"), BYTES("old")},
                             {BYTES("aa"), BYTES("")}, {BYTES("a"), BYTES("new")},
                             {BYTES(""), BYTES("x")},  {BYTES("ab"), BYTES("2")}};
    CHECK_INT(t, labels_normalize(labels, ARRAY_SIZE(labels)), 3);
    CHECK(t, bytes_are(labels[0].name, "a") && bytes_are(labels[0].value, "new"));
    CHECK(t, bytes_are(labels[1].name, "ab"));
    CHECK(t, bytes_are(labels[2].name, "b"));
    CHECK_INT(t, labels_normalize(labels, 0), 0);
    CHECK(t, label_value(labels, 3, BYTES("zz")).len == 0);
}

static const struct test_case cases[] = {TEST(selects_by_every_operator),
                                         TEST(takes_the_type_before_the_brace),
                                         TEST(types_may_have_colons),
                                         TEST(says_what_is_wrong_and_where),
                                         TEST(bounds_what_it_reads),
                                         TEST(a_pattern_without_end_selects_nothing_either_way),
                                         TEST(a_period_counts_only_when_it_was_given),
                                         TEST(normalizes_labels)};
TEST_MAIN(cases)
