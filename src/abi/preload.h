#pragma once

#include <linux/types.h>

/*
 * What the library inside a program (src/preload) and its readers share: one piece of memory for
 * each process, in a file of its own. The library writes it and never waits; a reader may come
 * late, go away, or not exist. A reader believes nothing in it: every offset and count is checked,
 * and it is read by pread(), so that a file that shrinks is an error and not a SIGBUS.
 *
 *     header │ ring of records │ texts: stacks, names, labels │ live keys │ live values │ modules
 *
 * The file is "memfd:vesta-preload" of the process, which an agent finds among its mappings, and
 * whose size is sealed (F_SEAL_GROW, F_SEAL_SHRINK): who can change it can keep a reader waiting.
 * With VESTA_PRELOAD_DIR it is DIR/PID-STARTED.ring, for a reader without rights. A process that
 * could not have one there leaves an empty DIR/PID-STARTED.noroom.
 *
 * Everything is in the byte order of the machine. Times are CLOCK_MONOTONIC, in ns.
 */
#define PRELOAD_MAGIC   0x52504154534556ull /* "VESTAPR" */
#define PRELOAD_VERSION 2
#define PRELOAD_MEMFD   "vesta-preload"
#define PRELOAD_NO_ROOM ".noroom"

/* What is sampled: bits of header.wanted. */
enum preload_kind {
    PRELOAD_ALLOC = 1, /* memory was asked for */
    PRELOAD_LIVE,      /* what was sampled is followed until it is freed (no records of its own) */
    PRELOAD_LOCK,      /* a thread waited for a lock */
    PRELOAD_THREAD,    /* a thread was made */
    PRELOAD_CUSTOM,    /* a program's own sample */
    PRELOAD_KINDS,
};
#define PRELOAD_WANTS(kind) (1u << (kind))

enum preload_what {
    PRELOAD_WHAT_NONE,
    PRELOAD_WHAT_MALLOC, /* PRELOAD_ALLOC */
    PRELOAD_WHAT_MMAP,
    PRELOAD_WHAT_MUTEX, /* PRELOAD_LOCK */
    PRELOAD_WHAT_READ_LOCK,
    PRELOAD_WHAT_WRITE_LOCK,
    PRELOAD_WHAT_CONDITION,
    PRELOAD_WHAT_SEMAPHORE,
    PRELOAD_WHATS,
};

/*
 * A sample. It was taken with the chance p = 1 - exp(-value' / rate), where value' is value, at
 * least 1: so it stands for 1 / p events and value / p bytes or ns. rate 0: it stands for itself.
 *
 * `state` is the record's number in the ring (of all that were ever put), plus one, cut to 32 bits
 * and written last; 0 while it is being written.
 */
struct preload_record {
    __u32 state;
    __u8 kind; /* enum preload_kind */
    __u8 what; /* enum preload_what */
    __u16 flags;
    __u32 tid;
    __u32 thread_name; /* text; 0: not known */
    __u32 stack;       /* text of words; 0: none */
    __u32 other;       /* PRELOAD_LOCK: stack of who held it, 0 if not known. PRELOAD_CUSTOM: the
                          text of its name, "type/unit" */
    __u32 labels;      /* text: {u8 key length, u8 value length, key, value}...; 0: none */
    __u32 rate;
    __u64 time_ns;
    __u64 value;       /* bytes asked for; ns waited; 1 for threads */
    __u64 address;     /* of the memory, or the lock */
    __u8 trace_id[16]; /* zeros: none */
    __u8 span_id[8];
};

/*
 * Texts are put into one half of their area until it is full, then into the other, and so on. A
 * text is known by the number of its first word among all words that were ever used, cut to 32 bits
 * and never 0; so the number modulo the words of both halves is where it is, and divided by those
 * of a half its generation. Texts of the generation of texts_used, and of the one before, are there
 * and do not change. Equal texts of a generation have mostly, but not always, one number.
 *
 * A half is begun anew when all records were read that were put before the other one was begun;
 * until then there is no room for new texts. Live memory is given new numbers by then.
 *
 * Stacks: addresses, innermost first. All are return addresses, but those with PRELOAD_EXACT.
 */
