#include "store_local/sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

/* Marking costs about half of an addition; looking at a key afterwards about a quarter. */
#define FEW_ROWS_PER_KEY 4

bool sums_init(struct sums *s, struct budget *budget, size_t n_keys, unsigned n_cols)
{
    size_t words = (n_keys + 63) / 64;
    size_t size = n_cols * (n_keys * sizeof(int64_t) + sizeof(int64_t *)) + words * 8;

    *s = (struct sums){.budget = budget, .n_keys = n_keys, .n_cols = n_cols};
    if (!budget_take(budget, size))
        return false;
    s->charged = size;
    s->cols = must_calloc(n_cols + 1, sizeof(*s->cols));
    s->marks = must_calloc(words + 1, sizeof(*s->marks));
    for (unsigned c = 0; c < n_cols; c++)
        s->cols[c] = must_calloc(n_keys + 1, sizeof(int64_t));
    return true;
}

void sums_done(struct sums *s)
{
    for (unsigned c = 0; s->cols && c < s->n_cols; c++)
        free(s->cols[c]);
    free(s->cols);
    free(s->marks);
    if (s->budget)
        budget_give(s->budget, s->charged);
    *s = (struct sums){0};
}

void sums_expect(struct sums *s, uint64_t n_rows)
{
    s->is_marked = n_rows < s->n_keys / FEW_ROWS_PER_KEY;
}

bool sums_add_run(struct sums *s, const struct run *run, const uint8_t *to, size_t n_to)
{
    unsigned n = run->n_cols < n_to ? run->n_cols : (unsigned)n_to, wanted = 0, only = 0;
    uint64_t *marks = s->is_marked ? s->marks : NULL;
    int64_t *cols[RUN_COLS_MAX];

    for (unsigned c = 0; c < run->n_cols; c++) {
        bool is_wanted = c < n && to[c] < s->n_cols;
        cols[c] = is_wanted ? s->cols[to[c]] : NULL;
        wanted += is_wanted;
        only = is_wanted ? c : only;
    }
    if (wanted == 0)
        return true;
    if (wanted > 1)
        return run_add_all(run, cols, s->n_keys, marks);
    return marks ? run_add_marked(run, only, cols[only], s->n_keys, marks)
                 : run_add(run, only, cols[only], s->n_keys);
}

bool sums_add(struct sums *s, uint32_t key, unsigned col, int64_t value)
{
    if (key >= s->n_keys || col >= s->n_cols)
        return false;
    s->cols[col][key] = (int64_t)((uint64_t)s->cols[col][key] + (uint64_t)value);
    s->marks[key / 64] |= (uint64_t)1 << (key % 64);
    return true;
}

static bool has_value(const struct sums *s, size_t key)
{
    for (unsigned c = 0; c < s->n_cols; c++) {
        if (s->cols[c][key])
            return true;
    }
    return false;
}

/* Makes the marks say exactly which keys have something, and counts them. */
static size_t mark_all(struct sums *s)
{
    size_t n = 0;

    for (size_t w = 0; w * 64 < s->n_keys; w++) {
        size_t base = w * 64, len = s->n_keys - base < 64 ? s->n_keys - base : 64;
        uint64_t bits = 0;

        if (s->is_marked) {
            for (uint64_t left = s->marks[w]; left; left &= left - 1) {
                unsigned i = (unsigned)__builtin_ctzll(left);
                bits |= (uint64_t)has_value(s, base + i) << i;
            }
        } else {
            for (unsigned c = 0; c < s->n_cols; c++) {
                const int64_t *col = s->cols[c] + base;
                for (size_t i = 0; i < len; i++)
                    bits |= (uint64_t)(col[i] != 0) << i;
            }
        }
        s->marks[w] = bits;
        n += (size_t)__builtin_popcountll(bits);
    }
    return n;
}

bool sums_take(struct sums *s, struct sums_taken *ret)
{
    size_t n = mark_all(s), at = 0;
    size_t size = n * (sizeof(uint32_t) + s->n_cols * sizeof(int64_t));
    bool ok = budget_take(s->budget, size);
    struct sums_taken t = {.n = n, .n_cols = s->n_cols, .charged = size};

    if (ok) {
        t.keys = must_realloc(NULL, n * sizeof(uint32_t) + 1);
        t.values = must_realloc(NULL, n * s->n_cols * sizeof(int64_t) + 1);
    }
    for (size_t w = 0; w * 64 < s->n_keys; w++) {
        for (uint64_t left = s->marks[w]; left; left &= left - 1, at++) {
            size_t key = w * 64 + (unsigned)__builtin_ctzll(left);
            if (ok)
                t.keys[at] = (uint32_t)key;
            for (unsigned c = 0; c < s->n_cols; c++) {
                if (ok)
                    t.values[c * n + at] = s->cols[c][key];
                s->cols[c][key] = 0;
            }
        }
        s->marks[w] = 0;
    }
    if (ok)
        *ret = t;
    return ok;
}

void sums_taken_done(struct budget *b, struct sums_taken *taken)
{
    free(taken->keys);
    free(taken->values);
    budget_give(b, taken->charged);
    *taken = (struct sums_taken){0};
}
