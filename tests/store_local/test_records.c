#include "lib/test.h"
#include "segment/varint.h"
#include "store_local/records.h"

/* Every record that ends too early is refused, and every one that goes on too long. */
#define CHECK_CUT(t, encoded, decode, rec)                                                         \
    do {                                                                                           \
        struct bytes all_ = buf_bytes(encoded);                                                    \
        CHECK(t, decode(all_, rec));                                                               \
        for (size_t n_ = 0; n_ < all_.len; n_++)                                                   \
            CHECK(t, !decode((struct bytes){all_.data, n_}, rec));                                 \
    } while (0)

static void records_that_are_cut_are_refused(struct test *t)
{
    CLEANUP(buf_done) struct buf a = {0}, b = {0}, c = {0};
    struct record_tenant tenant = {.id = 300, .name = bytes_of("default")};
    struct record_epoch epoch = {
        .id = 1000, .tenant = 300, .service = bytes_of("checkout"), .created_ns = -5000};
    struct record_profile profile = {.tenant = 300,
                                     .series = 400,
                                     .epoch = 1000,
                                     .start_ns = -1000,
                                     .duration_ns = 5000,
                                     .period = 7000,
                                     .has_id = true,
                                     .n_samples = 900,
                                     .n_types = 2,
                                     .totals = {1000, -1000},
                                     .payload = bytes_of("payload")};

    record_encode_tenant(&tenant, &a);
    CHECK_CUT(t, &a, record_decode_tenant, &tenant);
    record_encode_epoch(&epoch, &b);
    CHECK_CUT(t, &b, record_decode_epoch, &epoch);
    record_encode_profile(&profile, &c);
    for (size_t n = 0; n < c.len; n++)
        CHECK(t, !record_decode_profile((struct bytes){c.data, n}, &profile) || n == c.len - 1);
    buf_add_byte(&a, 0);
    buf_add_byte(&b, 0);
    CHECK(t, !record_decode_tenant(buf_bytes(&a), &tenant));
    CHECK(t, !record_decode_epoch(buf_bytes(&b), &epoch));
}

static void fronts_without_a_number_are_refused(struct test *t)
{
    static const uint8_t unended[] = {0x80};
    struct bytes in = {unended, 1};
    struct record_series series;
    struct record_dict dict;
    struct record_spans spans;

    CHECK(t, !record_decode_series(in, &series));
    CHECK(t, !record_decode_dict(in, &dict));
    CHECK(t, !record_decode_spans(in, &spans));
}

static void numbers_that_are_too_large_are_refused(struct test *t)
{
    CLEANUP(buf_done) struct buf large = {0}, nobody = {0}, unnamed = {0}, long_named = {0};
    char name[STORE_TENANT_MAX + 2];
    struct record_tenant rec = {.id = 1};
    struct record_epoch epoch = {.tenant = 1, .service = bytes_of("s")};
    CLEANUP(buf_done) struct buf none = {0};

    add_varint(&large, (uint64_t)UINT32_MAX + 1);
    CHECK(t, !record_decode_tenant(buf_bytes(&large), &rec));
    record_encode_tenant(&(struct record_tenant){.id = 0, .name = bytes_of("x")}, &nobody);
    CHECK(t, !record_decode_tenant(buf_bytes(&nobody), &rec));
    record_encode_tenant(&(struct record_tenant){.id = 1, .name = bytes_of("")}, &unnamed);
    CHECK(t, !record_decode_tenant(buf_bytes(&unnamed), &rec));
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    record_encode_tenant(&(struct record_tenant){.id = 1, .name = bytes_of(name)}, &long_named);
    CHECK(t, !record_decode_tenant(buf_bytes(&long_named), &rec));
    record_encode_epoch(&epoch, &none); /* dictionary 0 */
    CHECK(t, !record_decode_epoch(buf_bytes(&none), &epoch));
}

static const struct test_case cases[] = {
    TEST(records_that_are_cut_are_refused),
    TEST(fronts_without_a_number_are_refused),
    TEST(numbers_that_are_too_large_are_refused),
};
TEST_MAIN(cases)
