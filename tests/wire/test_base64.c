#include "lib/test.h"
#include "wire/base64.h"

static const struct {
    const char *plain, *padded, *bare;
} pairs[] = {
    {"", "", ""},
    {"f", "Zg==", "Zg"},
    {"fo", "Zm8=", "Zm8"},
    {"foo", "Zm9v", "Zm9v"},
    {"foob", "Zm9vYg==", "Zm9vYg"},
    {"\xff\xfe\xfd?>", "//79Pz4=", "//79Pz4"},
};

static void writes_with_and_without_padding(struct test *t)
{
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct buf out = {0};
        base64_encode(bytes_of(pairs[i].plain), true, &out);
        CHECK_STR(t, buf_cstr(&out), pairs[i].padded);
        buf_clear(&out);
        base64_encode(bytes_of(pairs[i].plain), false, &out);
        CHECK_STR(t, buf_cstr(&out), pairs[i].bare);
        buf_done(&out);
    }
}

static void reads_both_forms(struct test *t)
{
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct buf out = {0};
        CHECK(t, base64_decode(bytes_of(pairs[i].padded), &out));
        CHECK_STR(t, buf_cstr(&out), pairs[i].plain);
        buf_clear(&out);
        CHECK(t, base64_decode(bytes_of(pairs[i].bare), &out));
        CHECK_STR(t, buf_cstr(&out), pairs[i].plain);
        buf_done(&out);
    }
}

static void reads_the_alphabet_of_urls(struct test *t)
{
    struct buf out = {0};

    CHECK(t, base64_decode(BYTES("__79Pz4"), &out));
    CHECK_STR(t, buf_cstr(&out), "\xff\xfe\xfd?>");
    buf_done(&out);
}

static void refuses_what_is_not_base64(struct test *t)
{
    static const char *const bad[] = {
        "Z", "Zm9vY", "Zm 9", "Zm9=Zg==", "Z===", "=", "Zg=", "Zm9v\n"};
    struct buf out = {0};

    buf_add_str(&out, "kept");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK(t, !base64_decode(bytes_of(bad[i]), &out));
        CHECK_STR(t, buf_cstr(&out), "kept");
    }
    buf_done(&out);
}

static const struct test_case cases[] = {
    TEST(writes_with_and_without_padding),
    TEST(reads_both_forms),
    TEST(reads_the_alphabet_of_urls),
    TEST(refuses_what_is_not_base64),
};
TEST_MAIN(cases)
