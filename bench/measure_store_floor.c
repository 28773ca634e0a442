#include <stdlib.h>

#include "formats/formats.h"
#include "measure_store.h"
#include "wire/protobuf.h"

#define ROUNDS 15

/* One profile: its rows by ascending node. */
struct floor_row {
    uint32_t node;
    int64_t value;
};

static int compare_rows(const void *a, const void *b)
{
    const struct floor_row *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

/* Appends a profile: how many rows, then the distance of each node and its count. */
static void encode(const struct profile *p, struct buf *out)
{
    CLEANUP(freep) struct floor_row *rows = calloc(p->n_samples + 1, sizeof(*rows));
    uint32_t last = 0;

    if (!rows)
        abort();
    for (size_t i = 0; i < p->n_samples; i++)
        rows[i] = (struct floor_row){p->node[i], p->values[0][i]};
    qsort(rows, p->n_samples, sizeof(*rows), compare_rows);
    pb_put_varint(out, p->n_samples);
    for (size_t i = 0; i < p->n_samples; i++) {
        pb_put_varint(out, rows[i].node - last);
        pb_put_varint(out, (uint64_t)rows[i].value);
        last = rows[i].node;
    }
}

static inline uint64_t take(const uint8_t **pos)
{
    const uint8_t *p = *pos;
    uint64_t v = *p++;

    if (__builtin_expect(v >= 0x80, 0)) {
        v &= 0x7f;
        for (unsigned shift = 7;; shift += 7) {
            v |= (uint64_t)(*p & 0x7f) << shift;
            if (*p++ < 0x80)
                break;
        }
    }
    *pos = p;
    return v;
}

/* Adds all up and makes totals. */
static int64_t add_up(const struct buf *columns, const struct dict *d, int64_t *sums)
{
    const uint8_t *p = columns->data, *end = p + columns->len;

    memset(sums, 0, dict_n_nodes(d) * sizeof(*sums));
    while (p < end) {
        uint64_t n = take(&p);
        uint32_t node = 0;
        while (n-- > 0) {
            node += (uint32_t)take(&p);
            sums[node] += (int64_t)take(&p);
        }
    }
    for (size_t node = dict_n_nodes(d) - 1; node > 0; node--)
        sums[d->node_parent.data[node]] += sums[node];
    return sums[0];
}

double measure_floor(const struct data_r *r)
{
    struct budget budget;
    struct error err;
    struct buf columns = {0};
    double times[ROUNDS];
    int64_t sum = 0;

    budget_init(&budget, SIZE_MAX / 2);
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&budget);
    for (size_t i = 0; i < r->n; i++) {
        const struct data_r_profile *p = &r->profiles[i];
        CLEANUP(input_closep) struct input *in = input_from_bytes(p->packed, "R", &budget);
        if (format_read(in, &format_pprof, set, NULL, &err) < 0)
            measure_die("decode", err.text);
        if (p->time_ns >= DATA_R_FROM_NS && p->time_ns < DATA_R_TO_NS)
            encode(set->profiles.data[0], &columns);
        profile_set_truncate(set, 0);
    }
    CLEANUP(freep) int64_t *sums = calloc(dict_n_nodes(set->dict), sizeof(*sums));
    if (!sums)
        abort();
    for (size_t i = 0; i < ROUNDS; i++) {
        double start = measure_cpu();
        sum |= add_up(&columns, set->dict, sums);
        times[i] = (measure_cpu() - start) * 1e3;
    }
    if (sum == 0)
        measure_die("floor", "it found nothing");
    buf_done(&columns);
    return measure_median(times, ROUNDS);
}
