/*
 * Writing callgrind: stacks folded into a call graph. Every frame, inlined or not, is a function;
 * what a stack's leaf spent is self cost at its line, and every pair of frames is a call with the
 * cost of all stacks that hold it, each stack counted once however often it recurses.
 *
 * A "calls" column (as reading callgrind makes it) gives the number of calls. Without one each call
 * is written as made once: callgrind_annotate takes the cost of a call made 0 times for self cost.
 * The column also says that functions of one name in one object are one, whose lines may stand in
 * several files.
 */
#include "formats/callgrind_write.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"

#define NONE UINT32_MAX

/* One frame of one location. */
struct site {
    uint32_t function;
    uint32_t next; /* of the same function */
    uint32_t file; /* string */
    uint64_t address;
    int64_t line;
};

struct written_function {
    uint32_t name, file, object; /* strings; name 0 is an address without a name */
    uint32_t first_site, first_edge;
    uint64_t address; /* when name is 0 */
};

struct edge {
    uint32_t site, callee;
    uint32_t pair;  /* caller and callee, whatever the line */
    uint32_t next;  /* of the same caller */
    uint32_t entry; /* site */
    uint64_t calls;
};

struct pair {
    uint32_t caller, callee;
    uint32_t depth; /* how often it is on the path being walked */
};

/* A node on the path being walked. */
struct step {
    uint32_t next_child;
    uint32_t inner; /* its innermost site, or NONE */
    uint32_t n_pairs;
};

struct writer {
    const struct dict *dict;
    const struct profile *p;
    struct budget *budget;
    struct buf *out;
    size_t n; /* events */
    uint32_t columns[PROFILE_TYPES_MAX];
    uint32_t calls_column; /* or NONE */
    bool with_addresses;

    VEC(uint32_t) site_of; /* per line, then per location without lines: site + 1 */
    VEC(struct site) sites;
    VEC(int64_t) self; /* n per site */
    VEC(struct written_function) functions;
    VEC(struct edge) edges;
    VEC(int64_t) edge_costs; /* n per edge */
    VEC(struct pair) pairs;
    struct idset function_index, edge_index, pair_index;

    VEC(int64_t) own, cum; /* n per node */
    VEC(uint64_t) calls;   /* per node */
    VEC(uint8_t) used;     /* per node: a sample has it or passes it */
    VEC(uint32_t) first_child, next_sibling;
    VEC(struct step) path;
    VEC(uint32_t) path_pairs;

    /* Names that were written, by number. */
    VEC(uint32_t) number_of[2]; /* per string: as a file, as an object */
    VEC(uint8_t) function_named;
    uint32_t n_numbers[2];
    uint32_t file; /* string: the file that lines are in */
};

static void graph_done(struct writer *w)
{
    vec_done(w->budget, &w->site_of);
    vec_done(w->budget, &w->sites);
    vec_done(w->budget, &w->self);
    vec_done(w->budget, &w->functions);
    vec_done(w->budget, &w->edges);
    vec_done(w->budget, &w->edge_costs);
    vec_done(w->budget, &w->pairs);
    idset_done(w->budget, &w->function_index);
    idset_done(w->budget, &w->edge_index);
    idset_done(w->budget, &w->pair_index);
}

static void writer_done(struct writer *w)
{
    graph_done(w);
    vec_done(w->budget, &w->own);
    vec_done(w->budget, &w->cum);
    vec_done(w->budget, &w->calls);
    vec_done(w->budget, &w->used);
    vec_done(w->budget, &w->first_child);
    vec_done(w->budget, &w->next_sibling);
    vec_done(w->budget, &w->path);
    vec_done(w->budget, &w->path_pairs);
    vec_done(w->budget, &w->number_of[0]);
    vec_done(w->budget, &w->number_of[1]);
    vec_done(w->budget, &w->function_named);
}

static void add_to(int64_t *to, const int64_t *from, size_t n)
{
    for (size_t k = 0; k < n; k++)
        to[k] = (int64_t)((uint64_t)to[k] + (uint64_t)from[k]);
}

