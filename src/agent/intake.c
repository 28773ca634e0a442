#include <string.h>

#include "agent/agent_internal.h"
#include "base/clock.h"
#include "base/hex.h"

#define MILLION 1000000

static int64_t unix_ns(void)
{
    return clock_wall_ns(clock_real());
}

static bool is_zero(const uint8_t *p, size_t n)
{
    uint8_t any = 0;

    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return any == 0;
}

/* Takes an id that a label has in hex; false when it is none. */
static bool take_id(struct window_sample *s, struct bytes key, struct bytes value)
{
    if (bytes_are(key, "trace_id") || bytes_are(key, "traceID"))
        return hex_decode(value, s->span.trace_id, sizeof(s->span.trace_id));
    if (bytes_are(key, "span_id") || bytes_are(key, "spanID") || bytes_are(key, "profile_id"))
        return hex_decode(value, s->span.span_id, sizeof(s->span.span_id));
    return false;
}

/* Labels of Go that are ids are the span, and the rest attributes. One id alone is no span, and
 * stays among them. */
static void take_labels(struct window_sample *s, uint8_t room[EVENT_ATTRS_MAX])
{
    struct window_sample with = *s;
    uint32_t kept = 0;

    for (uint32_t at = 0; at + 2 <= s->attrs_len;) {
        const uint8_t *p = s->attrs + at;
        uint32_t n = 2u + p[0] + p[1];
        if (n > s->attrs_len - at)
            break;
        at += n;
        if (take_id(&with, (struct bytes){p + 2, p[0]}, (struct bytes){p + 2 + p[0], p[1]}))
            continue;
        memcpy(room + kept, p, n);
        kept += n;
    }
    if (is_zero(with.span.trace_id, sizeof(with.span.trace_id)) ||
        is_zero(with.span.span_id, sizeof(with.span.span_id)))
        return;
    s->span = with.span;
    s->span.is_set = true;
    s->attrs = room;
    s->attrs_len = kept;
}

/* A sample in the window's terms. `places` has room for all its frames. */
static struct window_sample in_window(struct agent *a, struct process *p,
                                      const struct event_sample *e, place *places)
{
    static uint8_t labels[EVENT_ATTRS_MAX];
    const uint64_t *addresses = (const uint64_t *)(e + 1);
    struct window_sample s = {.process = p,
                              .places = places,
                              .n_places = (uint32_t)e->n_kernel + e->n_user,
                              .n_kernel = e->n_kernel,
                              .end = e->end,
                              .is_young = e->head.flags & EVENT_YOUNG,
                              .attrs = (const uint8_t *)(addresses + e->n_kernel + e->n_user),
                              .attrs_len = e->attrs_len};

    /* Kernel addresses, too, are return addresses but for the first of a running thread. */
    for (uint32_t i = 0; i < e->n_kernel; i++)
        places[i] = place_of(PLACE_KERNEL, addresses[i] - (i > 0));
    for (uint32_t i = 0; i < e->n_user; i++) {
        bool is_exact = i < 32 && e->exact >> i & 1;
        places[e->n_kernel + i] = process_place(p, addresses[e->n_kernel + i], is_exact);
    }
    if (e->head.flags & EVENT_IN_SPAN) {
        s.span.is_set = true;
        memcpy(s.span.trace_id, e->trace_id, sizeof(s.span.trace_id));
        memcpy(s.span.span_id, e->span_id, sizeof(s.span.span_id));
    }
    if (p->context.kind == THREAD_CONTEXT_GO_LABELS)
        take_labels(&s, labels);
    if (a->attributes & AGENT_ATTRIBUTE_THREAD)
        memcpy(s.comm, e->comm, sizeof(s.comm));
    if (a->attributes & AGENT_ATTRIBUTE_TID)
        s.tid = e->tid;
    if (a->attributes & AGENT_ATTRIBUTE_CPU)
        s.cpu = e->cpu + 1;
    if (a->attributes & AGENT_ATTRIBUTE_TIME)
        s.time_ns = (uint64_t)(unix_ns() / MILLION * MILLION);
    return s;
}

/* Names of what is new to the window will be needed when it closes. */
static void want_names(struct agent *a, const struct window_sample *s)
{
    uint32_t last = PLACE_KERNEL;

    for (uint32_t i = s->n_kernel; i < s->n_places; i++) {
        uint32_t file = place_file(s->places[i]);
        if (file == last || file == PLACE_RAW)
            continue;
        last = file;
        if (file == PLACE_JIT) {
            process_want_jit_names(a->processes, s->process, loop_now_ns(a->loop));
            continue;
        }
        struct code_file *f = code_files_get(a->files, file);
        if (f)
            code_file_want_names(a->files, f);
    }
}

