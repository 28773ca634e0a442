#include "agent/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/waits_reason.h"
#include "base/cleanup.h"
#include "base/must.h"

#define LOCATIONS_MAX (UNWIND_KERNEL_FRAMES_MAX + UNWIND_USER_FRAMES_MAX + 4)
#define ATTRS_MAX     64

struct group {
    uint32_t resource;
    enum agent_type kind;
    struct profile *profile;
};

struct publisher {
    const struct window *window;
    const struct publish_options *o;
    struct profile_set *set;
    struct dict *dict;
    struct group *groups;
    size_t n_groups, cap;
    uint32_t locations[LOCATIONS_MAX];
    const char *names[LOCATIONS_MAX];
    uint32_t profile_attrs;
};

static const struct {
    const char *type, *unit;
} kind_types[AGENT_TYPES] = {
    [AGENT_TYPE_CPU] = {"cpu", "nanoseconds"},         [AGENT_TYPE_WALL] = {"wall", "nanoseconds"},
    [AGENT_TYPE_OFF_CPU] = {"off_cpu", "nanoseconds"}, [AGENT_TYPE_LOCK] = {"lock", "nanoseconds"},
    [AGENT_TYPE_FAULTS] = {"page_faults", "bytes"},    [AGENT_TYPE_THREADS] = {"threads", "count"},
};

/* Why the outer part of a stack is missing, for people; NULL when nothing is. */
static const char *missing_part(const struct window_sample *s)
{
    static const char *const texts[UNWIND_END_COUNT] = {
        [UNWIND_END_NO_PROCESS] = "[cut: process not known yet]",
        [UNWIND_END_NO_MAPPING] = "[cut: code outside any mapping]",
        [UNWIND_END_NO_TABLE] = "[cut: no unwind table]",
        [UNWIND_END_NO_FRAME] = "[cut: no frame pointer]",
        [UNWIND_END_READ] = "[cut: stack not readable]",
        [UNWIND_END_UNSUPPORTED] = "[cut: unwind rule not supported]",
        [UNWIND_END_TOO_DEEP] = "[cut: more than 1024 frames]",
        [UNWIND_END_NOT_UPWARD] = "[cut: broken stack]",
    };

    if (s->is_young && s->end < UNWIND_END_COUNT && texts[s->end])
        return "[cut: process younger than the limit]";
    return s->end < UNWIND_END_COUNT ? texts[s->end] : NULL;
}

static uint32_t string_attribute(struct dict *d, const char *key, struct bytes value)
{
    return dict_string_attribute(d, dict_cstring(d, key), dict_string(d, value));
}

static uint32_t int_attribute(struct dict *d, const char *key, int64_t value)
{
    return dict_int_attribute(d, dict_cstring(d, key), value, 0);
}

uint32_t publish_resource(const struct publish_options *o, struct process *process)
{
    struct dict *d = naming_dict(o->naming);
    uint32_t ids[ATTRS_MAX];
    size_t n = 0;
    struct bytes key, value;

    if (process->generation == naming_generation(o->naming))
        return process->attrs;
    /* Those of a process have the host's among them. */
    const struct identity *who = process->identity ? process->identity : o->host;
    for (size_t i = 0; n < ATTRS_MAX - 2 && identity_attribute(who, i, &key, &value); i++)
        ids[n++] = dict_string_attribute(d, dict_string(d, key),
                                         naming_string(o->naming, MASK_LABELS, value));
    if (!process->identity)
        ids[n++] = string_attribute(
            d, "service.name",
            bytes_of(process->is_kernel || !process->comm[0] ? "kernel" : process->comm));
    if (o->with_pid && process->identity && !process->is_kernel)
        ids[n++] = int_attribute(d, "process.pid", process->tgid);
    process->attrs = dict_attrs(d, ids, n);
    process->generation = naming_generation(o->naming);
    return process->attrs;
}

static struct profile *new_profile(struct publisher *p, uint32_t resource, enum agent_type kind)
{
    struct profile *out = profile_set_add(p->set);

