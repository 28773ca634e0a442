#include "base/hex.h"
#include "lib/test.h"

static void bytes_are_written_in_lower_case_and_read_in_either(struct test *t)
{
    static const uint8_t id[] = {0x00, 0x9a, 0xbc, 0xff};
    char text[9];
    uint8_t back[4] = {1, 1, 1, 1};

    CHECK_STR(t, hex_encode(id, 4, text), "009abcff");
    CHECK(t, hex_decode(BYTES("009aBCFf"), back, 4));
    CHECK(t, memcmp(back, id, 4) == 0);
    CHECK_STR(t, hex_encode(id, 0, text), "");
}

static void what_is_no_byte_or_one_too_many_changes_nothing(struct test *t)
{
    static const char *const bad[] = {"",         "0",        "0102030",  "010203040",
                                      "0102030g", "0x010203", "01-02034", "010203 4"};
    uint8_t id[4] = {7, 7, 7, 7};

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK(t, !hex_decode(bytes_of(bad[i]), id, 4));
    CHECK(t, !hex_decode_hyphened(BYTES("01-02-03"), id, 4));
    CHECK(t, !hex_decode_hyphened(BYTES("01-02-03-04-05"), id, 4));
    CHECK(t, id[0] == 7 && id[3] == 7);
}

static void hyphens_stand_where_they_like_when_they_may(struct test *t)
{
    uint8_t id[4];

    CHECK(t, hex_decode_hyphened(BYTES("-0-10203-04-"), id, 4));
    CHECK(t, id[0] == 1 && id[1] == 2 && id[2] == 3 && id[3] == 4);
    CHECK(t, hex_decode_hyphened(BYTES("01020304"), id, 4));
}

static void digits_have_values(struct test *t)
{
    CHECK(t, hex_digit('0') == 0 && hex_digit('9') == 9 && hex_digit('a') == 10);
    CHECK(t, hex_digit('F') == 15 && hex_digit('g') == -1 && hex_digit('/') == -1);
    CHECK(t, hex_digit(0) == -1 && hex_digit('@') == -1 && hex_digit(0xe1) == -1);
}

static const struct test_case cases[] = {
    TEST(bytes_are_written_in_lower_case_and_read_in_either),
    TEST(what_is_no_byte_or_one_too_many_changes_nothing),
    TEST(hyphens_stand_where_they_like_when_they_may),
    TEST(digits_have_values),
};
TEST_MAIN(cases)
