#pragma once

#include "base/clock.h"
#include "fuzz.h"
#include "lib/calls.h"
#include "server/server_internal.h"

/* Servers for targets whose inputs are requests: everything but the network, on a simulated disk.
 */

#define INPUTS_MAX 500

/* An empty one, which lives for some inputs, so that one meets what others left. */
static inline struct calls *fuzz_empty_server(void)
{
    static struct calls calls;
    static struct test test;
    static unsigned n;

    if (n++ % INPUTS_MAX == 0) {
        if (n > 1)
            calls_end(&calls);
        calls_begin(&test, &calls);
    }
    return &calls;
}

static inline void fuzz_add_profile(struct store_source *source, const char *leaf, int64_t start_ns)
{
    struct error err;
    struct store_outcome outcome;
    store_source_reset(source);
    struct dict *d = source->set->dict;
    struct profile *p = profile_set_add(source->set);
    profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "cpu", "nanoseconds");
    p->period_type = (struct value_type){dict_cstring(d, "cpu"), dict_cstring(d, "nanoseconds")};
    uint32_t thread = dict_string_attribute(d, dict_cstring(d, "thread"), dict_cstring(d, "main"));
    struct function f = {.name = dict_cstring(d, "main"), .file = dict_cstring(d, "/src/a.c")};
    uint32_t top = dict_frame(d, 0, f, 3, 0, 0);
    f.name = dict_cstring(d, leaf);
    profile_add(p, &(struct sample){.node = dict_frame(d, top, f, 7, 0, 0),
                                    .attrs = dict_attrs(d, &thread, 1),
                                    .link = dict_link(d, (struct link){{1}, {2}}),
                                    .values = (int64_t[]){1, 10000000}});
    p->time_unix_ns = start_ns;
    p->duration_ns = 1000000000;
    struct label labels[] = {{BYTES("k8s.pod.name"), bytes_of(leaf)},
                             {BYTES("pod"), bytes_of(leaf)},
                             {BYTES("service.name"), BYTES("checkout")}};
    struct store_incoming in = {
        .profile = p, .labels = labels, .n_labels = 3, .has_id = true, .id = {(uint8_t)*leaf}};
    REQUIRE(store_append(source, BYTES("default"), &in, 1, &outcome, &err) == 0);
}

/* One that holds two profiles of the last minute, for all inputs. */
static inline struct calls *fuzz_filled_server(void)
{
    static struct calls calls;
    static struct test test;
    struct store_source *source = NULL;
    struct error err;

    if (calls.server)
        return &calls;
    calls_begin(&test, &calls);
    int64_t now = clock_wall_ns(clock_real());
    REQUIRE(store_source_new(calls.server->store, 0, &source, &err) == 0);
    fuzz_add_profile(source, "parse", now - 60 * (int64_t)1000000000);
    fuzz_add_profile(source, "sort", now - 30 * (int64_t)1000000000);
    store_source_free(source);
    return &calls;
}