/* Samples into nodes, nodes into their callers, and the lists of children. */
static bool sum_nodes(struct writer *w)
{
    const struct dict *d = w->dict;
    size_t nodes = dict_n_nodes(d);

    if (!vec_resize(w->budget, &w->own, nodes * w->n) ||
        !vec_resize(w->budget, &w->cum, nodes * w->n) || !vec_resize(w->budget, &w->calls, nodes) ||
        !vec_resize(w->budget, &w->used, nodes) || !vec_resize(w->budget, &w->first_child, nodes) ||
        !vec_resize(w->budget, &w->next_sibling, nodes))
        return false;
    assert(w->used.data && w->own.data && w->cum.data); /* node 0 always is */
    for (size_t i = 0; i < w->p->n_samples; i++) {
        uint32_t node = w->p->node[i];
        w->used.data[node] = 1;
        for (size_t k = 0; k < w->n; k++)
            add_to(&w->own.data[node * w->n + k], &w->p->values[w->columns[k]][i], 1);
        if (w->calls_column != NONE)
            w->calls.data[node] += (uint64_t)w->p->values[w->calls_column][i];
    }
    memcpy(w->cum.data, w->own.data, nodes * w->n * sizeof(*w->cum.data));
    for (size_t i = nodes; i-- > 1;) {
        uint32_t parent = d->node_parent.data[i];
        if (!w->used.data[i])
            continue;
        w->used.data[parent] = 1;
        add_to(w->cum.data + parent * w->n, w->cum.data + i * w->n, w->n);
        w->next_sibling.data[i] = w->first_child.data[parent];
        w->first_child.data[parent] = (uint32_t)i;
    }
    return true;
}

static uint32_t function_of(struct writer *w, struct written_function f)
{
    bool any_file = w->calls_column != NONE;
    uint64_t file = any_file ? 0 : f.file;
    uint64_t hash = hash_mix(hash_mix((uint64_t)f.name << 32 | file, f.object), f.address);
    uint32_t found = IDSET_FIND(
        &w->function_index, hash, i,
        w->functions.data[i].name == f.name && (any_file || w->functions.data[i].file == f.file) &&
            w->functions.data[i].object == f.object && w->functions.data[i].address == f.address);
    if (found != IDSET_NONE)
        return found;
    uint32_t id = (uint32_t)w->functions.len;
    f.first_site = f.first_edge = NONE;
    if (!vec_push(w->budget, &w->functions, f) ||
        !idset_add(w->budget, &w->function_index, hash, id))
        return NONE;
    return id;
}

/* The site of line i of a location, or of a location without lines. */
static uint32_t site_of(struct writer *w, uint32_t location, uint32_t i)
{
    const struct dict *d = w->dict;
    const struct location *l = &d->locations.data[location];
    uint32_t *slot = l->n_lines ? &w->site_of.data[l->first_line + i]
                                : &w->site_of.data[d->lines.len + location];
    struct written_function f = {.object = d->mappings.data[l->mapping].file};
    struct site s = {.address = l->address};

    if (*slot)
        return *slot - 1;
    if (l->n_lines) {
        const struct line *line = &d->lines.data[l->first_line + i];
        const struct function *named = &d->functions.data[line->function];
        f.name = named->name ? named->name : named->system_name;
        f.file = s.file = named->file;
        s.line = line->line;
    }
    if (!f.name)
        f.address = l->address;
    s.function = function_of(w, f);
    if (s.function == NONE || !vec_resize(w->budget, &w->self, w->self.len + w->n))
        return NONE;
    s.next = w->functions.data[s.function].first_site;
    if (!vec_push(w->budget, &w->sites, s))
        return NONE;
    w->with_addresses |= s.address != 0;
    w->functions.data[s.function].first_site = (uint32_t)w->sites.len - 1;
    *slot = (uint32_t)w->sites.len;
    return *slot - 1;
}

