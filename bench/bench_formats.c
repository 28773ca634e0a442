/*
 * How close reading is to the least work possible, in one run on one core:
 *
 *     bench_formats synth N FILE       writes the synthetic pprof of N samples
 *     bench_formats decode FILE...     reading pprof against inflating and walking the same bytes
 *     bench_formats merge FILE         adding up 1,000 profiles against the bare loop
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
#include "bench_internal.h"
#include "floor.h"
#include "formats/formats.h"
#include "wire/inflate.h"

double bench_now(void)
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

double bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    return values[n / 2];
}

void bench_die(const char *what, const char *why)
{
    fprintf(stderr, "bench_formats: %s: %s\n", what, why);
    exit(1);
}

/* A whole file, and a NUL's worth of room behind it. The caller frees it. */
static struct bytes slurp(const char *path)
{
    CLEANUP(fclosep) FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) < 0)
        bench_die(path, strerror(errno));
    size_t n = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(n + 16);
    if (!data || fread(data, 1, n, f) != n)
        bench_die(path, "could not read it");
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
            bench_die("inflate", "damaged");
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
        bench_die("decode", err.text);
    if (seen != format)
        bench_die("decode", "detected as another format");
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
        bench_die(name, err.text);
    f.room = u.len + 64;
    unpacked_done(&budget, &u);
    f.plain = malloc(f.room);
    if (!f.plain || !f.inflater)
        bench_die(name, "out of memory");
    for (double start = bench_now(); n < RUNS_MAX && (n < 5 || bench_now() - start < SECONDS_MAX);
         n++) {
        double t0 = bench_now();
        struct bytes plain = floor_inflate(&f, packed);
        double t1 = bench_now();
        if (!walk(plain, &want))
            bench_die(name, "the floor's walk failed");
        double t2 = bench_now();
        decode_once(format, packed, &samples);
        double t3 = bench_now();
        if (samples != want)
            bench_die(name, "sample counts differ");
        inflates[n] = t1 - t0;
        floors[n] = t2 - t0;
        ours[n] = t3 - t2;
    }
    double floor_time = bench_median(floors, n), our_time = bench_median(ours, n);
    double mb = (double)f.room / 1e6;
    printf("%-32s %8.2f MB %8zu samples  floor %8.3f ms (inflate %8.3f)  ours %8.3f ms %6.0f MB/s  "
           "%.2f\n",
           name, mb, want, floor_time * 1e3, bench_median(inflates, n) * 1e3, our_time * 1e3,
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

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int run_decode(char **files, size_t n)
{
    double log_sum = 0;

    for (size_t i = 0; i < n; i++) {
        struct bytes content = slurp(files[i]);
        struct buf packed = {0};
        /* A few files of the corpus are not packed; packed they are comparable. */
        if (codec_detect(content) != CODEC_GZIP)
            gzip_pack(content, 6, &packed);
        else
            buf_add_bytes(&packed, content);
        log_sum +=
            log(decode_ratio(base_name(files[i]), &format_pprof, buf_bytes(&packed), walk_pprof));
        buf_done(&packed);
        free((void *)(uintptr_t)content.data);
    }
    if (n > 0)
        printf("pprof_decode_vs_floor: %.3f ratio\n", exp(log_sum / (double)n));
    return 0;
}

static int run_synth(const char *n, const char *path)
{
    struct buf plain = {0}, packed = {0};

    synth_pprof(strtoul(n, NULL, 10), &plain);
    gzip_pack(buf_bytes(&plain), 6, &packed);
    CLEANUP(fclosep) FILE *f = fopen(path, "wb");
    if (!f || fwrite(packed.data, 1, packed.len, f) != packed.len)
        bench_die(path, strerror(errno));
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
        return run_decode(argv + 2, (size_t)argc - 2);
    if (argc == 4 && strcmp(argv[1], "synth") == 0)
        return run_synth(argv[2], argv[3]);
    fprintf(stderr, "usage: bench_formats synth N FILE | decode FILE... | merge FILE\n");
    return 2;
}
