#include "formats/heapsnapshot.h"
#include "lib/decode.h"

/*
 * Snapshots written by hand: nodes as {type, name, size, detachedness}, edges as {from, type, to}
 * in order of from.
 */
enum { HIDDEN, ARRAY, STRING, OBJECT, CLOSURE, REGEXP, NATIVE, SYNTHETIC, ODD };
enum { PROPERTY, ELEMENT, SHORTCUT, WEAK };

struct node {
    int type;
    const char *name;
    int size;
    int detachedness;
};

struct edge {
    int from, type, to;
};

static void write_snapshot(struct buf *out, const struct node *nodes, int n,
                           const struct edge *edges, int m)
{
    buf_addf(
        out,
        "{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\","
        "\"edge_count\",\"detachedness\"],\"node_types\":[[\"hidden\",\"array\",\"string\","
        "\"object\",\"closure\",\"regexp\",\"native\",\"synthetic\",\"odd\"],\"string\"],"
        "\"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],\"edge_types\":[[\"property\","
        "\"element\",\"shortcut\",\"weak\"],\"node\"]},\"node_count\":%d,\"edge_count\":%d},\n"
        "\"nodes\":[",
        n, m);
    for (int i = 0; i < n; i++) {
        int count = 0;
        for (int e = 0; e < m; e++)
            count += edges[e].from == i;
        buf_addf(out, "%s%d,%d,%d,%d,%d,%d\n", i ? "," : "", nodes[i].type, i + 1, i * 2 + 1,
                 nodes[i].size, count, nodes[i].detachedness);
    }
    buf_add_str(out, "],\"edges\":[");
    for (int e = 0; e < m; e++)
        buf_addf(out, "%s%d,0,%d\n", e ? "," : "", edges[e].type, edges[e].to * 6);
    buf_add_str(out, "],\"locations\":[],\"strings\":[\"<dummy>\"");
    for (int i = 0; i < n; i++)
        buf_addf(out, ",\"%s\"", nodes[i].name);
    buf_add_str(out, "]}");
}

struct loaded {
    struct budget budget;
    struct dict *dict;
    struct heap heap;
    struct error err;
    int r;
};

static void load(struct loaded *l, struct bytes content)
{
    *l = (struct loaded){.r = 0};
    budget_init(&l->budget, 1 << 26);
    l->dict = dict_new(&l->budget);
    struct input *in = input_from_bytes(content, "test", &l->budget);
    l->r = heap_load(in, l->dict, &l->heap, &l->err);
    input_close(in);
}

static void loaded_done(struct test *t, struct loaded *l)
{
    if (l->r == 0)
        heap_done(&l->heap);
    dict_free(l->dict);
    CHECK_INT(t, l->budget.used, 0);
}

static void check_heap(struct test *t, const struct node *nodes, int n, const struct edge *edges,
                       int m, const int *dominators, const int *retained)
{
    struct buf text = {0};
    struct loaded l;
    write_snapshot(&text, nodes, n, edges, m);
    load(&l, buf_bytes(&text));
    CHECK_STR(t, l.err.text, "");
    CHECK_INT(t, l.r, 0);
    if (l.r < 0)
        return;
    for (int i = 0; i < n; i++) {
        if ((int)l.heap.dominators.of.data[i] != dominators[i] ||
            (int)l.heap.retained_size.data[i] != retained[i])
            printf("# node %d: dominator %u, retained %d\n", i, l.heap.dominators.of.data[i],
                   (int)l.heap.retained_size.data[i]);
        CHECK_INT(t, l.heap.dominators.of.data[i], dominators[i]);
        CHECK_INT(t, l.heap.retained_size.data[i], retained[i]);
    }
    loaded_done(t, &l);
    buf_done(&text);
}

/*
 * The flow graph of Lengauer and Tarjan's paper: R A..L as 0 1..12, sizes powers of two so that
 * each sum names its members.
 */
