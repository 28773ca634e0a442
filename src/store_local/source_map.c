#include "store_local/source_map.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/must.h"
#include "store_local/epoch.h"
#include "store_local/rollup.h"

enum kind {
    KIND_STRING,
    KIND_FUNCTION,
    KIND_MAPPING,
    KIND_LOCATION,
    KIND_ATTRIBUTE,
    KIND_ATTRS,
    KIND_NODE,
    KIND_BITS = 3,
};

/* One translated id. `to` is never 0 in a slot that is taken. */
struct slot {
    uint64_t key; /* epoch << KIND_BITS | kind */
    uint32_t from, to;
};

/* Beyond this many slots the table starts afresh: what is in use comes back with the next profile.
 */
#define SLOTS_MAX ((size_t)1 << 20)
#define SLOTS_MIN ((size_t)1 << 10)

/* Less than this is told with the next append. */
#define SHRUNK_MIN ((size_t)1 << 20)

struct sort_key {
    uint64_t key; /* attrs << 32 | node */
    uint32_t row;
};

struct source_map {
    struct budget budget;
    size_t counted; /* of the store's memory */
    uint64_t generation;
    struct slot *slots;
    size_t mask, used;

    VEC(uint32_t) path; /* nodes on the way to one that is known */
    VEC(uint32_t) ids;
    VEC(struct line) lines;
    VEC(struct sort_key) keys, spare;
    VEC(uint32_t) attrs, nodes;
    VEC(int64_t) values;
    VEC(struct side_row) side;
    VEC(int64_t) side_values;

    /* Of the run that is going on. */
    const struct store_source *source;
    struct epoch *epoch;
    const struct dict *from;
    struct dict *to;
    bool failed;
};

struct source_map *source_map_new(size_t memory_limit)
{
    struct source_map *m = must_calloc(1, sizeof(*m));
    budget_init(&m->budget, memory_limit);
    return m;
}

static void drop_slots(struct source_map *m)
{
    budget_free(&m->budget, m->slots, m->slots ? (m->mask + 1) * sizeof(*m->slots) : 0);
    m->slots = NULL;
    m->mask = m->used = 0;
}

static void drop_scratch(struct source_map *m)
{
    struct budget *b = &m->budget;

    vec_done(b, &m->path);
    vec_done(b, &m->ids);
    vec_done(b, &m->lines);
    vec_done(b, &m->keys);
    vec_done(b, &m->spare);
    vec_done(b, &m->attrs);
    vec_done(b, &m->nodes);
    vec_done(b, &m->values);
    vec_done(b, &m->side);
    vec_done(b, &m->side_values);
}

void source_map_free(struct source_map *m)
{
    if (!m)
        return;
    drop_slots(m);
    drop_scratch(m);
    free(m);
}

void source_map_count(struct source_map *m, size_t set_bytes, size_t *total)
{
    size_t now = set_bytes + m->budget.used;

    *total += now - m->counted;
    m->counted = now;
}

void source_map_forget(struct source_map *m, size_t *total)
{
    *total -= m->counted;
    m->counted = 0;
}

bool source_map_has_shrunk(const struct source_map *m, size_t set_bytes)
{
    return m->counted > set_bytes + m->budget.used + SHRUNK_MIN;
}

void source_map_follow(struct source_map *m, const struct store_source *source)
{
    if (source->generation != m->generation)
        drop_slots(m);
    m->generation = source->generation;
}

/* ---- The table */

static inline size_t slot_at(const struct source_map *m, uint64_t key, uint32_t from)
{
    return hash_mix(key, from) & m->mask;
}

static inline uint32_t find(const struct source_map *m, enum kind kind, uint32_t from)
{
    uint64_t key = m->epoch->id << KIND_BITS | kind;

    if (!m->slots)
        return 0;
    for (size_t at = slot_at(m, key, from); m->slots[at].to; at = (at + 1) & m->mask) {
        if (m->slots[at].from == from && m->slots[at].key == key)
            return m->slots[at].to;
    }
    return 0;
}

static void place(struct source_map *m, struct slot s)
{
    size_t at = slot_at(m, s.key, s.from);

    while (m->slots[at].to)
        at = (at + 1) & m->mask;
    m->slots[at] = s;
}

