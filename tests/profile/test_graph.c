#include <errno.h>

#include "base/buf.h"
#include "lib/stacks.h"
#include "profile/graph.h"

/* "name flat/cum" of the nodes in order, then "caller>callee weight" of the edges, heaviest first:
 * "~" for residual, "^" for inlined ones. */
static const char *describe(struct graph *g)
{
    static char text[2048];
    struct buf out = {0};
    graph_ids edges = {0};

    for (size_t i = 0; i < g->order.len; i++) {
        const struct graph_node *n = &g->nodes.data[g->order.data[i]];
        buf_addf(&out, "%s %lld/%lld ", frames_name(g->frames, n->frame), (long long)graph_flat(n),
                 (long long)graph_cum(n));
    }
    for (size_t i = 0; i < g->order.len; i++) {
        graph_callees(g, g->order.data[i], &edges);
        for (size_t k = 0; k < edges.len; k++) {
            const struct graph_edge *e = &g->edges.data[edges.data[k]];
            buf_addf(&out, "%s>%s %lld%s%s ", frames_name(g->frames, g->nodes.data[e->src].frame),
                     frames_name(g->frames, g->nodes.data[e->dst].frame), (long long)e->weight,
                     e->is_residual ? "~" : "", e->is_inline ? "^" : "");
        }
    }
    vec_done(g->budget, &edges);
    if (out.len > 0)
        out.len--;
    snprintf(text, sizeof(text), "%s", buf_cstr(&out));
    buf_done(&out);
    return text;
}

static const char *built(struct fixture *f, struct graph_options o, struct graph_trim trim,
                         struct graph_trimmed *ret)
{
    struct frames frames;
    struct graph g;

    frames_init(&frames, f->set->dict, (struct frame_options){0});
    int r = graph_build_trimmed(f->p, &frames, &o, &trim, &g, NULL);
    const char *text = r == 0 ? describe(&g) : "failed";
    if (ret)
        *ret = g.trimmed;
    graph_done(&g);
    frames_done(&frames);
    return text;
}

static void flat_and_cum_add_up_over_stacks(struct test *t)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "main;a", 1);
    add(&f, "main;a;b", 2);
    add(&f, "main;b", 4);
    add(&f, "", 100);
    add(&f, "main;zero", 0);
    CHECK_STR(t, built(&f, (struct graph_options){0}, (struct graph_trim){0}, NULL),
              "b 6/6 a 1/3 main 0/7 a>b 2 main>b 4 main>a 3");
    CHECK_STR(t, built(&f, (struct graph_options){0}, (struct graph_trim){.by_cum = true}, NULL),
              "main 0/7 b 6/6 a 1/3 main>b 4 main>a 3 a>b 2");
    fixture_done(&f);
}

static void recursion_counts_once_per_stack(struct test *t)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "f;g;f;g;f", 1);
    add(&f, "f;f", 10);
    CHECK_STR(t, built(&f, (struct graph_options){0}, (struct graph_trim){0}, NULL),
              "f 11/11 g 0/1 f>g 1 g>f 1");
    fixture_done(&f);
}

static void a_call_is_inlined_only_when_all_of_it_is(struct test *t)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "a+b+c", 1);
    add(&f, "a;b", 2);
    CHECK_STR(t, built(&f, (struct graph_options){0}, (struct graph_trim){0}, NULL),
              "b 2/3 c 1/1 a 0/3 b>c 1^ a>b 3");
    CHECK_STR(t,
              built(&f, (struct graph_options){.edges = GRAPH_EDGES_INLINED},
                    (struct graph_trim){0}, NULL),
              "b 2/3 c 1/1 a 0/3 b>c 1^ a>b 3");
    CHECK_STR(
        t,
        built(&f, (struct graph_options){.edges = GRAPH_EDGES_NONE}, (struct graph_trim){0}, NULL),
        "b 2/3 c 1/1 a 0/3");
    fixture_done(&f);
}

static void what_is_light_is_left_out_and_bridged(struct test *t)
{
    struct fixture f;
    struct graph_trimmed counts;

    fixture_init(&f);
    add(&f, "main;x;deep", 1);
    add(&f, "main;y;deep", 1);
    add(&f, "main;deep", 1);
    add(&f, "main;heavy", 97);
    CHECK_STR(
        t,
        built(&f, (struct graph_options){0}, (struct graph_trim){.node_fraction = 0.02}, &counts),
        "heavy 97/97 deep 3/3 main 0/100 main>heavy 97 main>deep 3~");
    CHECK_INT(t, counts.dropped_nodes, 2);
    CHECK_INT(t, counts.n_nodes_before, 3);
    CHECK_STR(t,
              built(&f, (struct graph_options){0},
                    (struct graph_trim){.node_count = 2, .edge_fraction = 0.5}, &counts),
              "heavy 97/97 deep 3/3");
    CHECK_INT(t, counts.n_nodes_before, 5);
    CHECK_STR(t,
              built(&f, (struct graph_options){0},
                    (struct graph_trim){.node_count = 3, .edge_fraction = 0.5, .by_cum = true},
                    &counts),
              "main 0/100 heavy 97/97 deep 3/3 main>heavy 97");
    CHECK_INT(t, counts.dropped_edges, 1);
    fixture_done(&f);
}

