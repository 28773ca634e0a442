#pragma once

#include <signal.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "relay/relay_internal.h"
#include "wire/inflate.h"

/*
 * Exporters, each with a thread, a queue in memory and a spool on disk of its own: one that nobody
 * answers delays no other.
 *
 * What is new is sent at once. What could not be sent goes to the spool (without one, or with a
 * full disk, it waits in memory) and is sent again, oldest first and at a limited rate, once the
 * exporter answers again; how long to wait between tries grows, with chance in it, unless the
 * server says how long. What the server refuses for good is not sent again.
 */
#define EXPORT_MEMORY_MAX ((size_t)8 << 20) /* of one exporter's queue */

/* One request on its way; shared by all exporters, packed once. */
struct export_item {
    atomic_int refs;
    enum codec codec; /* CODEC_GZIP or CODEC_ZSTD */
    size_t raw_len;
    size_t len;
    uint8_t packed[];
};

enum export_result {
    EXPORT_SENT,
    EXPORT_RETRY,   /* later; nobody answered, or the server is busy */
    EXPORT_REFUSED, /* for good */
};

struct export_outcome {
    enum export_result result;
    int64_t delay_ms;      /* the server's word on when to try again; -1: none */
    uint64_t rejected;     /* profiles of those that were sent, by its word */
    bool dislikes_packing; /* perhaps it cannot unpack zstd */
    char text[512];        /* what went wrong, or the server's warning; else empty */
};

/* A request as it is kept. */
struct export_packed {
    enum codec codec; /* CODEC_GZIP or CODEC_ZSTD */
    size_t raw_len;
    struct bytes data;
};

/* How to send; implemented by export_http.c, export_grpc.c and file_export.c. Everything but
 * `make` is called on the exporter's thread. */
struct sender_options {
    const struct relay_child *child;
    const struct export_target *target;
    const volatile sig_atomic_t *cancelled;
};

struct sender {
    const struct sender_ops *ops; /* first in a struct of its own */
    bool dislikes_zstd;           /* it took gzip where it had refused zstd */
};

struct sender_ops {
    struct sender *(*make)(const struct sender_options *o);
    /* One of the two: a body, packed as wanted; or the request as it is kept. */
    void (*send)(struct sender *s, enum codec codec, struct bytes body, struct export_outcome *ret);
    void (*keep)(struct sender *s, const struct export_packed *p, struct export_outcome *ret);
    void (*free)(struct sender *s);
    bool has_spool; /* what it cannot send is worth keeping on disk */
};

extern const struct sender_ops http_sender, grpc_sender, file_sender;

/* Sends by whatever way the sender has; `wanted` is how the configuration has it packed. */
void export_send(struct sender *s, enum codec wanted, const struct export_packed *p,
                 struct export_outcome *ret);

int export_pack(enum codec codec, struct bytes plain, struct buf *out);
/* The plain bytes, in a block that unpacked_done() frees. */
int export_unpack(const struct export_packed *p, struct budget *b, struct unpacked *ret,
                  struct error *err);

/* ---- For senders ---- */

/* The configured headers, and the token, which wins over a header of the same name. There is room
 * for more of one's own. Fails where the token cannot be read. */
#define EXPORT_OWN_HEADERS 4
int export_headers(const struct relay_child *c, struct buf *authorization, struct http_header *to,
                   size_t *ret_n, struct error *err);

/* There was no answer, for this reason. */
void export_failed(int r, const struct error *err, struct export_outcome *ret);

/* What an ExportProfilesServiceResponse says: rejected profiles, and words. */
void export_read_response(struct bytes response, struct export_outcome *ret);

struct exporters;

/* Packs a request and puts it into every queue. From any thread. */
void exporters_add(struct exporters *e, struct bytes otlp);

/* Tries at once what waits; and whether nothing is left to send but what is safe on disk. */
void exporters_hurry(struct exporters *e);
bool exporters_are_idle(struct exporters *e);

extern const struct relay_part export_part;