static bool grow(struct source_map *m)
{
    size_t old_n = m->slots ? m->mask + 1 : 0, n = old_n ? old_n * 2 : SLOTS_MIN;
    struct slot *old = m->slots;
    void *p = NULL;

    if (n > SLOTS_MAX) {
        memset(m->slots, 0, old_n * sizeof(*m->slots));
        m->used = 0;
        return true;
    }
    if (!budget_resize(&m->budget, &p, 0, n * sizeof(*m->slots)))
        return false;
    memset(p, 0, n * sizeof(*m->slots));
    m->slots = p;
    m->mask = n - 1;
    for (size_t i = 0; i < old_n; i++) {
        if (old[i].to)
            place(m, old[i]);
    }
    budget_free(&m->budget, old, old_n * sizeof(*old));
    return true;
}

/* Remembers and returns `to`; 0 means that the epoch's budget is spent. */
static uint32_t remember(struct source_map *m, enum kind kind, uint32_t from, uint32_t to)
{
    if (to == 0) {
        m->failed = true;
        return 0;
    }
    if (m->used * 4 >= (m->slots ? m->mask + 1 : 0) * 3 && !grow(m)) {
        m->failed = true;
        return 0;
    }
    place(m, (struct slot){m->epoch->id << KIND_BITS | kind, from, to});
    m->used++;
    return to;
}

/* ---- Elements. Each yields 0 for 0 and for failure, which `failed` tells apart. */

static uint32_t map_string(struct source_map *m, uint32_t id)
{
    uint32_t to = id ? find(m, KIND_STRING, id) : 0;

    if (id == 0 || to)
        return to;
    return remember(m, KIND_STRING, id, dict_string(m->to, dict_text(m->from, id)));
}

static uint32_t rewritten(const struct source_map *m, enum store_role role, uint32_t id)
{
    const struct store_rewrite *w = &m->source->rewrites[role];

    return id < w->n && w->to[id] ? w->to[id] : id;
}

static uint32_t map_text(struct source_map *m, enum store_role role, uint32_t id)
{
    return map_string(m, rewritten(m, role, id));
}

static uint32_t map_function(struct source_map *m, uint32_t id)
{
    uint32_t to = id ? find(m, KIND_FUNCTION, id) : 0;

    if (id == 0 || to)
        return to;
    struct function f = m->from->functions.data[id];
    f.name = map_text(m, STORE_NAMES, f.name);
    f.system_name = map_text(m, STORE_NAMES, f.system_name);
    f.file = map_text(m, STORE_PATHS, f.file);
    return m->failed ? 0 : remember(m, KIND_FUNCTION, id, dict_function(m->to, f));
}

static uint32_t map_attribute(struct source_map *m, uint32_t id)
{
    uint32_t to = id ? find(m, KIND_ATTRIBUTE, id) : 0;

    if (id == 0 || to)
        return to;
    struct attribute a = m->from->attributes.data[id];
    a.key = map_string(m, a.key);
    a.unit = map_string(m, a.unit);
    a.text = map_text(m, STORE_VALUES, a.text);
    return m->failed ? 0 : remember(m, KIND_ATTRIBUTE, id, dict_attribute(m->to, a));
}

static uint32_t find_text(const struct source_map *m, uint32_t id, bool *missing)
{
    uint32_t to = dict_find_string(m->to, dict_text(m->from, id));

    *missing |= id != 0 && to == 0;
    return to;
}

/* The set in an epoch that takes no more sets: itself when it is there, else the one that stands
 * for all others. */
static uint32_t map_to_known_attrs(struct source_map *m, struct attrs set)
{
    bool missing = false;

    for (uint32_t i = 0; i < set.n; i++) {
        struct attribute a = m->from->attributes.data[m->from->attr_ids.data[set.first + i]];
        a.key = find_text(m, a.key, &missing);
        a.unit = find_text(m, a.unit, &missing);
        a.text = find_text(m, rewritten(m, STORE_VALUES, a.text), &missing);
        m->ids.data[i] = dict_find_attribute(m->to, a);
        missing |= m->ids.data[i] == 0;
    }
    uint32_t to = missing ? 0 : dict_find_attrs(m->to, m->ids.data, set.n);
    if (to)
        return to;
    uint32_t other =
        dict_string_attribute(m->to, dict_cstring(m->to, "other"), dict_cstring(m->to, "true"));
    return dict_attrs(m->to, &other, 1);
}

