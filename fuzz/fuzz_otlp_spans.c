#include <errno.h>

#include "fuzz.h"
#include "server/otlp_spans.h"

#define NOW_NS ((int64_t)1800000000 * 1000000000)

/* The first byte says whether JSON follows. Any bytes: no crash, documented results, and only spans
 * that a store takes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct config_list wanted = {{"http.route", "host.name", "thread.id"}, 3};
    struct budget budget;
    struct arena arena;
    struct error err = {""};

    if (len == 0)
        return 0;
    budget_init(&budget, (size_t)16 << 20);
    arena_init(&arena, &budget);
    struct otlp_spans spans = {.arena = &arena};
    struct otlp_spans_options o = {.attributes = &wanted, .is_json = data[0] & 1, .now_ns = NOW_NS};
    int r = otlp_spans_decode((struct bytes){data + 1, len - 1}, &o, &spans, &err);
    REQUIRE(r == 0 || r == -EBADMSG || r == -ENOBUFS);
    REQUIRE((r < 0) == (err.text[0] != '\0'));
    for (size_t i = 0; i < spans.n; i++) {
        const struct store_span *s = &spans.all[i];
        REQUIRE(s->service.len > 0 && s->service.len <= 1024 && s->name.len <= 1024);
        REQUIRE(s->start_ns > 0 && s->duration_ns >= 0 && s->n_attributes <= 3);
        REQUIRE(s->kind <= 5 && s->status <= 2);
    }
    otlp_spans_done(&spans);
    arena_done(&arena);
    REQUIRE(budget.used == 0);
    return 0;
}
