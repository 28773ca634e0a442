#include <errno.h>

#include "base/buf.h"
#include "lib/stacks.h"
#include "profile/filter.h"
#include "profile/labels.h"
#include "profile/tag_filter.h"
#include "profile/tag_totals.h"

static void write_stack(const struct dict *d, uint32_t node, struct buf *out)
{
    if (node == 0)
        return;
    write_stack(d, d->node_parent.data[node], out);
    const struct location *l = &d->locations.data[d->node_location.data[node]];
    if (d->node_parent.data[node])
        buf_add_byte(out, ';');
    if (l->mapping)
        buf_addf(out, "%s!", dict_cstr(d, d->mappings.data[l->mapping].file));
    for (uint32_t i = l->n_lines; i-- > 0;) {
        const struct line *line = &d->lines.data[l->first_line + i];
        buf_addf(out, "%s%s", dict_cstr(d, d->functions.data[line->function].name), i ? "+" : "");
    }
}

/* All rows: "main;a 1|main;b 2". */
static const char *rows(const struct profile *p)
{
    static char text[1024];
    struct buf out = {0};

    for (size_t i = 0; i < p->n_samples; i++) {
        buf_add_str(&out, i ? "|" : "");
        write_stack(p->dict, p->node[i], &out);
        buf_addf(&out, " %lld", (long long)p->values[0][i]);
    }
    snprintf(text, sizeof(text), "%s", buf_cstr(&out));
    buf_done(&out);
    return text;
}

static struct regex *pattern(const char *text)
{
    struct regex *re = NULL;
    if (text && regex_new(bytes_of(text), &re, NULL) < 0)
        abort();
    return re;
}