/* Rollups keep some attributes only: the set of those gets an id too, for when they are made. */
static void add_kept_attrs(struct source_map *m, uint32_t set)
{
    struct attrs all = m->to->attr_sets.data[set];
    size_t n = 0;

    for (uint32_t i = 0; i < all.n; i++) {
        uint32_t id = m->to->attr_ids.data[all.first + i];
        if (rollup_keeps(dict_text(m->to, m->to->attributes.data[id].key)))
            m->ids.data[n++] = id;
    }
    if (n > 0 && n < all.n)
        (void)dict_attrs(m->to, m->ids.data, n);
}

static uint32_t map_attrs(struct source_map *m, uint32_t id)
{
    uint32_t to = id ? find(m, KIND_ATTRS, id) : 0;

    if (id == 0 || to)
        return to;
    struct attrs set = m->from->attr_sets.data[id];
    if (!vec_resize(&m->budget, &m->ids, set.n)) {
        m->failed = true;
        return 0;
    }
    if (m->to->attr_sets.len > EPOCH_ATTR_SETS_MAX)
        return remember(m, KIND_ATTRS, id, map_to_known_attrs(m, set));
    for (uint32_t i = 0; i < set.n; i++)
        m->ids.data[i] = map_attribute(m, m->from->attr_ids.data[set.first + i]);
    if (m->failed)
        return 0;
    to = dict_attrs(m->to, m->ids.data, set.n);
    add_kept_attrs(m, to);
    return remember(m, KIND_ATTRS, id, to);
}

/* Memory that no file stands behind: what was where says nothing of another process. */
static bool is_anonymous(struct bytes file)
{
    static const char *const names[] = {
        "//anon",  "[anon",  "[heap",       "[stack",    "/tmp/perf-",
        "/memfd:", "memfd:", "anon_inode:", "/dev/zero", "/SYSV"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (bytes_start_with(file, bytes_of(names[i])))
            return true;
    }
    return false;
}

/* Above what is linked to a fixed address, below the kernel. The first one also is where files are
 * said to be: not at 0, which would mean that addresses are the file's own already. */
#define PLACED_FROM ((uint64_t)1 << 32)
#define PLACED_TO   ((uint64_t)1 << 47)

/* Whether a loader chose where the file is. The names of what the kernel brings are in brackets. */
static bool is_placed(const struct mapping *x, struct bytes file)
{
    return x->start >= PLACED_FROM && x->start < PLACED_TO && x->limit > x->start &&
           x->offset < PLACED_TO &&
           (file.len > 0 ? file.data[0] != '[' && !is_anonymous(file) : x->build_id != 0);
}

static uint32_t map_mapping(struct source_map *m, uint32_t id)
{
    uint32_t to = id ? find(m, KIND_MAPPING, id) : 0;

    if (id == 0 || to)
        return to;
    struct mapping x = m->from->mappings.data[id];
    x.file = map_text(m, STORE_PATHS, x.file);
    x.build_id = map_string(m, x.build_id);
    x.attrs = map_attrs(m, x.attrs);
    if (m->failed)
        return 0;
    struct bytes file = dict_text(m->to, x.file);
    if (is_placed(&x, file)) {
        x.limit += PLACED_FROM + x.offset - x.start;
        x.start = PLACED_FROM + x.offset;
    }
    to = x.build_id || !is_anonymous(file) ? epoch_find_binary(m->epoch, &x) : 0;
    return remember(m, KIND_MAPPING, id, to ? to : dict_mapping(m->to, x));
}

static uint32_t map_location(struct source_map *m, uint32_t id)
{
    uint32_t to = find(m, KIND_LOCATION, id);

    if (to)
        return to;
    struct location l = m->from->locations.data[id];
    uint32_t mapping = l.mapping;
    l.mapping = map_mapping(m, mapping);
    l.type = map_string(m, l.type);
    l.attrs = map_attrs(m, l.attrs);
    /* The binary may stand elsewhere in the epoch: addresses move with it. */
    if (l.mapping && l.address)
        l.address += m->to->mappings.data[l.mapping].start - m->from->mappings.data[mapping].start;
    if (!vec_resize(&m->budget, &m->lines, l.n_lines)) {
        m->failed = true;
        return 0;
    }
    for (uint32_t i = 0; i < l.n_lines; i++) {
        struct line line = m->from->lines.data[l.first_line + i];
        line.function = map_function(m, line.function);
        m->lines.data[i] = line;
    }
    if (m->failed)
        return 0;
    return remember(m, KIND_LOCATION, id, dict_location(m->to, l, m->lines.data, l.n_lines));
}

