#include <errno.h>

#include "lib/test.h"
#include "server/mask.h"

static struct mask *mask_of(struct test *t, bool defaults, const char *const *rules)
{
    struct server_config config = {.mask_defaults = defaults};
    struct mask *m = NULL;
    struct error err = {""};
    for (; rules && *rules; rules++)
        config.mask.items[config.mask.n++] = *rules;
    CHECK_INT(t, mask_new(&config, &m, &err), 0);
    CHECK_STR(t, err.text, "");
    return m;
}

static void check_text(struct test *t, struct mask *m, enum store_role role, const char *text,
                       const char *want)
{
    struct buf out = {0};
    bool changed = mask_text(m, role, bytes_of(text), &out);
    CHECK_INT(t, changed, strcmp(text, want) != 0);
    CHECK_STR(t, changed ? buf_cstr(&out) : text, want);
    buf_done(&out);
}

static void built_in_rules_hide_secrets(struct test *t)
{
    CLEANUP(mask_freep) struct mask *m = mask_of(t, true, NULL);
    static const char *const cases[][2] = {
        {"Bearer abcdefgh12345678", "Bearer ***"},
        {"authorization: basic dXNlcjpwYXNz", "authorization: basic ***"},
        {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_1", "***"},
        {"key AKIAIOSFODNN7EXAMPLE here", "key *** here"},
        {"ghp_0123456789abcdefABCDEF0123456789abcd", "***"},
        {"sk-proj-0123456789abcdef0123", "***"},
        {"https://x/?user=a&password=hunter2&b=c", "https://x/?user=a&password=***&b=c"},
        {"/cb?access_token=zzz", "/cb?access_token=***"},
        {"postgres://bob:hunter2@db:5432/shop", "postgres://bob:***@db:5432/shop"},
        {"-----BEGIN RSA PRIVATE KEY-----\nMIIE", "***"},
        {"/home/bob/src/main.c", "/home/*/src/main.c"},
        {"file:///Users/bob/app/index.js", "file:///Users/*/app/index.js"},
        {"C:\\Users\\bob\\app.js", "C:\\Users\\*\\app.js"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        check_text(t, m, STORE_VALUES, cases[i][0], cases[i][1]);
        check_text(t, m, STORE_PATHS, cases[i][0], cases[i][1]);
        check_text(t, m, STORE_NAMES, cases[i][0], cases[i][0]);
    }
}

static void built_in_rules_leave_the_rest_alone(struct test *t)
{
    CLEANUP(mask_freep) struct mask *m = mask_of(t, true, NULL);
    static const char *const cases[] = {
        "checkout",
        "GET /api/users/:id",
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        "/home/app.js",
        "node:internal/process/task_queues",
        "risk-assessment-service-production-eu",
        "0123456789abcdef0123456789abcdef01234567",
        "https://example.com:8080/path@x",
        "github.com/org/repo/pkg.(*Type).Method",
        "v1.2.3-rc1+build.5",
        "",
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        check_text(t, m, STORE_VALUES, cases[i], cases[i]);
        check_text(t, m, STORE_PATHS, cases[i], cases[i]);
    }
}

static void own_rules_have_groups_and_any_divider(struct test *t)
{
    CLEANUP(mask_freep)
    struct mask *m = mask_of(t, false,
                             (const char *const[]){"labels: /(\\w+)@(\\w+)/$2 at $1$$/",
                                                   "paths|functions:#^/build/[^/]+/#/build/#",
                                                   "functions: /a\\/b/c/", "labels: /x*/-/", NULL});
    check_text(t, m, STORE_VALUES, "bob@home,al@work",
               "-h-o-m-e- -a-t- -b-o-b-$-,-w-o-r-k- -a-t- "
               "-a-l-$-");
    check_text(t, m, STORE_PATHS, "/build/1234/a.c", "/build/a.c");
    check_text(t, m, STORE_PATHS, "a/b", "a/b");
    check_text(t, m, STORE_NAMES, "a/b", "c");
    check_text(t, m, STORE_VALUES, "\xc3\xa4", "-\xc3\xa4-");
}

static void letters_past_ascii_are_no_spaces(struct test *t)
{
    CLEANUP(mask_freep)
    struct mask *m = mask_of(
        t, false, (const char *const[]){"labels: /key=\\S+/key=***/", "paths: /\\D\\W/-/", NULL});
    check_text(t, m, STORE_VALUES, "key=\xc3\x9fxyz x", "key=*** x");
    check_text(t, m, STORE_PATHS, "1\xc3\xa4\xe2\x82\xac", "1-");
}

static void faults_name_the_rule(struct test *t)
{
    static const char *const cases[][2] = {
        {"label: /a/b/", "mask rule \"label: /a/b/\" does not begin with \"paths\", \"functions\" "
                         "or \"labels\" (or "
                         "several with '|' between them) and a colon"},
        {"nothing", "mask rule \"nothing\" does not begin with"},
        {"labels: /a", "mask rule \"labels: /a\" is not /PATTERN/REPLACEMENT/"},
        {"labels: /a/b", "mask rule \"labels: /a/b\" is not /PATTERN/REPLACEMENT/"},
        {"labels: /a/b/c", "mask rule \"labels: /a/b/c\" is not /PATTERN/REPLACEMENT/"},
        {"labels:", "mask rule \"labels:\" is not /PATTERN/REPLACEMENT/"},
        {"labels: //b/", "mask rule \"labels: //b/\" has an empty pattern"},
        {"labels: /(/b/", "mask rule \"labels: /(/b/\": bad regular expression \"(\""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct server_config config = {.mask = {{cases[i][0]}, 1}};
        struct mask *m = NULL;
        struct error err = {""};
        CHECK_INT(t, mask_new(&config, &m, &err), -EINVAL);
        if (strncmp(err.text, cases[i][1], strlen(cases[i][1])) != 0)
            CHECK_STR(t, err.text, cases[i][1]);
    }
}

static void what_cannot_be_looked_at_is_hidden(struct test *t)
{
    CLEANUP(mask_freep)
    struct mask *m = mask_of(t, true, (const char *const[]){"functions: /^(a+)+$/-/", NULL});
    char *big = malloc(50001);
    memset(big, 'a', 50000);
    big[50000] = '\0';
    check_text(t, m, STORE_PATHS, big, "***");
    check_text(t, m, STORE_NAMES, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", "***");
    free(big);
}

/* ---- A source's dictionary: no store behind it */

struct fixture {
    struct store_source source;
    struct mask_memory *memory;
    struct error err;
};

static void fixture_init(struct fixture *f, struct mask *m)
{
    *f = (struct fixture){.source = {.generation = 1}};
    budget_init(&f->source.budget, (size_t)16 << 20);
    f->source.set = profile_set_new(&f->source.budget);
    f->memory = mask_memory_new(m);
}

static void fixture_done(struct fixture *f)
{
    profile_set_free(f->source.set);
    mask_memory_free(f->memory);
}

static size_t run(struct test *t, struct fixture *f)
{
    size_t n = 99;
    CHECK_INT(t, mask_source(f->memory, &f->source, &n, &f->err), 0);
    return n;
}

static const char *kept(const struct fixture *f, enum store_role role, const char *text)
{
    const struct dict *d = f->source.set->dict;
    uint32_t id = dict_find_string(d, bytes_of(text));
    const struct store_rewrite *w = &f->source.rewrites[role];
    return dict_cstr(d, id < w->n && w->to[id] ? w->to[id] : id);
}

static uint32_t add_frame(struct fixture *f, const char *name, const char *file)
{
    struct dict *d = f->source.set->dict;
    struct function fn = {.name = dict_cstring(d, name), .file = dict_cstring(d, file)};
    return dict_frame(d, 0, fn, 0, 0, 0);
}

static void each_string_is_looked_at_once(struct test *t)
{
    CLEANUP(mask_freep)
    struct mask *m = mask_of(t, true, (const char *const[]){"functions: /secret/public/", NULL});
    struct fixture f;
    fixture_init(&f, m);
    add_frame(&f, "secretWork", "/home/bob/a.js");
    add_frame(&f, "work", "/home/bob/a.js");
    CHECK_INT(t, run(t, &f), 2);
    CHECK_STR(t, kept(&f, STORE_NAMES, "secretWork"), "publicWork");
    CHECK_STR(t, kept(&f, STORE_NAMES, "work"), "work");
    CHECK_STR(t, kept(&f, STORE_PATHS, "/home/bob/a.js"), "/home/*/a.js");
    CHECK_INT(t, run(t, &f), 0);
    add_frame(&f, "more", "/home/al/b.js");
    CHECK_INT(t, run(t, &f), 1);
    CHECK_STR(t, kept(&f, STORE_PATHS, "/home/al/b.js"), "/home/*/b.js");
    CHECK_STR(t, kept(&f, STORE_NAMES, "secretWork"), "publicWork");
    fixture_done(&f);
}

static void mappings_and_attributes_are_masked_too(struct test *t)
{
    CLEANUP(mask_freep) struct mask *m = mask_of(t, true, NULL);
    struct fixture f;
    fixture_init(&f, m);
    struct dict *d = f.source.set->dict;
    dict_mapping(d, (struct mapping){.file = dict_cstring(d, "/home/bob/bin/x")});
    dict_string_attribute(d, dict_cstring(d, "url"), dict_cstring(d, "http://a:b@c/"));
    dict_attribute(d, (struct attribute){.key = dict_cstring(d, "list"),
                                         .text = dict_cstring(d, "\x2a\x10token=123"),
                                         .kind = ATTRIBUTE_OTHER});
    CHECK_INT(t, run(t, &f), 3);
    CHECK_STR(t, kept(&f, STORE_PATHS, "/home/bob/bin/x"), "/home/*/bin/x");
    CHECK_STR(t, kept(&f, STORE_VALUES, "http://a:b@c/"), "http://a:***@c/");
    CHECK_STR(t, kept(&f, STORE_VALUES, "\x2a\x10token=123"), "\x0a\x03***");
    fixture_done(&f);
}

static void other_rules_apply_to_what_was_seen(struct test *t)
{
    CLEANUP(mask_freep) struct mask *m = mask_of(t, false, NULL);
    struct server_config bad = {.mask = {{"x"}, 1}}, good = {.mask = {{"functions: /a/b/"}, 1}};
    struct fixture f;
    fixture_init(&f, m);
    add_frame(&f, "banana", "");
    CHECK_INT(t, run(t, &f), 0);
    CHECK_INT(t, mask_reload(m, &bad, &f.err), -EINVAL);
    CHECK_INT(t, run(t, &f), 0);
    CHECK_INT(t, f.source.generation, 1);
    CHECK_INT(t, mask_reload(m, &good, &f.err), 0);
    CHECK_INT(t, run(t, &f), 1);
    CHECK_INT(t, f.source.generation, 2); /* translations made by the old rules go */
    CHECK_STR(t, kept(&f, STORE_NAMES, "banana"), "bbnbnb");
    check_text(t, m, STORE_NAMES, "a", "b");
    fixture_done(&f);
}

static void a_new_dictionary_is_looked_at_again(struct test *t)
{
    CLEANUP(mask_freep) struct mask *m = mask_of(t, true, NULL);
    struct fixture f;
    fixture_init(&f, m);
    add_frame(&f, "f", "/home/bob/a.js");
    CHECK_INT(t, run(t, &f), 1);
    profile_set_free(f.source.set);
    f.source.set = profile_set_new(&f.source.budget);
    f.source.generation++;
    add_frame(&f, "f", "/home/eve/a.js");
    CHECK_INT(t, run(t, &f), 1);
    CHECK_STR(t, kept(&f, STORE_PATHS, "/home/eve/a.js"), "/home/*/a.js");
    mask_forget(f.memory, &f.source);
    CHECK_STR(t, kept(&f, STORE_PATHS, "/home/eve/a.js"), "/home/eve/a.js");
    CHECK_INT(t, run(t, &f), 1);
    CHECK_STR(t, kept(&f, STORE_PATHS, "/home/eve/a.js"), "/home/*/a.js");
    fixture_done(&f);
}

static void values_are_masked_and_clean_ones_are_themselves(struct test *t)
{
    CLEANUP(mask_freep) struct mask *m = mask_of(t, true, NULL);
    struct budget budget;
    struct arena arena;
    struct mask_memory *memory = mask_memory_new(m);
    budget_init(&budget, 1 << 16);
    arena_init(&arena, &budget);
    for (int i = 0; i < 3; i++) {
        struct bytes clean = BYTES("checkout"), secret = BYTES("token=abc");
        CHECK(t, mask_value(memory, clean, &arena).data == clean.data);
        CHECK(t, bytes_are(mask_value(memory, secret, &arena), "token=***"));
    }
    CHECK_INT(t, mask_value(memory, (struct bytes){0}, &arena).len, 0);
    arena_done(&arena);
    budget.limit = 0;
    CHECK(t, bytes_are(mask_value(memory, BYTES("token=abc"), &arena), "***"));
    mask_memory_free(memory);
}

static const struct test_case cases[] = {
    TEST(built_in_rules_hide_secrets),
    TEST(built_in_rules_leave_the_rest_alone),
    TEST(own_rules_have_groups_and_any_divider),
    TEST(letters_past_ascii_are_no_spaces),
    TEST(faults_name_the_rule),
    TEST(what_cannot_be_looked_at_is_hidden),
    TEST(each_string_is_looked_at_once),
    TEST(mappings_and_attributes_are_masked_too),
    TEST(other_rules_apply_to_what_was_seen),
    TEST(a_new_dictionary_is_looked_at_again),
    TEST(values_are_masked_and_clean_ones_are_themselves),
};
TEST_MAIN(cases)