static void finds_the_dominators_of_the_paper(struct test *t)
{
    enum { R, A, B, C, D, E, F, G, H, I, J, K, L, N };
    static const struct edge edges[] = {
        {R, 0, A}, {R, 0, B}, {R, 0, C}, {A, 0, D}, {B, 0, A}, {B, 0, D}, {B, 0, E},
        {C, 0, F}, {C, 0, G}, {D, 0, L}, {E, 0, H}, {F, 0, I}, {G, 0, I}, {G, 0, J},
        {H, 0, E}, {H, 0, K}, {I, 0, K}, {J, 0, I}, {K, 0, I}, {K, 0, R}, {L, 0, H},
    };
    static const int dominators[N] = {R, R, R, R, R, R, C, C, R, R, G, R, D};
    struct node nodes[N];
    int retained[N];
    for (int i = 0; i < N; i++) {
        nodes[i] = (struct node){OBJECT, "X", 1 << i, 0};
        retained[i] = 1 << i;
    }
    retained[R] = (1 << N) - 1;
    retained[C] |= 1 << F | 1 << G | 1 << J;
    retained[G] |= 1 << J;
    retained[D] |= 1 << L;
    check_heap(t, nodes, N, edges, ARRAY_SIZE(edges), dominators, retained);
}

/* Which nodes can be reached from the root when one is taken away. */
static uint32_t reached_without(const uint32_t *edges, int n, int without)
{
    uint32_t seen = 1, before = 0;

    while (seen != before) {
        before = seen;
        for (int i = 0; i < n; i++) {
            if (seen >> i & 1 && i != without)
                seen |= edges[i];
        }
    }
    return seen & ~(without > 0 ? 1u << without : 0);
}

/* Retained sizes of random graphs, against the definition: what is lost without a node. */
static void agrees_with_the_definition_on_random_graphs(struct test *t)
{
    enum { N = 20, ROUNDS = 400 };
    uint64_t random = 88172645463325252u;

    for (int round = 0; round < ROUNDS; round++) {
        struct node nodes[N];
        struct edge edges[N * 3];
        uint32_t out[N] = {0};
        int m = 0;
        for (int i = 0; i < N; i++) {
            nodes[i] = (struct node){OBJECT, "X", 1, 0};
            for (int e = 0; e < 1 + round % 3; e++) {
                random ^= random << 13, random ^= random >> 7, random ^= random << 17;
                int to = (int)(random >> 20) & 31;
                if (to >= N)
                    to = (i + 1) % N;
                edges[m++] = (struct edge){i, PROPERTY, to};
                out[i] |= 1u << to;
            }
        }
        struct buf text = {0};
        struct loaded l;
        write_snapshot(&text, nodes, N, edges, m);
        load(&l, buf_bytes(&text));
        CHECK_INT(t, l.r, 0);
        uint32_t all = reached_without(out, N, -1);
        for (int i = 1; i < N && l.r == 0; i++) {
            if (all >> i & 1)
                CHECK_INT(t, l.heap.retained_size.data[i],
                          __builtin_popcount(all & ~reached_without(out, N, i)));
        }
        loaded_done(t, &l);
        buf_done(&text);
    }
}

