#include "inproc/inproc_profiles.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/must.h"

#define ATTRS_MAX       64
#define CUSTOM_MAX      32
#define HOLDER_FRAMES   8
#define HOLDER_TEXT_MAX 1024
/* Names of things that live only until inproc_profiles_named(). */
#define HOLDERS_TYPE    "vesta.lock_holders"
#define SUSPECTS_TYPE   "leak_space"
#define ROW_KEY         "vesta.row"

struct known_address {
    uint64_t address;
    uint32_t location;
};

struct maker {
    const struct inproc_window *window;
    const struct inproc_profiles_options *o;
    struct profile_set *set;
    struct dict *dict;
    struct profile *by_kind[PRELOAD_KINDS];
    struct profile *customs[CUSTOM_MAX];
    size_t n_customs;
    struct profile *holders; /* a row for each row of the lock profile that knows its holder */
    uint32_t profile_attrs;
    uint32_t native_type, anonymous;
    struct idset index;
    VEC(struct known_address) known;
    uint32_t locations[PRELOAD_FRAMES_MAX + 1];
};

const char *inproc_what_name(enum preload_what what)
{
    static const char *const names[PRELOAD_WHATS] = {
        [PRELOAD_WHAT_MALLOC] = "malloc",         [PRELOAD_WHAT_MMAP] = "mmap",
        [PRELOAD_WHAT_MUTEX] = "mutex",           [PRELOAD_WHAT_READ_LOCK] = "read_lock",
        [PRELOAD_WHAT_WRITE_LOCK] = "write_lock", [PRELOAD_WHAT_CONDITION] = "condition",
        [PRELOAD_WHAT_SEMAPHORE] = "semaphore",
    };

    return (unsigned)what < PRELOAD_WHATS ? names[what] : NULL;
}

static const struct {
    const char *name;
    const char *types[2][2];
} kinds[PRELOAD_KINDS] = {
    [PRELOAD_ALLOC] = {"alloc", {{"alloc_objects", "count"}, {"alloc_space", "bytes"}}},
    [PRELOAD_LIVE] = {"heap", {{"inuse_objects", "count"}, {"inuse_space", "bytes"}}},
    [PRELOAD_LOCK] = {"lock", {{"contentions", "count"}, {"delay", "nanoseconds"}}},
    [PRELOAD_THREAD] = {"threads", {{"threads_created", "count"}}},
    [PRELOAD_CUSTOM] = {"custom", {{NULL, NULL}}},
};

const char *inproc_profile_kind(const struct profile *p)
{
    const char *type = p->n_types > 0 ? dict_cstr(p->dict, p->types[0].type) : "";

    if (strcmp(type, SUSPECTS_TYPE) == 0)
        return "suspects";
    for (size_t i = PRELOAD_ALLOC; i < PRELOAD_CUSTOM; i++)
        if (strcmp(kinds[i].types[0][0], type) == 0)
            return kinds[i].name;
    return kinds[PRELOAD_CUSTOM].name;
}

static uint32_t string_attribute(struct dict *d, const char *key, struct bytes value)
{
    return dict_string_attribute(d, dict_cstring(d, key), dict_string(d, value));
}

static uint32_t int_attribute(struct dict *d, const char *key, int64_t value)
{
    return dict_int_attribute(d, dict_cstring(d, key), value, 0);
}

/* ---- Profiles ---- */

static struct profile *new_profile(struct maker *m)
{
    struct profile *p = profile_set_add(m->set);

    if (!p)
        return NULL;
    p->resource_attrs = m->o->resource_attrs;
    p->profile_attrs = m->profile_attrs;
    p->scope_name = dict_cstring(m->dict, m->o->scope_name);
    p->scope_version = dict_cstring(m->dict, VESTA_VERSION);
    p->time_unix_ns = m->o->start_unix_ns;
    p->duration_ns = m->o->end_unix_ns - m->o->start_unix_ns;
    return p;
}

static void set_period(struct profile *p, const char *type, const char *unit, uint32_t rate)
{
    p->period_type = (struct value_type){dict_cstring(p->dict, type), dict_cstring(p->dict, unit)};
    p->period = rate;
}

