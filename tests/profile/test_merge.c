#include "lib/test.h"
#include "profile/merge.h"

struct fixture {
    struct budget budget;
    struct profile_set *set;
};

static void fixture_init(struct fixture *f)
{
    budget_init(&f->budget, BUDGET_DEFAULT_BYTES);
    f->set = profile_set_new(&f->budget);
}

static void fixture_done(struct fixture *f)
{
    profile_set_free(f->set);
}

static uint32_t stack(struct dict *d, const char *outer, const char *inner)
{
    uint32_t n = dict_frame(d, 0, (struct function){.name = dict_cstring(d, outer)}, 0, 0, 0);
    return dict_frame(d, n, (struct function){.name = dict_cstring(d, inner)}, 0, 0, 0);
}

static struct profile *cpu_profile(struct fixture *f)
{
    struct profile *p = profile_set_add(f->set);
    profile_add_ctype(p, "cpu", "nanoseconds");
    return p;
}

static struct profile *merge(struct fixture *f, bool drop_zero)
{
    return profile_merge(f->set->dict, f->set->profiles.data, f->set->profiles.len,
                         (struct merge_options){.drop_zero = drop_zero});
}

static void equal_stacks_add_up_in_the_order_they_first_appear(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    struct profile *a = cpu_profile(&f), *b = cpu_profile(&f);
    uint32_t x = stack(d, "main", "x"), y = stack(d, "main", "y"), z = stack(d, "main", "z");
    profile_add_value(a, y, 1);
    profile_add_value(a, x, 2);
    profile_add_value(a, y, 3);
    profile_add_value(b, z, 4);
    profile_add_value(b, x, 5);

    struct profile *m = merge(&f, true);
    CHECK_INT(t, m->n_samples, 3);
    CHECK_INT(t, m->node[0], y);
    CHECK_INT(t, m->values[0][0], 4);
    CHECK_INT(t, m->node[1], x);
    CHECK_INT(t, m->values[0][1], 7);
    CHECK_INT(t, m->node[2], z);
    CHECK_INT(t, m->values[0][2], 4);
    profile_free(m);
    fixture_done(&f);
}

static void rows_of_zeros_go_when_asked(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    struct profile *a = cpu_profile(&f), *b = cpu_profile(&f);
    uint32_t x = stack(d, "main", "x"), y = stack(d, "main", "y");
    profile_add_value(a, x, 2);
    profile_add_value(a, y, 0);
    profile_add_value(b, x, -2);
    profile_add_value(b, y, 1);
    profile_add_value(b, 0, 1);

    struct profile *m = merge(&f, true);
    CHECK_INT(t, m->n_samples, 2);
    CHECK_INT(t, m->node[0], y);
    CHECK_INT(t, m->node[1], 0);
    profile_free(m);
    m = merge(&f, false);
    CHECK_INT(t, m->n_samples, 3);
    CHECK_INT(t, m->values[0][0], 0);
    profile_free(m);
    fixture_done(&f);
}

static void labels_and_links_keep_rows_apart(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    struct profile *a = cpu_profile(&f), *b = cpu_profile(&f);
    uint32_t x = stack(d, "main", "x");
    uint32_t label = dict_string_attribute(d, dict_cstring(d, "k"), dict_cstring(d, "v"));
    uint32_t attrs = dict_attrs(d, &label, 1);
    uint32_t link = dict_link(d, (struct link){.trace_id = {1}});
    const int64_t one = 1, zero = 0;
    for (int i = 0; i < 3; i++) {
        profile_add(a, &(struct sample){.node = x, .values = &one});
        profile_add(a, &(struct sample){.node = x, .attrs = attrs, .values = &one});
        profile_add(b, &(struct sample){.node = x, .link = link, .values = &one, .time_ns = 5});
        profile_add(b, &(struct sample){.node = x, .attrs = attrs, .link = link, .values = &one});
        profile_add(b, &(struct sample){.node = 0, .attrs = attrs, .values = &zero});
    }

    struct profile *m = merge(&f, true);
    CHECK_INT(t, m->n_samples, 4);
    for (size_t i = 0; i < 4; i++)
        CHECK_INT(t, m->values[0][i], 3);
    CHECK_INT(t, profile_attrs(m, 1), attrs);
    CHECK_INT(t, profile_link(m, 3), link);
    CHECK(t, m->time_ns == NULL);
    profile_free(m);
    fixture_done(&f);
}

