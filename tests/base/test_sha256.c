#include "base/buf.h"
#include "base/cleanup.h"
#include "base/sha256.h"
#include "lib/test.h"

static const char *hex(const uint8_t digest[SHA256_BYTES], char text[2 * SHA256_BYTES + 1])
{
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

/* FIPS 180-4's own examples. */
static void digests_are_those_of_the_standard(struct test *t)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char text[2 * SHA256_BYTES + 1];
    uint8_t digest[SHA256_BYTES];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        sha256(bytes_of(cases[i].text), digest);
        CHECK_STR(t, hex(digest, text), cases[i].want);
    }
}

static void pieces_make_the_same_digest_as_the_whole(struct test *t)
{
    struct sha256 s;
    uint8_t digest[SHA256_BYTES];
    char text[2 * SHA256_BYTES + 1], piece[1000];

    memset(piece, 'a', sizeof(piece));
    sha256_init(&s);
    for (size_t left = 1000000, n = 1; left > 0; left -= n, n = n % 999 + 1) {
        n = n < left ? n : left;
        sha256_add(&s, (struct bytes){(const uint8_t *)piece, n});
    }
    sha256_end(&s, digest);
    CHECK_STR(t, hex(digest, text),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Around the length where the padding needs a block of its own: every one differs. */
static void every_length_has_a_digest_of_its_own(struct test *t)
{
    uint8_t last[SHA256_BYTES] = {0}, digest[SHA256_BYTES], zeros[130] = {0};

    for (size_t n = 0; n <= sizeof(zeros); n++) {
        sha256((struct bytes){zeros, n}, digest);
        CHECK(t, !sha256_equal(last, digest));
        memcpy(last, digest, sizeof(last));
    }
}

/* RFC 4231. */
static void signatures_are_those_of_the_standard(struct test *t)
{
    uint8_t key[131], digest[SHA256_BYTES];
    char text[2 * SHA256_BYTES + 1];

    hmac_sha256(BYTES("Jefe"), BYTES("what do ya want for nothing?"), digest);
    CHECK_STR(t, hex(digest, text),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    hmac_sha256((struct bytes){key, sizeof(key)},
                BYTES("Test Using Larger Than Block-Size Key - Hash Key First"), digest);
    CHECK_STR(t, hex(digest, text),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void digests_are_equal_only_when_every_byte_is(struct test *t)
{
    uint8_t a[SHA256_BYTES] = {1, 2, 3}, b[SHA256_BYTES] = {1, 2, 3};

    CHECK(t, sha256_equal(a, b));
    for (size_t i = 0; i < SHA256_BYTES * 8; i++) {
        b[i / 8] ^= (uint8_t)(1u << i % 8);
        CHECK(t, !sha256_equal(a, b));
        b[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

static const struct test_case cases[] = {
    TEST(digests_are_those_of_the_standard),         TEST(pieces_make_the_same_digest_as_the_whole),
    TEST(every_length_has_a_digest_of_its_own),      TEST(signatures_are_those_of_the_standard),
    TEST(digests_are_equal_only_when_every_byte_is),
};
TEST_MAIN(cases)
