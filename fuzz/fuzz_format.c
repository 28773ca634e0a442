/*
 * One fuzz target per format, made from this file with FUZZ_FORMAT set to its name.
 *
 * Any bytes: no crash, no leak, no hang; only documented results; a failure always has a text; what
 * was decoded refers only to what the dictionary holds; and writing it as pprof and reading that
 * back keeps every total.
 */
#include <errno.h>

#include "formats/format.h"
#include "fuzz.h"
#include "profile/merge.h"

static void check_profile(const struct profile *p)
{
    for (size_t i = 0; i < p->n_samples; i++) {
        REQUIRE(p->node[i] < dict_n_nodes(p->dict));
        REQUIRE(profile_attrs(p, i) < p->dict->attr_sets.len);
        REQUIRE(profile_link(p, i) < p->dict->links.len);
    }
}

static void check_dict(const struct dict *d)
{
    for (size_t n = 1; n < dict_n_nodes(d); n++) {
        REQUIRE(d->node_parent.data[n] < n);
        REQUIRE(d->node_location.data[n] < d->locations.len);
    }
    for (size_t l = 0; l < d->locations.len; l++) {
        const struct location *location = &d->locations.data[l];
        REQUIRE(location->mapping < d->mappings.len && location->attrs < d->attr_sets.len);
        REQUIRE((size_t)location->first_line + location->n_lines <= d->lines.len);
    }
    for (size_t i = 0; i < d->lines.len; i++)
        REQUIRE(d->lines.data[i].function < d->functions.len);
}

/* decode(encode(x)) has the totals of x. */
static void check_round_trip(const struct profile_set *set)
{
    const struct format *pprof = format_by_name("pprof");
    struct buf out = {0}, losses = {0};
    struct error err = {""};
    struct budget b;

    budget_init(&b, (size_t)256 << 20);
    struct profile_set *again = profile_set_new(&b);
    if (pprof->encode(set, &out, &losses, &err) == 0) {
        struct input *in = input_from_bytes(buf_bytes(&out), "round trip", &b);
        REQUIRE(pprof->decode(in, again, &err) == 0 && again->profiles.len == 1);
        const struct profile *was = set->profiles.data[0], *is = again->profiles.data[0];
        for (uint32_t t = 0; t < was->n_types; t++)
            REQUIRE(profile_total(was, t) == profile_total(is, t));
        input_close(in);
    }
    profile_set_free(again);
    buf_done(&out);
    buf_done(&losses);
}

static void merge_and_check(struct profile_set *set)
{
    struct profile *merged =
        profile_merge(set->dict, set->profiles.data, set->profiles.len, (struct merge_options){0});
    if (!merged)
        return;
    profile_set_truncate(set, 0);
    if (vec_push(set->budget, &set->profiles, merged))
        check_round_trip(set);
    else
        profile_free(merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct format *f = format_by_name(FUZZ_FORMAT);
    struct budget b;
    struct error err = {""};
    struct bytes head;
    size_t samples = 0;

    budget_init(&b, (size_t)64 << 20);
    struct profile_set *set = profile_set_new(&b);
    struct input *in = input_from_bytes((struct bytes){data, len}, "fuzz", &b);
    if (f->sniff && input_peek(in, &head, NULL) == 0)
        REQUIRE(f->sniff(head) >= 0);
    int r = format_read(in, f, set, NULL, &err);
    REQUIRE(r == 0 || r == -EBADMSG || r == -ENOBUFS || r == -EOPNOTSUPP);
    REQUIRE(r == 0 || err.text[0] != '\0');
    check_dict(set->dict);
    for (size_t i = 0; i < set->profiles.len; i++) {
        check_profile(set->profiles.data[i]);
        samples += set->profiles.data[i]->n_samples;
    }
    if (r == 0 && set->profiles.len > 0 && samples < 2000)
        merge_and_check(set);
    input_close(in);
    profile_set_free(set);
    REQUIRE(b.used == 0);
    return 0;
}
