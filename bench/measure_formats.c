/*
 * How close reading is to the least work possible, in one run on one core:
 *
 *     measure_formats synth N FILE       writes the synthetic pprof of N samples
 *     measure_formats decode FILE...     reading pprof against inflating and walking the same bytes
 *     measure_formats decode-otlp FILE...   the same for OTLP made of these files
 *     measure_formats merge FILE         adding up 1,000 profiles with stacks of this one
 *
 * Each prints what it measured per file and, last, lines "metric: value unit". Times are of CPU, so
 * that a busy machine disturbs little; both sides run in turn and the medians are compared.
 */
#include <errno.h>
#include <libdeflate.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "floor.h"
#include "formats/formats.h"
#include "measure.h"
#include "wire/inflate.h"

double measure_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double measure_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    return values[n / 2];
}

void measure_die(const char *what, const char *why)
{
    fprintf(stderr, "measure_formats: %s: %s\n", what, why);
    exit(1);
}

/* A whole file, and a NUL's worth of room behind it. The caller frees it. */
static struct bytes slurp(const char *path)
{
    CLEANUP(fclosep) FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) < 0)
        measure_die(path, strerror(errno));
    size_t n = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(n + 16);
    if (!data || fread(data, 1, n, f) != n)
        measure_die(path, "could not read it");
    return (struct bytes){data, n};
}

/* The floor: libdeflate into a buffer of the right size, then the walk. */
struct floor {
    struct libdeflate_decompressor *inflater;
    uint8_t *plain;
    size_t room;
};

static struct bytes floor_inflate(struct floor *f, struct bytes packed)
{
    size_t used, got, total = 0;

    while (packed.len > 0) {
        if (libdeflate_gzip_decompress_ex(f->inflater, packed.data, packed.len, f->plain + total,
                                          f->room - total, &used, &got) != LIBDEFLATE_SUCCESS)
            measure_die("inflate", "damaged");
        total += got;
        packed = bytes_from(packed, used);
    }
    return (struct bytes){f->plain, total};
}

static void decode_once(const struct format *format, struct bytes content, size_t *ret_samples)
{
    struct budget budget;
    struct error err;

    budget_init(&budget, SIZE_MAX / 2);
    CLEANUP(input_closep) struct input *in = input_from_bytes(content, "bench", &budget);
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&budget);
    const struct format *seen = NULL;
    if (format_read(in, NULL, set, &seen, &err) < 0)
        measure_die("decode", err.text);
    if (seen != format)
        measure_die("decode", "detected as another format");
    *ret_samples = 0;
    for (size_t i = 0; i < set->profiles.len; i++)
        *ret_samples += set->profiles.data[i]->n_samples;
}

#define RUNS_MAX    101
#define SECONDS_MAX 1.5

/* floor time / our time for one file. */
static double decode_ratio(const char *name, const struct format *format, struct bytes packed,
                           bool (*walk)(struct bytes plain, size_t *ret_samples))
{
    struct floor f = {.inflater = libdeflate_alloc_decompressor()};
    struct budget budget;
    struct unpacked u;
    struct error err;
    double inflates[RUNS_MAX], floors[RUNS_MAX], ours[RUNS_MAX];
    size_t n = 0, want, samples;

    budget_init(&budget, SIZE_MAX / 2);
    if (unpack(CODEC_GZIP, packed, &budget, &u, &err) < 0)
        measure_die(name, err.text);
    f.room = u.len + 64;
    unpacked_done(&budget, &u);
    f.plain = malloc(f.room);
    if (!f.plain || !f.inflater)
        measure_die(name, "out of memory");
    for (double start = measure_now();
         n < RUNS_MAX && (n < 5 || measure_now() - start < SECONDS_MAX); n++) {
        double t0 = measure_now();
        struct bytes plain = floor_inflate(&f, packed);
        double t1 = measure_now();
        if (!walk(plain, &want))
            measure_die(name, "the floor's walk failed");
        double t2 = measure_now();
        decode_once(format, packed, &samples);
        double t3 = measure_now();
        if (samples != want && format == &format_pprof)
            measure_die(name, "sample counts differ");
        inflates[n] = t1 - t0;
        floors[n] = t2 - t0;
        ours[n] = t3 - t2;
    }
    double floor_time = measure_median(floors, n), our_time = measure_median(ours, n);
    double mb = (double)f.room / 1e6;
    printf("%-32s %8.2f MB %8zu samples  floor %8.3f ms (inflate %8.3f)  ours %8.3f ms %6.0f MB/s  "
           "%.2f\n",
           name, mb, want, floor_time * 1e3, measure_median(inflates, n) * 1e3, our_time * 1e3,
           mb / our_time, floor_time / our_time);
    libdeflate_free_decompressor(f.inflater);
    free(f.plain);
    return floor_time / our_time;
}

