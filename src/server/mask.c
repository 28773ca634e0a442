#include "server/mask.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "base/mask_rules.h"
#include "base/must.h"

/* Store roles are those of masks, in the same order. */
_Static_assert((int)STORE_NAMES == (int)MASK_FUNCTIONS && (int)STORE_PATHS == (int)MASK_PATHS &&
                   (int)STORE_VALUES == (int)MASK_LABELS,
               "roles are not the same");

struct mask {
    pthread_mutex_t lock;
    struct mask_rules *rules; /* in force; workers go on with theirs while others come */
    atomic_uint version;      /* of rules */
    struct mask_memory *shared;
};

static int rules_new(const struct server_config *config, struct mask_rules **ret, struct error *err)
{
    return mask_rules_new(config->mask_defaults, config->mask.items, config->mask.n, ret, err);
}

int mask_new(const struct server_config *config, struct mask **ret, struct error *err)
{
    struct mask_rules *rules = NULL;
    int r = rules_new(config, &rules, err);
    if (r < 0)
        return r;
    struct mask *m = must_calloc(1, sizeof(*m));
    pthread_mutex_init(&m->lock, NULL);
    m->rules = rules;
    m->version = 1;
    m->shared = mask_memory_new(m);
    *ret = m;
    return 0;
}

void mask_free(struct mask *m)
{
    if (!m)
        return;
    mask_memory_free(m->shared);
    mask_rules_unref(m->rules);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

int mask_reload(struct mask *m, const struct server_config *config, struct error *err)
{
    struct mask_rules *rules = NULL, *old;
    int r = rules_new(config, &rules, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&m->lock);
    old = m->rules;
    m->rules = rules;
    m->version++;
    pthread_mutex_unlock(&m->lock);
    mask_rules_unref(old);
    return 0;
}

/* ---- What a worker has */

#define CLEAN_SLOTS 1024

struct mask_memory {
    struct mask *mask;
    unsigned version;
    struct mask_matcher *matcher; /* NULL: before the first refresh */

    /* Hashes of values that were found to need nothing. */
    uint64_t clean[CLEAN_SLOTS];

    /* Of the source's dictionary. */
    uint64_t generation;
    const struct dict *dict;
    size_t n_functions, n_mappings, n_attributes; /* looked at */
    VEC(uint32_t) to[STORE_ROLES];
    struct budget budget;
};

#define TABLES_MAX ((size_t)64 << 20)

struct mask_memory *mask_memory_new(struct mask *m)
{
    struct mask_memory *memory = must_calloc(1, sizeof(*memory));
    memory->mask = m;
    budget_init(&memory->budget, TABLES_MAX);
    return memory;
}

static void drop_tables(struct mask_memory *m)
{
    for (int i = 0; i < STORE_ROLES; i++)
        vec_done(&m->budget, &m->to[i]);
    m->n_functions = m->n_mappings = m->n_attributes = 0;
}

void mask_memory_free(struct mask_memory *m)
{
    if (!m)
        return;
    mask_matcher_free(m->matcher);
    drop_tables(m);
    free(m);
}

/* Takes the reference. */
static void take_rules(struct mask_memory *m, struct mask_rules *rules, unsigned version)
{
    mask_matcher_free(m->matcher);
    drop_tables(m);
    memset(m->clean, 0, sizeof(m->clean));
    m->matcher = mask_matcher_new(rules);
    m->version = version;
}

/* The rules in force. Whether they are others than before. */
static bool refresh(struct mask_memory *m)
{
    if (m->version == atomic_load(&m->mask->version))
        return false;
    pthread_mutex_lock(&m->mask->lock);
    struct mask_rules *rules = mask_rules_ref(m->mask->rules);
    unsigned version = m->mask->version;
    pthread_mutex_unlock(&m->mask->lock);
    take_rules(m, rules, version);
    return true;
}

struct bytes mask_value(struct mask_memory *m, struct bytes value, struct arena *arena)
{
    refresh(m);
    uint64_t hash = hash_bytes(value.data, value.len) | 1;
    uint64_t *slot = &m->clean[hash >> 32 & (CLEAN_SLOTS - 1)];
    if (*slot == hash)
        return value;
    struct bytes masked;
    if (!mask_matcher_apply(m->matcher, MASK_LABELS, value, &masked)) {
        *slot = hash;
        return value;
    }
    const char *copy = arena_strdup(arena, masked);
    return copy ? (struct bytes){(const uint8_t *)copy, masked.len} : BYTES(MASK_HIDDEN);
}

bool mask_text(struct mask *m, enum store_role role, struct bytes text, struct buf *out)
{
    pthread_mutex_lock(&m->lock);
    struct bytes masked;
    if (m->shared->version != m->version)
        take_rules(m->shared, mask_rules_ref(m->rules), m->version);
    bool changed = mask_matcher_apply(m->shared->matcher, (enum mask_role)role, text, &masked);
    if (changed)
        buf_add_bytes(out, masked);
    pthread_mutex_unlock(&m->lock);
    return changed;
}

/* ---- A source's dictionary */

static bool has_role(const struct mask_memory *m, enum store_role role)
{
    return mask_matcher_has(m->matcher, (enum mask_role)role);
}

static void mask_string(struct mask_memory *m, struct dict *d, enum store_role role, uint32_t id,
                        size_t *n)
{
    struct bytes masked;

    if (id == 0 || !has_role(m, role) || m->to[role].data[id] != 0)
        return;
    uint32_t to = id;
    if (mask_matcher_apply(m->matcher, (enum mask_role)role, dict_text(d, id), &masked)) {
        to = dict_string(d, masked);
        (*n)++;
    }
    m->to[role].data[id] = to;
}

/* An array or a list is a message: its texts cannot be changed one by one. */
static void mask_attribute(struct mask_memory *m, struct dict *d, const struct attribute *a,
                           size_t *n)
{
    static const char hidden[] = "\x0a\x03" MASK_HIDDEN; /* AnyValue of this text */
    uint32_t id = a->text;

    if (a->kind != ATTRIBUTE_OTHER) {
        mask_string(m, d, STORE_VALUES, id, n);
        return;
    }
    struct bytes masked;
    if (id == 0 || !has_role(m, STORE_VALUES) || m->to[STORE_VALUES].data[id] != 0)
        return;
    bool changed = mask_matcher_apply(m->matcher, MASK_LABELS, dict_text(d, id), &masked);
    m->to[STORE_VALUES].data[id] = changed ? dict_string(d, BYTES(hidden)) : id;
    *n += changed;
}

void mask_forget(struct mask_memory *m, struct store_source *source)
{
    drop_tables(m);
    m->dict = NULL;
    memset(source->rewrites, 0, sizeof(source->rewrites));
}

static bool make_room(struct mask_memory *m, size_t n)
{
    for (unsigned i = 0; i < STORE_ROLES; i++) {
        if (has_role(m, (enum store_role)i) && !vec_resize(&m->budget, &m->to[i], n))
            return false;
    }
    return true;
}

int mask_source(struct mask_memory *m, struct store_source *source, size_t *ret, struct error *err)
{
    struct dict *d = source->set->dict;
    size_t n = 0;

    if (refresh(m) && m->dict == d && m->generation == source->generation)
        source->generation++; /* what was kept of this dictionary was kept by other rules */
    if (m->generation != source->generation || m->dict != d)
        drop_tables(m);
    m->generation = source->generation;
    m->dict = d;
    if (!make_room(m, d->strings.len)) {
        int r = budget_error(&m->budget, err);
        m->budget.failed = false;
        return r;
    }
    for (; m->n_functions < d->functions.len; m->n_functions++) {
        struct function f = d->functions.data[m->n_functions];
        mask_string(m, d, STORE_NAMES, f.name, &n);
        mask_string(m, d, STORE_NAMES, f.system_name, &n);
        mask_string(m, d, STORE_PATHS, f.file, &n);
    }
    for (; m->n_mappings < d->mappings.len; m->n_mappings++)
        mask_string(m, d, STORE_PATHS, d->mappings.data[m->n_mappings].file, &n);
    for (; m->n_attributes < d->attributes.len; m->n_attributes++)
        mask_attribute(m, d, &d->attributes.data[m->n_attributes], &n);
    for (int i = 0; i < STORE_ROLES; i++)
        source->rewrites[i] = (struct store_rewrite){m->to[i].data, m->to[i].len};
    *ret = n;
    return budget_failed(d->budget) ? budget_error(d->budget, err) : 0;
}
