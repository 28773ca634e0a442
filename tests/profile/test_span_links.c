#include <errno.h>

#include "lib/stacks.h"
#include "profile/span_links.h"

/* Adds a row with these labels, "key=value" each. */
static void add_labelled(struct fixture *f, const char *first, const char *second)
{
    struct dict *d = f->set->dict;
    const char *const both[] = {first, second};
    uint32_t ids[2] = {0};
    int64_t one = 1;

    for (int i = 0; i < 2; i++) {
        const char *equals = both[i] ? strchr(both[i], '=') : NULL;
        if (!equals)
            continue;
        struct bytes key = {(const uint8_t *)both[i], (size_t)(equals - both[i])};
        ids[i] = dict_string_attribute(d, dict_string(d, key), dict_cstring(d, equals + 1));
    }
    profile_add(f->p, &(struct sample){
                          .node = stack(d, "a"), .attrs = dict_attrs(d, ids, 2), .values = &one});
}

static const char *key_of(const struct fixture *f, size_t row, size_t i)
{
    const struct dict *d = f->set->dict;
    struct attrs set = d->attr_sets.data[profile_attrs(f->p, row)];
    return i < set.n ? dict_cstr(d, d->attributes.data[d->attr_ids.data[set.first + i]].key) : "";
}

static void labels_become_links(struct test *t)
{
    static const uint8_t span[8] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
    static const uint8_t trace[16] = {[15] = 0xff};
    static const uint8_t none[16];
    struct fixture f;
    struct error err;
    fixture_init(&f);
    const struct dict *d = f.set->dict;

    add_labelled(&f, "span_id=0123456789abcdef", "span_name=GET /");
    add_labelled(&f, "span_id=0123456789ABCDEF", "trace_id=000000000000000000000000000000ff");
    add_labelled(&f, "profile_id=0123456789abcdef", "span_id=00000000000000aa");
    add_labelled(&f, "profile_id=0123456789abcdef", NULL);
    add_labelled(&f, "k=v", NULL);
    CHECK_INT(t, span_links_make(f.set, 0, &err), 0);

    const struct link *l = &d->links.data[profile_link(f.p, 0)];
    CHECK(t, memcmp(l->span_id, span, 8) == 0 && memcmp(l->trace_id, none, 16) == 0);
    CHECK_STR(t, key_of(&f, 0, 0), "span_name");
    CHECK_STR(t, key_of(&f, 0, 1), "");
    l = &d->links.data[profile_link(f.p, 1)];
    CHECK(t, memcmp(l->span_id, span, 8) == 0 && memcmp(l->trace_id, trace, 16) == 0);
    CHECK_INT(t, profile_attrs(f.p, 1), 0);
    l = &d->links.data[profile_link(f.p, 2)];
    CHECK_INT(t, l->span_id[7], 0xaa);
    CHECK_STR(t, key_of(&f, 2, 0), "profile_id");
    l = &d->links.data[profile_link(f.p, 3)];
    CHECK(t, memcmp(l->span_id, span, 8) == 0);
    CHECK_INT(t, profile_link(f.p, 4), 0);
    CHECK_STR(t, key_of(&f, 4, 0), "k");
    fixture_done(&f);
}

static void numbers_become_links(struct test *t)
{
    struct fixture f;
    struct error err;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    int64_t one = 1;
    uint32_t id = dict_int_attribute(d, dict_cstring(d, "span id"), 0x0102030405060708, 0);

    profile_add(f.p, &(struct sample){.attrs = dict_attrs(d, &id, 1), .values = &one});
    CHECK_INT(t, span_links_make(f.set, 0, &err), 0);
    const struct link *l = &d->links.data[profile_link(f.p, 0)];
    CHECK_INT(t, l->span_id[0], 1);
    CHECK_INT(t, l->span_id[7], 8);
    fixture_done(&f);
}

static void what_is_written_otherwise_stays_a_label(struct test *t)
{
    struct fixture f;
    struct error err;
    fixture_init(&f);

    add_labelled(&f, "span_id=0123", NULL);
    add_labelled(&f, "span_id=0123456789abcdeg", NULL);
    add_labelled(&f, "span_id=0000000000000000", NULL);
    add_labelled(&f, "trace_id=000000000000000000000000000000ff", NULL);
    CHECK_INT(t, span_links_make(f.set, 0, &err), 0);
    for (size_t i = 0; i < f.p->n_samples; i++) {
        CHECK_INT(t, profile_link(f.p, i), 0);
        CHECK(t, profile_attrs(f.p, i) != 0);
    }
    fixture_done(&f);
}

static void says_when_memory_is_spent(struct test *t)
{
    struct fixture f;
    struct error err;
    fixture_init(&f);

    for (int i = 0; i < 40; i++)
        add_labelled(&f, "span_id=0123456789abcdef", "k=v");
    f.budget.limit = f.budget.used;
    CHECK_INT(t, span_links_make(f.set, 0, &err), -ENOBUFS);
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(labels_become_links),
    TEST(numbers_become_links),
    TEST(what_is_written_otherwise_stays_a_label),
    TEST(says_when_memory_is_spent),
};
TEST_MAIN(cases)
