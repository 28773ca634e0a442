#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "net/loop.h"

/*
 * The agent's network side: a child process without capabilities that sends what the agent made,
 * scrapes pprof endpoints, talks the control protocol (docs/control.md), and serves /metrics and
 * /status. The agent's own process opens no connection.
 *
 * The two exchange messages over a socket pair, each with a head; what the agent hands over it
 * forgets: keeping, retrying and dropping are the relay's work.
 */
enum relay_kind {
    /* agent to relay */
    RELAY_PROFILES = 1, /* an OTLP ExportProfilesServiceRequest, one window */
    RELAY_STATUS,       /* JSON: what /status and the heartbeat tell; replaces the last */
    RELAY_METRICS,      /* text of /metrics; replaces the last */
    RELAY_TARGETS,      /* JSON: local Go processes that listen: [{"pid","ports","service",...}] */
    RELAY_DEBUG_FILE,  /* a descriptor of an ELF file, and its build id as text: upload if wanted */
    RELAY_FLUSH,       /* u32 milliseconds: send what can be sent until then, then RELAY_FLUSHED */
    RELAY_NODE_WINDOW, /* a descriptor that is connected to the inspector of a Node process, and
                          JSON: {"number","pid","takes","attributes"}; then RELAY_NODE_DONE */
    RELAY_NODE_STOP,   /* the window that is being taken ends now */
    /* relay to agent */
    RELAY_DIRECTIVE = 64, /* JSON of the directive that holds now */
    RELAY_FLUSHED,
    RELAY_COUNTS,    /* JSON: exported, refused, dropped, spooled, scraped: for status */
    RELAY_NODE_DONE, /* JSON: {"number","samples","closed","own","reopens","error"} */
};

#define RELAY_MESSAGE_MAX ((size_t)16 << 20)

struct agent_config;

struct relay;
typedef void relay_message(void *arg, enum relay_kind kind, struct bytes data);

/* Forks it. It is started again, a second later, should it die; later, should it die young again.
 */
int relay_start(struct loop *loop, const struct agent_config *config, relay_message *message,
                void *arg, struct relay **ret, struct error *err);
void relay_free(struct relay *r); /* NULL is fine; ends the child */
DEFINE_CLEANUP(struct relay *, relay_free)

/* Never waits: what does not fit the socket is queued, at most 32 MiB of it, oldest profiles
 * dropped first and counted. `fd` is duplicated; -1: none. */
void relay_send(struct relay *r, enum relay_kind kind, struct bytes data, int fd);

struct relay_stats {
    uint64_t queued_bytes, dropped; /* on our side of the socket */
    uint64_t restarts;
    int pid;
};
void relay_stats(const struct relay *r, struct relay_stats *ret);