    if (!out)
        return NULL;
    profile_add_ctype(out, kind_types[kind].type, kind_types[kind].unit);
    out->resource_attrs = resource;
    out->profile_attrs = p->profile_attrs;
    out->scope_name = dict_cstring(p->dict, "vesta-agent");
    out->scope_version = dict_cstring(p->dict, VESTA_VERSION);
    out->time_unix_ns = p->window->start_unix_ns;
    out->duration_ns = p->window->end_unix_ns - p->window->start_unix_ns;
    if (kind == AGENT_TYPE_CPU) {
        out->period_type =
            (struct value_type){dict_cstring(p->dict, "cpu"), dict_cstring(p->dict, "nanoseconds")};
        out->period = (int64_t)p->o->period_ns;
    }
    return out;
}

static struct profile *profile_for(struct publisher *p, uint32_t resource, enum agent_type kind)
{
    for (size_t i = p->n_groups; i-- > 0;)
        if (p->groups[i].resource == resource && p->groups[i].kind == kind)
            return p->groups[i].profile;
    struct profile *out = new_profile(p, resource, kind);
    if (!out)
        return NULL;
    if (p->n_groups == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 64;
        p->groups = must_realloc(p->groups, p->cap * sizeof(*p->groups));
    }
    p->groups[p->n_groups++] = (struct group){resource, kind, out};
    return out;
}

/* Attributes of a sample: those of its thread's record, and what was asked for. */
static uint32_t attrs_of(struct publisher *p, const struct window_sample *s)
{
    struct dict *d = p->dict;
    uint32_t ids[ATTRS_MAX], keys[ATTRS_MAX];
    size_t n = 0;
    struct bytes key, value;

    for (uint32_t at = 0;
         n < ATTRS_MAX - 4 && s->process->identity &&
         identity_sample_attribute(s->process->identity, (struct bytes){s->attrs, s->attrs_len},
                                   &at, &key, &value);) {
        uint32_t name = dict_string(d, key);
        size_t i = 0;
        while (i < n && keys[i] != name) /* the last of a key counts */
            i++;
        keys[i] = name;
        ids[i] = dict_string_attribute(d, name, naming_string(p->o->naming, MASK_LABELS, value));
        n = i == n ? n + 1 : n;
    }
    if (s->comm[0])
        ids[n++] = string_attribute(d, "thread.name", bytes_of(s->comm));
    if (s->tid)
        ids[n++] = int_attribute(d, "thread.id", s->tid);
    if (s->cpu)
        ids[n++] = int_attribute(d, "cpu.logical_number", (int64_t)s->cpu - 1);
    if (s->kind == AGENT_TYPE_WALL)
        ids[n++] = string_attribute(d, "thread.state", bytes_of(thread_state_name(s->state)));
    return n ? dict_attrs(d, ids, n) : 0;
}

/* Innermost first, into p->locations; the names of the first n_kernel are in p->names. */
static size_t locate(struct publisher *p, const struct window_sample *s)
{
    struct naming *n = p->o->naming;
    size_t count = 1; /* the first is kept free for a reason */

    for (uint32_t i = p->o->kernel_frames ? 0 : s->n_kernel; i < s->n_places; i++) {
        place at = s->places[i];
        /* What was not known when the sample came may be known by now. */
        if (place_file(at) == PLACE_RAW)
            at = process_place(s->process, place_address(at), true);
        if (place_file(at) == PLACE_RAW && s->end == UNWIND_END_NO_PROCESS)
            continue; /* an address of a process that nobody looked at tells nothing */
        p->locations[count++] = naming_location(n, s->process, at);
    }
    const char *missing = missing_part(s);
    if (missing)
        p->locations[count++] = naming_note(n, missing);
    return count;
}

