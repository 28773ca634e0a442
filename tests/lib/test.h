#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Unit tests that print TAP. A test is a function whose name is a sentence; checks report where
 * they failed and carry on, so one run shows everything that is wrong.
 *
 *     static void adds_two_numbers(struct test *t) { CHECK_INT(t, add(1, 2), 3); }
 *     static const struct test_case cases[] = {TEST(adds_two_numbers)};
 *     TEST_MAIN(cases)
 */
struct test {
    const char *name;
    int failures;
    const char *skipped; /* the reason, once TEST_SKIP was used */
};

struct test_case {
    const char *name;
    void (*run)(struct test *t);
};

#define TEST(fn)                                                                                   \
    {                                                                                              \
#fn, fn                                                                                    \
    }

#define CHECK(t, condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("# %s:%d: %s\n", __FILE__, __LINE__, #condition);                               \
            (t)->failures++;                                                                       \
        }                                                                                          \
    } while (0)

#define CHECK_INT(t, got, want)                                                                    \
    do {                                                                                           \
        long long got_ = (long long)(got), want_ = (long long)(want);                              \
        if (got_ != want_) {                                                                       \
            printf("# %s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, want_);      \
            (t)->failures++;                                                                       \
        }                                                                                          \
    } while (0)

#define CHECK_STR(t, got, want)                                                                    \
    do {                                                                                           \
        const char *got_ = (got), *want_ = (want);                                                 \
        if (!got_ || strcmp(got_, want_) != 0) {                                                   \
            printf("# %s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #got,                \
                   got_ ? got_ : "(null)", want_);                                                 \
            (t)->failures++;                                                                       \
        }                                                                                          \
    } while (0)

/* Ends the test here, saying why it could not run. */
#define TEST_SKIP(t, reason)                                                                       \
    do {                                                                                           \
        (t)->skipped = (reason);                                                                   \
        return;                                                                                    \
    } while (0)

#define TEST_MAIN(cases)                                                                           \
    int main(void)                                                                                 \
    {                                                                                              \
        size_t n_ = sizeof(cases) / sizeof((cases)[0]), failed_ = 0;                               \
        printf("1..%zu\n", n_);                                                                    \
        for (size_t i_ = 0; i_ < n_; i_++) {                                                       \
            struct test t_ = {.name = (cases)[i_].name};                                           \
            (cases)[i_].run(&t_);                                                                  \
            printf("%s %zu - %s%s%s\n", t_.failures ? "not ok" : "ok", i_ + 1, t_.name,            \
                   t_.skipped ? " # SKIP " : "", t_.skipped ? t_.skipped : "");                    \
            failed_ += t_.failures > 0;                                                            \
        }                                                                                          \
        return failed_ > 0;                                                                        \
    }
