#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"

/*
 * Protocol buffers as proto3 JSON and back, by tables: whoever serves both forms of a message works
 * with protobuf alone and turns JSON into it at the door.
 *
 *     static const struct proto_field label_pair[] = {
 *         {1, "name", PROTO_STRING},
 *         {2, "value", PROTO_STRING},
 *         {0},
 *     };
 *     static const struct proto_field labels[] = {
 *         {1, "labels", PROTO_MESSAGE, .is_repeated = true, .message = label_pair},
 *         {0},
 *     };
 *
 * Tables do not contain themselves, so depth is theirs.
 */
enum proto_kind {
    PROTO_STRING,
    PROTO_BYTES, /* base64 in JSON */
    PROTO_INT64, /* text in JSON, like PROTO_UINT64; read as a number too */
    PROTO_UINT64,
    PROTO_INT32, /* uint32 as well */
    PROTO_BOOL,
    PROTO_DOUBLE,
    PROTO_ENUM, /* its name in JSON, read as a number too */
    PROTO_MESSAGE,
};

struct proto_field {
    uint32_t number;
    const char *name; /* as JSON has it: profileTypeID */
    enum proto_kind kind;
    bool is_repeated;
    const struct proto_field *message; /* PROTO_MESSAGE: its table */
    const char *const *values;         /* PROTO_ENUM: names by number, then NULL */
    size_t offset; /* not looked at here: for an owner who reads messages into a struct */
};

/*
 * Appends the message that a JSON text stands for. Keys are taken in camelCase and in snake_case
 * (case and underscores do not count), unknown ones and nulls are skipped, and no text at all is an
 * empty message. -EBADMSG with the place and the reason, or -ENOBUFS.
 */
int proto_from_json(const struct proto_field *message, struct bytes json, struct budget *budget,
                    struct buf *out, struct error *err);

/* Appends the JSON text of a message, without fields that are not set, whatever their order.
 * -EBADMSG when it is no such message; `out` may then hold a part. */
int proto_to_json(const struct proto_field *message, struct bytes in, struct buf *out,
                  struct error *err);

/* pb_put_bytes() for text that may not be UTF-8, which a string field has to be. */
void proto_put_text(struct buf *out, uint32_t field, struct bytes text);
