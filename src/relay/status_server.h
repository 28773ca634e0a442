#pragma once

#include "relay/relay_internal.h"

/*
 * What people and Prometheus may see of the agent, read-only, where `listen` says: /metrics (the
 * agent's own and those of the relay's parts), /status (JSON: docs/agent-status.md) and /healthz.
 * One thread.
 *
 * It tells names of services and programs. By default only this host can ask; names other than an
 * address or "localhost" are refused there, so that no web page can ask for its visitor.
 */
extern const struct relay_part status_part;

/* What status_part starts; the address that it got, for tests. */
const char *status_server_address(const void *part);
