#include "server/control_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"

const char *const control_mode_names[MODE_COUNT] = {"off", "low", "normal", "burst"};

void control_state_done(struct control_state *s)
{
    free(s->agents);
    *s = (struct control_state){0};
}

bool control_name_set(struct control_name *name, struct bytes text)
{
    if (text.len >= sizeof(name->text))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < 0x20 || text.data[i] == 0x7f)
            return false;
    }
    memcpy(name->text, text.data ? text.data : (const uint8_t *)"", text.len);
    name->text[text.len] = '\0';
    return true;
}

static bool is_of(const char *tenant, struct bytes wanted)
{
    return bytes_equal(bytes_of(tenant), wanted);
}

struct control_agent *control_agent_find(struct control_state *s, struct bytes tenant,
                                         const struct control_name *id)
{
    for (size_t i = 0; i < s->n_agents; i++) {
        if (is_of(s->agents[i].tenant, tenant) && strcmp(s->agents[i].id.text, id->text) == 0)
            return &s->agents[i];
    }
    return NULL;
}

static struct control_agent *place_for_one(struct control_state *s)
{
    if (s->n_agents < s->cap_agents)
        return &s->agents[s->n_agents++];
    if (s->n_agents < CONTROL_AGENTS_MAX) {
        s->cap_agents = s->cap_agents ? 2 * s->cap_agents : 16;
        s->agents = must_realloc(s->agents, s->cap_agents * sizeof(*s->agents));
        return &s->agents[s->n_agents++];
    }
    struct control_agent *oldest = &s->agents[0];
    for (size_t i = 1; i < s->n_agents; i++) {
        if (s->agents[i].last_ns < oldest->last_ns)
            oldest = &s->agents[i];
    }
    return oldest;
}

struct control_agent *control_agent_seen(struct control_state *s, struct bytes tenant,
                                         const struct control_name *id, int64_t now)
{
    struct control_agent *a = control_agent_find(s, tenant, id);
    if (!a) {
        a = place_for_one(s);
        *a = (struct control_agent){.id = *id, .first_ns = now};
        memcpy(a->tenant, tenant.data, tenant.len < 64 ? tenant.len : 64);
    }
    a->last_ns = now;
    return a;
}

static bool is_same_target(const struct control_directive *a, const struct control_directive *b)
{
    return strcmp(a->tenant, b->tenant) == 0 && strcmp(a->agent.text, b->agent.text) == 0 &&
           strcmp(a->service.text, b->service.text) == 0 && strcmp(a->host.text, b->host.text) == 0;
}

bool control_is_over(const struct control_directive *d, int64_t now)
{
    return d->until_ns > 0 && d->until_ns <= now;
}

int control_direct(struct control_state *s, struct control_directive *d, int64_t now,
                   struct error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_directives; i++) {
        if (!control_is_over(&s->directives[i], now) && !is_same_target(&s->directives[i], d))
            s->directives[n++] = s->directives[i];
    }
    s->n_directives = n;
    if (n == CONTROL_DIRECTIVES_MAX)
        return error_set(err, -EBUSY, "%d directives are in force already", CONTROL_DIRECTIVES_MAX);
    d->number = ++s->last_number;
    s->directives[s->n_directives++] = *d;
    return 0;
}

static bool means_service(const struct control_directive *d, const struct control_agent *a)
{
    if (d->service.text[0] == '\0')
        return true;
    for (size_t i = 0; i < a->n_services; i++) {
        if (strcmp(a->services[i].text, d->service.text) == 0)
            return true;
    }
    return false;
}

const struct control_directive *control_effective(const struct control_state *s,
                                                  const struct control_agent *agent, int64_t now)
{
    const struct control_directive *found = NULL;

    for (size_t i = 0; i < s->n_directives; i++) {
        const struct control_directive *d = &s->directives[i];
        if (strcmp(d->tenant, agent->tenant) != 0 || control_is_over(d, now) ||
            (d->agent.text[0] && strcmp(d->agent.text, agent->id.text) != 0) ||
            (d->host.text[0] && strcmp(d->host.text, agent->host.text) != 0) ||
            !means_service(d, agent))
            continue;
        if (!found || d->number > found->number)
            found = d;
    }
    return found;
}