static void what_comes_to_nothing_is_passed_through(struct test *t)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "main;gone;a", 5);
    add(&f, "main;gone;b", -5);
    add(&f, "main;c", 1);
    CHECK_STR(t, built(&f, (struct graph_options){0}, (struct graph_trim){0}, NULL),
              "a 5/5 b -5/-5 c 1/1 main 0/1 main>c 1 main>gone 0");
    CHECK_STR(t, built(&f, (struct graph_options){0}, (struct graph_trim){.node_count = 3}, NULL),
              "a 5/5 b -5/-5 c 1/1");
    fixture_done(&f);
}

static void means_divide_by_the_first_column(struct test *t)
{
    struct fixture f;

    fixture_init(&f);
    profile_add_ctype(f.p, "delay", "nanoseconds");
    struct dict *d = f.set->dict;
    profile_add(f.p,
                &(struct sample){.node = stack(d, "main;a"), .values = (const int64_t[]){2, 10}});
    profile_add(f.p,
                &(struct sample){.node = stack(d, "main;b"), .values = (const int64_t[]){3, 30}});
    CHECK_STR(
        t, built(&f, (struct graph_options){.type = 1, .mean = true}, (struct graph_trim){0}, NULL),
        "b 10/10 a 5/5 main 0/8 main>b 30 main>a 10");
    CHECK_INT(t, graph_flat(&(struct graph_node){.flat = INT64_MIN, .flat_div = -1}), INT64_MIN);
    fixture_done(&f);
}

static void negative_nodes_can_be_dropped(struct test *t)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "main;a", -5);
    add(&f, "main;b", 2);
    add(&f, "main;c;d", 7);
    add(&f, "main;c", -7);
    CHECK_STR(t, built(&f, (struct graph_options){0}, (struct graph_trim){0}, NULL),
              "c -7/0 d 7/7 a -5/-5 b 2/2 main 0/-3 c>d 7 main>a -5 main>b 2 main>c 0");
    CHECK_STR(t,
              built(&f, (struct graph_options){.drop_negative = true, .edges = GRAPH_EDGES_NONE},
                    (struct graph_trim){0}, NULL),
              "d 7/7 b 2/2");
    fixture_done(&f);
}

static void a_call_tree_keeps_contexts_apart(struct test *t)
{
    struct fixture f;
    struct graph_options tree = {.call_tree = true};
    struct graph_trimmed counts;

    fixture_init(&f);
    add(&f, "main;a;x", 10);
    add(&f, "main;b;x", 20);
    add(&f, "main;b", 5);
    CHECK_STR(t, built(&f, tree, (struct graph_trim){.is_picture = true}, NULL),
              "main 0/35 x 20/20 b 5/25 x 10/10 a 0/10 main>b 25 main>a 10 b>x 20 a>x 10");
    CHECK_STR(t, built(&f, tree, (struct graph_trim){.is_picture = true, .node_count = 4}, &counts),
              "main 0/35 x 20/20 b 5/25 x 10/10 main>b 25 main>x 10~ b>x 20");
    CHECK_STR(t, built(&f, tree, (struct graph_trim){.is_picture = true, .node_count = 1}, &counts),
              "main 0/35");
    CHECK_STR(
        t, built(&f, tree, (struct graph_trim){.is_picture = true, .node_fraction = 0.5}, &counts),
        "x 20/20 main 0/35 b 5/25 main>b 25 b>x 20");
    CHECK_INT(t, counts.dropped_nodes, 2);
    CHECK_STR(t, built(&f, tree, (struct graph_trim){.node_count = 2}, &counts), "x 20/20 x 10/10");
    fixture_done(&f);
}

static void pictures_lose_edges_that_say_nothing_new(struct test *t)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "main;a;b", 50);
    add(&f, "main;skipped;b", 5);
    add(&f, "main;a", 20);
    CHECK_STR(t,
              built(&f, (struct graph_options){0},
                    (struct graph_trim){.is_picture = true, .node_fraction = 0.1}, NULL),
              "b 55/55 main 0/75 a 20/70 main>a 70 a>b 50");
    fixture_done(&f);
}

