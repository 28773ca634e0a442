/*
 * What reading costs before anything is stored, on one core:
 *
 *     measure_ingest decode DIR PODS WINDOWS     set R, unpacked and decoded into one dictionary
 *     measure_ingest files DIR PODS WINDOWS TO   writes each profile of set R into the folder TO
 *     measure_ingest large HOURS                 what set L holds, and what making it costs
 *
 * DIR is where set R is kept; usually 10 pods and 360 windows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "formats/formats.h"
#include "store_data.h"
#include "wire/inflate.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what, const struct error *err)
{
    fprintf(stderr, "measure_ingest: %s: %s\n", what, err->text);
    exit(1);
}

/* Decodes one profile into the set's dictionary and drops it again. */
static size_t decode(struct profile_set *set, struct bytes packed)
{
    struct error err;
    CLEANUP(input_closep) struct input *in = input_from_bytes(packed, "R", set->budget);
    if (format_read(in, &format_pprof, set, NULL, &err) < 0)
        die("decode", &err);
    size_t n = set->profiles.data[0]->n_samples;
    profile_set_truncate(set, 0);
    return n;
}

static double inflate_all(const struct data_r *r, struct budget *b)
{
    double start = now();

    for (size_t i = 0; i < r->n; i++) {
        struct unpacked u;
        struct error err;
        if (unpack(CODEC_GZIP, r->profiles[i].packed, b, &u, &err) < 0)
            die("unpack", &err);
        unpacked_done(b, &u);
    }
    return now() - start;
}

static int run_decode(const struct data_r *r)
{
    struct budget budget;

    printf("set R%s: %zu profiles, %zu samples, %.1f kB plain and %.1f kB packed each\n",
           r->is_synthetic ? " (made up: no corpus)" : "", r->n, r->n_samples,
           (double)r->plain_bytes / (double)r->n / 1e3,
           (double)r->packed_bytes / (double)r->n / 1e3);
    budget_init(&budget, SIZE_MAX / 2);
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&budget);
    size_t samples = 0;
    double start = now();
    for (size_t i = 0; i < r->n; i++)
        samples += decode(set, r->profiles[i].packed);
    double took = now() - start, inflated = inflate_all(r, &budget);
    if (samples != r->n_samples)
        die("decode", &(struct error){"sample counts differ"});
    printf("r_decode_us: %.0f us per profile, of which %.0f us unpacking\n",
           took / (double)r->n * 1e6, inflated / (double)r->n * 1e6);
    printf("r_decode_s: %.3f s in all\n", took);
    return 0;
}

/* Each profile of the set as a file of its own, for other programs to read. */
static int run_files(const struct data_r *r, const char *to)
{
    for (size_t i = 0; i < r->n; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%05zu.pb.gz", to, i);
        CLEANUP(fclosep) FILE *f = fopen(path, "wb");
        struct bytes b = r->profiles[i].packed;
        if (!f || fwrite(b.data, 1, b.len, f) != b.len) {
            fprintf(stderr, "measure_ingest: could not write \"%s\": %m\n", path);
            return 1;
        }
    }
    return 0;
}

/* What set L is, and what making it costs: to be subtracted from what ingesting it takes. */
static int run_large(uint32_t hours)
{
    struct data_l_options options = DATA_L_DEFAULTS;
    struct data_l_profile p;
    struct budget budget;
    struct error err;
    char text[DATA_L_TEXT_MAX];
    size_t profiles = 0, samples = 0, linked = 0;
    uint64_t generation = 0;

    options.hours = hours;
    struct data_l *made;
    if (data_l_new(options, &made, &err) < 0)
        die("set L", &err);
    CLEANUP(data_l_freep) struct data_l *l = made;
    budget_init(&budget, SIZE_MAX / 2);
    struct profile_set *set = profile_set_new(&budget);
    double start = now();
    while (data_l_next(l, set, generation, &p) > 0) {
        profiles++;
        samples += p.profile->n_samples;
        for (size_t i = 0; p.profile->link && i < p.profile->n_samples; i++)
            linked += p.profile->link[i] != 0;
        profile_set_truncate(set, 0);
        if (budget.used > (size_t)64 << 20) { /* as a store's source would */
            profile_set_free(set);
            set = profile_set_new(&budget);
            generation++;
        }
    }
    profile_set_free(set);
    data_l_describe(&options, data_l_is_synthetic(l), text);
    printf("%s\n%zu profiles, %zu samples, %zu linked; made in %.1f s, %llu dictionaries\n", text,
           profiles, samples, linked, now() - start, (unsigned long long)generation + 1);
    return 0;
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    bool is_files = strcmp(command, "files") == 0;
    struct error err;
    struct data_r *opened;

    if (strcmp(command, "large") == 0 && argc == 3)
        return run_large(number(argv[2]));
    if (!(strcmp(command, "decode") == 0 && argc == 5) && !(is_files && argc == 6)) {
        fprintf(stderr, "usage: measure_ingest decode DIR PODS WINDOWS | files DIR PODS WINDOWS TO "
                        "| large HOURS\n");
        return 2;
    }
    if (data_r_open(argv[2], number(argv[3]), number(argv[4]), &opened, &err) < 0)
        die("set R", &err);
    CLEANUP(data_r_closep) struct data_r *r = opened;
    return is_files ? run_files(r, argv[5]) : run_decode(r);
}