struct preload_text {
    __u32 size; /* bytes that follow; stacks: 8 for each address */
    __u16 kind; /* enum preload_text_kind */
    __u16 flags;
    __u64 check; /* preload_text_check() */
    /* then the bytes, with zeros up to a multiple of 8 */
};
enum preload_text_kind { PRELOAD_TEXT_STACK = 1, PRELOAD_TEXT_STRING, PRELOAD_TEXT_LABELS };
enum {
    PRELOAD_STACK_CUT = 1,  /* there were more frames than fit */
    PRELOAD_STACK_LOST = 2, /* the outer part could not be found */
};
static inline __u64 preload_text_hash(const struct preload_text *t, const void *bytes)
{
    const unsigned char *at = (const unsigned char *)bytes;
    __u64 h = ((__u64)t->kind << 32 | t->flags) ^ t->size * 0x9e3779b97f4a7c15ull;

    for (__u32 n = t->size; n > 0; at += 8) {
        __u64 word = 0;
        __u32 k = n < 8 ? n : 8;
        __builtin_memcpy(&word, at, k);
        n -= k;
        h = (h ^ word) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    return h;
}

/* A thread that is held up while it puts a text, until its half is used anew, damages others: they
 * do not have what this says. */
static inline __u64 preload_text_check(__u64 hash, __u32 number)
{
    return hash ^ number * 0xc4ceb9fe1a85ec53ull;
}

/* How many words lie between the beginnings of the text's generation and of the one of texts_used:
 * 0 is the same, `half` (the words of a half) the one before; what is more is not there any more.
 */
static inline __u32 preload_text_age(__u32 number, __u64 texts_used, __u64 half)
{
    return (__u32)((texts_used & ~(half - 1)) - (number & ~(half - 1)));
}

#define PRELOAD_EXACT      (1ull << 63)
#define PRELOAD_FRAMES_MAX 192

/*
 * Memory that was sampled and is still there. keys[i] is its address, 0 where there is none, 1
 * where one is being written; it is written last and taken away first, so a value belongs to a key
 * that is the same before and after.
 */
struct preload_live {
    __u64 size;
    __u32 stack;
    __u32 rate;
    __u64 time_ns; /* when it was allocated */
    __u32 labels;
    __u8 what; /* enum preload_what */
    __u8 spare[3];
};

/* Where code is; later ones of the same place replace earlier ones. Followed by the path, with
 * zeros up to a multiple of 8. */
struct preload_module {
    __u32 size; /* of the whole; written last: 0 is the end of the list */
    __u16 path_len;
    __u8 build_id_len;
    __u8 spare;
    __u64 start, end;  /* of its executable part */
    __u64 file_offset; /* of start */
    __u64 bias;        /* address minus address in the file */
    __u8 build_id[32];
};

struct preload_area {
    __u64 offset; /* in the file; a multiple of 64 */
    __u64 size;   /* in bytes */
};

/* How many were left out, and why. */
enum preload_loss {
    PRELOAD_LOSS_RING,     /* records: nobody read them */
    PRELOAD_LOSS_TEXTS,    /* stacks, names or labels: no room for new ones */
    PRELOAD_LOSS_LIVE,     /* live memory: no room in the table */
    PRELOAD_LOSS_MODULES,  /* modules: no room */
    PRELOAD_LOSS_BUSY,     /* a signal came while its thread was sampling */
    PRELOAD_LOSS_ROOM,     /* any of these: the folder that the file is in has no room */
    PRELOAD_LOSS_CHILDREN, /* children of fork that did not reach that folder: theirs are memfds */
    PRELOAD_LOSSES = 8,
};

struct preload_header {
    __u64 magic; /* written last: PRELOAD_MAGIC */
    __u32 version;
    __u32 header_size;
    __u64 file_size;
    __u32 pid; /* in its own namespace */
    __u32 is_musl;
    __u64 started_ns; /* when this was made */
    __u64 started_unix_ns;

    struct preload_area ring;      /* a power of two of records */
    struct preload_area texts;     /* a power of two of bytes */
    struct preload_area live_keys; /* __u64 each; a power of two of them */
    struct preload_area live;      /* struct preload_live each, as many */
    struct preload_area modules;

    /* ---- Written by readers, read at the next sample ---- */
    __u32 wanted __attribute__((aligned(64))); /* PRELOAD_WANTS(...); 0: nothing is sampled */
    __u32 alloc_rate;                          /* bytes; at least 1 */
    __u32 lock_rate;                           /* ns; at least 1 */
    __u32 wished;    /* `wanted` as the program has it by itself, written once by the library: what
                        readers go back to that had turned it off */
    __u64 ring_tail; /* records read */

    /* ---- Written by the library ---- */
    __u64 ring_head __attribute__((aligned(64))); /* records put or being put */
    __u64 texts_used;                             /* words, of all generations */
    __u64 modules_used;                           /* bytes */
    __u64 live_count;
    __u64 lost[PRELOAD_LOSSES];
    __u64 sampled[PRELOAD_KINDS]; /* records, of each kind, also those that were lost */
    __u32 is_over;                /* the process has left in good order */
    __u32 is_locked;              /* flock(LOCK_SH) is held on the file as long as it is mapped */
    __u32 pid_namespace;          /* that pid is of: the inode of /proc/PID/ns/pid; 0: not known */
};
