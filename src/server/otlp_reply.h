#pragma once

#include "server/call.h"

/* What the services of OTLP have in common. */

/* -EMEDIUMTYPE unless the body is protobuf or JSON, by its content-type. */
int otlp_check_type(const struct call *c, struct error *err);

/* Success; partial when something was rejected, with the reason. `json_name` is what JSON calls the
 * number: "rejectedSpans". */
void otlp_reply(struct call *c, const char *json_name, size_t rejected, const char *why);
