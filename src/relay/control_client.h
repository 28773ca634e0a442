#pragma once

#include "relay/relay_internal.h"

/*
 * The agent's side of the control protocol (docs/control.md): announces the agent every half minute
 * and when what it does has changed, waits for directives in between, and hands them to the agent
 * as RELAY_DIRECTIVE. One thread, one connection, nothing that others wait for: a server that is
 * down, slow or another product costs a try now and then.
 */
extern const struct relay_part control_part;

/* For tests: everything 0 is as in control_part. */
struct control_options {
    const char *server; /* origin: "http://127.0.0.1:4040" */
    const char *id;
    int64_t heartbeat_ns; /* 30 s */
    int64_t gap_ns;       /* between heartbeats, however much changes: 5 s */
    int64_t retry_ns;     /* after a failure, doubled each time: 1 s... */
    int64_t retry_max_ns; /* ...up to half a minute */
    int64_t deaf_ns;      /* where the server does not know the protocol: 10 min */
};

struct control_client;
int control_client_start(struct relay_child *c, const struct control_options *o,
                         struct control_client **ret, struct error *err);
void control_client_stop(struct control_client *k);
void control_client_message(struct control_client *k, enum relay_kind kind, struct bytes data);
