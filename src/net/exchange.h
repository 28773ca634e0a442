#pragma once

#include "net/conn.h"

/*
 * An exchange: a request being received, in the service's hands, or being answered.
 *
 * It ends (service.done, then its memory) once the stream is gone and, if the service was given it,
 * the service has answered; whichever is later. Both happen on the loop's thread.
 */

/* Events of a session whose ctx is the conn. */
extern const struct http_events exchange_events;

void exchange_timers_init(struct home *home);

/* The client has left: whoever works on its requests is told to stop. */
void exchange_cancel_all(struct conn *c);

/* Whether the service has one of them, so that an answer will come. */
bool exchange_any_handed(const struct conn *c);

/* Output has been taken: streams that wait may go on, clocks start anew. */
void exchange_written(struct conn *c);
