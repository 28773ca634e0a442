#pragma once

#include "server/api_query.h"

/*
 * Questions about a profile that comes with them: POST /api/v1/file/NAME is /api/v1/NAME, asked of
 * the body instead of the store. The same functions answer (they never see where a merge has its
 * profile from: query.h, supply), so that a file that was stored and one that was not look alike.
 * What is sum here is sum in `vesta top FILE`. Nothing of a body is kept or logged.
 *
 * A comparison has two sides: before_bytes and after_bytes say how much of the body is whose file;
 * a side of 0 bytes comes from the store.
 */
struct api_file;

/* Makes a question be asked of the call's file; of a comparison nothing yet. -EINVAL when its
 * parameters about the body make no sense. */
int api_file_for_query(struct api_query *q, struct error *err);

/* Side 0 is before. Leaves a side that comes from the store as it is. */
void api_file_for_side(struct api_file *f, size_t side, struct query *ret);

/* Reads the whole body into a set, as it is. *ret_format as format_read() has it. */
struct format;
int api_file_read(struct call *c, struct profile_set *set, const struct format **ret_format,
                  struct error *err);

/* Samples of a file with the times that they have, of one type. */
struct api_time {
    int64_t at_ns;
    int64_t value;
};

struct api_times {
    struct budget budget;
    struct profile_set *set;
    struct store_type type; /* lives in the set */
    VEC(struct api_time) all;
};

/* Sets the question's range to theirs. -ENODATA when samples do not say when. api_times_done() is
 * due either way. */
int api_file_times(struct api_query *q, struct api_times *ret, struct error *err);
void api_times_done(struct api_times *t);

/* What is known about a file: api_file_info.c. */
int api_file_info(struct api_query *q, struct error *err);

/* The n-th question that can be put to a file, as a route of its own, which lives in `arena`; NULL
 * past the end. For the description of the API. */
const struct route *api_file_route_at(size_t n, struct arena *arena);
