#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/error.h"

/*
 * The server's side of TLS 1.2 and 1.3, on sockets that do not block. HTTP/2 is offered by ALPN.
 * A tls_server may be used by any thread; a tls_conn belongs to one.
 *
 * OpenSSL writes with write(2): threads that use a tls_conn block SIGPIPE.
 */
struct tls_server;
struct tls_conn;

/* With client_ca_file, clients must show a certificate signed by one of it; NULL or "": none is
 * asked for. -EINVAL for files that do not hold what they should; -EOPNOTSUPP without OpenSSL. */
int tls_server_new(const char *cert_file, const char *key_file, const char *client_ca_file,
                   struct tls_server **ret, struct error *err);
void tls_server_free(struct tls_server *t); /* NULL is fine */
DEFINE_CLEANUP(struct tls_server *, tls_server_free)

/* Reads these files. After a failure all is as before. */
int tls_server_reload(struct tls_server *t, const char *cert_file, const char *key_file,
                      struct error *err);

struct tls_conn *tls_conn_new(struct tls_server *t, int fd); /* NULL when there is no memory */
void tls_conn_free(struct tls_conn *c);                      /* NULL is fine; fd stays open */

/* 1 done, -EAGAIN when the socket has to be waited for, or another negative errno: `why` is static
 * text. */
int tls_conn_handshake(struct tls_conn *c, const char **why);

/* As read(2) and write(2): 0 is the end, -EAGAIN wait, other negative numbers failure. */
ssize_t tls_conn_read(struct tls_conn *c, void *to, size_t n);
ssize_t tls_conn_write(struct tls_conn *c, const void *from, size_t n);
void tls_conn_shutdown(struct tls_conn *c); /* says goodbye, without waiting */

/* After the handshake: whether ALPN chose HTTP/2; the subject of the client's certificate. */
bool tls_conn_is_http2(struct tls_conn *c);
bool tls_conn_subject(struct tls_conn *c, char *to, size_t size);