static struct profile *profile_of(struct maker *m, enum preload_kind kind)
{
    const struct segment_counters *c = inproc_window_counters(m->window);
    struct profile *p = m->by_kind[kind];

    if (p)
        return p;
    p = m->by_kind[kind] = new_profile(m);
    for (size_t i = 0; p && i < 2 && kinds[kind].types[i][0]; i++) {
        profile_add_ctype(p, kinds[kind].types[i][0], kinds[kind].types[i][1]);
        p->default_type = dict_cstring(m->dict, kinds[kind].types[i][0]);
    }
    if (p && (kind == PRELOAD_ALLOC || kind == PRELOAD_LIVE))
        set_period(p, "space", "bytes", c->alloc_rate);
    else if (p && kind == PRELOAD_LOCK)
        set_period(p, "delay", "nanoseconds", c->lock_rate);
    return p;
}

static bool is_printable(struct bytes s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.data[i] < 0x20 || s.data[i] > 0x7e)
            return false;
    return s.len > 0;
}

/* "type/unit"; a name without a unit counts something. */
static struct profile *custom_profile(struct maker *m, struct bytes name)
{
    const uint8_t *slash = bytes_find_last_byte(name, '/');
    struct bytes type = slash ? bytes_head(name, (size_t)(slash - name.data)) : name;
    struct bytes unit = slash ? bytes_from(name, type.len + 1) : BYTES("count");

    if (!is_printable(type))
        type = BYTES("custom");
    if (!is_printable(unit))
        unit = BYTES("count");
    uint32_t type_id = dict_string(m->dict, type), unit_id = dict_string(m->dict, unit);
    for (size_t i = 0; i < m->n_customs; i++)
        if (m->customs[i]->types[0].type == type_id && m->customs[i]->types[0].unit == unit_id)
            return m->customs[i];
    struct profile *p = m->n_customs < CUSTOM_MAX ? new_profile(m) : NULL;
    if (!p)
        return NULL;
    profile_add_type(p, type_id, unit_id);
    return m->customs[m->n_customs++] = p;
}

/* ---- Places ---- */

static uint32_t mapping_of(struct maker *m, const struct segment_module *module)
{
    char id[2 * sizeof(module->build_id) + 1] = "";

    if (module->build_id_len <= sizeof(module->build_id))
        hex_encode(module->build_id, module->build_id_len, id);
    return dict_mapping(m->dict, (struct mapping){.start = module->start,
                                                  .limit = module->end,
                                                  .offset = module->file_offset,
                                                  .file = dict_cstring(m->dict, module->path),
                                                  .build_id = dict_cstring(m->dict, id)});
}

/* What is in no file was made at run time: its names are where compilers leave them. */
static uint32_t anonymous_mapping(struct maker *m)
{
    /* Of "//anon" symbolize() asks the pid of the resource, which may be another's here. */
    char path[64] = "//anonymous";

    if (m->anonymous == 0) {
        if (m->o->pid > 0)
            snprintf(path, sizeof(path), "/tmp/perf-%u.map", m->o->pid);
        if (m->o->pid > 0 && access(path, R_OK) < 0)
            strcpy(path, "//anon");
        m->anonymous = dict_mapping(m->dict, (struct mapping){.file = dict_cstring(m->dict, path)});
    }
    return m->anonymous;
}

static uint32_t location_by_module(struct maker *m, uint64_t address)
{
    const struct segment_module *module =
        segment_reader_module(inproc_window_reader(m->window), address);

    return dict_location(
        m->dict,
        (struct location){.address = address,
                          .mapping = module ? mapping_of(m, module) : anonymous_mapping(m),
                          .type = m->native_type},
        NULL, 0);
}

static uint32_t location_of(struct maker *m, uint64_t address)
{
    struct budget *b = m->set->budget;
    uint64_t hash = hash_mix(address, 11);
    uint32_t id = IDSET_FIND(&m->index, hash, i, m->known.data[i].address == address);

    if (id != IDSET_NONE)
        return m->known.data[id].location;
    uint32_t location =
        m->o->location ? m->o->location(m->o->arg, address) : location_by_module(m, address);
    if (idset_add(b, &m->index, hash, (uint32_t)m->known.len))
        (void)vec_push(b, &m->known, (struct known_address){address, location});
    return location;
}