/* Walks up to the nearest caller that is known, then down again. */
static uint32_t map_new_node(struct source_map *m, uint32_t node)
{
    uint32_t to = 0;

    vec_clear(&m->path);
    for (uint32_t at = node; at != 0; at = m->from->node_parent.data[at]) {
        to = find(m, KIND_NODE, at);
        if (to)
            break;
        if (!vec_push(&m->budget, &m->path, at)) {
            m->failed = true;
            return 0;
        }
    }
    for (size_t i = m->path.len; i > 0 && !m->failed; i--) {
        uint32_t at = m->path.data[i - 1];
        uint32_t location = map_location(m, m->from->node_location.data[at]);
        if (!m->failed)
            to = remember(m, KIND_NODE, at, dict_node(m->to, to, location));
    }
    return to;
}

static inline uint32_t map_node(struct source_map *m, uint32_t node)
{
    uint32_t to = node ? find(m, KIND_NODE, node) : 0;
    return node == 0 || to ? to : map_new_node(m, node);
}

/* ---- Rows */

/* Sorts by key, a byte at a time from the least, leaving out bytes that all have in common. Stable.
 * Returns where the result stands. */
static struct sort_key *sort_keys(struct sort_key *keys, struct sort_key *spare, size_t n)
{
    uint32_t count[8][256] = {{0}};
    bool sorted = true;

    for (size_t i = 0; i < n; i++) {
        sorted &= i == 0 || keys[i - 1].key <= keys[i].key;
        for (unsigned d = 0; d < 8; d++)
            count[d][keys[i].key >> d * 8 & 0xff]++;
    }
    for (unsigned d = 0; d < 8 && !sorted; d++) {
        if (count[d][keys[0].key >> d * 8 & 0xff] == n)
            continue;
        uint32_t at = 0;
        for (unsigned c = 0; c < 256; c++) {
            uint32_t here = count[d][c];
            count[d][c] = at;
            at += here;
        }
        for (size_t i = 0; i < n; i++)
            spare[count[d][keys[i].key >> d * 8 & 0xff]++] = keys[i];
        struct sort_key *t = keys;
        keys = spare;
        spare = t;
    }
    return keys;
}

static bool map_keys(struct source_map *m, const struct profile *p)
{
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t node = map_node(m, p->node[i]), attrs = map_attrs(m, profile_attrs(p, i));
        m->keys.data[i] = (struct sort_key){(uint64_t)attrs << 32 | node, (uint32_t)i};
        if (m->failed)
            return false;
    }
    return true;
}

/* Adds up rows of one key into columns of `cap` elements; the number of different keys. */
static size_t add_up(struct source_map *m, const struct profile *p, const struct sort_key *keys,
                     size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t row = keys[i].row;
        if (i == 0 || keys[i].key != keys[i - 1].key) {
            m->attrs.data[n] = (uint32_t)(keys[i].key >> 32);
            m->nodes.data[n] = (uint32_t)keys[i].key;
            for (uint32_t t = 0; t < p->n_types; t++)
                m->values.data[t * cap + n] = p->values[t][row];
            n++;
            continue;
        }
        for (uint32_t t = 0; t < p->n_types; t++) {
            int64_t *sum = &m->values.data[t * cap + n - 1];
            *sum = (int64_t)((uint64_t)*sum + (uint64_t)p->values[t][row]);
        }
    }
    return n;
}

/* Leaves out rows that are all zero: they add nothing to any sum. */
static size_t drop_zeros(struct source_map *m, uint32_t n_types, size_t n, size_t cap)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t any = 0;
        for (uint32_t t = 0; t < n_types; t++)
            any |= m->values.data[t * cap + i];
        if (any == 0)
            continue;
        if (kept < i) {
            m->attrs.data[kept] = m->attrs.data[i];
            m->nodes.data[kept] = m->nodes.data[i];
            for (uint32_t t = 0; t < n_types; t++)
                m->values.data[t * cap + kept] = m->values.data[t * cap + i];
        }
        kept++;
    }
    return kept;
}

static bool has_side(const struct profile *p, size_t i)
{
    return profile_link(p, i) != 0 || profile_time_ns(p, i) != 0;
}

