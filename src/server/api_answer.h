#pragma once

#include "server/api_query.h"
#include "server/columnar.h"

/*
 * How questions to /api/v1 are answered: parameters are read, what the client has already is told
 * by its tag without asking the store, and the rest is written as the client wants it.
 */
typedef int (*api_run)(struct api_query *q, struct error *err);

/* The handler of a route. The answer depends on nothing but parameters, profiles and debug
 * files: it gets a tag (ETag). */
int api_answer(struct call *c, api_run run, struct error *err);

/* The same for what changes for other reasons. */
int api_answer_untagged(struct call *c, api_run run, struct error *err);

/* A row of a table of routes whose handler is called `handle`. */
#define API_ROUTE(path_, argument_, summary_, params_)                                             \
    {                                                                                              \
        .method = "GET|POST", .path = "/api/v1/" path_, .role = ROLE_READ, .lane = LANE_QUERY,     \
        .handle = handle, .argument = argument_, .summary = summary_, .params = params_            \
    }

/* Hands a body over to the reply. */
void api_reply(struct api_query *q, const char *content_type, struct buf *body);

/* A body as a file to save: it may hold names that came from outside, so that, opened on this
 * server's origin, it may do nothing. */
void api_reply_file(struct api_query *q, const char *name, const char *content_type,
                    struct buf *body);

/* A sheet, as JSON or columns as the client wants it. */
int api_reply_sheet(struct api_query *q, struct sheet *s, struct error *err);

/* Members that every answer about a range has: from_ns, until_ns and, where something could not be
 * read, incomplete. */
void api_head(const struct api_query *q, struct json_writer *w);

/*
 * A list that may be long: as JSON one object {"KEY":[...],...}, at most `limit` items, which is
 * said; as NDJSON (format=ndjson) a line for each item, sent as they are found, with no more memory
 * than a part of it takes.
 */
struct api_list {
    struct api_query *q;
    struct json_writer w;
    struct buf out;
    size_t n, limit; /* limit 0: none */
    bool is_lines, has_begun, is_cut;
};

void api_list_begin(struct api_list *l, struct api_query *q, const char *key, size_t limit);
/* False when the limit has been reached: another item would be too many. */
bool api_list_wants(struct api_list *l);
/* Around an item, which is written to l->w as one value. Ending yields 0, or -ECANCELED when the
 * client has left, or -ENOBUFS. */
void api_item_begin(struct api_list *l);
int api_item_end(struct api_list *l, struct error *err);
/* `r` is what listing came to: a failure after parts were sent becomes the last line. */
int api_list_end(struct api_list *l, int r, struct error *err);
void api_list_done(struct api_list *l);
