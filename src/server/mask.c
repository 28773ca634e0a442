#include "server/mask.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "base/must.h"
#include "base/regex.h"

#define HIDDEN "***"

/* Longer ones cost too much to look at. */
#define MASK_TEXT_MAX ((size_t)32 << 10)

#define RULES_MAX  (CONFIG_LIST_MAX + 16)
#define GROUPS_MAX 10

/*
 * The built-in rules. Each begins where no letter of a token stands before, so that no place is
 * looked at twice: patterns on hostile text stay linear.
 */
static const char *const built_in[] = {
    "labels|paths: /(?i)(?<![a-z])(bearer|basic)\\s++[a-z0-9._~+\\/=-]{8,}+/$1 " HIDDEN "/",
    "labels|paths: "
    "/(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\\.[A-Za-z0-9_-]{4,}+(?:\\.[A-Za-z0-9_-]*+)?/" HIDDEN
    "/",
    "labels|paths: /(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])/" HIDDEN "/",
    "labels|paths: /(?<![A-Za-z0-9_-])(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk-|sk_live_|"
    "AIza|npm_|dop_v1_)[A-Za-z0-9_-]{16,}+/" HIDDEN "/",
    "labels|paths: /(?i)(?<![a-z])((?:password|passwd|pwd|secret|client_secret|token|access_token|"
    "auth_token|api[_-]?key|access[_-]?key)=)[^&\\s\"';,]++/$1" HIDDEN "/",
    "labels|paths: #(://[^\\s/:@]*+:)[^\\s/@]++@#$1" HIDDEN "@#",
    "labels|paths: /(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY.*+/" HIDDEN "/",
    "labels|paths: #(?<![A-Za-z0-9_.-])(/(?:home|Users)/)[^/\\s]++(?=/)#$1*#",
    "labels|paths: #(?i)(?<![a-z])([a-z]:\\\\users\\\\)[^\\\\]++(?=\\\\)#$1*#",
};

struct rule {
    unsigned roles; /* 1 << enum store_role */
    char *pattern, *replacement;
};

/* Rules in force: counted, so that workers go on with theirs while others come. */
struct rules {
    atomic_uint refs;
    struct rule all[RULES_MAX];
    size_t n;
};

struct mask {
    pthread_mutex_t lock;
    struct rules *rules;
    atomic_uint version; /* of rules */
    struct mask_memory *shared;
};

/* ---- Reading rules */