static bool collect_side(struct source_map *m, const struct profile *p)
{
    size_t n = 0, at = 0;

    vec_clear(&m->side);
    vec_clear(&m->side_values);
    if (!p->link && !p->time_ns)
        return true;
    for (size_t i = 0; i < p->n_samples; i++)
        n += has_side(p, i);
    if (!vec_resize(&m->budget, &m->side, n) ||
        !vec_resize(&m->budget, &m->side_values, n * p->n_types))
        return false;
    /* keys has been sorted, but into the other array or not: rows are looked up again. */
    for (size_t i = 0; i < p->n_samples; i++) {
        if (!has_side(p, i))
            continue;
        m->side.data[at] = (struct side_row){.node = map_node(m, p->node[i]),
                                             .attrs = map_attrs(m, profile_attrs(p, i)),
                                             .time_ns = profile_time_ns(p, i),
                                             .link = m->from->links.data[profile_link(p, i)]};
        for (uint32_t t = 0; t < p->n_types; t++)
            m->side_values.data[t * n + at] = p->values[t][i];
        at++;
    }
    return !m->failed;
}

static uint64_t hash_side(const struct source_map *m)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < m->side.len; i++) {
        const struct side_row *row = &m->side.data[i];
        uint64_t part[3];
        memcpy(part, &row->link, sizeof(part));
        uint64_t h = stable_mix(m->epoch->node_hash.data[row->node], row->time_ns);
        h = stable_mix(h, m->epoch->attrs_hash.data[row->attrs]);
        sum += stable_mix(stable_mix(h, part[0]), stable_mix(part[1], part[2]));
    }
    return sum;
}

/* A sum, so that neither order nor ids count. */
static uint64_t hash_content(const struct source_map *m, const struct translated *x,
                             const struct profile *p)
{
    const uint64_t *node_hash = m->epoch->node_hash.data, *attrs_hash = m->epoch->attrs_hash.data;
    uint64_t sum = stable_mix(stable_mix((uint64_t)p->duration_ns, (uint64_t)p->period), x->n);

    for (size_t i = 0; i < x->n; i++) {
        uint64_t h = node_hash[x->nodes[i]] ^ attrs_hash[x->attrs[i]];
        for (uint32_t t = 0; t < x->n_types; t++)
            h = stable_mix(h, (uint64_t)x->values[t][i]);
        sum += h;
    }
    return sum + hash_side(m);
}

static bool make_room(struct source_map *m, const struct profile *p)
{
    struct budget *b = &m->budget;
    size_t n = p->n_samples;

    return n < UINT32_MAX && vec_resize(b, &m->keys, n) && vec_resize(b, &m->spare, n) &&
           vec_resize(b, &m->attrs, n) && vec_resize(b, &m->nodes, n) &&
           vec_resize(b, &m->values, n * p->n_types);
}

static int run_failed(struct source_map *m, struct error *err)
{
    struct budget *spent = budget_failed(&m->epoch->budget) ? &m->epoch->budget : &m->budget;
    int r = budget_error(spent, err);

    m->epoch->budget.failed = m->budget.failed = false;
    drop_slots(m);
    drop_scratch(m);
    return r;
}

int source_map_run(struct source_map *m, const struct store_source *source, struct epoch *e,
                   const struct profile *p, struct translated *ret, struct error *err)
{
    source_map_follow(m, source);
    m->source = source;
    m->epoch = e;
    m->from = p->dict;
    m->to = e->dict;
    m->failed = false;
    if (!make_room(m, p) || !map_keys(m, p) || !collect_side(m, p) || !epoch_update_hashes(e))
        return run_failed(m, err);

    size_t cap = p->n_samples;
    const struct sort_key *keys =
        cap > 0 ? sort_keys(m->keys.data, m->spare.data, cap) : m->keys.data;
    size_t n = add_up(m, p, keys, cap);
    ret->n = drop_zeros(m, p->n_types, n, cap);
    ret->n_types = p->n_types;
    ret->attrs = m->attrs.data;
    ret->nodes = m->nodes.data;
    for (uint32_t t = 0; t < p->n_types; t++) {
        uint64_t sum = 0;
        ret->values[t] = cap > 0 ? m->values.data + t * cap : m->values.data;
        for (size_t i = 0; i < ret->n; i++)
            sum += (uint64_t)ret->values[t][i];
        ret->totals[t] = (int64_t)sum;
    }
    ret->side = (struct side_rows){.rows = m->side.data,
                                   .values = m->side_values.data,
                                   .n = m->side.len,
                                   .n_values = p->n_types};
    ret->content_hash = hash_content(m, ret, p);
    return 0;
}