static void add_row(struct publisher *p, const struct window_sample *s, enum agent_type kind,
                    const uint32_t *locations, size_t n)
{
    struct profile *out = profile_for(p, publish_resource(p->o, s->process), kind);
    int64_t value = (int64_t)s->value;

    if (!out)
        return;
    if (kind == AGENT_TYPE_THREADS)
        value = (value + 500) / 1000;
    struct sample row = {.node = dict_stack(p->dict, locations, n),
                         .attrs = attrs_of(p, s),
                         .time_ns = s->time_ns,
                         .values = &value};
    if (s->span.is_set) {
        struct link link;
        memcpy(link.trace_id, s->span.trace_id, sizeof(link.trace_id));
        memcpy(link.span_id, s->span.span_id, sizeof(link.span_id));
        row.link = dict_link(p->dict, link);
    }
    profile_add(out, &row);
}

/* A wait is told by what the kernel was doing, and a lock by what the program was. */
static void add_wait(struct publisher *p, const struct window_sample *s, size_t n)
{
    uint32_t n_kernel = s->n_kernel;
    size_t n_names = 0;

    for (uint32_t i = 0; i < n_kernel; i++)
        p->names[n_names++] =
            naming_text(p->o->naming, naming_location(p->o->naming, s->process, s->places[i]));
    enum wait_reason reason = wait_reason_of(p->names, n_names, (enum thread_state)s->state);
    n_names = 0;
    for (size_t i = p->o->kernel_frames ? 1 + n_kernel : 1; i < n; i++)
        p->names[n_names++] = naming_text(p->o->naming, p->locations[i]);
    bool is_lock = wait_is_lock(reason, p->names, n_names);
    uint32_t bits = s->process->kinds & p->o->kinds;

    p->locations[0] = naming_note(p->o->naming, wait_reason_frame(reason));
    if (bits & 1u << AGENT_TYPE_OFF_CPU)
        add_row(p, s, AGENT_TYPE_OFF_CPU, p->locations, n);
    if (is_lock && bits & 1u << AGENT_TYPE_LOCK)
        add_row(p, s, AGENT_TYPE_LOCK, p->locations + 1 + (p->o->kernel_frames ? n_kernel : 0),
                n - 1 - (p->o->kernel_frames ? n_kernel : 0));
}

static void add_sample(struct publisher *p, const struct window_sample *s)
{
    if (!s->process->is_wanted)
        return;
    if (s->kind == AGENT_TYPE_THREADS) {
        p->locations[0] = naming_note(p->o->naming, thread_state_name(s->state));
        add_row(p, s, AGENT_TYPE_THREADS, p->locations, 1);
        return;
    }
    size_t n = locate(p, s);
    if (s->kind == AGENT_TYPE_OFF_CPU)
        add_wait(p, s, n);
    else if (s->process->kinds & p->o->kinds & 1u << s->kind)
        add_row(p, s, s->kind, p->locations + 1, n - 1);
}

/* What the agent did, so that whoever reads the profile can tell. */
static uint32_t profile_attributes(struct publisher *p)
{
    uint32_t ids[4];
    size_t n = 0;

    ids[n++] = string_attribute(p->dict, "vesta.agent.mode", bytes_of(p->o->mode));
    ids[n++] = int_attribute(p->dict, "vesta.agent.rate", p->o->rate);
    if (p->o->rate_reason[0])
        ids[n++] =
            string_attribute(p->dict, "vesta.agent.rate_reason", bytes_of(p->o->rate_reason));
    if (p->window->left_out > 0)
        ids[n++] = int_attribute(p->dict, "vesta.agent.left_out", (int64_t)p->window->left_out);
    return dict_attrs(p->dict, ids, n);
}

void publish_window(const struct window *w, const struct publish_options *o,
                    struct profile_set *set)
{
    CLEANUP(freep) struct publisher *p = must_calloc(1, sizeof(*p));

    p->window = w;
    p->o = o;
    p->set = set;
    p->dict = naming_dict(o->naming);
    p->profile_attrs = profile_attributes(p);
    for (size_t i = 0; i < w->rows.len; i++)
        add_sample(p, &w->rows.data[i].sample);
    free(p->groups);
}
