#pragma once

#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

/*
 * Times as people write them:
 *
 *     now, now-1h, now-1d12h      relative to `now_ns`
 *     2026-03-01T12:00:00Z        RFC 3339, with fractions and offsets; the time may be left out
 *     1767225600                  seconds since 1970; with 13 digits milliseconds, 16 micro-, 19
 * nano-
 *
 * and durations: 250ms, 30s, 5m, 1h30m, 2d, 1w, 1y (365 days).
 */

/* -EINVAL with the text and what is expected. */
int time_parse(struct bytes text, int64_t now_ns, int64_t *ret, struct error *err);
int duration_parse(struct bytes text, int64_t *ret, struct error *err);

/* A step that cuts the range into about `wanted` pieces, at a length that people like: 1, 2, 5, 10,
 * 15, 30 s or min, 1, 2, 3, 6, 12 h, days. At least 1 s. */
int64_t time_step_for(int64_t from_ns, int64_t to_ns, unsigned wanted);

#define TIME_TEXT_MAX 40

/* "2026-03-01T12:00:00Z", with a fraction only where there is one; returns `text`. */
const char *time_text(int64_t ns, char text[TIME_TEXT_MAX]);