static void follows_only_references_that_retain(struct test *t)
{
    static const struct node nodes[] = {
        {SYNTHETIC, "", 0, 0},           /* 0 */
        {SYNTHETIC, "(GC roots)", 0, 0}, /* 1 */
        {OBJECT, "Global", 10, 0},       /* 2: by a shortcut from the root, and by 1 */
        {OBJECT, "A", 20, 0},            /* 3: by 2; refers to itself */
        {OBJECT, "B", 30, 0},            /* 4: weakly by 2, strongly by 3 */
        {OBJECT, "C", 40, 0},            /* 5: by 4, and by a shortcut from 2 */
        {OBJECT, "D", 50, 0},            /* 6: weakly only: the root's */
        {OBJECT, "E", 60, 0},            /* 7: by 6 */
        {OBJECT, "F", 70, 0},            /* 8: in a circle with 9 that nothing refers to */
        {OBJECT, "G", 80, 0},            /* 9 */
        {OBJECT, "H", 90, 0},            /* 10: by 6, which is not owned, and by 5 */
        {OBJECT, "I", 1, 0},             /* 11: by a shortcut from the root only */
        {OBJECT, "J", 2, 0},             /* 12: by 11, and by 3: owned, so 11 does not count */
    };
    static const struct edge edges[] = {
        {0, SHORTCUT, 2},  {0, SHORTCUT, 11},  {0, ELEMENT, 1},   {1, ELEMENT, 2},
        {2, PROPERTY, 3},  {2, WEAK, 4},       {2, SHORTCUT, 5},  {2, WEAK, 6},
        {3, PROPERTY, 3},  {3, PROPERTY, 4},   {3, PROPERTY, 12}, {4, PROPERTY, 5},
        {5, PROPERTY, 10}, {6, PROPERTY, 7},   {6, PROPERTY, 10}, {8, PROPERTY, 9},
        {9, PROPERTY, 8},  {11, PROPERTY, 12},
    };
    static const int dominators[] = {0, 0, 0, 2, 3, 4, 0, 6, 0, 0, 5, 0, 3};
    static const int retained[] = {453, 0, 192, 182, 160, 130, 110, 60, 70, 80, 90, 1, 2};
    check_heap(t, nodes, 13, edges, ARRAY_SIZE(edges), dominators, retained);
}

/* The root's child that holds detached documents makes nobody owned. */
static void leaves_detached_documents_aside(struct test *t)
{
    static const struct node nodes[] = {
        {SYNTHETIC, "", 0, 0},
        {SYNTHETIC, "(Document DOM trees)", 0, 0},
        {SYNTHETIC, "(GC roots)", 0, 0},
        {NATIVE, "Doc", 5, 0},
        {OBJECT, "O", 7, 0},
    };
    static const struct edge edges[] = {
        {0, ELEMENT, 1}, {0, ELEMENT, 2}, {1, ELEMENT, 3}, {2, ELEMENT, 4}, {3, PROPERTY, 4}};
    static const int dominators[] = {0, 0, 0, 1, 2};
    static const int retained[] = {12, 5, 7, 5, 7};
    check_heap(t, nodes, 5, edges, ARRAY_SIZE(edges), dominators, retained);
}

static const struct node shop[] = {
    {SYNTHETIC, "", 0, 0},
    {OBJECT, "Cart", 100, 0},
    {OBJECT, "Item", 10, 0},
    {OBJECT, "Item", 10, 0}, /* within the other Item */
    {STRING, "top secret", 50, 0},
    {NATIVE, "<div id=\\\"secret\\\">", 4, 2},
    {NATIVE, "Detached <div class=\\\"x y\\\">", 4, 0},
    {OBJECT, "Window / https://example.com/secret", 8, 0},
    {REGEXP, "secret.*", 16, 0},
    {CLOSURE, "secretFunction", 32, 0},
    {ODD, "odd secret", 2, 0},
    {NATIVE, "system / Context", 1, 0},
    {NATIVE, "<br>", 1, 0},
};
static const struct edge shop_edges[] = {
    {0, ELEMENT, 1},  {0, ELEMENT, 7},   {1, PROPERTY, 2},  {2, PROPERTY, 3},
    {3, PROPERTY, 4}, {7, PROPERTY, 5},  {7, PROPERTY, 6},  {7, PROPERTY, 8},
    {7, PROPERTY, 9}, {7, PROPERTY, 10}, {7, PROPERTY, 11}, {7, PROPERTY, 12},
};

static void shop_text(struct buf *text)
{
    write_snapshot(text, shop, ARRAY_SIZE(shop), shop_edges, ARRAY_SIZE(shop_edges));
}

