#include "lib/test.h"
#include "store_local/fold.h"

static uint64_t state = 88172645463325252u;

static uint64_t rnd(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

#define NAMES 12

/* Random stacks over few names, so that they recur, some inlined, some without a name. */
static struct dict *random_stacks(struct budget *b, uint32_t n_nodes)
{
    struct dict *d = dict_new(b);
    uint32_t functions[NAMES];

    for (uint32_t i = 0; i < NAMES; i++) {
        char text[8];
        snprintf(text, sizeof(text), "f%u", i / 2); /* two functions of each name */
        functions[i] =
            dict_function(d, (struct function){.name = dict_cstring(d, text), .start_line = i % 2});
    }
    while (dict_n_nodes(d) < n_nodes) {
        struct line lines[3];
        size_t n = rnd(4);
        for (size_t i = 0; i < n; i++)
            lines[i] = (struct line){.function = functions[rnd(NAMES)], .line = (int64_t)rnd(3)};
        uint32_t l = dict_location(d, (struct location){.address = rnd(4)}, lines, n);
        dict_node(d, (uint32_t)rnd(dict_n_nodes(d)), l);
    }
    return d;
}

static bool stack_has(const struct dict *d, uint32_t node, uint32_t name, bool leaf_only)
{
    for (; node; node = d->node_parent.data[node]) {
        struct location l = d->locations.data[d->node_location.data[node]];
        if (l.n_lines == 0 && name == 0)
            return true;
        for (uint32_t i = 0; i < l.n_lines; i++) {
            if (d->functions.data[d->lines.data[l.first_line + i].function].name == name)
                return true;
            if (leaf_only)
                return false;
        }
        if (leaf_only)
            return false;
    }
    return false;
}

static void gives_each_function_its_flat_and_cumulative_value(struct test *t)
{
    struct budget b;
    budget_init(&b, BUDGET_DEFAULT_BYTES);
    struct dict *d = random_stacks(&b, 600);
    size_t n_nodes = dict_n_nodes(d);
    struct sums stacks, functions;
    struct sums_taken in, out;
    struct fold f;

    CHECK(t, sums_init(&stacks, &b, n_nodes, 1));
    CHECK(t, sums_init(&functions, &b, d->strings.len, 2));
    CHECK(t, fold_init(&f, &b, d));
    for (uint32_t n = 1; n < n_nodes; n += 1 + (uint32_t)rnd(3))
        sums_add(&stacks, n, 0, (int64_t)rnd(100));
    CHECK(t, sums_take(&stacks, &in));
    fold_stacks(&f, &in, 0, &functions);
    CHECK(t, sums_take(&functions, &out));
    CHECK_INT(t, out.n, NAMES / 2 + 1);
    for (size_t i = 0; i < out.n; i++) {
        int64_t flat = 0, cum = 0, masked_flat = 0, masked_cum = 0;
        uint64_t flat_bits[16] = {0}, cum_bits[16] = {0};

        fold_find(d, out.keys[i], flat_bits, cum_bits);
        for (size_t j = 0; j < in.n; j++) {
            uint32_t n = in.keys[j];
            flat += stack_has(d, n, out.keys[i], true) ? in.values[j] : 0;
            cum += stack_has(d, n, out.keys[i], false) ? in.values[j] : 0;
            masked_flat += flat_bits[n / 64] >> (n % 64) & 1 ? in.values[j] : 0;
            masked_cum += cum_bits[n / 64] >> (n % 64) & 1 ? in.values[j] : 0;
        }
        CHECK_INT(t, out.values[i], flat);
        CHECK_INT(t, out.values[out.n + i], cum);
        CHECK_INT(t, masked_flat, flat);
        CHECK_INT(t, masked_cum, cum);
    }
    sums_taken_done(&b, &in);
    sums_taken_done(&b, &out);
    sums_done(&stacks);
    sums_done(&functions);
    fold_done(&f);
    dict_free(d);
    CHECK_INT(t, b.used, 0);
}

static void counts_right_when_its_stamps_wrap_around(struct test *t)
{
    struct budget b;
    budget_init(&b, BUDGET_DEFAULT_BYTES);
    struct dict *d = random_stacks(&b, 10);
    struct sums functions;
    struct sums_taken out;
    struct fold f;
    uint32_t keys[] = {5, 5};
    int64_t values[] = {2, 3};
    struct sums_taken in = {.n = 2, .keys = keys, .values = values, .n_cols = 1};

    CHECK(t, sums_init(&functions, &b, d->strings.len, 2));
    CHECK(t, fold_init(&f, &b, d));
    f.stamp = UINT32_MAX - 1;
    fold_stacks(&f, &in, 0, &functions);
    CHECK(t, sums_take(&functions, &out));
    for (size_t i = 0; i < out.n; i++)
        CHECK_INT(t, out.values[out.n + i], 5);
    sums_taken_done(&b, &out);
    sums_done(&functions);
    fold_done(&f);
    dict_free(d);
}

static void says_when_the_budget_is_spent(struct test *t)
{
    struct budget b, small;
    budget_init(&b, BUDGET_DEFAULT_BYTES);
    budget_init(&small, 4);
    struct dict *d = random_stacks(&b, 10);
    struct fold f;

    CHECK(t, !fold_init(&f, &small, d));
    fold_done(&f);
    dict_free(d);
}

static const struct test_case cases[] = {
    TEST(gives_each_function_its_flat_and_cumulative_value),
    TEST(counts_right_when_its_stamps_wrap_around),
    TEST(says_when_the_budget_is_spent),
};
TEST_MAIN(cases)
