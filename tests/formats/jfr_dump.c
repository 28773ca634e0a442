/*
 * Prints everything that was read from a recording as tab-separated records, for test_jfr.py to
 * compare with what other tools made of it: jfr_dump FILE [LABELS]
 *
 *     L id type mapping line name system_name   a location
 *     N id parent location                      a stack
 *     A id key=value...                         an attribute set
 *     P period period_type unit time duration resource type/unit...
 *     S node attrs time value...                a sample of the profile above
 *     note text
 */
#include <inttypes.h>
#include <stdio.h>

#include "formats/format.h"
#include "formats/jfr.h"

static void dump_dict(const struct dict *d)
{
    for (size_t i = 1; i < d->locations.len; i++) {
        struct location l = d->locations.data[i];
        struct line line = l.n_lines ? d->lines.data[l.first_line] : (struct line){0};
        struct function f = d->functions.data[line.function];
        printf("L\t%zu\t%s\t%s\t%" PRId64 "\t%s\t%s\n", i, dict_cstr(d, l.type),
               dict_cstr(d, d->mappings.data[l.mapping].file), line.line, dict_cstr(d, f.name),
               dict_cstr(d, f.system_name));
    }
    for (size_t i = 1; i < dict_n_nodes(d); i++)
        printf("N\t%zu\t%u\t%u\n", i, d->node_parent.data[i], d->node_location.data[i]);
    for (size_t i = 1; i < d->attr_sets.len; i++) {
        printf("A\t%zu", i);
        for (uint32_t k = 0; k < d->attr_sets.data[i].n; k++) {
            struct attribute a =
                d->attributes.data[d->attr_ids.data[d->attr_sets.data[i].first + k]];
            if (a.kind == ATTRIBUTE_STRING)
                printf("\t%s=%s", dict_cstr(d, a.key), dict_cstr(d, a.text));
            else
                printf("\t%s=%" PRId64, dict_cstr(d, a.key), a.number);
        }
        printf("\n");
    }
}

static void dump_profile(const struct profile *p)
{
    const struct dict *d = p->dict;

    printf("P\t%" PRId64 "\t%s\t%s\t%" PRId64 "\t%" PRId64 "\t%u", p->period,
           dict_cstr(d, p->period_type.type), dict_cstr(d, p->period_type.unit), p->time_unix_ns,
           p->duration_ns, p->resource_attrs);
    for (uint32_t t = 0; t < p->n_types; t++)
        printf("\t%s/%s", dict_cstr(d, p->types[t].type), dict_cstr(d, p->types[t].unit));
    printf("\n");
    for (size_t i = 0; i < p->n_samples; i++) {
        printf("S\t%u\t%u\t%" PRIu64, p->node[i], profile_attrs(p, i), profile_time_ns(p, i));
        for (uint32_t t = 0; t < p->n_types; t++)
            printf("\t%" PRId64, p->values[t][i]);
        printf("\n");
    }
}

static int apply_labels(struct profile_set *set, const char *path, struct error *err)
{
    CLEANUP(input_closep) struct input *in = NULL;
    struct bytes content;
    int r = input_open(path, set->budget, &in, err);

    if (r == 0)
        r = input_all(in, &content, err);
    return r < 0 ? r : jfr_apply_labels(set, 0, content, err);
}

int main(int argc, char **argv)
{
    struct budget budget;
    struct error err = {""};
    budget_init(&budget, BUDGET_DEFAULT_BYTES);
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&budget);
    CLEANUP(input_closep) struct input *in = NULL;

    int r = argc < 2 ? -1 : input_open(argv[1], &budget, &in, &err);
    if (r == 0)
        r = format_read(in, NULL, set, NULL, &err);
    if (r == 0 && argc > 2)
        r = apply_labels(set, argv[2], &err);
    if (r < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    dump_dict(set->dict);
    for (size_t i = 0; i < set->profiles.len; i++)
        dump_profile(set->profiles.data[i]);
    for (size_t i = 0; i < set->notes.len; i++)
        printf("note\t%s\n", set->notes.data[i]);
    return 0;
}
