#pragma once

/*
 * Agents and SDKs: who is there (heartbeats), and what they are told (directives, held for by a
 * long poll). The protocol is described in docs/control.md.
 */
struct control;
struct server;

struct control *control_new(struct server *s);
/* Answers everyone who waits; nobody may wait any more. */
void control_stop(struct control *k);
void control_free(struct control *k); /* NULL is fine */