static void types_are_united_and_the_finer_unit_wins(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    struct profile *a = profile_set_add(f.set), *b = profile_set_add(f.set);
    uint32_t x = stack(d, "main", "x");
    profile_add_ctype(a, "cpu", "milliseconds");
    profile_add_ctype(b, "alloc", "bytes");
    profile_add_ctype(b, "cpu", "ns");
    profile_add_value(a, x, 2);
    profile_add(b, &(struct sample){.node = x, .values = (const int64_t[]){7, 5}});

    struct profile *m = merge(&f, true);
    CHECK_INT(t, m->n_types, 2);
    CHECK_STR(t, dict_cstr(d, m->types[0].type), "cpu");
    CHECK_STR(t, dict_cstr(d, m->types[0].unit), "ns");
    CHECK_STR(t, dict_cstr(d, m->types[1].type), "alloc");
    CHECK_INT(t, m->values[0][0], 2000005);
    CHECK_INT(t, m->values[1][0], 7);
    profile_free(m);
    fixture_done(&f);
}

static void values_too_large_for_the_finer_unit_stop_at_the_end_of_the_range(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    struct profile *a = profile_set_add(f.set), *b = profile_set_add(f.set);
    profile_add_ctype(a, "cpu", "hours");
    profile_add_ctype(b, "cpu", "ns");
    profile_add_value(a, stack(d, "main", "x"), INT64_MAX);
    profile_add_value(a, stack(d, "main", "y"), INT64_MIN);

    struct profile *m = merge(&f, true);
    CHECK_INT(t, m->values[0][0], INT64_MAX);
    CHECK_INT(t, m->values[0][1], INT64_MIN);
    profile_free(m);
    fixture_done(&f);
}

static void headers_combine_as_pprof_does(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    struct profile *a = cpu_profile(&f), *b = cpu_profile(&f);
    uint32_t c1 = dict_cstring(d, "one"), c2 = dict_cstring(d, "two");
    a->time_unix_ns = 200, b->time_unix_ns = 100;
    a->duration_ns = 5, b->duration_ns = 6;
    a->period = 10, b->period = 20;
    vec_push(&f.budget, &a->comments, c1);
    vec_push(&f.budget, &b->comments, c1);
    vec_push(&f.budget, &b->comments, c2);
    b->doc_url = c2;
    a->drop_frames = c1;
    a->scope_name = c1, b->scope_name = c1;
    a->scope_version = c1, b->scope_version = c2;
    a->profile_id[0] = 1;

    struct profile *m = merge(&f, true);
    CHECK_INT(t, m->time_unix_ns, 100);
    CHECK_INT(t, m->duration_ns, 11);
    CHECK_INT(t, m->period, 20);
    CHECK_INT(t, m->comments.len, 2);
    CHECK_INT(t, m->comments.data[1], c2);
    CHECK_INT(t, m->doc_url, c2);
    CHECK_INT(t, m->drop_frames, c1);
    CHECK_INT(t, m->scope_name, c1);
    CHECK_INT(t, m->scope_version, 0);
    CHECK_INT(t, m->profile_id[0], 0);
    profile_free(m);
    fixture_done(&f);
}

static uint32_t address_stack(struct dict *d, uint32_t mapping, uint64_t address)
{
    uint32_t l =
        dict_location(d, (struct location){.address = address, .mapping = mapping}, NULL, 0);
    return dict_node(d, 0, l);
}

