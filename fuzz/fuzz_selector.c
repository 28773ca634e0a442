/*
 * Selectors and times: what people and clients write. Whatever is parsed must match or not match a
 * label set without a crash, and its own text must parse again.
 *
 * Links: query.
 */
#include "fuzz.h"
#include "query/time_range.h"
#include "store/selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct label labels[] = {{BYTES("pod"), BYTES("a-1")},
                                          {BYTES("service.name"), BYTES("checkout")}};
    struct bytes text = {data, size};
    struct selector *s = NULL, *again = NULL;
    struct error err;
    int64_t ns;

    if (selector_parse(text, &s, &err) == 0) {
        bool holds = selector_matches(s, labels, ARRAY_SIZE(labels));
        (void)selector_takes(s, BYTES("cpu"), BYTES("nanoseconds"));
        REQUIRE(selector_parse(s->text, &again, &err) == 0);
        REQUIRE(selector_matches(again, labels, ARRAY_SIZE(labels)) == holds);
    }
    selector_free(s);
    selector_free(again);
    if (time_parse(text, 0, &ns, &err) == 0) {
        char written[TIME_TEXT_MAX];
        int64_t back;
        REQUIRE(ns < 0 ||
                (time_parse(bytes_of(time_text(ns, written)), 0, &back, &err) == 0 && back == ns));
    }
    (void)duration_parse(text, &ns, &err);
    return 0;
}
