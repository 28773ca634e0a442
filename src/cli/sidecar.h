#pragma once

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"

/*
 * What stands beside a profile and says more about it: FILE.json next to FILE.
 *
 *     {"service": "checkout", "labels": {"env": "prod", "pod": "a-1"},
 *      "from": "2026-03-01T12:00:00Z", "until": 1772366460, "format": "collapsed", "moment": false}
 *
 * All of it may be left out. "types" and "period" are passed over; nothing else may stand there, so
 * that a profile in JSON is not taken for one.
 */
#define SIDECAR_MAX ((size_t)64 << 10)

struct sidecar {
    struct buf params; /* as a query string: "&service.name=checkout&env=prod&from=..." */
    bool has_from;
};

/* -EBADMSG with what is wrong. sidecar_done() in any case. */
int sidecar_parse(struct bytes json, int64_t now_ns, struct sidecar *ret, struct error *err);

/* Reads FILE.json; 0 also when there is none. */
int sidecar_read(int folder, const char *file, int64_t now_ns, struct sidecar *ret,
                 struct error *err);
void sidecar_done(struct sidecar *s);
