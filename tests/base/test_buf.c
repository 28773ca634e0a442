#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "lib/test.h"

static void grows_without_a_budget(struct test *t)
{
    struct buf b = {0};
    for (int i = 0; i < 1000; i++)
        buf_addf(&b, "%d,", i % 10);
    CHECK_INT(t, b.len, 2000);
    CHECK(t, !buf_full(&b));
    buf_done(&b);
}

static void takes_all_of_its_budget_and_then_drops(struct test *t)
{
    struct budget budget;
    struct buf b = {.budget = &budget};
    struct error err;
    budget_init(&budget, 1000);

    for (int i = 0; i < 100; i++)
        buf_add_str(&b, "0123456789");
    CHECK_INT(t, b.len, 1000);
    CHECK(t, !buf_full(&b));
    buf_add_byte(&b, 'x');
    CHECK(t, buf_full(&b));
    buf_addf(&b, "%s", "more");
    buf_add_u64(&b, 1);
    CHECK_INT(t, b.len, 1000);
    CHECK(t, memcmp(b.data + 990, "0123456789", 10) == 0);
    CHECK(t, !buf_reserve(&b, 1));
    CHECK_INT(t, strlen(buf_cstr(&b)), 999);
    CHECK_INT(t, buf_error(&b, &err), -ENOBUFS);
    CHECK_STR(t, err.text,
              "memory limit of 1000 B reached: the output is larger than 1000 B, which is all that "
              "was left");
    CHECK(t, !budget_failed(&budget));
    buf_done(&b);
    CHECK_INT(t, budget.used, 0);
}

static void drops_formatted_text_that_is_too_long(struct test *t)
{
    struct budget budget;
    struct buf b = {.budget = &budget};
    char text[400];
    budget_init(&budget, 300);

    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    buf_addf(&b, "%s", text);
    CHECK(t, buf_full(&b));
    CHECK_INT(t, b.len, 0);
    buf_done(&b);
    budget_init(&budget, 0);
    CHECK_STR(t, buf_cstr(&b), "");
    buf_done(&b);
}

static const struct test_case cases[] = {
    TEST(grows_without_a_budget),
    TEST(takes_all_of_its_budget_and_then_drops),
    TEST(drops_formatted_text_that_is_too_long),
};
TEST_MAIN(cases)
