/*
 * Any bytes as a run and as columns: refused or read safely. And any bytes as numbers: what is
 * encoded from them comes back the same.
 *
 * Links: segment.
 */
#include <string.h>

#include "fuzz.h"
#include "segment/columns.h"
#include "segment/run.h"

#define ROWS_MAX 4096
#define KEYS_MAX 10000

static void read_run(struct run *r)
{
    static int64_t sums[KEYS_MAX], one[KEYS_MAX], other[KEYS_MAX], values[ROWS_MAX];
    static uint64_t marks[KEYS_MAX / 64 + 1];
    static uint32_t keys[ROWS_MAX];
    int64_t *all[RUN_COLS_MAX], sum;

    for (unsigned c = 0; c < RUN_COLS_MAX; c++)
        all[c] = sums;
    run_add_all(r, all, KEYS_MAX, marks);
    if (r->n > ROWS_MAX)
        return;
    if (run_keys(r, keys))
        for (size_t i = 1; i < r->n; i++)
            REQUIRE(keys[i - 1] < keys[i]);
    for (unsigned c = 0; c < r->n_cols; c++) {
        uint64_t total = 0;

        memset(one, 0, sizeof(one));
        memset(other, 0, sizeof(other));
        bool is_whole = run_add(r, c, one, KEYS_MAX);
        REQUIRE(run_add_marked(r, c, other, KEYS_MAX, marks) == is_whole);
        REQUIRE(!is_whole || memcmp(one, other, sizeof(one)) == 0);
        run_sum_masked(r, c, marks, KEYS_MAX, &sum);
        run_values(r, c, values);
        for (size_t i = 0; i < r->n; i++)
            total += (uint64_t)values[i];
        REQUIRE((int64_t)total == run_sum(r, c));
    }
}

static void read_columns(struct bytes in)
{
    static uint64_t numbers[ROWS_MAX];
    static struct bytes strings[ROWS_MAX];
    static uint8_t ids[100][16];
    size_t n = in.len ? in.data[0] * (size_t)16 : 0;
    struct bytes a = in, b = in, c = in;

    column_decode_u64(&a, n, numbers);
    column_decode_fixed(&b, 16, n % 100, ids);
    if (column_decode_strings(&c, n, strings) == 0)
        for (size_t i = 0; i < n; i++)
            REQUIRE(strings[i].len == 0 || strings[i].data + strings[i].len <= c.data);
}

/* The first byte chooses how numbers are made of the rest. */
static void round_trip(struct bytes in)
{
    static uint32_t keys[ROWS_MAX], keys_again[ROWS_MAX];
    static int64_t values[2][ROWS_MAX], again[ROWS_MAX];
    const int64_t *columns[2] = {values[0], values[1]};
    unsigned size = in.len ? 1 + in.data[0] % 8 : 1, shift = in.len ? in.data[0] / 8 : 0;
    size_t n = 0;
    uint64_t key = 0;

    for (in = bytes_from(in, 1); in.len > size && n < ROWS_MAX; in = bytes_from(in, size + 1)) {
        uint64_t v = 0;
        memcpy(&v, in.data + 1, size);
        keys[n] = (uint32_t)key;
        values[0][n] = (int64_t)(v << shift);
        values[1][n] = (int64_t)((v << shift) * (shift & 1 ? 1000003 : v));
        key += 1 + (in.data[0] < 250 ? in.data[0] : (uint64_t)in.data[0] << 12);
        n++;
    }
    struct buf out = {0};
    struct run r;
    REQUIRE(run_encode(keys, columns, n, 2, &out) == 0);
    struct bytes rest = buf_bytes(&out);
    REQUIRE(run_open(&rest, &r) == 0 && rest.len == 0 && r.n == n && run_keys(&r, keys_again));
    REQUIRE(memcmp(keys, keys_again, n * sizeof(*keys)) == 0);
    for (unsigned c = 0; c < 2; c++) {
        run_values(&r, c, again);
        REQUIRE(memcmp(values[c], again, n * sizeof(*again)) == 0);
        buf_clear(&out);
        column_encode_i64(values[c], n, &out);
        rest = buf_bytes(&out);
        REQUIRE(column_decode_i64(&rest, n, again) == 0 && rest.len == 0);
        REQUIRE(memcmp(values[c], again, n * sizeof(*again)) == 0);
        buf_clear(&out);
        REQUIRE(run_encode(keys, columns, n, 2, &out) == 0);
        rest = buf_bytes(&out);
        REQUIRE(run_open(&rest, &r) == 0);
    }
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes in = {data, len};
    struct run r;

    while (in.len > 0 && run_open(&in, &r) == 0)
        read_run(&r);
    read_columns((struct bytes){data, len});
    round_trip((struct bytes){data, len});
    return 0;
}
