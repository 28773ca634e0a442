#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/*
 * Windows inside Node processes, through their inspectors (docs/node-attach.md): whose turn it is,
 * and that no inspector stays open. One process at a time: all in a network share one port. The
 * attacher opens and connects (host/attach_worker.h), the relay talks (scrape/node_window.h).
 *
 * None begins, and one that runs ends early, while the agent is off, backs off, or costs too much.
 */
struct agent;
struct node_attach;

struct node_attach *node_attach_new(struct agent *a); /* which has an attacher and a relay */
void node_attach_free(struct node_attach *n);         /* NULL is fine; the attacher goes first */

void node_attach_tick(struct node_attach *n, int64_t now_ns);
/* RELAY_NODE_DONE */
void node_attach_done(struct node_attach *n, struct bytes json, int64_t now_ns);

/* No more windows; the one that runs ends now. */
void node_attach_finish(struct node_attach *n);
bool node_attach_is_idle(const struct node_attach *n);
/* It is waiting for an inspector to be closed, and wants to be asked often. */
bool node_attach_is_closing(const struct node_attach *n);
