#include <errno.h>
#include <stdlib.h>

#include "store_local/epoch.h"
#include "store_local/link.h"
#include "store_local/records.h"
#include "store_local/series_table.h"
#include "store_local/side.h"

/*
 * Any bytes as the payload of a record of the WAL: the first byte says of which type. No crash,
 * only documented results; a profile that decodes survives being encoded again.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void try_series(struct bytes in)
{
    CLEANUP(series_table_freep) struct series_table *t = series_table_new();
    struct record_series rec;
    struct series *s;

    if (!record_decode_series(in, &rec))
        return;
    while (rec.definition.len > 0 && series_apply(t, &rec.definition, &s, NULL) == 0) {
        if (series_table_get(t, s->id) != s)
            abort();
    }
}

static void try_dict(struct bytes in)
{
    CLEANUP(epoch_freep) struct epoch *e = epoch_new(1, 1, BYTES("s"), 0);
    struct record_dict rec;

    if (!record_decode_dict(in, &rec))
        return;
    int r = epoch_apply(e, rec.delta, NULL);
    if (r != 0 && r != -EBADMSG && r != -ESTALE && r != -ENOBUFS)
        abort();
    if (e->node_hash.len != dict_n_nodes(e->dict))
        abort();
}

static void try_profile(struct bytes in)
{
    CLEANUP(buf_done) struct buf again = {0};
    CLEANUP(buf_done) struct buf padded = {0};
    struct record_profile rec;
    struct side_vecs vecs = {0};
    struct side_rows side;
    struct budget b;

    if (!record_decode_profile(in, &rec))
        return;
    record_encode_profile(&rec, &again);
    struct record_profile twice;
    if (!record_decode_profile(buf_bytes(&again), &twice) || twice.start_ns != rec.start_ns ||
        !bytes_equal(twice.payload, rec.payload) || !bytes_equal(twice.side, rec.side))
        abort();
    buf_add_bytes(&padded, rec.payload);
    memset(buf_reserve(&padded, 16), 0, 16);
    (void)payload_is_sound(buf_bytes(&padded), rec.n_types, 1000, 10);
    budget_init(&b, (size_t)16 << 20);
    (void)side_decode(rec.side, rec.start_ns, rec.n_types, &b, &vecs, &side);
    side_vecs_done(&b, &vecs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct record_tenant tenant;
    struct record_epoch epoch;
    struct record_spans spans;

    if (len == 0)
        return 0;
    struct bytes in = {data + 1, len - 1};
    switch (data[0] % 8) {
    case RECORD_TENANT:
        (void)record_decode_tenant(in, &tenant);
        break;
    case RECORD_EPOCH:
        (void)record_decode_epoch(in, &epoch);
        break;
    case RECORD_SERIES:
        try_series(in);
        break;
    case RECORD_DICT:
        try_dict(in);
        break;
    case RECORD_PROFILE:
        try_profile(in);
        break;
    default:
        (void)record_decode_spans(in, &spans);
    }
    return 0;
}