static uint32_t pair_of(struct writer *w, uint32_t caller, uint32_t callee)
{
    uint64_t hash = hash_mix(caller, callee);
    uint32_t found =
        IDSET_FIND(&w->pair_index, hash, i,
                   w->pairs.data[i].caller == caller && w->pairs.data[i].callee == callee);
    if (found != IDSET_NONE)
        return found;
    uint32_t id = (uint32_t)w->pairs.len;
    if (!vec_push(w->budget, &w->pairs, (struct pair){caller, callee, 0}) ||
        !idset_add(w->budget, &w->pair_index, hash, id))
        return NONE;
    return id;
}

static uint32_t edge_of(struct writer *w, uint32_t site, uint32_t entry)
{
    uint32_t callee = w->sites.data[entry].function;
    uint32_t caller = w->sites.data[site].function;
    uint64_t hash = hash_mix(site, callee);
    uint32_t found = IDSET_FIND(&w->edge_index, hash, i,
                                w->edges.data[i].site == site && w->edges.data[i].callee == callee);
    if (found != IDSET_NONE)
        return found;
    struct edge e = {.site = site, .callee = callee, .entry = entry};
    uint32_t id = (uint32_t)w->edges.len;
    e.next = w->functions.data[caller].first_edge;
    e.pair = pair_of(w, caller, callee);
    if (e.pair == NONE || !vec_resize(w->budget, &w->edge_costs, w->edge_costs.len + w->n) ||
        !vec_push(w->budget, &w->edges, e) || !idset_add(w->budget, &w->edge_index, hash, id))
        return NONE;
    w->functions.data[caller].first_edge = id;
    return id;
}

/* One call on the path: its cost counts unless the same pair is further out on it. */
static bool call(struct writer *w, uint32_t from, uint32_t to, uint32_t node, struct step *step)
{
    uint32_t edge = edge_of(w, from, to);
    if (edge == NONE)
        return false;
    struct pair *pair = &w->pairs.data[w->edges.data[edge].pair];
    if (pair->depth++ == 0)
        add_to(w->edge_costs.data + edge * w->n, w->cum.data + node * w->n, w->n);
    w->edges.data[edge].calls += w->calls.data[node];
    step->n_pairs++;
    return vec_push(w->budget, &w->path_pairs, w->edges.data[edge].pair);
}

static bool enter_node(struct writer *w, uint32_t node)
{
    const struct dict *d = w->dict;
    struct step step = {.next_child = w->first_child.data[node],
                        .inner = w->path.len ? vec_last(&w->path).inner : NONE};
    uint32_t location = d->node_location.data[node];
    uint32_t n_lines = d->locations.data[location].n_lines;

    for (uint32_t i = n_lines ? n_lines : 1; node != 0 && i-- > 0;) {
        uint32_t site = site_of(w, location, i);
        if (site == NONE || (step.inner != NONE && !call(w, step.inner, site, node, &step)))
            return false;
        step.inner = site;
    }
    if (step.inner != NONE && node != 0)
        add_to(w->self.data + step.inner * w->n, w->own.data + node * w->n, w->n);
    return vec_push(w->budget, &w->path, step);
}

static void leave_node(struct writer *w)
{
    for (uint32_t i = 0; i < vec_last(&w->path).n_pairs; i++)
        w->pairs.data[w->path_pairs.data[--w->path_pairs.len]].depth--;
    w->path.len--;
}

static bool walk(struct writer *w)
{
    const struct dict *d = w->dict;
    bool ok =
        vec_resize(w->budget, &w->site_of, d->lines.len + d->locations.len) && enter_node(w, 0);

    while (ok && w->path.len > 0) {
        uint32_t child = vec_last(&w->path).next_child;
        if (child == 0) {
            leave_node(w);
            continue;
        }
        vec_last(&w->path).next_child = w->next_sibling.data[child];
        ok = enter_node(w, child);
    }
    return ok;
}

/* Names end at the line's end. */
static void write_text(struct writer *w, uint32_t string)
{
    struct bytes s = dict_text(w->dict, string);

    if (s.len == 0)
        buf_add_str(w->out, "???");
    for (size_t i = 0; i < s.len; i++)
        buf_add_byte(w->out, s.data[i] < 0x20 ? ' ' : s.data[i]);
}

