#pragma once

#include <signal.h>

#include "base/random.h"
#include "cli/remote.h"
#include "cli/sidecar.h"

/*
 * Sending profiles to a server, whatever their format: the server tells it by content. While nobody
 * answers, or the server is too busy, it is tried again, later and later and never in step with
 * others. Sending twice does no harm: the server knows what it has.
 */
struct pusher {
    const struct options *o;
    struct remote remote;
    struct buf params; /* of everything that is pushed: "&env=prod&..." */
    bool has_from;
    int64_t retry_ns;                  /* how long it is tried; INT64_MAX: for ever */
    const volatile sig_atomic_t *stop; /* not 0: end; may be NULL */
    struct random random;
    struct budget budget;

    size_t n_of, n_at; /* for the progress line; n_of 0: not known */
    const char *name;  /* of what is being sent */
    bool is_line_shown;

    size_t stored, duplicates, rejected; /* profiles; what could not be read counts as one */
    bool is_troubled;                    /* the server did not answer the last time */
};

/* What --url, --label, --service, --from... say. -EINVAL with what is wrong. pusher_done() in any
 * case. */
int pusher_init(struct pusher *p, const struct options *o, struct error *err);
void pusher_done(struct pusher *p);

struct push_item {
    const char *name; /* for people */
    int folder;       /* with `name`: where a sidecar is looked for; -1: nowhere */
    struct bytes content;
    int file; /* instead of content, when file_len > 0 */
    uint64_t file_len;
    int64_t time_ns; /* of what does not say when it was taken */
    const struct sidecar *sidecar;
};

/*
 * 1: stored, or there already. 0: rejected; why has been told. Negative: it was not taken, and
 * others would not be, either: -EACCES, -EAGAIN (still busy when retry_ns had passed), -ECANCELED,
 * or what http_fetch() says.
 */
int push_item(struct pusher *p, const struct push_item *item, struct error *err);

/* A file, or "-", with its sidecar. The same. */
int push_file(struct pusher *p, int folder, const char *path, struct error *err);

/* Tells that one was refused, and counts it. */
void push_reject(struct pusher *p, const char *name, const char *why);

/* 0, or VESTA_EXIT_ERROR when something was rejected; VESTA_EXIT_LATER when r says that it is worth
 * while to try again. Tells r. */
int push_exit(struct pusher *p, int r, const struct error *err);
