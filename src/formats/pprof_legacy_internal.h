#pragma once

#include "formats/format.h"

/*
 * What the readers of pprof's older formats share: pprof_legacy.c tells them apart and reads the
 * text ones, pprof_legacy_cpu.c the binary CPU profile, pprof_legacy_java.c Java's,
 * pprof_legacy_dump.c goroutine dumps. Samples with addresses are collected in a struct legacy;
 * pprof_legacy_build.c then gives the addresses their mappings, which stand at the end of a file,
 * and makes the profile.
 */
struct legacy_sample {
    size_t first, n; /* of refs: locations, leaf first */
    int64_t values[4];
    int64_t block_size;
    bool has_block_size; /* becomes the label "bytes" */
};

struct legacy_place {
    uint64_t address;
    uint32_t function; /* Java: 0 unless known */
    int64_t line;
    bool has_line;
    bool is_used; /* by a sample, once all is read */
};

struct legacy {
    struct profile_set *out;
    struct profile *profile;
    struct dict *dict;
    struct budget *budget;
    struct error *err;

    struct bytes rest; /* text not read yet */
    size_t line;       /* number of the last line read */

    VEC(struct legacy_place) places;
    struct idset place_index; /* by address */
    VEC(uint32_t) refs;
    VEC(struct legacy_sample) samples;
    VEC(struct mapping) maps;
    bool keeps_addresses; /* false: they only number places (Java) */
};

/* The next line, and its number in l->line. */
bool legacy_next_line(struct legacy *l, struct bytes *ret);

/* "pprof-legacy at line N: ...", -EBADMSG. */
int legacy_fail(struct legacy *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds a frame to the sample being collected: the n-th call gives the n-th frame from the leaf. */
void legacy_add_frame(struct legacy *l, uint64_t address);

/* How many were added since the last sample ended. */
size_t legacy_frames(const struct legacy *l);

/* Ends the sample: its frames are those added since the last one. */
void legacy_add_sample(struct legacy *l, struct legacy_sample s);

/* Adds a frame for each "0x..." in a text; `adjust` from the adjust_from-th frame of the sample on
 * subtracts one, so that return addresses lie within the call. */
int legacy_add_addresses(struct legacy *l, struct bytes text, size_t adjust_from);
#define LEGACY_ADJUST_NONE SIZE_MAX

/* Reads a memory map, as /proc/PID/maps or the older tools write it, to the end of the text. */
void legacy_read_maps(struct legacy *l);

/* Skips to the memory map, if there is one, and reads it. */
bool legacy_is_map_start(struct bytes line);
void legacy_skip_to_maps(struct legacy *l);

/* The leaf may be there twice: as the signal saw it and as the unwinder did, one less. */
void legacy_drop_doubled_leaves(struct legacy *l);

/* Makes the profile of all that was collected. */
int legacy_build(struct legacy *l);

/* The estimate of what was really allocated from a sample taken once in `rate` bytes on average. */
void legacy_unsample(int64_t *count, int64_t *size, int64_t rate);

/* Whole readers. */
int legacy_sniff_cpu(struct bytes head);
int legacy_read_cpu(struct legacy *l, struct bytes all);
int legacy_read_java(struct legacy *l, struct bytes header);
int legacy_read_java_places(struct legacy *l);
int legacy_sniff_dump(struct bytes head);
int legacy_read_dump(struct legacy *l);

/* Scanning: each takes what it names off the front of *s, or leaves *s as it was and says false. */
bool take_text(struct bytes *s, const char *text);
bool take_spaces(struct bytes *s); /* one or more */
bool take_u64(struct bytes *s, uint64_t *ret);
bool take_i64(struct bytes *s, int64_t *ret);
bool take_hex(struct bytes *s, uint64_t *ret); /* an optional 0x, then digits */
bool take_word(struct bytes *s, struct bytes *ret);

static inline bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}
