#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "host/worker.h"

/*
 * Opening the inspector of a Node process, in a worker that may send SIGUSR1, connect to ports of
 * this host, and look at processes; it reads nothing of what an inspector says. The caller knows
 * that the process is Node: this worker knows whether it can take the signal.
 *
 * The signal is sent only when the process has a handler for it (to others it is deadly), is in a
 * network that the worker may connect in, has no inspector, was not told about one by its owner
 * (--inspect..., --debug-port, also in NODE_OPTIONS: then the port might be open to others), was
 * not told where nobody can see it (--env-file, a command line that a title was written over), has
 * not so much open that it could not be seen what the signal opens, and nobody else has the
 * inspector's usual port.
 */
#define ATTACH_PORT 9229 /* where inspectors open, unless told otherwise */

/*
 * Opens it, and answers with a descriptor that is connecting to it. The listener is the process's
 * own: it was not there before the signal, and is among its descriptors. It may be on any address.
 *
 * -ENOTSUP: it is to be left alone, for good; -EBUSY: it has an inspector already; -EADDRINUSE:
 * another process has the port; -ENXIO: the signal was sent, and no inspector came so far; -ESRCH:
 * gone. After others (-ETIMEDOUT: the worker was killed) the inspector may be open.
 */
void attach_question_open(uint32_t pid, uint64_t start_ns, struct buf *out);

/* Connects to the inspector at this port, if it is still the process's. -ENOENT: it is closed,
 * -ESRCH: so is the process; after others (-E2BIG: there is too much to look at) nobody knows. */
void attach_question_again(uint32_t pid, uint64_t start_ns, uint16_t port, struct buf *out);

/* Where an inspector listens. */
struct attach_place {
    uint16_t port;
    bool is_loopback; /* others have it open to more than this host */
    char text[64];    /* "127.0.0.1:9229", "[::]:9229" */
};

/* Of an answer to either. -EBADMSG. */
int attach_read(struct bytes answer, struct attach_place *ret, struct error *err);

/* In our network only; and in those of containers, which takes CAP_SYS_ADMIN. */
extern const struct worker_kind attach_worker, attach_worker_everywhere;
