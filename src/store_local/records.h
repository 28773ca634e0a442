#pragma once

#include "base/buf.h"
#include "store_local/local_internal.h"

/*
 * What the records of the WAL hold, as bytes and back. Numbers are varints (signed ones zigzag),
 * strings are a varint length and their bytes. Decoding checks lengths and ranges; whether ids mean
 * something is for link.c to find out. Decoded strings and payloads point into the bytes.
 *
 * What people decide (tombstones, policies) is not here: it goes to the manifest at once.
 *
 * These bytes outlive the program that wrote them: a new meaning is a new type.
 */
enum record_type {
    RECORD_TENANT = 1,
    RECORD_EPOCH = 2,
    RECORD_SERIES = 3,
    RECORD_DICT = 4,
    RECORD_PROFILE = 5,
    RECORD_SPANS = 6,
};

/* Whether it defines what others refer to; such records are written twice. */
static inline bool record_is_definition(enum record_type type)
{
    return type >= RECORD_TENANT && type <= RECORD_DICT;
}

struct record_tenant {
    uint32_t id;
    struct bytes name;
};

struct record_epoch {
    uint64_t id;
    uint32_t tenant;
    struct bytes service;
    int64_t created_ns;
};

struct record_series {
    uint32_t tenant;
    struct bytes definition; /* series_apply() */
};

struct record_dict {
    uint64_t epoch;
    struct bytes delta; /* epoch_apply() */
};

struct record_profile {
    uint32_t tenant, series;
    uint64_t epoch;
    int64_t start_ns, duration_ns, period;
    uint64_t content_hash;
    bool has_id;
    uint8_t id[16];
    uint32_t n_samples, n_types;
    int64_t totals[PROFILE_TYPES_MAX];
    struct bytes payload, side;
};

struct record_spans {
    uint32_t tenant;
    struct bytes payload;
};

void record_encode_tenant(const struct record_tenant *r, struct buf *out);
void record_encode_epoch(const struct record_epoch *r, struct buf *out);
void record_encode_profile(const struct record_profile *r, struct buf *out);
/* The front of a record, to be followed by series_encode(), epoch_encode() or spans. */
void record_begin_series(uint32_t tenant, struct buf *out);
void record_begin_dict(uint64_t epoch, struct buf *out);
void record_begin_spans(uint32_t tenant, struct buf *out);

/* False when malformed. */
bool record_decode_tenant(struct bytes in, struct record_tenant *ret);
bool record_decode_epoch(struct bytes in, struct record_epoch *ret);
bool record_decode_series(struct bytes in, struct record_series *ret);
bool record_decode_dict(struct bytes in, struct record_dict *ret);
bool record_decode_profile(struct bytes in, struct record_profile *ret);
bool record_decode_spans(struct bytes in, struct record_spans *ret);
