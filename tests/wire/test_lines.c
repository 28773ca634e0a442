#include <errno.h>

#include "lib/test.h"
#include "wire/lines.h"

static void hands_out_lines_of_any_ending(struct test *t)
{
    static const char *const want[] = {"one", "", "three", "\rfour", "last"};
    struct budget b;
    budget_init(&b, 1 << 20);
    struct input *in = input_from_bytes(BYTES("one\n\r\nthree\r\n\rfour\nlast"), "x", &b);
    struct lines l;
    size_t n = 0;

    lines_init(&l, in, &b);
    for (struct bytes line; lines_next(&l, &line); n++) {
        CHECK(t, n < 5 && bytes_are(line, want[n]));
        CHECK_INT(t, l.number, n + 1);
    }
    CHECK_INT(t, n, 5);
    CHECK_INT(t, lines_result(&l, NULL), 0);
    struct error err;
    CHECK_INT(t, lines_refuse(&l, "verse", "it does not rhyme", &err), -EBADMSG);
    CHECK_STR(t, err.text, "verse at line 5: it does not rhyme");
    lines_done(&l);
    input_close(in);
    CHECK_INT(t, b.used, 0);
}

static void a_line_that_does_not_fit_is_an_error(struct test *t)
{
    size_t size = (size_t)1 << 20;
    uint8_t *text = malloc(size);
    struct budget b;
    struct error err;
    struct bytes line;

    memset(text, 'x', size);
    for (int fits = 0; fits < 2; fits++) {
        budget_init(&b, fits ? size * 4 : size);
        struct input *in = input_from_bytes((struct bytes){text, size}, "x", &b);
        struct lines l;
        lines_init(&l, in, &b);
        CHECK_INT(t, lines_next(&l, &line), fits);
        CHECK_INT(t, fits && line.len != size, 0);
        CHECK(t, !lines_next(&l, &line));
        CHECK_INT(t, lines_result(&l, &err), fits ? 0 : -ENOBUFS);
        lines_done(&l);
        input_close(in);
    }
    free(text);
}

static void a_damaged_layer_is_an_error(struct test *t)
{
    struct budget b;
    struct error err;
    struct bytes line;
    budget_init(&b, 1 << 22);
    struct input *in = input_from_bytes(BYTES("\x1f\x8b\x08\0\0\0\0\0\0\3nonsense"), "x", &b);
    struct lines l;

    lines_init(&l, in, &b);
    CHECK(t, !lines_next(&l, &line));
    CHECK_INT(t, lines_result(&l, &err), -EBADMSG);
    lines_done(&l);
    input_close(in);
}

static const struct test_case cases[] = {
    TEST(hands_out_lines_of_any_ending),
    TEST(a_line_that_does_not_fit_is_an_error),
    TEST(a_damaged_layer_is_an_error),
};
TEST_MAIN(cases)
