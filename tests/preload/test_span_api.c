/* Spans, labels and samples of a program that uses vesta.h, as the real library records them. */
#include "lib/test.h"
#include "preload/own_ring.h"
#include "vesta/vesta.h"

__attribute__((constructor)) static void begin(void)
{
    own_ring_restart("custom,lock", "1");
}

static const uint8_t trace[16] = {0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xaf};
static const uint8_t span[8] = {0xb0, 1, 2, 3, 4, 5, 6, 0xbf};
static const uint8_t none[16];

PLACE void takes_sample(uint64_t value);
PLACE void takes_sample(uint64_t value)
{
    own_ring_forget();
    vesta_sample("rendered/bytes", value);
    __asm__ volatile("" ::: "memory"); /* no jump: this place is on the stack */
}

static const struct preload_record *sampled(uint64_t value)
{
    static const struct preload_record nothing;
    uint64_t at = 0;

    takes_sample(value);
    const struct preload_record *r = own_ring_next(&at, PRELOAD_CUSTOM);
    return r ? r : &nothing;
}

/* "key=value;key=value" */
static const char *labels(const struct preload_record *r)
{
    static char text[2048];
    uint32_t size;
    const char *bytes = own_text_bytes(r->labels, &size);
    size_t used = 0;

    text[0] = 0;
    for (uint32_t i = 0; i + 2 <= size;) {
        int key = (uint8_t)bytes[i], value = (uint8_t)bytes[i + 1];
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s=%.*s", used ? ";" : "",
                                 key, bytes + i + 2, value, bytes + i + 2 + key);
        i += 2 + (uint32_t)key + (uint32_t)value;
    }
    return text;
}

static void a_sample_has_its_name_value_and_place(struct test *t)
{
    const struct preload_record *r = sampled(77);

    CHECK_INT(t, r->value, 77);
    CHECK_INT(t, r->rate, 0);
    CHECK(t, own_text_is(r->other, "rendered/bytes"));
    CHECK_STR(t, own_frame(r->stack, 0), "takes_sample");
    CHECK(t, memcmp(r->trace_id, none, 16) == 0);
    CHECK_INT(t, r->labels, 0);
    errno = 4711;
    takes_sample(1);
    CHECK_INT(t, errno, 4711);
}

static void spans_are_on_samples_while_they_last(struct test *t)
{
    vesta_span_set(trace, span);
    const struct preload_record *r = sampled(1);
    CHECK(t, memcmp(r->trace_id, trace, 16) == 0);
    CHECK(t, memcmp(r->span_id, span, 8) == 0);
    vesta_span_clear();
    r = sampled(2);
    CHECK(t, memcmp(r->trace_id, none, 16) == 0);
    CHECK(t, memcmp(r->span_id, none, 8) == 0);
}

static void labels_are_set_replaced_and_cleared(struct test *t)
{
    CHECK_INT(t, vesta_label_set("http.route", "/cart"), 0);
    CHECK_INT(t, vesta_label_set("tenant", "blue"), 0);
    CHECK_STR(t, labels(sampled(1)), "http.route=/cart;tenant=blue");
    CHECK_INT(t, vesta_label_set("http.route", "/pay"), 0);
    CHECK_STR(t, labels(sampled(1)), "tenant=blue;http.route=/pay");
    vesta_label_clear("tenant");
    vesta_label_clear("never seen");
    CHECK_STR(t, labels(sampled(1)), "http.route=/pay");
    vesta_label_clear("http.route");
    CHECK_STR(t, labels(sampled(1)), "");
}

static void labels_that_do_not_fit_are_refused_or_cut(struct test *t)
{
    char key[200], value[400];

    memset(key, 'k', sizeof(key));
    key[199] = 0;
    CHECK_INT(t, vesta_label_set(key, "v"), -EINVAL);
    CHECK_INT(t, vesta_label_set("", "v"), -EINVAL);
    CHECK_INT(t, vesta_label_set(NULL, "v"), -EINVAL);
    CHECK_INT(t, vesta_label_set("empty", NULL), 0);
    CHECK_STR(t, labels(sampled(1)), "empty=");
    vesta_label_clear("empty");
    /* 254 bytes, and a character of two that would be cut in half. */
    memset(value, 'v', 254);
    memcpy(value + 254, "\xc3\xa4\xc3\xa4", 5);
    CHECK_INT(t, vesta_label_set("long", value), 0);
    CHECK_INT(t, strlen(labels(sampled(1))), strlen("long=") + 254);
    memset(value, 'v', 399);
    value[399] = 0;
    CHECK_INT(t, vesta_label_set("long", value), 0);
    CHECK_INT(t, vesta_label_set("longer", value), 0);
    CHECK_INT(t, vesta_label_set("longest", value), -ENOSPC);
    CHECK_INT(t, vesta_label_set("long", "short again"), 0);
    vesta_label_clear("longer");
    CHECK_STR(t, labels(sampled(1)), "long=short again");
    vesta_label_clear("long");
}

/* A record of another SDK: its keys are named by the context of the process. */
extern __thread const void *otel_thread_ctx_v1;

static void records_of_others_are_read_too(struct test *t)
{
    struct {
        uint8_t trace_id[16], span_id[8], valid, flags;
        uint16_t size;
        uint8_t attrs[612];
    } record = {.valid = 1, .size = 12};

    /* The first key of this process is http.route; and one that has no name; and half a value. */
    memcpy(record.attrs, "\0\2/a\x7f\1x\0\2/b\0", 12);
    memset(record.trace_id, 0xcc, 16);
    memset(record.span_id, 0xdd, 8);
    otel_thread_ctx_v1 = &record;
    const struct preload_record *r = sampled(1);
    CHECK(t, memcmp(r->trace_id, record.trace_id, 16) == 0);
    CHECK_STR(t, labels(r), "http.route=/b");
    record.valid = 2;
    r = sampled(1);
    CHECK(t, memcmp(r->trace_id, none, 16) == 0);
    CHECK_STR(t, labels(r), "");
    record.valid = 1;
    vesta_span_clear(); /* not ours: it stays */
    CHECK(t, otel_thread_ctx_v1 == &record);
    otel_thread_ctx_v1 = NULL;
}

static void a_program_can_switch_it_off_and_on(struct test *t)
{
    vesta_profiling_set(false);
    CHECK_INT(t, sampled(5)->value, 0);
    vesta_profiling_set(true);
    CHECK_INT(t, sampled(6)->value, 6);
}

static const struct test_case cases[] = {
    TEST(a_sample_has_its_name_value_and_place), TEST(spans_are_on_samples_while_they_last),
    TEST(labels_are_set_replaced_and_cleared),   TEST(labels_that_do_not_fit_are_refused_or_cut),
    TEST(records_of_others_are_read_too),        TEST(a_program_can_switch_it_off_and_on),
};
TEST_MAIN(cases)
