#pragma once

#include "base/error.h"
#include "server/call.h"

/*
 * Errors as the outside worlds put them. One table turns a negative errno into an HTTP status, a
 * gRPC code and the reason that /metrics counts; nothing else knows about any of them.
 */
struct status {
    int http;
    int grpc;           /* enum grpc_code */
    const char *reason; /* static: "malformed", "too_large"... */
    bool is_retryable;  /* with a delay */
};

struct status status_of(int r);

/* Replaces the call's reply by the error, as its dialect has it. */
void status_reply(struct call *c, int r, const struct error *err);