static void makes_stacks_of_dominators(struct test *t)
{
    struct buf text = {0};
    struct decoded d;
    shop_text(&text);
    decode_bytes(&d, NULL, buf_bytes(&text), 1 << 24);
    CHECK_STR(t, d.err.text, "");
    CHECK_STR(t, d.format ? d.format->name : "", "heapsnapshot");
    CHECK_INT(t, decoded_total(t, &d, "inuse_objects", "count"), 13);
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), 238);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_STR(t, dict_cstr(p->dict, p->default_type), "inuse_space");
    CHECK_STR(t, leaf_type(p->dict, p->node[1]), "v8js");
    CHECK_STACK(t, p->dict, p->node[2], "(root);Cart;Item");
    CHECK_INT(t, p->values[0][2], 2);
    CHECK_INT(t, p->values[1][2], 20);
    CHECK_INT(t, p->values[2][2], 70);
    CHECK_STACK(t, p->dict, p->node[3], "(root);Cart;Item;(string)");
    decoded_done(t, &d);
    buf_done(&text);
}

static void keeps_no_contents(struct test *t)
{
    struct buf text = {0};
    struct decoded d;
    shop_text(&text);
    decode_bytes(&d, NULL, buf_bytes(&text), 1 << 24);
    for (size_t i = 0; i < d.set->dict->strings.len; i++) {
        const char *s = dict_cstr(d.set->dict, (uint32_t)i);
        CHECK(t, !strstr(s, "secret") && !strstr(s, "example.com") && !strstr(s, "class="));
    }
    CHECK(t, dict_find_string(d.set->dict, BYTES("<div>")) != 0);
    CHECK(t, dict_find_string(d.set->dict, BYTES("Detached <div>")) != 0);
    CHECK(t, dict_find_string(d.set->dict, BYTES("Window")) != 0);
    CHECK(t, dict_find_string(d.set->dict, BYTES("(other)")) != 0);
    CHECK(t, dict_find_string(d.set->dict, BYTES("<br>")) != 0);
    CHECK(t, dict_find_string(d.set->dict, BYTES("system / Context")) != 0);
    decoded_done(t, &d);
    buf_done(&text);
}

static void sums_up_by_constructor(struct test *t)
{
    struct buf text = {0};
    struct decoded d;
    struct heap_summary s;
    shop_text(&text);
    decode_bytes(&d, NULL, buf_bytes(&text), 1 << 24);
    const struct dict *dict = d.set->dict;
    CHECK(t, heap_summarize(d.set->profiles.data[0], &s));
    static const struct {
        const char *constructor, *type;
        int64_t count, shallow, retained, detached;
    } want[] = {{"(root)", "synthetic", 1, 0, 238, 0}, {"Cart", "object", 1, 100, 170, 0},
                {"Item", "object", 2, 20, 70, 0},      {"Window", "object", 1, 8, 68, 0},
                {"(string)", "string", 1, 50, 50, 0},  {"Function", "closure", 1, 32, 32, 0},
                {"RegExp", "regexp", 1, 16, 16, 0}};
    CHECK_INT(t, s.rows.len, 12);
    for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
        const struct heap_row *row = &s.rows.data[i];
        CHECK_STR(t, dict_cstr(dict, row->constructor), want[i].constructor);
        CHECK_STR(t, dict_cstr(dict, row->type), want[i].type);
        CHECK_INT(t, row->count, want[i].count);
        CHECK_INT(t, row->shallow, want[i].shallow);
        CHECK_INT(t, row->retained, want[i].retained);
        CHECK_INT(t, row->detached, want[i].detached);
    }
    int64_t detached = 0;
    for (size_t i = 0; i < s.rows.len; i++)
        detached += s.rows.data[i].detached;
    CHECK_INT(t, detached, 2);
    heap_summary_done(&s);

    d.budget.limit = d.budget.used;
    CHECK(t, !heap_summarize(d.set->profiles.data[0], &s));
    struct profile *other = profile_new(d.set->dict);
    CHECK(t, !heap_summarize(other, &s));
    profile_free(other);
    decoded_done(t, &d);
    buf_done(&text);
}