static void what_is_measured_side_by_side_takes_no_longer(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    struct value_type mutex = {dict_cstring(d, "mutex"), dict_cstring(d, "count")};
    for (int file = 0; file < 2; file++) {
        struct profile *cpu = cpu_profile(&f), *locks = cpu_profile(&f);
        cpu->duration_ns = locks->duration_ns = 10;
        cpu->period = 5;
        cpu->period_type = cpu->types[0];
        locks->period = 7;
        locks->period_type = mutex; /* the same values, of another thing */
        profile_add_value(cpu, 0, 1);
    }
    for (int kind = 0; kind < 40; kind++) {
        char name[16];
        struct profile *p = profile_set_add(f.set);
        snprintf(name, sizeof(name), "kind %d", kind);
        profile_add_ctype(p, name, "count");
        p->duration_ns = 1;
    }
    struct profile *m = merge(&f, false);
    CHECK_INT(t, m->duration_ns, 20);
    CHECK_INT(t, m->period, 5);
    CHECK_INT(t, m->period_type.type, m->types[0].type);
    profile_free(m);
    fixture_done(&f);
}

static void one_binary_at_two_addresses_becomes_one(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    uint32_t file = dict_cstring(d, "/bin/app"), id = dict_cstring(d, "abc");
    uint32_t m1 = dict_mapping(
        d, (struct mapping){.start = 0x1000, .limit = 0x3000, .file = file, .build_id = id});
    uint32_t m2 =
        dict_mapping(d, (struct mapping){.start = 0x9000, .limit = 0xaff0, .build_id = id});
    uint32_t other = dict_mapping(
        d, (struct mapping){.start = 0x9000, .limit = 0xb000, .offset = 0x1000, .build_id = id});
    struct profile *a = cpu_profile(&f), *b = cpu_profile(&f);
    profile_add_value(a, address_stack(d, m1, 0x1234), 1);
    profile_add_value(b, address_stack(d, m2, 0x9234), 2);
    profile_add_value(b, address_stack(d, other, 0x9234), 4);
    profile_add_value(b, address_stack(d, 0, 0x9234), 8);
    vec_push(&f.budget, &a->mappings, m1);
    vec_push(&f.budget, &b->mappings, m2);
    vec_push(&f.budget, &b->mappings, other);
    b->default_mapping = m2;

    struct profile *m = merge(&f, true);
    CHECK_INT(t, m->n_samples, 3);
    CHECK_INT(t, m->values[0][0], 3);
    uint32_t l = d->node_location.data[m->node[0]];
    CHECK_INT(t, d->locations.data[l].address, 0x1234);
    CHECK_INT(t, d->locations.data[l].mapping, m1);
    CHECK_INT(t, m->mappings.len, 2);
    CHECK_INT(t, m->mappings.data[1], other);
    CHECK_INT(t, m->default_mapping, m1);
    profile_free(m);
    fixture_done(&f);
}

static void resource_attributes_that_differ_reach_the_samples(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    struct profile *a = cpu_profile(&f), *b = cpu_profile(&f);
    uint32_t key = dict_cstring(d, "host.name"), x = stack(d, "main", "x");
    uint32_t both = dict_string_attribute(d, dict_cstring(d, "service.name"), dict_cstring(d, "s"));
    uint32_t h1 = dict_string_attribute(d, key, dict_cstring(d, "h1"));
    uint32_t h2 = dict_string_attribute(d, key, dict_cstring(d, "h2"));
    uint32_t label = dict_string_attribute(d, dict_cstring(d, "k"), dict_cstring(d, "v"));
    a->resource_attrs = dict_attrs(d, (uint32_t[]){both, h1}, 2);
    b->resource_attrs = dict_attrs(d, (uint32_t[]){both, h2}, 2);
    const int64_t one = 1;
    profile_add_value(a, x, 1);
    profile_add_value(b, x, 1);
    profile_add(b, &(struct sample){.node = x, .attrs = dict_attrs(d, &label, 1), .values = &one});

    struct profile *m = merge(&f, true);
    CHECK_INT(t, m->n_samples, 3);
    CHECK_INT(t, m->resource_attrs, dict_attrs(d, &both, 1));
    CHECK_INT(t, dict_attrs_get(d, profile_attrs(m, 0), key), h1);
    CHECK_INT(t, dict_attrs_get(d, profile_attrs(m, 1), key), h2);
    CHECK_INT(t, dict_attrs_get(d, profile_attrs(m, 2), key), h2);
    CHECK_INT(t, d->attr_sets.data[profile_attrs(m, 2)].n, 2);
    profile_free(m);
    fixture_done(&f);
}

