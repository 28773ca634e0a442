#include "store_local/records.h"

#include "base/le.h"
#include "segment/varint.h"

static void add_string(struct buf *out, struct bytes s)
{
    add_varint(out, s.len);
    buf_add_bytes(out, s);
}

static bool take_string(struct bytes *in, struct bytes *ret)
{
    uint64_t len;
    return take_varint(in, &len) && take_bytes(in, len, ret);
}

void record_encode_tenant(const struct record_tenant *r, struct buf *out)
{
    add_varint(out, r->id);
    add_string(out, r->name);
}

bool record_decode_tenant(struct bytes in, struct record_tenant *ret)
{
    return take_u32(&in, &ret->id) && take_string(&in, &ret->name) && in.len == 0 && ret->id > 0 &&
           ret->name.len > 0 && ret->name.len <= STORE_TENANT_MAX;
}

void record_encode_epoch(const struct record_epoch *r, struct buf *out)
{
    add_varint(out, r->id);
    add_varint(out, r->tenant);
    add_string(out, r->service);
    add_signed(out, r->created_ns);
}

bool record_decode_epoch(struct bytes in, struct record_epoch *ret)
{
    return take_varint(&in, &ret->id) && take_u32(&in, &ret->tenant) &&
           take_string(&in, &ret->service) && take_signed(&in, &ret->created_ns) && in.len == 0 &&
           ret->id > 0;
}

void record_begin_series(uint32_t tenant, struct buf *out)
{
    add_varint(out, tenant);
}

bool record_decode_series(struct bytes in, struct record_series *ret)
{
    if (!take_u32(&in, &ret->tenant))
        return false;
    ret->definition = in;
    return true;
}

void record_begin_dict(uint64_t epoch, struct buf *out)
{
    add_varint(out, epoch);
}

bool record_decode_dict(struct bytes in, struct record_dict *ret)
{
    if (!take_varint(&in, &ret->epoch))
        return false;
    ret->delta = in;
    return true;
}

void record_begin_spans(uint32_t tenant, struct buf *out)
{
    add_varint(out, tenant);
}

bool record_decode_spans(struct bytes in, struct record_spans *ret)
{
    if (!take_u32(&in, &ret->tenant))
        return false;
    ret->payload = in;
    return true;
}

void record_encode_profile(const struct record_profile *r, struct buf *out)
{
    uint8_t hash[8];

    add_varint(out, r->tenant);
    add_varint(out, r->series);
    add_varint(out, r->epoch);
    add_signed(out, r->start_ns);
    add_signed(out, r->duration_ns);
    add_signed(out, r->period);
    le64_put(hash, r->content_hash);
    buf_add(out, hash, sizeof(hash));
    buf_add_byte(out, r->has_id);
    if (r->has_id)
        buf_add(out, r->id, sizeof(r->id));
    add_varint(out, r->n_samples);
    add_varint(out, r->n_types);
    for (uint32_t i = 0; i < r->n_types; i++)
        add_signed(out, r->totals[i]);
    add_string(out, r->payload);
    buf_add_bytes(out, r->side);
}

static bool take_hash(struct bytes *in, uint64_t *ret)
{
    struct bytes hash;

    if (!take_bytes(in, 8, &hash))
        return false;
    *ret = le64_get(hash.data);
    return true;
}

static bool take_id(struct bytes *in, struct record_profile *ret)
{
    uint8_t has;
    struct bytes id;

    if (!take_byte(in, &has) || has > 1)
        return false;
    ret->has_id = has;
    memset(ret->id, 0, sizeof(ret->id));
    if (!has)
        return true;
    if (!take_bytes(in, sizeof(ret->id), &id))
        return false;
    memcpy(ret->id, id.data, id.len);
    return true;
}

bool record_decode_profile(struct bytes in, struct record_profile *ret)
{
    if (!take_u32(&in, &ret->tenant) || !take_u32(&in, &ret->series) ||
        !take_varint(&in, &ret->epoch) || !take_signed(&in, &ret->start_ns) ||
        !take_signed(&in, &ret->duration_ns) || !take_signed(&in, &ret->period) ||
        !take_hash(&in, &ret->content_hash) || !take_id(&in, ret) ||
        !take_u32(&in, &ret->n_samples) || !take_u32(&in, &ret->n_types) ||
        ret->n_types > PROFILE_TYPES_MAX)
        return false;
    for (uint32_t i = 0; i < ret->n_types; i++) {
        if (!take_signed(&in, &ret->totals[i]))
            return false;
    }
    if (!take_string(&in, &ret->payload))
        return false;
    ret->side = in;
    return true;
}