static uint32_t note_location(struct maker *m, const char *text)
{
    struct line line = {
        .function = dict_function(m->dict, (struct function){.name = dict_cstring(m->dict, text)})};

    return dict_location(m->dict, (struct location){0}, &line, 1);
}

static uint32_t stack_of(struct maker *m, const uint64_t *addresses, size_t n, uint16_t flags)
{
    for (size_t i = 0; i < n; i++)
        m->locations[i] = location_of(m, addresses[i]);
    if (flags & PRELOAD_STACK_CUT)
        m->locations[n++] = note_location(m, "[cut: more frames than fit]");
    else if (flags & PRELOAD_STACK_LOST)
        m->locations[n++] = note_location(m, "[cut: outer frames not found]");
    return dict_stack(m->dict, m->locations, n);
}

/* ---- Rows ---- */

static uint32_t text_of(struct maker *m, struct bytes text)
{
    return m->o->text ? m->o->text(m->o->arg, text) : dict_string(m->dict, text);
}

static size_t add_labels(struct maker *m, struct bytes labels, uint32_t ids[ATTRS_MAX])
{
    struct bytes key, value;
    size_t n = 0;

    while (n < ATTRS_MAX - 8 && segment_next_label(&labels, &key, &value))
        if (key.len > 0)
            ids[n++] = dict_string_attribute(m->dict, text_of(m, key), text_of(m, value));
    return n;
}

static uint32_t attrs_of(struct maker *m, const struct inproc_row *row)
{
    struct dict *d = m->dict;
    uint32_t ids[ATTRS_MAX];
    size_t n = add_labels(m, row->labels, ids);
    const char *what = inproc_what_name(row->what);

    if (row->thread_name.len > 0)
        ids[n++] =
            dict_string_attribute(d, dict_cstring(d, "thread.name"), text_of(m, row->thread_name));
    if (what && (row->kind == PRELOAD_ALLOC || row->kind == PRELOAD_LIVE))
        ids[n++] = string_attribute(d, "memory.kind", bytes_of(what));
    if (what && row->kind == PRELOAD_LOCK)
        ids[n++] = string_attribute(d, "lock.kind", bytes_of(what));
    if (row->suspect) {
        ids[n++] = string_attribute(d, "leak.suspect", BYTES("true"));
        ids[n++] = int_attribute(d, "leak.growth_bytes_per_second",
                                 (int64_t)llround(row->suspect->growth_per_s));
    }
    return n ? dict_attrs(d, ids, n) : 0;
}

static int64_t whole(double v)
{
    return v < 0x1p62 ? (int64_t)llround(v) : (int64_t)1 << 62;
}

/* Who held the lock has no name yet: its stack waits in a profile of its own. */
static void add_holder(struct maker *m, const struct inproc_row *row, size_t at)
{
    int64_t one = 1;

    if (!m->holders) {
        m->holders = new_profile(m);
        if (m->holders)
            profile_add_ctype(m->holders, HOLDERS_TYPE, "count");
    }
    if (!m->holders)
        return;
    uint32_t id = int_attribute(m->dict, ROW_KEY, (int64_t)at);
    struct sample s = {
        .node = stack_of(m, row->holder,
                         row->n_holder < HOLDER_FRAMES ? row->n_holder : HOLDER_FRAMES, 0),
        .attrs = dict_attrs(m->dict, &id, 1),
        .values = &one};
    profile_add(m->holders, &s);
}

static void add_row(void *arg, const struct inproc_row *row)
{
    struct maker *m = arg;
    struct profile *p =
        row->kind == PRELOAD_CUSTOM ? custom_profile(m, row->name) : profile_of(m, row->kind);
    int64_t values[2] = {whole(row->count), whole(row->amount)};
    struct link link;

    if (!p)
        return;
    if (row->kind == PRELOAD_CUSTOM)
        values[0] = values[1];
    struct sample s = {.attrs = attrs_of(m, row), .values = values};
    if (row->has_no_stack) {
        uint32_t note = note_location(m, "[cut: no room for the stack]");
        s.node = dict_stack(m->dict, &note, 1);
    } else {
        s.node = stack_of(m, row->addresses, row->n_addresses, row->flags);
    }
    if (row->trace_id) {
        memcpy(link.trace_id, row->trace_id, sizeof(link.trace_id));
        memcpy(link.span_id, row->span_id, sizeof(link.span_id));
        s.link = dict_link(m->dict, link);
    }
    if (profile_add(p, &s) && row->n_holder > 0)
        add_holder(m, row, p->n_samples - 1);
}