static void totals_reach_from_leaf_to_root(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    struct profile *a = cpu_profile(&f);
    uint32_t x = stack(d, "main", "x"), y = stack(d, "main", "y");
    profile_add_value(a, x, 2);
    profile_add_value(a, y, 3);
    profile_add_value(a, d->node_parent.data[x], 4);
    profile_add_value(a, 0, 10);
    int64_t totals[4];
    CHECK_INT(t, dict_n_nodes(d), 4);
    profile_totals(a, 0, totals);
    CHECK_INT(t, totals[x], 2);
    CHECK_INT(t, totals[d->node_parent.data[x]], 9);
    CHECK_INT(t, totals[0], 19);
    fixture_done(&f);
}

static void more_types_than_fit_are_an_error_not_a_wrong_number(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    for (int i = 0; i < PROFILE_TYPES_MAX + 1; i++) {
        char name[16];
        snprintf(name, sizeof(name), "t%d", i);
        struct profile *p = profile_set_add(f.set);
        profile_add_ctype(p, name, "count");
        profile_add_value(p, 0, 1);
    }
    CHECK(t, merge(&f, true) == NULL);
    CHECK(t, budget_failed(&f.budget));
    fixture_done(&f);
}

/* Every budget from too small upwards: each fails cleanly until one is large enough. */
static void survives_running_out_of_memory_anywhere(struct test *t)
{
    bool done = false;
    for (size_t extra = 0; !done && extra < 100000; extra += 64) {
        struct fixture f;
        fixture_init(&f);
        struct dict *d = f.set->dict;
        uint32_t m1 = dict_mapping(d, (struct mapping){.start = 0x1000, .limit = 0x3000});
        uint32_t m2 = dict_mapping(d, (struct mapping){.start = 0x9000, .limit = 0xb000});
        struct profile *a = cpu_profile(&f), *b = cpu_profile(&f);
        for (uint64_t i = 0; i < 40; i++) {
            profile_add_value(a, address_stack(d, m1, 0x1000 + i), 1);
            uint32_t label = dict_int_attribute(d, dict_cstring(d, "n"), (int64_t)i, 0);
            const int64_t one = 1;
            profile_add(b, &(struct sample){.node = address_stack(d, m2, 0x9000 + i),
                                            .attrs = dict_attrs(d, &label, 1),
                                            .values = &one});
        }
        a->resource_attrs = profile_attrs(b, 3);
        f.budget.limit = f.budget.used + extra;
        struct profile *m = merge(&f, true);
        CHECK(t, (m == NULL) == budget_failed(&f.budget));
        done = m != NULL;
        profile_free(m);
        fixture_done(&f);
        CHECK_INT(t, f.budget.used, 0);
    }
    CHECK(t, done);
}

static const struct test_case cases[] = {
    TEST(equal_stacks_add_up_in_the_order_they_first_appear),
    TEST(rows_of_zeros_go_when_asked),
    TEST(labels_and_links_keep_rows_apart),
    TEST(types_are_united_and_the_finer_unit_wins),
    TEST(values_too_large_for_the_finer_unit_stop_at_the_end_of_the_range),
    TEST(headers_combine_as_pprof_does),
    TEST(what_is_measured_side_by_side_takes_no_longer),
    TEST(one_binary_at_two_addresses_becomes_one),
    TEST(resource_attributes_that_differ_reach_the_samples),
    TEST(totals_reach_from_leaf_to_root),
    TEST(more_types_than_fit_are_an_error_not_a_wrong_number),
    TEST(survives_running_out_of_memory_anywhere),
};
TEST_MAIN(cases)
