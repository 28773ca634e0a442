#pragma once

#include "base/cleanup.h"
#include "base/error.h"
#include "config/server_config.h"
#include "net/http.h"

/*
 * The server: a store, a catalog, listeners, workers. Everything it is comes from its config.
 */
struct server;

/* Opens the store, binds, answers. `config` is borrowed until server_stop(). What it has to say
 * goes to standard error, as log_format says. */
int server_start(const struct server_config *config, struct server **ret, struct error *err);

/* The address of listener i: those of `listen`, then OTLP gRPC, then OTLP HTTP. NULL past the end.
 */
const char *server_address(const struct server *s, size_t i);

/* What may change without a restart (tokens, limits, masks, certificates, log level) does. Old
 * and new config are borrowed until server_stop(). Names what would need a restart in the log.
 * A config that is wrong changes nothing. */
int server_reload(struct server *s, const struct server_config *config, struct error *err);

/* Writes a line to the log: level 0 debug, 1 info, 2 warning, 3 error. */
void server_log(struct server *s, int level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Finishes what was begun, within drain_timeout; then closes everything. NULL is fine. */
void server_stop(struct server *s);
DEFINE_CLEANUP(struct server *, server_stop)

/*
 * Without a network: a server over a store that lives in `fs` (taken over), and one request through
 * routing, authentication, decoding, the handler and the error tables, on the caller's thread. For
 * tests and fuzzing.
 */
struct fs;
int server_open(const struct server_config *config, struct fs *fs, struct server **ret,
                struct error *err);
void server_handle(struct server *s, const struct http_request *request, struct http_reply *ret);