/* ---- Leak suspects ---- */

static void add_suspects(struct maker *m)
{
    const struct inproc_window *w = m->window;
    const struct leak_suspect *s;
    struct profile *p = NULL;
    uint64_t addresses[PRELOAD_FRAMES_MAX];

    for (size_t i = 0; (s = inproc_window_suspect(w, i)); i++) {
        int64_t values[] = {whole(s->bytes), whole(s->objects), whole(s->growth_per_s)};
        p = p ? p : new_profile(m);
        if (!p)
            return;
        profile_add_ctype(p, SUSPECTS_TYPE, "bytes");
        profile_add_ctype(p, "leak_objects", "count");
        profile_add_ctype(p, "leak_growth", "bytes");
        size_t n = inproc_window_addresses(w, s->stack, addresses);
        uint16_t flags = segment_reader_get(inproc_window_reader(w), s->stack)->flags;
        profile_add(p,
                    &(struct sample){.node = stack_of(m, addresses, n, flags), .values = values});
    }
}

/* ---- What is missing ---- */

static const char *const loss_keys[] = {
    [PRELOAD_LOSS_RING] = "vesta.preload.lost_records",
    [PRELOAD_LOSS_TEXTS] = "vesta.preload.lost_texts",
    [PRELOAD_LOSS_LIVE] = "vesta.preload.lost_live",
    [PRELOAD_LOSS_MODULES] = "vesta.preload.lost_modules",
    [PRELOAD_LOSS_BUSY] = "vesta.preload.lost_in_signals",
    [PRELOAD_LOSS_ROOM] = "vesta.preload.lost_no_room",
    [PRELOAD_LOSS_CHILDREN] = "vesta.preload.lost_children",
};

static uint32_t profile_attributes(struct maker *m)
{
    const struct inproc_losses *l = inproc_window_losses(m->window);
    const struct segment_counters *c = inproc_window_counters(m->window);
    uint64_t more = l->unfinished + l->unsound + l->left_out;
    uint32_t ids[ATTRS_MAX];
    size_t n = 0;

    ids[n++] = int_attribute(m->dict, "vesta.preload.interval", c->alloc_rate);
    for (size_t i = 0; i < ARRAY_SIZE(loss_keys); i++)
        if (l->lost[i] > 0)
            ids[n++] = int_attribute(m->dict, loss_keys[i], (int64_t)(l->lost[i] & INT64_MAX));
    if (more > 0)
        ids[n++] = int_attribute(m->dict, "vesta.preload.left_out", (int64_t)(more & INT64_MAX));
    if (l->unfollowed > 0)
        ids[n++] = int_attribute(m->dict, "vesta.preload.unfollowed",
                                 (int64_t)(l->unfollowed & INT64_MAX));
    if (l->restarted > 0)
        ids[n++] = int_attribute(m->dict, "vesta.preload.leaks_restarted", 1);
    return dict_attrs(m->dict, ids, n);
}