static void count(struct agent *a, const struct window_sample *s)
{
    bool is_new;

    if (!window_add(a->window, s, &is_new) || !is_new)
        return;
    process_hold(s->process);
    want_names(a, s);
    struct bytes attrs = {s->attrs, s->attrs_len};
    if (s->process->identity && identity_misses_key(s->process->identity, attrs))
        process_look_later(s->process);
}

static place *scratch(void)
{
    static place places[UNWIND_KERNEL_FRAMES_MAX + UNWIND_USER_FRAMES_MAX];

    return places;
}

void agent_count_wait(void *arg, enum waits_type type, const struct event_sample *e,
                      uint64_t value_ns)
{
    struct agent *a = arg;
    struct process *p =
        process_table_get(a->processes, e->tgid, e->start_ns, e->comm, loop_now_ns(a->loop));
    struct window_sample s = in_window(a, p, e, scratch());

    s.kind = type == WAITS_WALL ? AGENT_TYPE_WALL : AGENT_TYPE_OFF_CPU;
    s.value = value_ns;
    s.state = e->state;
    count(a, &s);
}

/* Threads of a process by state, on average over the window, in thousandths. */
void agent_count_threads(void *arg, uint32_t tgid, const uint64_t ns[THREAD_STATES])
{
    struct agent *a = arg;
    struct process *p = process_table_find(a->processes, tgid);
    int64_t lasted = unix_ns() - a->window->start_unix_ns;

    for (uint8_t state = 0; p && lasted > 0 && state < THREAD_STATES; state++) {
        struct window_sample s = {.process = p,
                                  .kind = AGENT_TYPE_THREADS,
                                  .value = ns[state] / ((uint64_t)lasted / 1000 + 1),
                                  .places = scratch(),
                                  .state = state};
        if (ns[state] > 0)
            count(a, &s);
    }
}

/* Stacks that tell how good the walks of a process are: kernel threads have none. */
static void judge(struct process *p, const struct event_sample *e)
{
    if (e->end == UNWIND_END_NO_USER)
        return;
    if (e->head.flags & EVENT_YOUNG) {
        p->young++;
        return;
    }
    p->samples++;
    p->complete += e->end == UNWIND_END_OUTERMOST;
}

/* How busy the busiest process is, as far as samples tell. */
static void feel_heat(struct agent *a, struct process *p)
{
    if (p->round != a->round) {
        p->round = a->round;
        p->round_samples = 0;
    }
    if (++p->round_samples > a->hottest_samples)
        a->hottest_samples = p->round_samples;
}

static void take_sample(struct agent *a, const struct event_sample *e)
{
    int64_t now = loop_now_ns(a->loop);
    struct process *p = process_table_get(a->processes, e->tgid, e->start_ns, e->comm, now);
    bool is_young = e->head.flags & EVENT_YOUNG;

    a->counts.samples++;
    judge(p, e);
    if (e->kind == SAMPLE_CPU)
        feel_heat(a, p);
    bool is_new = p->state == PROCESS_ASKED && p->asks == 0 && (!is_young || a->o.is_recording);
    if (is_new || (p->look_again_ns && now >= p->look_again_ns))
        process_table_look(a->processes, p, now);
    if (e->kind == SAMPLE_WALL || e->kind == SAMPLE_OFF_CPU) {
        (void)waits_event(a->waits, &e->head);
        return;
    }
    struct window_sample s = in_window(a, p, e, scratch());
    s.kind = e->kind == SAMPLE_FAULT ? AGENT_TYPE_FAULTS : AGENT_TYPE_CPU;
    s.value = e->value_ns ? e->value_ns : a->period_ns;
    count(a, &s);
    if (e->kind == SAMPLE_CPU && p->kinds & 1u << AGENT_TYPE_WALL) {
        s.kind = AGENT_TYPE_WALL;
        count(a, &s);
    }
}

static void take_process(struct agent *a, const struct event_process *e)
{
    int64_t now = loop_now_ns(a->loop);

    if (e->event == PROCESS_EVENT_EXIT) {
        (void)waits_event(a->waits, &e->head);
        process_table_exited(a->processes, e->tgid);
        return;
    }
    struct process *p = process_table_get(a->processes, e->tgid, e->start_ns, e->comm, now);
    process_look_later(p); /* if that is too soon now */
    process_table_look(a->processes, p, now);
}

static void take_event(void *arg, const struct event_head *e)
{
    struct agent *a = arg;

    if (e->kind == EVENT_SAMPLE)
        take_sample(a, (const struct event_sample *)(const void *)e);
    else if (e->kind == EVENT_PROCESS)
        take_process(a, (const struct event_process *)(const void *)e);
    else
        (void)waits_event(a->waits, e);
}

void agent_drain(struct agent *a)
{
    (void)probe_drain(a->probe, take_event, a);
}