static void names_choose_samples_and_frames(struct test *t)
{
    static const struct {
        const char *focus, *ignore, *hide, *show, *want;
    } cases[] = {
        {NULL, NULL, NULL, NULL, "main;a+b;lib.so!c 1|main;d 2|e 4| 8"},
        {"^b$", NULL, NULL, NULL, "main;a+b;lib.so!c 1"},
        {"lib", NULL, NULL, NULL, "main;a+b;lib.so!c 1"},
        {NULL, "main", NULL, NULL, "e 4"},
        {"main", "d", NULL, NULL, "main;a+b;lib.so!c 1"},
        {NULL, NULL, "^a$", NULL, "main;b;lib.so!c 1|main;d 2|e 4"},
        {NULL, NULL, "lib|e", NULL, "main;a+b 1|main;d 2"},
        {NULL, NULL, NULL, "^b$|d", "b 1|d 2"},
        {NULL, NULL, NULL, "lib", "lib.so!c 1"},
        {NULL, NULL, "a", "a|^b$|d", "b 1|d 2"},
        {"nothing", NULL, NULL, NULL, ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture f;
        struct name_matches m;
        fixture_init(&f);
        add(&f, "main;a+b;lib.so!c", 1);
        add(&f, "main;d", 2);
        add(&f, "e", 4);
        add(&f, "", 8);
        CLEANUP(regex_freep) struct regex *focus = pattern(cases[i].focus);
        CLEANUP(regex_freep) struct regex *ignore = pattern(cases[i].ignore);
        CLEANUP(regex_freep) struct regex *hide = pattern(cases[i].hide);
        CLEANUP(regex_freep) struct regex *show = pattern(cases[i].show);
        CHECK(t, profile_filter_names(f.p, &(struct name_filter){focus, ignore, hide, show}, &m));
        CHECK_STR(t, rows(f.p), cases[i].want);
        CHECK(t, m.focus == (!cases[i].focus || strcmp(cases[i].focus, "nothing") != 0));
        fixture_done(&f);
    }
}

static void show_from_takes_off_the_callers_above(struct test *t)
{
    static const char *const cases[][2] = {
        {"^a$", "a;b;c 1|a 2"},    {"^b$", "b;c 1|lib.so!b;d 4"},
        {"^x$", "lib.so!x+b;d 4"}, {"lib", "lib.so!x+b;d 4"},
        {"nothing", ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture f;
        bool matched;
        fixture_init(&f);
        add(&f, "main;a;b;c", 1);
        add(&f, "a", 2);
        add(&f, "main;lib.so!x+b;d", 4);
        CLEANUP(regex_freep) struct regex *re = pattern(cases[i][0]);
        CHECK(t, profile_show_from(f.p, re, &matched));
        CHECK_STR(t, rows(f.p), cases[i][1]);
        CHECK(t, matched == (*cases[i][1] != '\0'));
        fixture_done(&f);
    }
}

static void prune_from_takes_off_what_was_called_below(struct test *t)
{
    static const char *const cases[][2] = {
        {"^b$", "a;b;c;b 1|a+b 2|main;operator();f(int) 4"},
        {"^c$", "a;b;c 1|a+b+x;y 2|main;operator();f(int) 4"},
        {"^f$", "a;b;c;b;d 1|a+b+x;y 2|main;operator();f(int) 4"},
        {"^operator..$", "a;b;c;b;d 1|a+b+x;y 2|main;operator() 4"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture f;
        fixture_init(&f);
        add(&f, "a;b;c;b;d", 1);
        add(&f, "a+b+x;y", 2);
        add(&f, "main;operator();f(int)", 4);
        CLEANUP(regex_freep) struct regex *re = pattern(cases[i][0]);
        CHECK(t, profile_prune_from(f.p, re));
        CHECK_STR(t, rows(f.p), cases[i][1]);
        fixture_done(&f);
    }
}

static void frames_that_the_profile_calls_uninteresting_go(struct test *t)
{
    static const struct {
        const char *drop, *keep, *want;
    } cases[] = {
        {"malloc", NULL, "main;f 1|malloc;g 2|main;a 4|main 8"},
        {"malloc|x", NULL, "main;f 1|malloc;g 2|main;a 4|main 8"},
        {"m.*", "malloc",
         "main;f;malloc;brk 1|malloc;g 2|main;a+malloc+x;y 4|main;malloc(int);z 8"},
        {"x", NULL, "main;f;malloc;brk 1|malloc;g 2|main;a+malloc 4|main;malloc(int);z 8"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture f;
        fixture_init(&f);
        add(&f, "main;f;malloc;brk", 1);
        add(&f, "malloc;g", 2);
        add(&f, "main;a+malloc+x;y", 4);
        add(&f, "main;malloc(int);z", 8);
        f.p->drop_frames = dict_cstring(f.set->dict, cases[i].drop);
        f.p->keep_frames = cases[i].keep ? dict_cstring(f.set->dict, cases[i].keep) : 0;
        CHECK_INT(t, profile_drop_frames(f.p, NULL, NULL), 0);
        CHECK_STR(t, rows(f.p), cases[i].want);
        fixture_done(&f);
    }
}

static void bad_patterns_of_a_profile_are_refused(struct test *t)
{
    struct fixture f;
    struct error err;

    fixture_init(&f);
    CHECK_INT(t, profile_drop_frames(f.p, NULL, NULL), 0);
    f.p->drop_frames = dict_cstring(f.set->dict, "a(");
    CHECK_INT(t, profile_drop_frames(f.p, NULL, &err), -EINVAL);
    CHECK(t, strstr(err.text, "bad regular expression \"^(a()$\""));
    fixture_done(&f);
}

/* A sample with labels written "key=text" or "key=12:unit" (a number), separated by spaces. */
static void add_labelled(struct fixture *f, const char *name, const char *labels, int64_t value)
{
    struct dict *d = f->set->dict;
    uint32_t ids[8];
    size_t n = 0;
    char *copy = strdup(labels);

    for (char *save, *one = strtok_r(copy, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(one, '='), *colon = strchr(one, ':');
        *equals = '\0';
        uint32_t key = dict_cstring(d, one);
        if (colon)
            ids[n++] = dict_int_attribute(d, key, strtoll(equals + 1, NULL, 10),
                                          dict_cstring(d, colon + 1));
        else
            ids[n++] = dict_string_attribute(d, key, dict_cstring(d, equals + 1));
    }
    free(copy);
    profile_add(
        f->p,
        &(struct sample){.node = stack(d, name), .attrs = dict_attrs(d, ids, n), .values = &value});
}

static void labelled_profile(struct fixture *f)
{
    fixture_init(f);
    add_labelled(f, "a", "thread=main", 1);
    add_labelled(f, "b", "thread=io request=2:kilobytes", 2);
    add_labelled(f, "c", "request=4096:bytes", 4);
    add_labelled(f, "d", "alignment=8:", 8);
    add_labelled(f, "e", "", 16);
}

static void tags_choose_samples(struct test *t)
{
    /* A key has one unit: that of requests is kilobytes, and 4096 counts in it. */
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"thread", "a 1|b 2"},
        {"main", "a 1"},
        {"thread:.o", "b 2"},
        {"thread=^(io|x)$", "b 2"},
        {"thread=x,main", "a 1"},
        {"thread,io", "b 2"},
        {"2kb", "b 2"},
        {"request=4kb", ""},
        {"2kb:", "b 2|c 4"},
        {":3kb", "b 2|d 8"},
        {"1kb:2mb", "b 2"},
        {"request=1b:1gb", "b 2|c 4"},
        {"alignment=8b", "d 8"},
        {"alignment=-3:+9", ""},
        {"1b:2s", ""},
        {"=main", "a 1"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture f;
        struct label_units units;
        CLEANUP(tag_filter_freep) struct tag_filter *filter = NULL;
        bool focused, ignored;
        labelled_profile(&f);
        CHECK(t, label_units_build(f.p, &units, NULL));
        CHECK_INT(t, tag_filter_new(cases[i].text, &units, &filter, NULL, NULL), 0);
        CHECK(t, profile_filter_tags(f.p, filter, NULL, &focused, &ignored));
        CHECK(t, focused == (f.p->n_samples > 0) && !ignored);
        CHECK_STR(t, rows(f.p), cases[i].want);
        label_units_done(&units);
        fixture_done(&f);
    }
}

static void tags_drop_samples(struct test *t)
{
    struct fixture f;
    struct label_units units;
    CLEANUP(tag_filter_freep) struct tag_filter *filter = NULL;
    bool focused, ignored, is_range;

    labelled_profile(&f);
    CHECK(t, label_units_build(f.p, &units, NULL));
    CHECK_INT(t, tag_filter_new("thread", &units, &filter, &is_range, NULL), 0);
    CHECK(t, !is_range);
    CHECK(t, profile_filter_tags(f.p, NULL, filter, &focused, &ignored));
    CHECK(t, focused && ignored);
    CHECK_STR(t, rows(f.p), "c 4|d 8|e 16");
    label_units_done(&units);
    fixture_done(&f);
}

static void tag_filters_that_make_no_sense_are_refused(struct test *t)
{
    struct label_units units = {0};
    struct tag_filter *filter = NULL;
    struct error err;
    char many[300] = "a";

    CHECK_INT(t, tag_filter_new("a(", &units, &filter, NULL, &err), -EINVAL);
    CHECK(t, strstr(err.text, "bad regular expression"));
    CHECK_INT(t, tag_filter_new("99999999999999999999kb", &units, &filter, NULL, &err), -EINVAL);
    CHECK_STR(t, err.text, "the number 99999999999999999999 is too large");
    CHECK_INT(t, tag_filter_new("1:99999999999999999999", &units, &filter, NULL, &err), -EINVAL);
    for (int i = 0; i < 64; i++)
        strcat(many, ",a");
    CHECK_INT(t, tag_filter_new(many, &units, &filter, NULL, &err), -EINVAL);
    CHECK_STR(t, err.text, "more than 64 patterns in one tag filter");
}

static void label_keys_can_be_taken_off(struct test *t)
{
    struct fixture f;
    bool shown, hidden;
    struct dict *d;

    labelled_profile(&f);
    d = f.set->dict;
    CLEANUP(regex_freep) struct regex *show = pattern("thread|align");
    CLEANUP(regex_freep) struct regex *hide = pattern("align");
    CHECK(t, profile_filter_tag_keys(f.p, show, hide, &shown, &hidden));
    CHECK(t, shown && hidden);
    CHECK_INT(t, d->attr_sets.data[f.p->attrs[0]].n, 1);
    CHECK_INT(t, d->attr_sets.data[f.p->attrs[1]].n, 1);
    CHECK_INT(t, f.p->attrs[2], 0);
    CHECK_INT(t, f.p->attrs[3], 0);
    fixture_done(&f);
}

static void labels_become_frames(struct test *t)
{
    struct fixture f;
    bool root, leaf;

    labelled_profile(&f);
    CHECK(t, profile_add_tag_frames(f.p, "thread,,request", "alignment", "minimum", &root, &leaf));
    CHECK(t, root && leaf);
    CHECK_STR(t, rows(f.p), "main;;a; 1|io;2kB;b; 2|;4kB;c; 4|;;d;8 8|;;e; 16");
    fixture_done(&f);
    labelled_profile(&f);
    CHECK(t, profile_add_tag_frames(f.p, NULL, "nothing", "minimum", &root, &leaf));
    CHECK(t, !root && !leaf);
    CHECK_STR(t, rows(f.p), "a; 1|b; 2|c; 4|d; 8|e; 16");
    fixture_done(&f);
}

static void a_key_has_one_unit_and_says_so(struct test *t)
{
    struct fixture f;
    struct label_units units;
    struct buf warnings = {0};

    labelled_profile(&f);
    struct dict *d = f.set->dict;
    CHECK(t, label_units_build(f.p, &units, &warnings));
    CHECK_STR(t, buf_cstr(&warnings),
              "For tag request used unit kilobytes, also encountered unit(s) bytes\n");
    CHECK_STR(t, dict_cstr(d, label_unit(&units, dict_cstring(d, "request"))), "kilobytes");
    CHECK_STR(t, dict_cstr(d, label_unit(&units, dict_cstring(d, "alignment"))), "bytes");
    CHECK_INT(t, label_unit(&units, dict_cstring(d, "thread")), 0);
    CHECK_INT(t, label_unit(&units, dict_cstring(d, "a new string")), 0);
    label_units_done(&units);
    buf_done(&warnings);
    fixture_done(&f);
}

static void labels_of_any_kind_have_a_text(struct test *t)
{
    struct fixture f;
    struct buf out = {0};
    double half = 0.5;
    int64_t bits;

    fixture_init(&f);
    struct dict *d = f.set->dict;
    memcpy(&bits, &half, sizeof(bits));
    uint32_t x = dict_cstring(d, "x"), ids[4];
    ids[0] = dict_attribute(d, (struct attribute){.key = x, .kind = ATTRIBUTE_BOOL, .number = 1});
    ids[1] =
        dict_attribute(d, (struct attribute){.key = x, .kind = ATTRIBUTE_DOUBLE, .number = bits});
    ids[2] = dict_string_attribute(d, x, dict_cstring(d, "text"));
    ids[3] = dict_int_attribute(d, x, 7, 0);
    label_add_text(d, &d->attributes.data[ids[3]], &out);
    CHECK_STR(t, buf_cstr(&out), "7");
    buf_clear(&out);
    label_join(d, dict_attrs(d, ids, 4), 0, &out);
    CHECK_STR(t, buf_cstr(&out), "x:0.5\\nx:text\\nx:true");
    buf_clear(&out);
    label_join(d, dict_attrs(d, ids, 4), x, &out);
    CHECK_STR(t, buf_cstr(&out), "");
    buf_done(&out);
    fixture_done(&f);
}

static void tags_are_totalled_per_value(struct test *t)
{
    struct fixture f;
    struct label_units units;
    struct tag_totals totals;
    struct buf out = {0};

    labelled_profile(&f);
    add_labelled(&f, "x", "thread=main", 100);
    add_labelled(&f, "x", "thread=other", -3);
    CHECK(t, label_units_build(f.p, &units, NULL));
    CHECK(t, tag_totals_build(f.p, 0, &units, "auto", &totals));
    for (size_t i = 0; i < totals.all.len; i++)
        buf_addf(&out, "%s=%s %lld|", dict_cstr(f.set->dict, totals.all.data[i].key),
                 dict_cstr(f.set->dict, totals.all.data[i].text),
                 (long long)totals.all.data[i].value);
    CHECK_STR(
        t, buf_cstr(&out),
        "alignment=8B 8|request=4MB 4|request=2kB 2|thread=main 101|thread=other -3|thread=io "
        "2|");
    tag_totals_done(&totals);
    label_units_done(&units);
    buf_done(&out);
    fixture_done(&f);
}

/* Keys that are equal up to a NUL have their values each. */
static void tags_with_a_nul_keep_their_values(struct test *t)
{
    struct fixture f;
    struct label_units units;
    struct tag_totals totals;

    fixture_init(&f);
    struct dict *d = f.set->dict;
    uint32_t keys[2] = {dict_string(d, (struct bytes){(const uint8_t *)"k\0a", 3}),
                        dict_string(d, (struct bytes){(const uint8_t *)"k\0b", 3})};
    for (int i = 0; i < 6; i++) {
        char text[8];
        int64_t value = 1 + i;
        snprintf(text, sizeof(text), "v%d", i);
        uint32_t id = dict_string_attribute(d, keys[i % 2], dict_cstring(d, text));
        profile_add(f.p, &(struct sample){.node = stack(d, "x"),
                                          .attrs = dict_attrs(d, &id, 1),
                                          .values = &value});
    }
    CHECK(t, label_units_build(f.p, &units, NULL));
    CHECK(t, tag_totals_build(f.p, 0, &units, "auto", &totals));
    CHECK_INT(t, totals.keys.len, 2);
    for (size_t i = 0; i < totals.keys.len; i++)
        CHECK_INT(t, totals.keys.data[i].n, 3);
    tag_totals_done(&totals);
    label_units_done(&units);
    fixture_done(&f);
}

/* Each filter, with every budget from too small upwards. */
static bool run_filter(struct fixture *f, int which)
{
    CLEANUP(regex_freep) struct regex *re = pattern("b|main");
    struct label_units units = {.budget = &f->budget};
    struct tag_totals totals = {.budget = &f->budget};
    struct name_matches m;
    bool x, y, ok = false;

    switch (which) {
    case 0:
        ok = profile_filter_names(f->p, &(struct name_filter){.focus = re, .hide = re, .show = re},
                                  &m);
        break;
    case 1:
        ok = profile_show_from(f->p, re, &x);
        break;
    case 2:
        ok = profile_prune_from(f->p, re);
        break;
    case 3:
        ok = profile_drop_frames(f->p, NULL, NULL) == 0;
        break;
    case 4:
        ok = profile_filter_tag_keys(f->p, re, re, &x, &y);
        break;
    case 5:
        ok = profile_add_tag_frames(f->p, "thread", "request", "minimum", &x, &y);
        break;
    case 6:
        ok = label_units_build(f->p, &units, NULL) &&
             tag_totals_build(f->p, 0, &units, "auto", &totals);
        break;
    case 7:
        ok = profile_filter_tags(f->p, NULL, NULL, &x, &y);
        break;
    }
    tag_totals_done(&totals);
    label_units_done(&units);
    return ok;
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    for (int which = 0; which < 8; which++) {
        bool done = false;
        for (size_t extra = 0; !done && extra < 100000; extra += 16) {
            struct fixture f;
            labelled_profile(&f);
            add(&f, "main;a+b+x;b", 1);
            f.p->drop_frames = f.p->keep_frames = dict_cstring(f.set->dict, "b");
            f.budget.limit = f.budget.used + extra;
            done = run_filter(&f, which);
            CHECK(t, done == !budget_failed(&f.budget));
            fixture_done(&f);
            CHECK_INT(t, f.budget.used, 0);
        }
        CHECK(t, done);
    }
}

static const struct test_case cases[] = {
    TEST(names_choose_samples_and_frames),
    TEST(show_from_takes_off_the_callers_above),
    TEST(prune_from_takes_off_what_was_called_below),
    TEST(frames_that_the_profile_calls_uninteresting_go),
    TEST(bad_patterns_of_a_profile_are_refused),
    TEST(tags_choose_samples),
    TEST(tags_drop_samples),
    TEST(tag_filters_that_make_no_sense_are_refused),
    TEST(label_keys_can_be_taken_off),
    TEST(labels_become_frames),
    TEST(a_key_has_one_unit_and_says_so),
    TEST(labels_of_any_kind_have_a_text),
    TEST(tags_are_totalled_per_value),
    TEST(tags_with_a_nul_keep_their_values),
    TEST(survives_running_out_of_memory_anywhere),
};
TEST_MAIN(cases)