static void add_notes(const struct inproc_window *w, struct profile_set *set)
{
    const struct inproc_losses *l = inproc_window_losses(w);

    if (l->lost[PRELOAD_LOSS_RING] > 0)
        profile_set_note(set, "%llu samples were lost: they came faster than they were read",
                         (unsigned long long)l->lost[PRELOAD_LOSS_RING]);
    if (l->lost[PRELOAD_LOSS_TEXTS] > 0)
        profile_set_note(set, "%llu samples have no stack: no room for new ones",
                         (unsigned long long)l->lost[PRELOAD_LOSS_TEXTS]);
    if (l->lost[PRELOAD_LOSS_LIVE] > 0)
        profile_set_note(set, "%llu live objects are not followed: no room in the table",
                         (unsigned long long)l->lost[PRELOAD_LOSS_LIVE]);
    if (l->lost[PRELOAD_LOSS_ROOM] > 0)
        profile_set_note(set, "%llu samples, stacks or objects were lost: no room for their file",
                         (unsigned long long)l->lost[PRELOAD_LOSS_ROOM]);
    if (l->unfinished > 0)
        profile_set_note(set, "%llu samples were never finished: their threads died",
                         (unsigned long long)l->unfinished);
    if (l->unsound > 0)
        profile_set_note(set, "%llu things that the process handed over make no sense",
                         (unsigned long long)l->unsound);
    if (l->left_out > 0)
        profile_set_note(set, "%llu samples were left out: no room to add them up",
                         (unsigned long long)l->left_out);
    if (l->unfollowed > 0)
        profile_set_note(set, "%llu live objects are not looked at for leaks: too many stacks",
                         (unsigned long long)l->unfollowed);
    if (l->restarted > 0)
        profile_set_note(set, "leaks are looked for anew: the memory for stacks was full");
}

void inproc_profiles_add(const struct inproc_window *w, const struct inproc_profiles_options *o,
                         struct profile_set *set)
{
    struct maker m = {.window = w, .o = o, .set = set, .dict = set->dict};

    m.profile_attrs = profile_attributes(&m);
    m.native_type = dict_cstring(m.dict, "native");
    inproc_window_rows(w, add_row, &m);
    if (o->with_suspects)
        add_suspects(&m);
    idset_done(set->budget, &m.index);
    vec_done(set->budget, &m.known);
    add_notes(w, set);
}

/* ---- Names of who held locks ---- */

/* "inner < outer < ...", as far as there are names. */
static uint32_t holder_text(struct dict *d, uint32_t node)
{
    char text[HOLDER_TEXT_MAX];
    size_t at = 0;

    for (; node != 0; node = d->node_parent.data[node]) {
        const struct location *l = &d->locations.data[d->node_location.data[node]];
        const struct mapping *m = &d->mappings.data[l->mapping];
        const char *file = strrchr(dict_cstr(d, m->file), '/');
        const char *name = file ? file + 1 : dict_cstr(d, m->file);
        if (l->n_lines > 0)
            name = dict_cstr(d, d->functions.data[d->lines.data[l->first_line].function].name);
        int n = snprintf(text + at, sizeof(text) - at, "%s%s", at ? " < " : "", name);
        if (n < 0 || (size_t)n >= sizeof(text) - at)
            break;
        at += (size_t)n;
    }
    return dict_string(d, (struct bytes){(uint8_t *)text, at});
}

static void name_holders(struct profile *locks, const struct profile *holders)
{
    struct dict *d = locks->dict;
    uint32_t row_key = dict_cstring(d, ROW_KEY), key = dict_cstring(d, "lock.holder");

    if (!profile_need_attrs(locks))
        return;
    for (size_t i = 0; i < holders->n_samples; i++) {
        uint32_t a = dict_attrs_get(d, profile_attrs(holders, i), row_key);
        int64_t row = a ? d->attributes.data[a].number : -1;
        uint32_t text = holder_text(d, holders->node[i]);
        if (row >= 0 && (uint64_t)row < locks->n_samples && text != 0)
            locks->attrs[row] =
                dict_attrs_with(d, locks->attrs[row], dict_string_attribute(d, key, text));
    }
}

void inproc_profiles_named(struct profile_set *set)
{
    struct profile *locks = NULL;
    size_t kept = 0;

    for (size_t i = 0; i < set->profiles.len; i++) {
        struct profile *p = set->profiles.data[i];
        const char *type = p->n_types > 0 ? dict_cstr(p->dict, p->types[0].type) : "";
        if (strcmp(type, "contentions") == 0)
            locks = p;
        if (strcmp(type, HOLDERS_TYPE) != 0) {
            set->profiles.data[kept++] = p;
            continue;
        }
        /* The holders of a process come behind its locks. */
        if (locks)
            name_holders(locks, p);
        profile_free(p);
    }
    set->profiles.len = kept;
}
