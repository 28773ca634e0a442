#include "base/bytes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hex.h"

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n > 0 ? memcmp(a.data, b.data, n) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

int bytes_compare_items(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

struct bytes bytes_trim(struct bytes a)
{
    while (a.len > 0 && is_space(a.data[0]))
        a = bytes_from(a, 1);
    while (a.len > 0 && is_space(a.data[a.len - 1]))
        a.len--;
    return a;
}

bool bytes_next_line(struct bytes *rest, struct bytes *ret_line)
{
    if (rest->len == 0)
        return false;
    const uint8_t *end = bytes_find_byte(*rest, '\n');
    size_t len = end ? (size_t)(end - rest->data) : rest->len;
    struct bytes line = {rest->data, len};
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    *rest = bytes_from(*rest, end ? len + 1 : len);
    *ret_line = line;
    return true;
}

bool bytes_to_u64(struct bytes a, uint64_t *ret)
{
    uint64_t v = 0;

    if (a.len == 0)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        uint64_t digit = (uint64_t)a.data[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v))
            return false;
    }
    *ret = v;
    return true;
}

bool bytes_to_i64(struct bytes a, int64_t *ret)
{
    bool negative = a.len > 0 && a.data[0] == '-';
    uint64_t v;

    if (a.len > 0 && (a.data[0] == '-' || a.data[0] == '+'))
        a = bytes_from(a, 1);
    if (!bytes_to_u64(a, &v) || v > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool bytes_to_hex(struct bytes a, uint64_t *ret)
{
    uint64_t v = 0;

    if (a.len > 2 && a.data[0] == '0' && (a.data[1] | 32) == 'x')
        a = bytes_from(a, 2);
    if (a.len == 0)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        int digit = hex_digit(a.data[i]);
        if (digit < 0 || v >> 60)
            return false;
        v = v << 4 | (uint64_t)digit;
    }
    *ret = v;
    return true;
}

bool bytes_to_double(struct bytes a, double *ret)
{
    char text[64];

    if (a.len == 0 || a.len >= sizeof(text) || is_space(a.data[0]))
        return false;
    memcpy(text, a.data, a.len);
    text[a.len] = '\0';
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (*end || end != text + a.len)
        return false;
    *ret = v;
    return true;
}

bool bytes_to_size(struct bytes a, uint64_t *ret)
{
    static const char letters[] = "kmgt";
    size_t digits = 0;
    uint64_t n;
    unsigned shift = 0;

    while (digits < a.len && a.data[digits] >= '0' && a.data[digits] <= '9')
        digits++;
    struct bytes unit = bytes_from(a, digits);
    const char *letter =
        unit.len > 0 ? memchr(letters, unit.data[0] | 0x20, sizeof(letters) - 1) : NULL;
    if (letter) {
        shift = 10 * (unsigned)(letter - letters + 1);
        unit = bytes_from(unit, 1);
        if (unit.len == 2 && (unit.data[0] | 0x20) == 'i')
            unit = bytes_from(unit, 1);
    }
    bool has_known_unit = unit.len == 0 || (unit.len == 1 && (unit.data[0] | 0x20) == 'b');
    if (!has_known_unit || !bytes_to_u64(bytes_head(a, digits), &n) || n > UINT64_MAX >> shift)
        return false;
    *ret = n << shift;
    return true;
}

#define SECOND_NS ((int64_t)1000000000)

/* The number at the front of *a, which is taken off. False when there is none or it is too large.
 */
static bool take_number(struct bytes *a, int64_t *ret)
{
    size_t n = 0;
    uint64_t v;

    while (n < a->len && a->data[n] >= '0' && a->data[n] <= '9')
        n++;
    if (!bytes_to_u64(bytes_head(*a, n), &v) || v > INT64_MAX)
        return false;
    *a = bytes_from(*a, n);
    *ret = (int64_t)v;
    return true;
}

static bool take_unit(struct bytes *a, int64_t *ret)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {
        {"ns", 1},
        {"us", 1000},
        {"ms", 1000000},
        {"s", SECOND_NS},
        {"m", 60 * SECOND_NS},
        {"h", 3600 * SECOND_NS},
        {"d", 86400 * SECOND_NS},
        {"w", 7 * (86400 * SECOND_NS)},
        {"y", 365 * (86400 * SECOND_NS)},
    };
    size_t n = 0;

    while (n < a->len && a->data[n] >= 'a' && a->data[n] <= 'z')
        n++;
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (bytes_are(bytes_head(*a, n), units[i].name)) {
            *a = bytes_from(*a, n);
            *ret = units[i].ns;
            return true;
        }
    }
    return false;
}

bool bytes_to_duration(struct bytes a, int64_t *ret)
{
    int64_t total = 0, number, unit;

    if (a.len == 0)
        return false;
    while (a.len > 0) {
        if (!take_number(&a, &number) || !take_unit(&a, &unit) ||
            __builtin_mul_overflow(number, unit, &number) ||
            __builtin_add_overflow(total, number, &total))
            return false;
    }
    *ret = total;
    return true;
}

#define DISTANCE_MAX 64

size_t bytes_distance(struct bytes a, struct bytes b)
{
    size_t row[DISTANCE_MAX + 1];

    if (a.len > DISTANCE_MAX || b.len > DISTANCE_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t best = diagonal + (a.data[i - 1] != b.data[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b.len];
}
