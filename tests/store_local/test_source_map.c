#include "profile/merge.h"
#include "store/selector.h"
#include "store_local/store_fixture.h"

#define TEXT_SIZE   0x5800u
#define TEXT_OFFSET 0x1000u
#define MOVED       ((uint64_t)1 << 32) /* where files are said to be */

/* A stack of three places in a mapping, the last one with a name. */
static struct profile *profile_in(struct fixture *f, struct mapping m, const char *file,
                                  const char *build_id)
{
    struct profile *p = make_profile(f->source, NOW_NS, 0, 0);
    struct dict *d = p->dict;
    struct function named = {.name = dict_cstring(d, "named")};
    struct line line = {.function = dict_function(d, named), .line = 3};
    uint32_t node = 0;

    m.file = dict_cstring(d, file);
    m.build_id = dict_cstring(d, build_id);
    uint32_t mapping = dict_mapping(d, m);
    for (uint64_t i = 1; i <= 3; i++) {
        struct location l = {.mapping = mapping, .address = m.start + 0x100 * i};
        node = dict_node(d, node, dict_location(d, l, &line, i == 3));
    }
    profile_add_value(p, node, 5);
    return p;
}

static struct mapping text_at(uint64_t start)
{
    return (struct mapping){.start = start, .limit = start + TEXT_SIZE, .offset = TEXT_OFFSET};
}

static const struct dict *dict_of(struct fixture *f)
{
    return local_of(f->store)->epochs.data[0]->dict;
}

/* The mapping and the first address of it as the store has them. */
static void check_kept(struct test *t, struct mapping m, const char *file, const char *build_id,
                       uint64_t start)
{
    struct fixture f;
    fixture_init(t, &f);
    CHECK_APPEND(t, &f, profile_in(&f, m, file, build_id), "a", NULL, STORE_STORED);
    const struct dict *d = dict_of(&f);
    const struct mapping *kept = &d->mappings.data[1];
    CHECK_INT(t, kept->start, start);
    CHECK_INT(t, kept->limit, start + (m.limit - m.start));
    CHECK_INT(t, kept->offset, m.offset);
    CHECK_INT(t, d->locations.data[1].address, start + 0x100);
    fixture_done(&f);
}

static void pods_share_stacks_wherever_they_were_loaded(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    CHECK_APPEND(t, &f, profile_in(&f, text_at(0x55d000001000), "/bin/pod", ""), "a", NULL,
                 STORE_STORED);
    struct epoch_mark before = epoch_mark_of(dict_of(&f));
    /* Another source, as another process of the server would be. */
    store_source_free(f.source);
    CHECK_INT(t, store_source_new(f.store, 0, &f.source, &f.err), 0);
    CHECK_APPEND(t, &f, profile_in(&f, text_at(0x7f1234567000), "/bin/pod", ""), "b", NULL,
                 STORE_STORED);
    struct epoch_mark after = epoch_mark_of(dict_of(&f));
    CHECK(t, epoch_mark_equal(&before, &after));
    /* The same again, from where it was: the content is the same. */
    CHECK_APPEND(t, &f, profile_in(&f, text_at(0x55f000001000), "/bin/pod", ""), "b", NULL,
                 STORE_DUPLICATE);
    fixture_done(&f);
}

static void what_a_loader_placed_is_moved(struct test *t)
{
    check_kept(t, text_at(0x55d000001000), "/bin/pod", "", MOVED + TEXT_OFFSET);
    check_kept(t, text_at(0x55d000001000), "/bin/pod", "abc", MOVED + TEXT_OFFSET);
    check_kept(t, text_at(0x55d000001000), "", "abc", MOVED + TEXT_OFFSET);
    check_kept(t, text_at(MOVED), "pod", "", MOVED + TEXT_OFFSET);
    /* What comes out may go in again. */
    check_kept(t, text_at(MOVED + TEXT_OFFSET), "pod", "", MOVED + TEXT_OFFSET);
}

