#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * A conversation with a V8 inspector (the Chrome DevTools Protocol) over a socket that is connected
 * already: JSON in a WebSocket. What the other side says is hostile. Belongs to one thread, which
 * it blocks, never longer than it is allowed to.
 */
struct cdp;

struct cdp_options {
    int fd;             /* connected; taken over, also when opening fails */
    int stop_fd;        /* readable: hurry up; -1: never */
    size_t message_max; /* bytes of one message */
};

/* Asks what there is to talk to, and begins to. -EBADMSG when this is no inspector, -ETIMEDOUT,
 * -EPIPE when the other side has ended. */
int cdp_open(const struct cdp_options *o, struct cdp **ret, struct error *err);
void cdp_free(struct cdp *c); /* NULL is fine; ends the connection */
DEFINE_CLEANUP(struct cdp *, cdp_free)

/*
 * One question: `params` is JSON, or NULL. The result, JSON, replaces what is in `ret`, which may
 * be NULL. -EREMOTEIO when it is refused; -ETIMEDOUT when it is not answered in time (an answer
 * that is late is not taken for that of another question); -EPIPE, -EBADMSG, -EMSGSIZE end the
 * conversation.
 */
int cdp_call(struct cdp *c, const char *method, const char *params, struct buf *ret,
             struct error *err);

/* The same, with a time of its own; a third of what is left when there is need to hurry. */
int cdp_call_for(struct cdp *c, int64_t time_ns, const char *method, const char *params,
                 struct buf *ret, struct error *err);

/* Sends a question whose answer is that the other side ends the connection. */
int cdp_call_last(struct cdp *c, const char *method, const char *params, struct error *err);

/* Why a wait was over. */
enum cdp_why {
    CDP_TIME,   /* as long as was asked for */
    CDP_STOP,   /* stop_fd */
    CDP_ENDING, /* the program has ended, but for waiting until we let go of it */
};

/* Waits, for events only. -EPIPE and others as above. */
int cdp_wait(struct cdp *c, int64_t duration_ns, enum cdp_why *ret, struct error *err);

/* Whether the program wants to end (CDP_ENDING). */
bool cdp_is_ending(const struct cdp *c);

/* ---- Parts of it, for tests and the fuzzer */

/* The path of the first "webSocketDebuggerUrl" in the answer to /json/list, of at most 128 sound
 * bytes. -EBADMSG. */
#define CDP_PATH_MAX 128
int cdp_read_list(struct bytes json, char ret[CDP_PATH_MAX + 1], struct error *err);

/* A message: an answer has a number, an event a name. `result` replaces what is in ret->result. */
struct cdp_message {
    uint64_t number;   /* 0: an event */
    char event[64];    /* cut */
    char failure[128]; /* of an answer that is a refusal; cut */
    struct buf result; /* JSON */
};
int cdp_read_message(struct bytes json, struct cdp_message *ret, struct error *err);
