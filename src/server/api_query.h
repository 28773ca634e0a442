#pragma once

#include "profile/frames.h"
#include "query/query.h"
#include "server/call.h"

/*
 * A question put to /api/v1: its parameters, from the query string, a form or a JSON object, and
 * what they mean. A route's own list of parameters (struct route) is what it takes: everything else
 * is refused, naming the closest one, since a misspelt filter would otherwise change the answer
 * silently.
 */
struct api_param {
    const char *name, *value; /* live as long as the call */
    size_t value_len;
    size_t place; /* among all of them, as they came */
};

#define API_PARAMS_MAX 2560 /* paths into stacks of 2,000 frames, and the rest */
#define API_BY_MAX     16

enum api_format { API_JSON, API_COLUMNS, API_NDJSON, API_DOT, API_TREE };

struct api_query {
    struct call *call;
    struct api_param *params;
    size_t n_params;

    int64_t now_ns;
    enum api_format format;
    struct query query; /* tenant, selector, range, filters, limits */
    struct selector *selector;
    struct error trouble; /* why the answer is not complete */
    const char *tag;      /* of the answer, quotes included; NULL: none */
};

/* A parameter that a route takes, from its list. */
struct api_known {
    struct bytes name, help;
    bool is_required;
};
/* Takes the next off a list: struct route's `params`. */
bool api_known_next(struct bytes *rest, struct api_known *ret);

/* Reads parameters and what every question has: query, from, until, type, instant, the filters, id,
 * trace, span and format. -EINVAL naming the parameter. api_query_done() is due either way. */
int api_query_read(struct call *c, struct api_query *ret, struct error *err);
void api_query_done(struct api_query *q);

/* The value, or NULL; of several the last. Text with a NUL in it is refused before. */
const char *api_text(const struct api_query *q, const char *name);
/* The n-th value of that name, or NULL. */
const char *api_text_at(const struct api_query *q, const char *name, size_t n);

/* All fail with -EINVAL naming the parameter; without it *ret is `fallback`. */
int api_number(const struct api_query *q, const char *name, uint64_t max, uint64_t fallback,
               uint64_t *ret, struct error *err);
int api_flag(const struct api_query *q, const char *name, bool *ret, struct error *err);
int api_duration(const struct api_query *q, const char *name, int64_t *ret, struct error *err);
/* What a value may be; NULLs are skipped. */
struct api_names {
    const char *const *names;
    size_t n;
};
#define API_NAMES(array) ((struct api_names){array, ARRAY_SIZE(array)})
/* The place of the value among the names; `fallback` without one. */
int api_choice(const struct api_query *q, const char *name, struct api_names names, size_t fallback,
               size_t *ret, struct error *err);
/* Granularity, noinlines, trim_path, collapse_recursion. */
int api_frames(const struct api_query *q, struct frame_options *ret, struct error *err);
/* The labels of `by`, repeated or with commas between. */
int api_by(const struct api_query *q, struct bytes ret[API_BY_MAX], size_t *ret_n,
           struct error *err);

/* Another selection of the same call, its parameters called PREFIXquery, PREFIXfrom, PREFIXuntil;
 * each falls back to the plain one. *ret_selector is the caller's to free. */
int api_side(const struct api_query *q, const char *prefix, struct query *ret,
             struct selector **ret_selector, struct error *err);

/* Numbers of several types cannot be added up: -EINVAL when the selection has more than one. */
int api_need_type(const struct api_query *q, struct error *err);

/* ---- Routes' parameters; see struct route. Helps have no ';'. */
#define API_P_SELECT                                                                               \
    "query: selector, as cpu{service.name=\"checkout\"}, default everything; "                     \
    "from: start of the range, as now-1h, RFC 3339 or a number since 1970, default now-1h; "       \
    "until: end of the range, default now; "
#define API_P_TYPE                                                                                 \
    "type: sample type, as cpu or cpu:nanoseconds, instead of one in the query; "                  \
    "instant: what several moments of an instant type make: average, last, peak or sum; "
#define API_P_ONE                                                                                  \
    "id: only the profile of this id, 32 hex digits; "                                             \
    "trace: only samples of this trace, 32 hex digits; "                                           \
    "span: only samples of this span, 16 hex digits; "
#define API_P_FILTER                                                                               \
    "focus: regex of functions that a stack must have; ignore: regex of functions it must not; "   \
    "hide: regex of frames to leave out; show: regex of frames to keep; "                          \
    "show_from: regex of the frame that stacks are shown from; "                                   \
    "prune_from: regex of the frame that stacks are cut below; "                                   \
    "tagfocus: samples with this label, regex, key=regex or a range, repeated: with all of them; " \
    "tagignore: samples without this label; "
#define API_P_MERGE API_P_SELECT API_P_TYPE API_P_ONE API_P_FILTER
#define API_P_GRAIN                                                                                \
    "granularity: functions, filefunctions, files, lines, addresses, packages or binaries; "       \
    "noinlines: 1 leaves inlined frames out; trim_path: prefixes of file names to take off; "
#define API_P_FRAMES API_P_GRAIN "collapse_recursion: 1 makes a frame that calls itself one frame; "
#define API_P_FORMAT "format: json or columns; "
