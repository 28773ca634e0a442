#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

/*
 * What control.c keeps: agents by id, directives by number. Texts are short copies, everything has
 * a bound: what one tenant sends cannot grow without end. No locks, no clock: the caller has both.
 */
#define CONTROL_NAME_MAX       128
#define CONTROL_SERVICES_MAX   32
#define CONTROL_TYPES_MAX      16
#define CONTROL_AGENTS_MAX     4096
#define CONTROL_DIRECTIVES_MAX 512

enum control_mode { MODE_OFF, MODE_LOW, MODE_NORMAL, MODE_BURST, MODE_COUNT };
extern const char *const control_mode_names[MODE_COUNT];

struct control_name {
    char text[CONTROL_NAME_MAX];
};

struct control_agent {
    char tenant[65];
    struct control_name id, kind, version, host, mode;
    struct control_name services[CONTROL_SERVICES_MAX];
    size_t n_services;
    struct control_name types[CONTROL_TYPES_MAX];
    size_t n_types;
    double rate;
    uint64_t samples, lost;
    bool has_cost;      /* it says what it takes itself */
    double cpu_percent; /* of one CPU */
    uint64_t memory;
    bool has_clock;
    int64_t clock_ns; /* its own time; once it is kept: how far it is ahead of ours */
    int64_t first_ns, last_ns;
};

struct control_directive {
    uint64_t number; /* rising; 0: none */
    char tenant[65];
    struct control_name agent, service, host; /* empty: any */
    enum control_mode mode;
    struct control_name types[CONTROL_TYPES_MAX];
    size_t n_types;
    double rate;      /* Hz; 0: the agent's own for that mode */
    int64_t until_ns; /* 0: until another one */
    int64_t issued_ns;
    struct control_name reason, actor;
};

struct control_state {
    struct control_agent *agents;
    size_t n_agents, cap_agents;
    struct control_directive directives[CONTROL_DIRECTIVES_MAX];
    size_t n_directives;
    uint64_t last_number;
};

void control_state_done(struct control_state *s);

/* Copies a name; false when it is too long or holds control characters. */
bool control_name_set(struct control_name *name, struct bytes text);

/* The agent of this id, made when it is new. When all places are taken the one that was silent for
 * longest goes. */
struct control_agent *control_agent_seen(struct control_state *s, struct bytes tenant,
                                         const struct control_name *id, int64_t now);
struct control_agent *control_agent_find(struct control_state *s, struct bytes tenant,
                                         const struct control_name *id);

/* Gives it a number. One for the same target replaces the older; expired ones go. -EBUSY when
 * there are too many. */
int control_direct(struct control_state *s, struct control_directive *d, int64_t now,
                   struct error *err);

/* True once its time has passed. */
bool control_is_over(const struct control_directive *d, int64_t now);

/* What holds for an agent now: the newest directive that means it; NULL: none does. */
const struct control_directive *control_effective(const struct control_state *s,
                                                  const struct control_agent *agent, int64_t now);