/* A list alternating between two constructors, longer than any stack may be. */
static void shortens_towers(struct test *t)
{
    enum { N = 1000 };
    static struct node nodes[N];
    static struct edge edges[N];
    struct buf text = {0};
    struct decoded d;
    for (int i = 0; i < N; i++) {
        nodes[i] = (struct node){OBJECT, i % 2 ? "Odd" : "Even", 1, 0};
        edges[i] = (struct edge){i, PROPERTY, i + 1};
    }
    write_snapshot(&text, nodes, N, edges, N - 1);
    decode_bytes(&d, NULL, buf_bytes(&text), 1 << 24);
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), N);
    CHECK(t, has_note(&d, "more than 256 constructors"));
    CHECK_INT(t, d.set->profiles.data[0]->n_samples, 257);
    decoded_done(t, &d);
    buf_done(&text);
}

/* The text with one part replaced. */
static void replaced(struct buf *to, struct buf *from, const char *what, const char *by)
{
    const char *text = buf_cstr(from), *at = strstr(text, what);
    buf_clear(to);
    if (!at)
        abort();
    buf_add(to, text, (size_t)(at - text));
    buf_add_str(to, by);
    buf_add_str(to, at + strlen(what));
}

static void says_what_is_wrong(struct test *t)
{
    static const struct {
        const char *what, *by, *why;
    } cases[] = {
        {"\"type\",\"name\",\"id\"", "\"type\",\"id\",\"id\"", "nodes have no field \"name\""},
        {"\"to_node\"", "\"x\"", "edges have no field \"to_node\""},
        {"\"meta\"", "\"x\"", "the header does not say what nodes and edges are made of"},
        {"\"nodes\":[7,", "\"nodes\":[9,", "node 0 has a number out of range"},
        {"\"nodes\":[7,1,1,0,2", "\"nodes\":[7,1,1,-1,2", "node 0 has a number out of range"},
        {"\"nodes\":[7,1,1,0,2", "\"nodes\":[7,1,1,0,4294967299",
         "node 0 has a number out of range"},
        {"\"nodes\":[7,1,1,0,2", "\"nodes\":[7,1,1,0,3", "12 edges, but the nodes have 13 and"},
        {"\"nodes\":[7,1,1,0,2", "\"nodes\":[7,1,1,0,1", "more edges than the 11 of all nodes"},
        {"\"nodes\":[7,", "\"nodes\":[7,7,", "the list of nodes ends within a node"},
        {"\"nodes\":[7,", "\"nodes\":[{},", "a number was expected and an object was found"},
        {"\"node_count\":13", "\"node_count\":99999999999999",
         "13 nodes, but the header says 9999"},
        {"\"edge_count\":12", "\"edge_count\":11",
         "12 edges, but the nodes have 12 and the header says 11"},
        {"\"edges\":[1,0,6", "\"edges\":[1,0,7", "edge 0 leads to 7, which is no node"},
        {"\"edges\":[1,0,6", "\"edges\":[1,0,78", "edge 0 leads to 78, which is no node"},
        {"\"edges\":[1,0,6", "\"edges\":[1,0,-6", "edge 0 leads to -6, which is no node"},
        {"\"edges\":[1,0,6", "\"edges\":[4,0,6", "edge 0 has an unknown type"},
        {"\"edges\":[1,", "\"edges\":[1,1,", "the list of edges ends within an edge"},
        {"\"edges\":[", "\"edges\":{", "an array was expected and an object was found"},
        {"\"strings\":[", "\"strings\":[],\"x\":[", "a node's name is string 1 of 0"},
        {"\"locations\"", "\"nodes\"", "nodes are listed twice"},
        {"\"locations\"", "\"edges\"", "edges are listed twice"},
        {"\"locations\":[]",
         "\"strings\":[\"\",\"\",\"a\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\","
         "\"\",\"\"]",
         "strings are listed twice"},
        {"\"edges\":", "\"x\":", "the snapshot has no edges"},
        {"\"strings\":", "\"x\":", "the snapshot has no strings"},
        {"\"snapshot\":", "\"edges\":[],\"snapshot\":", "edges come before the nodes"},
        {"\"snapshot\":", "\"strings\":[],\"snapshot\":", "strings come before the nodes"},
        {"\"snapshot\":", "\"nodes\":[],\"snapshot\":", "nodes come before the header"},
        {"]}", "]} x", "something follows the end of the document"},
    };
    struct buf good = {0}, text = {0};
    shop_text(&good);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct decoded d;
        replaced(&text, &good, cases[i].what, cases[i].by);
        if (strcmp(cases[i].what, "]}") == 0) {
            buf_clear(&text);
            buf_add_bytes(&text, buf_bytes(&good));
            buf_add_str(&text, " x");
        }
        decode_bytes(&d, &format_heapsnapshot, buf_bytes(&text), 1 << 24);
        CHECK_INT(t, d.r, -EBADMSG);
        if (!strstr(d.err.text, cases[i].why) ||
            strncmp(d.err.text, "test: heapsnapshot at byte ", 27) != 0)
            CHECK_STR(t, d.err.text, cases[i].why);
        decoded_done(t, &d);
    }
    buf_done(&good);
    buf_done(&text);
}