/* "key=(3) name" the first time, "key=(3)" later. */
static void write_name(struct writer *w, const char *key, int kind, uint32_t string)
{
    uint32_t *number = &w->number_of[kind].data[string];

    if (*number) {
        buf_addf(w->out, "%s=(%" PRIu32 ")\n", key, *number);
        return;
    }
    *number = ++w->n_numbers[kind];
    buf_addf(w->out, "%s=(%" PRIu32 ") ", key, *number);
    write_text(w, string);
    buf_add_byte(w->out, '\n');
}

static void write_function(struct writer *w, const char *key, uint32_t id)
{
    const struct written_function *f = &w->functions.data[id];

    buf_addf(w->out, "%s=(%" PRIu32 ")", key, id + 1);
    if (!w->function_named.data[id]) {
        w->function_named.data[id] = 1;
        buf_add_byte(w->out, ' ');
        if (f->name)
            write_text(w, f->name);
        else
            buf_addf(w->out, "0x%" PRIx64, f->address);
    }
    buf_add_byte(w->out, '\n');
}

/* Lines of other files than the function's are inlined code. */
static void write_file_change(struct writer *w, const struct written_function *f, uint32_t file)
{
    if (w->file == file)
        return;
    write_name(w, file == f->file ? "fe" : "fi", 0, file);
    w->file = file;
}

static void write_position(struct writer *w, const struct site *s)
{
    if (w->with_addresses)
        buf_addf(w->out, "0x%" PRIx64 " ", s->address);
    buf_add_i64(w->out, s->line > 0 ? s->line : 0);
}

static bool any_cost(const int64_t *costs, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        if (costs[k] != 0)
            return true;
    }
    return false;
}

/* Zeros at the end may be left out. */
static void write_costs(struct writer *w, const int64_t *costs)
{
    size_t n = w->n;

    while (n > 1 && costs[n - 1] == 0)
        n--;
    for (size_t k = 0; k < n; k++) {
        buf_add_byte(w->out, ' ');
        buf_add_i64(w->out, costs[k]);
    }
    buf_add_byte(w->out, '\n');
}

static void write_edge(struct writer *w, const struct written_function *caller, uint32_t id)
{
    const struct edge *e = &w->edges.data[id];
    const struct written_function *callee = &w->functions.data[e->callee];

    write_file_change(w, caller, w->sites.data[e->site].file);
    if (callee->object != caller->object)
        write_name(w, "cob", 1, callee->object);
    if (callee->file != w->file)
        write_name(w, "cfi", 0, callee->file);
    write_function(w, "cfn", e->callee);
    buf_addf(w->out, "calls=%" PRIu64 " ", e->calls ? e->calls : 1);
    write_position(w, &w->sites.data[e->entry]);
    buf_add_byte(w->out, '\n');
    write_position(w, &w->sites.data[e->site]);
    write_costs(w, w->edge_costs.data + id * w->n);
}

static void write_body(struct writer *w)
{
    for (uint32_t i = 0; i < w->functions.len; i++) {
        const struct written_function *f = &w->functions.data[i];
        buf_add_byte(w->out, '\n');
        write_name(w, "ob", 1, f->object);
        write_name(w, "fl", 0, f->file);
        write_function(w, "fn", i);
        w->file = f->file;
        for (uint32_t s = f->first_site; s != NONE; s = w->sites.data[s].next) {
            if (!any_cost(w->self.data + s * w->n, w->n))
                continue;
            write_file_change(w, f, w->sites.data[s].file);
            write_position(w, &w->sites.data[s]);
            write_costs(w, w->self.data + s * w->n);
        }
        for (uint32_t e = f->first_edge; e != NONE; e = w->edges.data[e].next)
            write_edge(w, f, e);
    }
}

