/*
 * Writing OTLP: whatever any format was read into becomes a message that keeps the rules of the
 * signal, and reading that and writing it again, also by way of JSON, yields the same bytes.
 */
#include <string.h>

#include "formats/formats.h"
#include "formats/otlp_check.h"
#include "fuzz.h"

/* Reads `from` and writes what it says as OTLP to `to`. */
static void write_again(const struct format *format, const struct buf *from, struct buf *to)
{
    struct buf losses = {0};
    struct error err = {""};
    struct budget b;

    budget_init(&b, (size_t)1 << 30);
    struct profile_set *set = profile_set_new(&b);
    struct input *in = input_from_bytes(buf_bytes(from), "again", &b);
    REQUIRE(format->decode(in, set, &err) == 0);
    REQUIRE(format_otlp.encode(set, to, &losses, &err) == 0);
    input_close(in);
    profile_set_free(set);
    buf_done(&losses);
}

static bool equal(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static void check_written(const struct profile_set *set)
{
    struct buf first = {0}, second = {0}, third = {0}, json = {0}, from_json = {0}, problems = {0},
               losses = {0};
    struct error err = {""};

    REQUIRE(format_otlp.encode(set, &first, &losses, &err) == 0);
    REQUIRE(otlp_check(buf_bytes(&first), &problems) == 0);
    /* The first time, times may widen a window and equal samples become one. */
    write_again(&format_otlp, &first, &second);
    write_again(&format_otlp, &second, &third);
    REQUIRE(equal(&second, &third));
    REQUIRE(format_otlp_json.encode(set, &json, &losses, &err) == 0);
    write_again(&format_otlp_json, &json, &from_json);
    REQUIRE(equal(&second, &from_json));
    buf_done(&first);
    buf_done(&second);
    buf_done(&third);
    buf_done(&json);
    buf_done(&from_json);
    buf_done(&problems);
    buf_done(&losses);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct error err = {""};
    struct budget b;

    budget_init(&b, (size_t)64 << 20);
    struct profile_set *set = profile_set_new(&b);
    struct input *in = input_from_bytes((struct bytes){data, len}, "fuzz", &b);
    if (format_read(in, NULL, set, NULL, &err) == 0 && set->profiles.len > 0)
        check_written(set);
    input_close(in);
    profile_set_free(set);
    return 0;
}