static void everything_else_stays_where_it_was(struct test *t)
{
    static const char *const anonymous[] = {"",
                                            "//anon",
                                            "[anon:v8]",
                                            "[heap]",
                                            "[stack:7]",
                                            "/tmp/perf-7.map",
                                            "/memfd:jit (deleted)",
                                            "[vdso]"};

    check_kept(t, text_at(0x400000), "/bin/fixed", "", 0x400000);
    check_kept(t, text_at(MOVED - 0x1000), "/bin/fixed", "abc", MOVED - 0x1000);
    check_kept(t, text_at((uint64_t)1 << 47), "/bin/odd", "", (uint64_t)1 << 47);
    check_kept(t, text_at(0xffffffff81000000), "[kernel.kallsyms]", "abc", 0xffffffff81000000);
    for (size_t i = 0; i < ARRAY_SIZE(anonymous); i++)
        check_kept(t, text_at(0x7f0000001000), anonymous[i], "", 0x7f0000001000);
    /* Without a size, or with an offset that no file has. */
    struct mapping empty = {.start = 0x7f0000001000, .limit = 0x7f0000001000};
    check_kept(t, empty, "/bin/pod", "", 0x7f0000001000);
    struct mapping far = text_at(0x7f0000001000);
    far.offset = UINT64_MAX - 5;
    check_kept(t, far, "/bin/pod", "", 0x7f0000001000);
}

/* Regions of generated code look alike and are not. */
static void generated_code_is_not_united(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    for (uint64_t start = 0x7f0000001000; start <= 0x7f0000101000; start += 0x100000) {
        struct profile *p = profile_in(&f, text_at(start), "//anon", "");
        CHECK_APPEND(t, &f, p, start == 0x7f0000001000 ? "a" : "b", NULL, STORE_STORED);
    }
    CHECK_INT(t, dict_of(&f)->mappings.len, 3);
    CHECK_INT(t, dict_of(&f)->locations.len, 7);
    fixture_done(&f);
}

static void an_answer_merges_with_a_raw_profile(struct test *t)
{
    struct fixture f;
    CLEANUP(selector_freep) struct selector *selector = NULL;
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new((size_t)64 << 20);

    fixture_init(t, &f);
    CHECK_APPEND(t, &f, profile_in(&f, text_at(0x55d000001000), "/bin/pod", "abc"), "a", NULL,
                 STORE_STORED);
    CHECK_INT(t, selector_parse(BYTES("cpu{}"), &selector, &f.err), 0);
    struct store_plan plan = {.tenant = BYTES("default"), .selector = selector, .to_ns = INT64_MAX};
    CHECK_INT(t, store_aggregate(f.store, &plan, answer, &f.err), 0);
    CHECK_INT(t, answer->cells.len, 1);

    /* The same program, run by hand. */
    struct dict *d = answer->set->dict;
    struct profile *raw = profile_set_add(answer->set);
    profile_add_ctype(raw, "cpu", "nanoseconds");
    raw->period_type = answer->cells.data[0].profile->period_type;
    struct mapping m = text_at(0x7e0000001000);
    m.file = dict_cstring(d, "/home/me/pod");
    m.build_id = dict_cstring(d, "abc");
    uint32_t mapping = dict_mapping(d, m), node = 0;
    struct line line = {.function = dict_function(d, (struct function){dict_cstring(d, "named")}),
                        .line = 3};
    for (uint64_t i = 1; i <= 3; i++) {
        struct location l = {.mapping = mapping, .address = m.start + 0x100 * i};
        node = dict_node(d, node, dict_location(d, l, &line, i == 3));
    }
    profile_add_value(raw, node, 2);
    struct profile *both[] = {answer->cells.data[0].profile, raw};
    struct profile *merged = profile_merge(d, both, 2, (struct merge_options){0});
    CHECK_INT(t, merged->n_samples, 1);
    CHECK_INT(t, merged->values[0][0], 7);
    profile_free(merged);
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(pods_share_stacks_wherever_they_were_loaded), TEST(what_a_loader_placed_is_moved),
    TEST(everything_else_stays_where_it_was),          TEST(generated_code_is_not_united),
    TEST(an_answer_merges_with_a_raw_profile),
};
TEST_MAIN(cases)