static void write_event_name(struct writer *w, struct value_type t)
{
    struct bytes s = dict_text(w->dict, t.type);
    struct bytes unit = dict_text(w->dict, t.unit);

    if (s.len == 0)
        buf_add_str(w->out, "value");
    for (size_t i = 0; i < s.len; i++)
        buf_add_byte(w->out, s.data[i] <= 0x20 ? '_' : s.data[i]);
    if (unit.len == 0 || bytes_are(unit, "count"))
        return;
    buf_add_byte(w->out, '(');
    for (size_t i = 0; i < unit.len; i++)
        buf_add_byte(w->out, unit.data[i] <= 0x20 ? '_' : unit.data[i]);
    buf_add_byte(w->out, ')');
}

static void write_header(struct writer *w)
{
    const struct dict *d = w->dict;

    buf_add_str(w->out, "# callgrind format\nversion: 1\ncreator: vesta " VESTA_VERSION "\n");
    uint32_t pid =
        dict_attrs_get(d, w->p->resource_attrs, dict_find_string(d, BYTES("process.pid")));
    if (pid)
        buf_addf(w->out, "pid: %" PRId64 "\n", d->attributes.data[pid].number);
    for (size_t i = 0; i < w->p->comments.len; i++) {
        struct bytes text = dict_text(d, w->p->comments.data[i]);
        bool is_header =
            bytes_start_with(text, BYTES("cmd:")) || bytes_start_with(text, BYTES("desc:"));
        if (bytes_start_with(text, BYTES("creator:")) || bytes_start_with(text, BYTES("part:")))
            continue;
        buf_add_str(w->out, is_header ? "" : "desc: ");
        write_text(w, w->p->comments.data[i]);
        buf_add_byte(w->out, '\n');
    }
    buf_addf(w->out, "positions: %sline\nevents:", w->with_addresses ? "instr " : "");
    for (size_t k = 0; k < w->n; k++) {
        buf_add_byte(w->out, ' ');
        write_event_name(w, w->p->types[w->columns[k]]);
    }
    buf_add_str(w->out, "\nsummary:");
    write_costs(w, w->cum.data);
}

static void write_totals(struct writer *w)
{
    int64_t total[PROFILE_TYPES_MAX] = {0};

    for (size_t s = 0; s < w->sites.len; s++)
        add_to(total, w->self.data + s * w->n, w->n);
    buf_add_str(w->out, "\ntotals:");
    write_costs(w, total);
}

static void list_losses(const struct writer *w, struct buf *losses)
{
    buf_add_str(losses, "callgrind holds a call graph: which chain of callers a cost came through "
                        "is lost beyond the direct caller\n");
    if (w->calls_column == NONE)
        buf_add_str(losses,
                    "the number of calls is not known: each call is written as made once\n");
    if (w->p->attrs)
        buf_add_str(losses, "callgrind has no labels\n");
    if (w->p->time_ns)
        buf_add_str(losses, "callgrind has no timestamps\n");
    if (w->p->link)
        buf_add_str(losses, "callgrind has no links to spans\n");
}

int callgrind_encode(const struct profile_set *set, struct buf *out, struct buf *losses,
                     struct error *err)
{
    if (set->profiles.len == 0)
        return 0;
    const struct profile *p = set->profiles.data[0];
    struct writer w = {
        .dict = p->dict, .p = p, .budget = set->budget, .out = out, .calls_column = NONE};

    for (uint32_t t = 0; t < p->n_types; t++) {
        bool is_calls = p->n_types > 1 && bytes_are(dict_text(w.dict, p->types[t].type), "calls");
        if (is_calls)
            w.calls_column = t;
        else
            w.columns[w.n++] = t;
    }
    if (w.n == 0)
        return error_set(err, -EOPNOTSUPP, "callgrind needs a profile with a sample type");
    bool ok = sum_nodes(&w) && walk(&w) &&
              vec_resize(w.budget, &w.number_of[0], w.dict->strings.len) &&
              vec_resize(w.budget, &w.number_of[1], w.dict->strings.len) &&
              vec_resize(w.budget, &w.function_named, w.functions.len);
    if (ok) {
        write_header(&w);
        write_body(&w);
        write_totals(&w);
        list_losses(&w, losses);
    }
    writer_done(&w);
    return ok ? 0 : budget_error(set->budget, err);
}