static void labels_are_counted_at_nodes(struct test *t)
{
    struct fixture f;
    struct frames frames;
    struct graph g;
    struct graph_options o = {.with_tags = true, .unit = "auto"};

    fixture_init(&f);
    struct dict *d = f.set->dict;
    uint32_t ids[] = {
        dict_string_attribute(d, dict_cstring(d, "k"), dict_cstring(d, "v")),
        dict_int_attribute(d, dict_cstring(d, "bytes"), 2048, dict_cstring(d, "bytes")),
        dict_string_attribute(d, dict_cstring(d, "pprof::base"), dict_cstring(d, "true")),
    };
    uint32_t set = dict_attrs(d, ids, 3);
    const int64_t seven = 7, zero = 0;
    profile_add(f.p, &(struct sample){.node = stack(d, "f;g;f"), .attrs = set, .values = &seven});
    profile_add(f.p, &(struct sample){.node = stack(d, "f"), .attrs = set, .values = &zero});
    add(&f, "f", 1);
    frames_init(&frames, d, (struct frame_options){0});
    CHECK_INT(t, graph_build(f.p, &frames, &o, &g, NULL), 0);
    CHECK_INT(t, g.tags.len, 4);
    const struct graph_tag *label = &g.tags.data[0], *number = &g.tags.data[1];
    CHECK_STR(t, frames_name(&frames, g.nodes.data[label->node].frame), "f");
    CHECK_STR(t, dict_cstr(d, label->labels), "k:v");
    CHECK_INT(t, label->cum, 7);
    CHECK_INT(t, label->flat, 7);
    CHECK_STR(t, dict_cstr(d, number->number), "2kB");
    CHECK_INT(t, number->value, 2048);
    CHECK_STR(t, frames_name(&frames, g.nodes.data[g.tags.data[2].node].frame), "g");
    CHECK_INT(t, g.tags.data[2].flat, 0);
    graph_done(&g);
    frames_done(&frames);
    fixture_done(&f);
}

static void labels_take_room_in_a_picture(struct test *t)
{
    struct fixture f;
    struct graph_options o = {.with_tags = true, .unit = "auto"};

    fixture_init(&f);
    struct dict *d = f.set->dict;
    for (int i = 0; i < 6; i++) {
        char value[8];
        snprintf(value, sizeof(value), "v%d", i);
        uint32_t id = dict_string_attribute(d, dict_cstring(d, "k"), dict_cstring(d, value));
        const int64_t ten = 10;
        profile_add(f.p, &(struct sample){.node = stack(d, "a"),
                                          .attrs = dict_attrs(d, &id, 1),
                                          .values = &ten});
    }
    add(&f, "b", 5);
    add(&f, "c", 4);
    CHECK_STR(t, built(&f, o, (struct graph_trim){.is_picture = true, .node_count = 6}, NULL),
              "a 60/60 b 5/5");
    fixture_done(&f);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    for (int picture = 0; picture < 3; picture++) {
        int r = -ENOBUFS;
        for (size_t extra = 0; r < 0 && extra < 200000; extra += 32) {
            struct fixture f;
            struct frames frames;
            struct graph g;
            struct error err = {0};
            struct graph_options o = {
                .with_tags = picture > 0, .call_tree = picture > 1, .unit = "auto", .mean = true};
            struct graph_trim trim = {
                .is_picture = picture > 0, .node_fraction = 0.01, .node_count = 5};
            fixture_init(&f);
            struct dict *d = f.set->dict;
            uint32_t id = dict_int_attribute(d, dict_cstring(d, "bytes"), 1, 0);
            for (int i = 0; i < 8; i++) {
                char text[32];
                snprintf(text, sizeof(text), "main;a%d+b;f%d", i % 3, i);
                const int64_t value = i == 0 ? 1 : 100;
                profile_add(f.p, &(struct sample){.node = stack(d, text),
                                                  .attrs = dict_attrs(d, &id, 1),
                                                  .values = &value});
            }
            f.budget.limit = f.budget.used + extra;
            frames_init(&frames, d, (struct frame_options){0});
            r = graph_build_trimmed(f.p, &frames, &o, &trim, &g, &err);
            CHECK(t, r == 0 || (r == -ENOBUFS && err.text[0]));
            graph_done(&g);
            frames_done(&frames);
            fixture_done(&f);
            CHECK_INT(t, f.budget.used, 0);
        }
        CHECK_INT(t, r, 0);
    }
}

static const struct test_case cases[] = {
    TEST(flat_and_cum_add_up_over_stacks),
    TEST(recursion_counts_once_per_stack),
    TEST(a_call_is_inlined_only_when_all_of_it_is),
    TEST(what_is_light_is_left_out_and_bridged),
    TEST(what_comes_to_nothing_is_passed_through),
    TEST(means_divide_by_the_first_column),
    TEST(negative_nodes_can_be_dropped),
    TEST(a_call_tree_keeps_contexts_apart),
    TEST(pictures_lose_edges_that_say_nothing_new),
    TEST(labels_are_counted_at_nodes),
    TEST(labels_take_room_in_a_picture),
    TEST(survives_running_out_of_memory_anywhere),
};
TEST_MAIN(cases)