static bool walk_pprof(struct bytes plain, size_t *ret_samples)
{
    struct pprof_arrays a;
    bool ok = floor_walk_pprof(plain, &a);
    *ret_samples = a.samples;
    return ok;
}

static bool walk_otlp(struct bytes plain, size_t *ret_samples)
{
    struct otlp_arrays a;
    bool ok = floor_walk_otlp(plain, &a);
    *ret_samples = a.samples;
    return ok;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static struct profile_set *read_file(const char *path, struct budget *budget)
{
    struct error err;
    struct input *opened;

    budget_init(budget, SIZE_MAX / 2);
    if (input_open(path, budget, &opened, &err) < 0)
        measure_die(path, err.text);
    CLEANUP(input_closep) struct input *in = opened;
    struct profile_set *set = profile_set_new(budget);
    if (format_read(in, NULL, set, NULL, &err) < 0)
        measure_die(path, err.text);
    return set;
}

/* The same profile in OTLP, packed. */
static void to_otlp(const char *path, struct buf *packed)
{
    struct budget budget;
    struct error err;
    struct buf plain = {0}, losses = {0};
    CLEANUP(profile_set_freep) struct profile_set *set = read_file(path, &budget);

    if (format_otlp.encode(set, &plain, &losses, &err) < 0)
        measure_die(path, err.text);
    gzip_pack(buf_bytes(&plain), 6, packed);
    buf_done(&plain);
    buf_done(&losses);
}

/* A few files of the corpus are not packed; packed they are comparable. */
static void to_packed(const char *path, struct buf *packed)
{
    struct bytes content = slurp(path);

    if (codec_detect(content) != CODEC_GZIP)
        gzip_pack(content, 6, packed);
    else
        buf_add_bytes(packed, content);
    free((void *)(uintptr_t)content.data);
}

static int run_decode(char **files, size_t n, bool is_otlp)
{
    double log_sum = 0;

    for (size_t i = 0; i < n; i++) {
        struct buf packed = {0};
        if (is_otlp)
            to_otlp(files[i], &packed);
        else
            to_packed(files[i], &packed);
        log_sum += log(decode_ratio(base_name(files[i]), is_otlp ? &format_otlp : &format_pprof,
                                    buf_bytes(&packed), is_otlp ? walk_otlp : walk_pprof));
        buf_done(&packed);
    }
    if (n > 0)
        printf("%s_decode_vs_floor: %.3f ratio\n", is_otlp ? "otlp" : "pprof",
               exp(log_sum / (double)n));
    return 0;
}

static int run_merge(const char *path)
{
    struct budget budget;
    CLEANUP(profile_set_freep) struct profile_set *set = read_file(path, &budget);

    return measure_merge(set);
}

static int run_synth(const char *n, const char *path)
{
    struct buf plain = {0}, packed = {0};

    synth_pprof(strtoul(n, NULL, 10), &plain);
    gzip_pack(buf_bytes(&plain), 6, &packed);
    CLEANUP(fclosep) FILE *f = fopen(path, "wb");
    if (!f || fwrite(packed.data, 1, packed.len, f) != packed.len)
        measure_die(path, strerror(errno));
    buf_done(&plain);
    buf_done(&packed);
    return 0;
}

int main(int argc, char **argv)
{
    /* Memory is kept from run to run, as the floor keeps its buffers: the kernel's page faults are
     * not what is compared. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (argc >= 2 && strcmp(argv[1], "decode") == 0)
        return run_decode(argv + 2, (size_t)argc - 2, false);
    if (argc >= 2 && strcmp(argv[1], "decode-otlp") == 0)
        return run_decode(argv + 2, (size_t)argc - 2, true);
    if (argc == 3 && strcmp(argv[1], "merge") == 0)
        return run_merge(argv[2]);
    if (argc == 4 && strcmp(argv[1], "synth") == 0)
        return run_synth(argv[2], argv[3]);
    fprintf(stderr, "usage: measure_formats synth N FILE | decode FILE... | decode-otlp FILE... | "
                    "merge FILE\n");
    return 2;
}
