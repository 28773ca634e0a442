#include "formats/perf_columns.h"

#include "base/buf.h"

void perf_columns_init(struct perf_columns *c, struct profile *p)
{
    *c = (struct perf_columns){.profile = p};
}

/* "cycles:u" is cycles in user mode; the clock events count nanoseconds. */
static bool is_clock(struct bytes name)
{
    const uint8_t *colon = bytes_find_byte(name, ':');
    struct bytes base = colon ? bytes_head(name, (size_t)(colon - name.data)) : name;

    return bytes_are(base, "cpu-clock") || bytes_are(base, "task-clock") ||
           bytes_are(base, "duration_time");
}

int perf_columns_event(struct perf_columns *c, struct bytes name)
{
    struct dict *d = c->profile->dict;

    for (size_t i = 0; i < c->n_events; i++) {
        if (bytes_equal(dict_text(d, c->events[i].name), name))
            return (int)i;
    }
    if (c->n_events == PERF_EVENTS_MAX)
        return -1;
    CLEANUP(buf_done) struct buf type = {0};
    buf_add_bytes(&type, name);
    buf_add_str(&type, "_samples");
    c->events[c->n_events] = (struct perf_event_columns){
        .name = dict_string(d, name),
        .samples = profile_add_type(c->profile, dict_string(d, buf_bytes(&type)),
                                    dict_cstring(d, "count")),
    };
    return (int)c->n_events++;
}

void perf_columns_add(struct perf_columns *c, int event, const int64_t *period, struct sample *s)
{
    struct perf_event_columns *e = &c->events[event];
    struct dict *d = c->profile->dict;

    if (period && !e->has_period) {
        const char *unit = is_clock(dict_text(d, e->name)) ? "nanoseconds" : "count";
        uint32_t name = e->name ? e->name : dict_cstring(d, "period");
        e->period = profile_add_type(c->profile, name, dict_cstring(d, unit));
        e->has_period = true;
    }
    c->values[e->samples] = 1;
    if (period)
        c->values[e->period] = *period;
    s->values = c->values;
    profile_add(c->profile, s);
    c->values[e->samples] = 0;
    if (period)
        c->values[e->period] = 0;
}

void perf_columns_finish(struct perf_columns *c)
{
    struct profile *p = c->profile;

    if (c->n_events == 0) {
        profile_add_ctype(p, "samples", "count");
        return;
    }
    const struct perf_event_columns *first = &c->events[0];
    if (c->n_events == 1)
        p->types[first->samples].type = dict_cstring(p->dict, "samples");
    p->default_type = p->types[first->has_period ? first->period : first->samples].type;
}
