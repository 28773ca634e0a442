#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/preload.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * Reads what the library inside a process hands over (abi/preload.h). The file belongs to that
 * process, which may write anything into it at any time: nothing is mapped, every number is checked
 * before it is used, and what makes no sense is left out and counted. segment_reader_open() refuses
 * a file that is none, or beyond limits; one that goes on making no sense is given up later.
 *
 * Memory and work are bounded by what the caller says. Not thread-safe.
 */
struct segment_reader;

#define SEGMENT_MEMORY_DEFAULT ((size_t)64 << 20)

struct segment_options {
    size_t max_memory; /* for texts and modules; 0: SEGMENT_MEMORY_DEFAULT */
    /* How large a file may be, which is work for every look at it; 0: as the library makes it at
     * most. */
    uint64_t max_records, max_live_keys, max_texts_bytes, max_modules_bytes;
    uint64_t max_drained; /* records for one call while the process runs; 0: no limit */
    uint64_t max_doubts;  /* bad ones of all kinds until segment_reader_renew(); 0: no limit */
    bool must_be_sealed;  /* a memfd whose size cannot change: -EPERM otherwise */
};

/* A record that was begun and is not finished is waited for this long, then it is skipped: its
 * thread may have died in the middle. */
#define SEGMENT_STALL_NS ((uint64_t)500 * 1000 * 1000)

/* Takes over the descriptor, whatever happens: it must be open for reading and writing. -EBADMSG
 * when it is no such file, -EFBIG when it is beyond a limit, or the file is larger than all of its
 * limits together, -EAGAIN when it is not ready yet, -EPROTO when it is of another version. */
int segment_reader_open(int fd, const struct segment_options *o, struct segment_reader **ret,
                        struct error *err);
void segment_reader_free(struct segment_reader *r); /* NULL is fine */
DEFINE_CLEANUP(struct segment_reader *, segment_reader_free)

/* ---- What it is ---- */

struct segment_facts {
    uint32_t pid;           /* in its own namespace */
    uint32_t pid_namespace; /* its inode; 0: not known */
    bool is_musl;
    bool is_locked;      /* as long as it is mapped: see segment_reader_is_left() */
    uint64_t started_ns; /* CLOCK_MONOTONIC */
    uint64_t started_unix_ns;
};
const struct segment_facts *segment_reader_facts(const struct segment_reader *r);

/* True when it has become larger than its limits, which was refused when it was opened: writing to
 * it waits for whoever is filling it. */
bool segment_reader_has_grown(const struct segment_reader *r);

/* True when nobody has it mapped any more; where facts.is_locked is false, that is not known. */
bool segment_reader_is_left(const struct segment_reader *r);

struct segment_counters {
    uint32_t wanted, wished, alloc_rate, lock_rate;
    uint64_t live_count;
    uint64_t lost[PRELOAD_LOSSES];
    uint64_t sampled[PRELOAD_KINDS];
    bool is_over; /* the process has left in good order */
};
int segment_reader_counters(struct segment_reader *r, struct segment_counters *ret,
                            struct error *err);

/* Turns sampling on and off: PRELOAD_WANTS(...) and the mean distances of samples, in bytes and
 * ns, which are at least 1. */
int segment_reader_set(struct segment_reader *r, uint32_t wanted, uint32_t alloc_rate,
                       uint32_t lock_rate, struct error *err);

/* ---- Records ---- */

typedef void (*segment_record_fn)(void *arg, const struct preload_record *record);

/*
 * Calls fn for every record that is finished, in the order in which they were begun, and gives
 * their room back. `now_ns` is CLOCK_MONOTONIC. With is_gone nothing is waited for: nobody will
 * finish it. How many there were, or a negative errno: -EBADMSG when there were more than
 * max_doubts.
 */
ssize_t segment_reader_drain(struct segment_reader *r, uint64_t now_ns, bool is_gone,
                             segment_record_fn fn, void *arg, struct error *err);

/* How many were handed over, since it was opened. */
uint64_t segment_reader_taken(const struct segment_reader *r);

/* What could not be used, since it was opened. */
struct segment_doubts {
    uint64_t unfinished;  /* records that were begun and skipped */
    uint64_t bad_records; /* of a kind that there is not */
    uint64_t bad_texts;   /* numbers that are no text, each once, or not of the kind asked for */
    uint64_t bad_modules;
    uint64_t bad_live;
    uint64_t no_room; /* texts: our own memory is spent */
};
const struct segment_doubts *segment_reader_doubts(const struct segment_reader *r);

/* ---- Texts ---- */

/* Texts by numbers of our own: equal ones have one, and 0 is none. Kept until
 * segment_reader_renew() says otherwise. */
struct segment_text {
    const uint8_t *data; /* of stacks: u64 each, aligned */
    uint32_t size;
    uint16_t kind; /* enum preload_text_kind */
    uint16_t flags;
};

/* The text that a record means by `number`; 0 when there is none, or none of this kind. */
uint32_t segment_reader_text(struct segment_reader *r, uint32_t number,
                             enum preload_text_kind kind);
/* 0 is an empty one. */
const struct segment_text *segment_reader_get(const struct segment_reader *r, uint32_t text);
size_t segment_reader_n_texts(const struct segment_reader *r);

/* When no text is in use: what was doubted is forgiven, and max_memory (0: as it was) is the limit
 * from now on. True when all numbers of texts mean nothing any more: there was no room for more, or
 * there is less room now, and they have begun anew. */
bool segment_reader_renew(struct segment_reader *r, size_t max_memory);

/* Takes the next pair off labels that came from segment_reader_text(). */
bool segment_next_label(struct bytes *rest, struct bytes *ret_key, struct bytes *ret_value);

/* ---- Live memory ---- */

typedef void (*segment_live_fn)(void *arg, uint64_t address, const struct preload_live *live);

/* Calls fn for all that is in the table. While the process runs, what comes and goes meanwhile may
 * be seen or not, but nothing is seen half. -EBADMSG when there were more than max_doubts. */
int segment_reader_live(struct segment_reader *r, segment_live_fn fn, void *arg, struct error *err);

/* ---- Modules ---- */

struct segment_module {
    uint64_t start, end, file_offset, bias;
    uint8_t build_id[32];
    uint8_t build_id_len;
    const char *path;
};

/* Reads those that are new. */
int segment_reader_read_modules(struct segment_reader *r, struct error *err);
/* Where an address is; NULL when in none. Kept until segment_reader_renew(). */
const struct segment_module *segment_reader_module(const struct segment_reader *r,
                                                   uint64_t address);
size_t segment_reader_n_modules(const struct segment_reader *r);
