#pragma once

#include "cli/options.h"
#include "net/http_client.h"

/*
 * Gets a profile from a URL, as pprof does: a bare host means its /debug/pprof/profile, -seconds is
 * added to the query, and while the other side is measuring a progress line is shown on a terminal.
 */
int fetch_url(const char *url, const struct options *o, struct budget *b, struct http_body *ret,
              struct error *err);
