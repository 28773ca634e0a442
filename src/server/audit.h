#pragma once

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * Who changed what: a file of JSON lines that is only ever added to. When it is large it becomes
 * FILE.1, FILE.1 becomes FILE.2 and so on; the oldest is dropped. Several processes may add to one.
 *
 *     {"time":"2026-03-01T12:00:00Z","actor":"ci","peer":"10.0.0.5:4711","tenant":"acme",
 *      "action":"token.create","what":"..."}
 *
 * Any thread may call anything.
 */
struct audit;

#define AUDIT_FILE_MAX ((uint64_t)8 << 20)
#define AUDIT_FILES    5 /* older ones that are kept */

/* `path` NULL: in memory, for tests. Fails when the file cannot be added to. */
int audit_open(const char *path, struct audit **ret, struct error *err);
void audit_close(struct audit *a); /* NULL is fine */
DEFINE_CLEANUP(struct audit *, audit_close)

struct audit_event {
    const char *actor, *peer;
    struct bytes tenant; /* that it is about */
    const char *action;  /* "token.create" */
    struct bytes what;   /* in words; no secrets */
};

/* Durable when this returns. Written before what it tells of is done: what cannot be written down
 * is not done. */
int audit_add(struct audit *a, const struct audit_event *e, struct error *err);

/* Appends a JSON array of the last `limit` events, newest first; of one tenant, or of all when it
 * is empty. */
int audit_tail(struct audit *a, struct bytes tenant, size_t limit, struct buf *out,
               struct error *err);