static void refuses_too_many_fields_and_types(struct test *t)
{
    struct buf text = {0};
    struct decoded d;
    buf_add_str(&text, "{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\",\"name\",\"self_size\","
                       "\"edge_count\"");
    for (int i = 0; i < 40; i++)
        buf_add_str(&text, ",\"x\"");
    buf_add_str(&text, "]}}}");
    decode_bytes(&d, NULL, buf_bytes(&text), 1 << 24);
    CHECK(t, strstr(d.err.text, "44 fields in a record, more than 32"));
    decoded_done(t, &d);
    buf_clear(&text);
    buf_add_str(&text, "{\"snapshot\":{\"meta\":{\"edge_types\":[[\"x\"");
    for (int i = 0; i < 64; i++)
        buf_add_str(&text, ",\"x\"");
    buf_add_str(&text, "]],\"node_fields\":[]}}}");
    decode_bytes(&d, NULL, buf_bytes(&text), 1 << 24);
    CHECK(t, strstr(d.err.text, "more than 64 types"));
    decoded_done(t, &d);
    buf_done(&text);
}

static void survives_small_budgets_and_cut_files(struct test *t)
{
    struct buf text = {0};
    shop_text(&text);
    check_budget_sweep(t, &format_heapsnapshot, buf_bytes(&text), 97);
    check_truncation(t, &format_heapsnapshot, buf_bytes(&text));
    buf_done(&text);
    CHECK_INT(t, format_heapsnapshot.sniff(BYTES(" { \"snapshot\":{\"meta\":{\"node_fields\"")),
              95);
    CHECK_INT(t, format_heapsnapshot.sniff(BYTES("{\"nodes\":[]}")), 0);
    CHECK_INT(t, format_heapsnapshot.sniff(BYTES("[1]")), 0);
}

static const struct test_case cases[] = {
    TEST(finds_the_dominators_of_the_paper),
    TEST(agrees_with_the_definition_on_random_graphs),
    TEST(follows_only_references_that_retain),
    TEST(leaves_detached_documents_aside),
    TEST(makes_stacks_of_dominators),
    TEST(keeps_no_contents),
    TEST(sums_up_by_constructor),
    TEST(shortens_towers),
    TEST(says_what_is_wrong),
    TEST(refuses_too_many_fields_and_types),
    TEST(survives_small_budgets_and_cut_files),
};
TEST_MAIN(cases)