static void rules_unref(struct rules *r)
{
    if (!r || atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    for (size_t i = 0; i < r->n; i++) {
        free(r->all[i].pattern);
        free(r->all[i].replacement);
    }
    free(r);
}
DEFINE_CLEANUP(struct rules *, rules_unref)

static bool role_of(struct bytes name, unsigned *roles)
{
    static const char *const known[STORE_ROLES] = {"functions", "paths", "labels"};

    for (unsigned i = 0; i < STORE_ROLES; i++) {
        if (bytes_are(bytes_trim(name), known[i])) {
            *roles |= 1u << i;
            return true;
        }
    }
    return false;
}

static bool read_roles(struct bytes list, unsigned *ret)
{
    *ret = 0;
    for (;;) {
        const uint8_t *bar = bytes_find_byte(list, '|');
        struct bytes name = bar ? bytes_head(list, (size_t)(bar - list.data)) : list;
        if (!role_of(name, ret))
            return false;
        if (!bar)
            return true;
        list = bytes_from(list, (size_t)(bar - list.data) + 1);
    }
}

/* Takes the text up to the next divider off *rest, as a string; NULL when there is none. */
static char *next_part(struct bytes *rest, uint8_t divider)
{
    char *part = must_calloc(1, rest->len + 1);
    size_t n = 0;

    for (size_t i = 0; i < rest->len; i++) {
        uint8_t c = rest->data[i];
        if (c == divider) {
            *rest = bytes_from(*rest, i + 1);
            return part;
        }
        if (c == '\\' && i + 1 < rest->len) {
            uint8_t next = rest->data[++i];
            if (next != divider)
                part[n++] = '\\';
            c = next;
        }
        part[n++] = (char)c;
    }
    free(part);
    return NULL;
}

static int compile(const struct rule *rule, struct regex **ret, struct error *err)
{
    return regex_new(bytes_of(rule->pattern), ret, err);
}

static int add_rule(struct rules *rules, const char *text, struct error *err)
{
    const char *colon = strchr(text, ':');
    struct rule *rule = &rules->all[rules->n];
    CLEANUP(regex_freep) struct regex *re = NULL;

    if (!colon ||
        !read_roles((struct bytes){(const uint8_t *)text, (size_t)(colon - text)}, &rule->roles))
        return error_set(err, -EINVAL,
                         "mask rule \"%s\" does not begin with \"paths\", \"functions\" or "
                         "\"labels\" (or several with '|' between them) and a colon",
                         text);
    struct bytes rest = bytes_trim(bytes_of(colon + 1));
    uint8_t divider = rest.len > 0 ? rest.data[0] : 0;
    rest = bytes_from(rest, 1);
    rules->n++;
    rule->pattern = next_part(&rest, divider);
    rule->replacement = rule->pattern ? next_part(&rest, divider) : NULL;
    if (!rule->replacement || rest.len > 0 || divider == '\\')
        return error_set(err, -EINVAL, "mask rule \"%s\" is not /PATTERN/REPLACEMENT/", text);
    if (!*rule->pattern)
        return error_set(err, -EINVAL, "mask rule \"%s\" has an empty pattern", text);
    int r = compile(rule, &re, err);
    return r < 0 ? error_prefix(err, r, "mask rule \"%s\"", text) : 0;
}

static int rules_new(const struct server_config *config, struct rules **ret, struct error *err)
{
    CLEANUP(rules_unrefp) struct rules *rules = must_calloc(1, sizeof(*rules));
    int r = 0;

    rules->refs = 1;
    for (size_t i = 0; r == 0 && config->mask_defaults && i < ARRAY_SIZE(built_in); i++)
        r = add_rule(rules, built_in[i], err);
    for (size_t i = 0; r == 0 && i < config->mask.n; i++)
        r = add_rule(rules, config->mask.items[i], err);
    if (r == 0)
        *ret = TAKE_PTR(rules);
    return r;
}

int mask_new(const struct server_config *config, struct mask **ret, struct error *err)
{
    struct rules *rules = NULL;
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
    rules_unref(m->rules);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

int mask_reload(struct mask *m, const struct server_config *config, struct error *err)
{
    struct rules *rules = NULL, *old;
    int r = rules_new(config, &rules, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&m->lock);
    old = m->rules;
    m->rules = rules;
    m->version++;
    pthread_mutex_unlock(&m->lock);
    rules_unref(old);
    return 0;
}

/* ---- What a worker has */

#define CLEAN_SLOTS 1024

struct mask_memory {
    struct mask *mask;
    unsigned version;
    struct rules *rules;
    struct regex *compiled[RULES_MAX];
    unsigned roles; /* that have a rule */
    struct buf text, spare;

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

static void drop_rules(struct mask_memory *m)
{
    for (size_t i = 0; m->rules && i < m->rules->n; i++) {
        regex_free(m->compiled[i]);
        m->compiled[i] = NULL;
    }
    rules_unref(m->rules);
    m->rules = NULL;
    m->roles = 0;
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
    drop_rules(m);
    drop_tables(m);
    buf_done(&m->text);
    buf_done(&m->spare);
    free(m);
}

static void take_rules(struct mask_memory *m, struct rules *rules, unsigned version)
{
    drop_rules(m);
    drop_tables(m);
    memset(m->clean, 0, sizeof(m->clean));
    m->rules = rules;
    m->version = version;
    for (size_t i = 0; i < rules->n; i++) {
        (void)compile(&rules->all[i], &m->compiled[i], NULL); /* it was tried when it was read */
        m->roles |= rules->all[i].roles;
    }
}

/* The rules in force. Whether they are others than before. */
static bool refresh(struct mask_memory *m)
{
    if (m->version == atomic_load(&m->mask->version))
        return false;
    pthread_mutex_lock(&m->mask->lock);
    struct rules *rules = m->mask->rules;
    unsigned version = m->mask->version;
    atomic_fetch_add(&rules->refs, 1);
    pthread_mutex_unlock(&m->mask->lock);
    take_rules(m, rules, version);
    return true;
}

/* ---- Applying them */

static void add_replacement(const char *replacement, const struct bytes *groups, struct buf *out)
{
    for (const char *c = replacement; *c; c++) {
        if (*c == '$' && c[1] == '$') {
            buf_add_byte(out, '$');
            c++;
        } else if (*c == '$' && c[1] >= '0' && c[1] <= '9') {
            buf_add_bytes(out, groups[c[1] - '0']);
            c++;
        } else {
            buf_add_byte(out, (uint8_t)*c);
        }
    }
}

/* One rule wherever it matches: 1 with all of the text in `out`, 0, or a negative errno. */
static int apply(const struct regex *re, const char *replacement, struct bytes text,
                 struct buf *out)
{
    struct bytes groups[GROUPS_MAX];
    size_t at = 0, from = 0;
    int r;

    buf_clear(out);
    while (from <= text.len && (r = regex_search(re, text, from, groups, GROUPS_MAX)) != 0) {
        if (r < 0 || out->len > MASK_TEXT_MAX)
            return -EOVERFLOW;
        size_t start = (size_t)(groups[0].data - text.data), end = start + groups[0].len;
        buf_add(out, text.data + at, start - at);
        add_replacement(replacement, groups, out);
        at = end;
        from = end > start ? end : end + 1;
        while (from > end && from < text.len && (text.data[from] & 0xc0) == 0x80)
            from++;
    }
    if (from == 0)
        return 0;
    buf_add(out, text.data + at, text.len - at);
    return 1;
}

/* The text with all rules of a role applied: true when it is another, in m->text. */
static bool mask_one(struct mask_memory *m, enum store_role role, struct bytes text)
{
    bool changed = false;

    if (!(m->roles & 1u << role) || text.len == 0)
        return false;
    int r = text.len > MASK_TEXT_MAX ? -EOVERFLOW : 0;
    for (size_t i = 0; r >= 0 && i < m->rules->n; i++) {
        const struct rule *rule = &m->rules->all[i];
        if (!(rule->roles & 1u << role))
            continue;
        r = apply(m->compiled[i], rule->replacement, text, &m->spare);
        if (r > 0) {
            struct buf old = m->text;
            m->text = m->spare;
            m->spare = old;
            text = buf_bytes(&m->text);
            changed = true;
        }
    }
    if (r < 0) {
        buf_clear(&m->text);
        buf_add_str(&m->text, HIDDEN);
        changed = true;
    }
    return changed;
}

struct bytes mask_value(struct mask_memory *m, struct bytes value, struct arena *arena)
{
    refresh(m);
    uint64_t hash = hash_bytes(value.data, value.len) | 1;
    uint64_t *slot = &m->clean[hash >> 32 & (CLEAN_SLOTS - 1)];
    if (*slot == hash)
        return value;
    if (!mask_one(m, STORE_VALUES, value)) {
        *slot = hash;
        return value;
    }
    const char *copy = arena_strdup(arena, buf_bytes(&m->text));
    return copy ? (struct bytes){(const uint8_t *)copy, m->text.len} : BYTES(HIDDEN);
}

bool mask_text(struct mask *m, enum store_role role, struct bytes text, struct buf *out)
{
    pthread_mutex_lock(&m->lock);
    if (m->shared->version != m->version) {
        atomic_fetch_add(&m->rules->refs, 1);
        take_rules(m->shared, m->rules, m->version);
    }
    bool changed = mask_one(m->shared, role, text);
    if (changed)
        buf_add_bytes(out, buf_bytes(&m->shared->text));
    pthread_mutex_unlock(&m->lock);
    return changed;
}

/* ---- A source's dictionary */

static void mask_string(struct mask_memory *m, struct dict *d, enum store_role role, uint32_t id,
                        size_t *n)
{
    if (id == 0 || !(m->roles & 1u << role) || m->to[role].data[id] != 0)
        return;
    uint32_t to = id;
    if (mask_one(m, role, dict_text(d, id))) {
        to = dict_string(d, buf_bytes(&m->text));
        (*n)++;
    }
    m->to[role].data[id] = to;
}

/* An array or a list is a message: its texts cannot be changed one by one. */
static void mask_attribute(struct mask_memory *m, struct dict *d, const struct attribute *a,
                           size_t *n)
{
    static const char hidden[] = "\x0a\x03" HIDDEN; /* AnyValue of this text */
    uint32_t id = a->text;

    if (a->kind != ATTRIBUTE_OTHER) {
        mask_string(m, d, STORE_VALUES, id, n);
        return;
    }
    if (id == 0 || !(m->roles & 1u << STORE_VALUES) || m->to[STORE_VALUES].data[id] != 0)
        return;
    bool changed = mask_one(m, STORE_VALUES, dict_text(d, id));
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
        if (m->roles & 1u << i && !vec_resize(&m->budget, &m->to[i], n))
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
