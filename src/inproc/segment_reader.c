#include "inproc/segment_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/idset.h"
#include "base/must.h"
#include "base/vec.h"

/* More than the library ever makes, and little enough to be read through. */
#define FILE_MAX         ((uint64_t)1 << 34)
#define FILE_SLACK       65536 /* for the header, and between areas */
#define RING_RECORDS_MAX ((uint64_t)1 << 22)
#define LIVE_MAX         ((uint64_t)1 << 24)
#define TEXTS_SIZE_MAX   ((uint64_t)1 << 30)
#define MODULES_SIZE_MAX ((uint64_t)64 << 20)
#define MODULES_MAX      65536
#define PATH_LEN_MAX     4096
#define TEXT_SIZE_MAX    4096
#define BATCH            128 /* records read at once */
#define KEY_CLAIMED      1
#define LIVE_BATCH       1024 /* keys */
#define BAD_NUMBERS      4096 /* that are remembered */

struct known_text {
    uint32_t number, text; /* text 0: the number is none */
};

struct segment_reader {
    int fd;
    struct segment_options o; /* with limits in place of zeros */
    struct budget budget;
    struct arena arena;
    struct preload_header header; /* as it was when it was opened, and checked */
    struct segment_facts facts;
    struct segment_doubts doubts;
    uint64_t forgiven; /* doubts that count no more */
    bool is_full;      /* a text found no room */

    uint64_t tail;  /* records taken: ours counts, not what stands in the file */
    uint64_t taken; /* of those, handed over */
    uint64_t stalled_since_ns;
    struct preload_record batch[BATCH];

    struct idset by_number, by_content;
    VEC(struct known_text) known; /* of a generation of texts, and the one before */
    size_t n_bad;                 /* of those */
    uint64_t generation;
    VEC(struct segment_text) texts; /* [0] is none */

    uint64_t modules_at; /* read up to here */
    VEC(struct segment_module) modules;
};

/* A part of the table of live memory. */
struct live_part {
    uint64_t keys[LIVE_BATCH], keys_again[LIVE_BATCH];
    struct preload_live values[LIVE_BATCH];
};

/* All n bytes, or -EIO: the file is shorter than it says. */
static int read_at(const struct segment_reader *r, void *to, size_t n, uint64_t offset,
                   struct error *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(r->fd, (char *)to + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, -errno, "could not read the segment at %llu: %s",
                             (unsigned long long)offset, strerror(errno));
        if (got == 0)
            return error_set(err, -EIO, "the segment ends at %llu, before what it says it holds",
                             (unsigned long long)(offset + done));
        done += (size_t)got;
    }
    return 0;
}

static int write_at(const struct segment_reader *r, const void *from, size_t n, uint64_t offset,
                    struct error *err)
{
    ssize_t put;

    do
        put = pwrite(r->fd, from, n, (off_t)offset);
    while (put < 0 && errno == EINTR);
    if (put == (ssize_t)n)
        return 0;
    int r2 = put < 0 ? -errno : -EIO;
    return error_set(err, r2, "could not write to the segment at %llu: %s",
                     (unsigned long long)offset, strerror(-r2));
}

/* ---- Opening ---- */

static bool is_power_of_two(uint64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static int check_area(const struct preload_header *h, const struct preload_area *a,
                      const char *name, struct error *err)
{
    if (a->offset % 64 != 0 || a->offset < sizeof(*h) || a->offset > h->file_size ||
        a->size > h->file_size - a->offset)
        return error_set(err, -EBADMSG, "the segment's %s are not inside it: %llu bytes at %llu",
                         name, (unsigned long long)a->size, (unsigned long long)a->offset);
    return 0;
}

static int check_limit(const char *what, uint64_t value, uint64_t limit, struct error *err)
{
    return value <= limit ? 0
                          : error_set(err, -EFBIG, "the segment has %llu %s, and the limit is %llu",
                                      (unsigned long long)value, what, (unsigned long long)limit);
}

static int check_limits(const struct segment_options *o, const struct preload_header *h,
                        struct error *err)
{
    int r = check_limit("records in its ring", h->ring.size / sizeof(struct preload_record),
                        o->max_records, err);

    r = r < 0 ? r
              : check_limit("keys of live memory", h->live_keys.size / sizeof(uint64_t),
                            o->max_live_keys, err);
    r = r < 0 ? r : check_limit("bytes of texts", h->texts.size, o->max_texts_bytes, err);
    return r < 0 ? r : check_limit("bytes of modules", h->modules.size, o->max_modules_bytes, err);
}

static int check_areas(const struct preload_header *h, struct error *err)
{
    uint64_t n_records = h->ring.size / sizeof(struct preload_record);
    uint64_t n_keys = h->live_keys.size / sizeof(uint64_t);
    int r = check_area(h, &h->ring, "records", err);

    r = r < 0 ? r : check_area(h, &h->texts, "texts", err);
    r = r < 0 ? r : check_area(h, &h->live_keys, "keys of live memory", err);
    r = r < 0 ? r : check_area(h, &h->live, "values of live memory", err);
    r = r < 0 ? r : check_area(h, &h->modules, "modules", err);
    if (r < 0)
        return r;
    if (!is_power_of_two(h->texts.size) || h->texts.size < 2 * sizeof(struct preload_text))
        return error_set(err, -EBADMSG,
                         "the segment's texts have %llu bytes, which is no power of two",
                         (unsigned long long)h->texts.size);
    if (!is_power_of_two(n_records))
        return error_set(err, -EBADMSG,
                         "the segment's ring has %llu records, which is no power of two",
                         (unsigned long long)n_records);
    if (n_keys > 0 && !is_power_of_two(n_keys))
        return error_set(
            err, -EBADMSG,
            "the segment's table of live memory has %llu keys, which is no power of two",
            (unsigned long long)n_keys);
    if (h->live.size / sizeof(struct preload_live) < n_keys)
        return error_set(err, -EBADMSG, "the segment has fewer values of live memory than keys");
    return 0;
}

static int check_header(const struct segment_reader *r, uint64_t size, struct error *err)
{
    const struct preload_header *h = &r->header;

    if (h->magic == 0)
        return error_set(err, -EAGAIN, "the segment is not ready yet");
    if (h->magic != PRELOAD_MAGIC)
        return error_set(err, -EBADMSG, "this is no segment of the preloaded library");
    if (h->version != PRELOAD_VERSION || h->header_size < sizeof(*h))
        return error_set(err, -EPROTO, "the segment is of version %u, which is not known here",
                         h->version);
    if (h->file_size > size || h->file_size > FILE_MAX)
        return error_set(err, -EBADMSG, "the segment says it has %llu bytes and has %llu",
                         (unsigned long long)h->file_size, (unsigned long long)size);
    int result = check_areas(h, err);
    return result < 0 ? result : check_limits(&r->o, h, err);
}

/* The whole file: writing to a memfd waits for whoever is filling it. */
static uint64_t file_max(const struct segment_options *o)
{
    return FILE_SLACK + o->max_records * sizeof(struct preload_record) +
           o->max_live_keys * (sizeof(uint64_t) + sizeof(struct preload_live)) +
           o->max_texts_bytes + o->max_modules_bytes;
}

static int check_file(const struct segment_reader *r, struct stat *ret, struct error *err)
{
    int seals = r->o.must_be_sealed ? fcntl(r->fd, F_GET_SEALS) : F_SEAL_GROW | F_SEAL_SHRINK;

    if (seals < 0 || !(seals & F_SEAL_GROW) || !(seals & F_SEAL_SHRINK))
        return error_set(err, -EPERM, "the segment's size is not sealed");
    if (fstat(r->fd, ret) < 0)
        return error_set(err, -errno, "could not look at the segment: %s", strerror(errno));
    if (!S_ISREG(ret->st_mode))
        return error_set(err, -EBADMSG, "the segment is no plain file");
    if ((uint64_t)ret->st_size < sizeof(r->header))
        return error_set(err, ret->st_size == 0 ? -EAGAIN : -EBADMSG,
                         "the segment has only %lld bytes", (long long)ret->st_size);
    return check_limit("bytes", (uint64_t)ret->st_size, file_max(&r->o), err);
}

bool segment_reader_has_grown(const struct segment_reader *r)
{
    struct stat st;

    return fstat(r->fd, &st) == 0 && (uint64_t)st.st_size > file_max(&r->o);
}

static uint64_t ring_len(const struct segment_reader *r)
{
    return r->header.ring.size / sizeof(struct preload_record);
}

static int begin(struct segment_reader *r, struct error *err)
{
    struct stat st;

    int result = check_file(r, &st, err);
    if (result == 0)
        result = read_at(r, &r->header, sizeof(r->header), 0, err);
    if (result == 0)
        result = check_header(r, (uint64_t)st.st_size, err);
    if (result < 0)
        return result;
    const struct preload_header *h = &r->header;
    r->facts = (struct segment_facts){.pid = h->pid,
                                      .pid_namespace = h->pid_namespace,
                                      .is_musl = h->is_musl != 0,
                                      .is_locked = h->is_locked != 0,
                                      .started_ns = h->started_ns,
                                      .started_unix_ns = h->started_unix_ns};
    r->tail = h->ring_tail;
    return 0;
}

static struct segment_options with_limits(const struct segment_options *o)
{
    return (struct segment_options){
        .max_memory = o->max_memory ? o->max_memory : SEGMENT_MEMORY_DEFAULT,
        .max_records = o->max_records ? o->max_records : RING_RECORDS_MAX,
        .max_live_keys = o->max_live_keys ? o->max_live_keys : LIVE_MAX,
        .max_texts_bytes = o->max_texts_bytes ? o->max_texts_bytes : TEXTS_SIZE_MAX,
        .max_modules_bytes = o->max_modules_bytes ? o->max_modules_bytes : MODULES_SIZE_MAX,
        .max_drained = o->max_drained ? o->max_drained : UINT64_MAX,
        .max_doubts = o->max_doubts ? o->max_doubts : UINT64_MAX,
        .must_be_sealed = o->must_be_sealed};
}

/* The text that is none. */
static void begin_texts(struct segment_reader *r)
{
    arena_init(&r->arena, &r->budget);
    (void)vec_push(&r->budget, &r->texts, (struct segment_text){.data = (const uint8_t *)""});
}

static void free_texts(struct segment_reader *r)
{
    idset_done(&r->budget, &r->by_number);
    idset_done(&r->budget, &r->by_content);
    vec_done(&r->budget, &r->known);
    r->n_bad = 0;
    vec_done(&r->budget, &r->texts);
    vec_done(&r->budget, &r->modules);
    arena_done(&r->arena);
}

int segment_reader_open(int fd, const struct segment_options *o, struct segment_reader **ret,
                        struct error *err)
{
    struct segment_reader *r = must_calloc(1, sizeof(*r));

    r->fd = fd;
    r->o = with_limits(o);
    budget_init(&r->budget, r->o.max_memory);
    begin_texts(r);
    int result = budget_failed(&r->budget) ? budget_error(&r->budget, err) : begin(r, err);
    if (result < 0) {
        segment_reader_free(r);
        return result;
    }
    *ret = r;
    return 0;
}

void segment_reader_free(struct segment_reader *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    free_texts(r);
    free(r);
}

const struct segment_facts *segment_reader_facts(const struct segment_reader *r)
{
    return &r->facts;
}

bool segment_reader_is_left(const struct segment_reader *r)
{
    return r->facts.is_locked && flock(r->fd, LOCK_EX | LOCK_NB) == 0;
}

const struct segment_doubts *segment_reader_doubts(const struct segment_reader *r)
{
    return &r->doubts;
}

static uint64_t doubts_of(const struct segment_reader *r)
{
    const struct segment_doubts *d = &r->doubts;

    return d->bad_records + d->bad_texts + d->bad_modules + d->bad_live;
}

static bool is_hopeless(const struct segment_reader *r)
{
    return doubts_of(r) - r->forgiven > r->o.max_doubts;
}

static int give_up(const struct segment_reader *r, struct error *err)
{
    const struct segment_doubts *d = &r->doubts;

    return error_set(err, -EBADMSG,
                     "the segment makes no sense: %llu bad records, %llu bad numbers of texts, "
                     "%llu bad modules, %llu bad live objects, and the limit is %llu",
                     (unsigned long long)d->bad_records, (unsigned long long)d->bad_texts,
                     (unsigned long long)d->bad_modules, (unsigned long long)d->bad_live,
                     (unsigned long long)r->o.max_doubts);
}

int segment_reader_counters(struct segment_reader *r, struct segment_counters *ret,
                            struct error *err)
{
    struct preload_header h;
    int result = read_at(r, &h, sizeof(h), 0, err);

    if (result < 0)
        return result;
    *ret = (struct segment_counters){.wanted = h.wanted,
                                     .wished = h.wished,
                                     .alloc_rate = h.alloc_rate,
                                     .lock_rate = h.lock_rate,
                                     .live_count = h.live_count,
                                     .is_over = h.is_over != 0};
    memcpy(ret->lost, h.lost, sizeof(ret->lost));
    memcpy(ret->sampled, h.sampled, sizeof(ret->sampled));
    return 0;
}

int segment_reader_set(struct segment_reader *r, uint32_t wanted, uint32_t alloc_rate,
                       uint32_t lock_rate, struct error *err)
{
    uint32_t rates[2] = {alloc_rate ? alloc_rate : 1, lock_rate ? lock_rate : 1};
    int result =
        write_at(r, rates, sizeof(rates), offsetof(struct preload_header, alloc_rate), err);

    return result < 0
               ? result
               : write_at(r, &wanted, sizeof(wanted), offsetof(struct preload_header, wanted), err);
}

/* ---- Records ---- */

static bool is_finished(const struct preload_record *record, uint64_t number)
{
    return record->state == (uint32_t)(number + 1);
}

/* Reads up to n records from `tail` on, which do not run over the ring's end. How many of them are
 * finished, one after the other. */
static ssize_t read_finished(struct segment_reader *r, size_t n, struct error *err)
{
    uint64_t at = r->tail & (ring_len(r) - 1);
    uint64_t offset = r->header.ring.offset + at * sizeof(struct preload_record);
    size_t done = 0;

    int result = read_at(r, r->batch, n * sizeof(r->batch[0]), offset, err);
    if (result < 0)
        return result;
    while (done < n && is_finished(&r->batch[done], r->tail + done))
        done++;
    /* The copy may have passed over a record before its state was written: read again what is known
     * to be finished. */
    result = done > 0 ? read_at(r, r->batch, done * sizeof(r->batch[0]), offset, err) : 0;
    return result < 0 ? result : (ssize_t)done;
}

static void hand_over(struct segment_reader *r, size_t n, segment_record_fn fn, void *arg)
{
    for (size_t i = 0; i < n; i++) {
        const struct preload_record *record = &r->batch[i];
        bool is_sound = is_finished(record, r->tail + i) && record->kind >= PRELOAD_ALLOC &&
                        record->kind < PRELOAD_KINDS && record->kind != PRELOAD_LIVE &&
                        record->what < PRELOAD_WHATS;
        if (is_sound)
            fn(arg, record);
        else
            r->doubts.bad_records++;
        r->taken += is_sound;
    }
    r->tail += n;
}

/* The first of n records is not finished: whether to go on without it. */
static bool is_given_up(struct segment_reader *r, size_t n, uint64_t now_ns, bool is_gone)
{
    size_t skipped = 1;

    if (r->stalled_since_ns == 0)
        r->stalled_since_ns = now_ns ? now_ns : 1;
    if (!is_gone && now_ns - r->stalled_since_ns < SEGMENT_STALL_NS)
        return false;
    while (is_gone && skipped < n && !is_finished(&r->batch[skipped], r->tail + skipped))
        skipped++;
    r->doubts.unfinished += skipped;
    r->tail += skipped;
    r->stalled_since_ns = 0; /* the next one has its own time */
    return true;
}

static uint64_t texts_half(const struct segment_reader *r)
{
    return r->header.texts.size / 2 / sizeof(uint64_t);
}

/* How many words of texts were used ever. */
static int read_used(const struct segment_reader *r, uint64_t *ret)
{
    return read_at(r, ret, sizeof(*ret), offsetof(struct preload_header, texts_used), NULL);
}

/* Numbers of texts come again, though after many generations. What they stood for is kept. */
static void forget_old_numbers(struct segment_reader *r)
{
    uint64_t used;

    if (read_used(r, &used) < 0 || used / texts_half(r) == r->generation)
        return;
    r->generation = used / texts_half(r);
    idset_done(&r->budget, &r->by_number);
    vec_done(&r->budget, &r->known);
    r->n_bad = 0;
}

static ssize_t drain_to(struct segment_reader *r, uint64_t head, uint64_t now_ns, bool is_gone,
                        segment_record_fn fn, void *arg, struct error *err)
{
    uint64_t len = ring_len(r), count = 0;

    /* Records that are not there were never written: the numbers are not to be believed. */
    if (head - r->tail > len) {
        r->doubts.bad_records++;
        r->tail = head;
    }
    uint64_t before = r->tail;
    while (r->tail != head && (is_gone || r->tail - before < r->o.max_drained)) {
        if (is_hopeless(r))
            return give_up(r, err);
        uint64_t n = head - r->tail, to_end = len - (r->tail & (len - 1));
        n = n < to_end ? n : to_end;
        n = n < BATCH ? n : BATCH;
        if (!is_gone && n > r->o.max_drained - (r->tail - before))
            n = r->o.max_drained - (r->tail - before);
        ssize_t got = read_finished(r, (size_t)n, err);
        if (got < 0)
            return got;
        if (got > 0) {
            hand_over(r, (size_t)got, fn, arg);
            r->stalled_since_ns = 0;
            count += (uint64_t)got;
        } else if (!is_given_up(r, (size_t)n, now_ns, is_gone)) {
            break;
        }
    }
    if (r->tail == head)
        r->stalled_since_ns = 0;
    return is_hopeless(r) ? give_up(r, err) : (ssize_t)count;
}

ssize_t segment_reader_drain(struct segment_reader *r, uint64_t now_ns, bool is_gone,
                             segment_record_fn fn, void *arg, struct error *err)
{
    uint64_t head = 0, before = r->tail;
    int result = read_at(r, &head, sizeof(head), offsetof(struct preload_header, ring_head), err);
    if (result < 0)
        return result;
    forget_old_numbers(r);
    ssize_t n = drain_to(r, head, now_ns, is_gone, fn, arg, err);
    if (r->tail != before) {
        result = write_at(r, &r->tail, sizeof(r->tail), offsetof(struct preload_header, ring_tail),
                          n < 0 ? NULL : err);
        n = n >= 0 && result < 0 ? result : n;
    }
    return n;
}

uint64_t segment_reader_taken(const struct segment_reader *r)
{
    return r->taken;
}

/* ---- Texts ---- */

bool segment_next_label(struct bytes *rest, struct bytes *ret_key, struct bytes *ret_value)
{
    if (rest->len < 2)
        return false;
    size_t key = rest->data[0], value = rest->data[1];
    if (rest->len - 2 < key + value)
        return false;
    *ret_key = bytes_head(bytes_from(*rest, 2), key);
    *ret_value = bytes_head(bytes_from(*rest, 2 + key), value);
    *rest = bytes_from(*rest, 2 + key + value);
    return true;
}

static bool is_sound_text(const struct preload_text *t, const uint8_t *data)
{
    struct bytes rest = {data, t->size}, key, value;

    if (t->kind == PRELOAD_TEXT_STACK)
        return t->size % 8 == 0 && t->size <= PRELOAD_FRAMES_MAX * 8;
    if (t->kind != PRELOAD_TEXT_LABELS)
        return t->kind == PRELOAD_TEXT_STRING;
    while (rest.len > 0)
        if (!segment_next_label(&rest, &key, &value))
            return false;
    return true;
}

/* A text and what it says of itself. Most are short: one call reads them whole. */
struct whole_text {
    struct preload_text head;
    uint8_t data[TEXT_SIZE_MAX];
};
#define TEXT_USUAL 496

/* False when the number is not one. */
static bool read_text(struct segment_reader *r, uint32_t number, struct whole_text *t)
{
    uint64_t size = r->header.texts.size, at = (uint64_t)number * 8 & (size - 1);

    if (size - at < sizeof(t->head))
        return false;
    uint64_t offset = r->header.texts.offset + at, most = size - at - sizeof(t->head);
    size_t first = most < TEXT_USUAL ? (size_t)most : TEXT_USUAL;
    if (read_at(r, t, sizeof(t->head) + first, offset, NULL) < 0 || t->head.size > TEXT_SIZE_MAX ||
        t->head.size > most)
        return false;
    if (t->head.size > first && read_at(r, t->data + first, t->head.size - first,
                                        offset + sizeof(t->head) + first, NULL) < 0)
        return false;
    return is_sound_text(&t->head, t->data) &&
           t->head.check == preload_text_check(preload_text_hash(&t->head, t->data), number);
}

/* Whether a text is there: its half was not begun anew since. */
static bool is_there(const struct segment_reader *r, uint32_t number)
{
    uint64_t used;

    return read_used(r, &used) == 0 &&
           preload_text_age(number, used, texts_half(r)) <= texts_half(r);
}

static void no_room(struct segment_reader *r)
{
    r->is_full = true;
    r->doubts.no_room++;
}

static bool has_room(struct segment_reader *r)
{
    /* Tables grow by doubling: what is left must be enough for each of them. */
    if (r->budget.used < r->budget.limit / 2)
        return true;
    no_room(r);
    return false;
}

static void know_number(struct segment_reader *r, uint32_t number, uint32_t text)
{
    if (vec_push(&r->budget, &r->known, (struct known_text){number, text}))
        (void)idset_add(&r->budget, &r->by_number, hash_mix(number, 5), (uint32_t)r->known.len - 1);
}

/* A thread that was held up may have damaged one text that many objects mean: it counts once. */
static void bad_number(struct segment_reader *r, uint32_t number)
{
    r->doubts.bad_texts++;
    if (r->n_bad < BAD_NUMBERS) {
        r->n_bad++;
        know_number(r, number, 0);
    }
}

static bool is_same_text(const struct segment_text *a, const struct preload_text *t,
                         const uint8_t *data)
{
    return a->kind == t->kind && a->flags == t->flags && a->size == t->size &&
           (t->size == 0 || memcmp(a->data, data, t->size) == 0);
}

static uint32_t keep_text(struct segment_reader *r, uint32_t number, const struct preload_text *t,
                          const uint8_t *data)
{
    uint64_t hash = hash_mix(hash_bytes(data, t->size), (uint64_t)t->kind << 16 | t->flags);
    uint32_t id = IDSET_FIND(&r->by_content, hash, i, is_same_text(&r->texts.data[i], t, data));

    if (id == IDSET_NONE) {
        uint8_t *copy = (uint8_t *)arena_new(&r->arena, uint64_t, (t->size + 7) / 8);
        struct segment_text text = {copy, t->size, t->kind, t->flags};
        id = (uint32_t)r->texts.len;
        if (!copy || !vec_push(&r->budget, &r->texts, text) ||
            !idset_add(&r->budget, &r->by_content, hash, id))
            return 0;
        if (t->size > 0)
            memcpy(copy, data, t->size);
    }
    know_number(r, number, id);
    return id;
}

uint32_t segment_reader_text(struct segment_reader *r, uint32_t number, enum preload_text_kind kind)
{
    struct whole_text t;

    if (number == 0)
        return 0;
    uint32_t at =
        IDSET_FIND(&r->by_number, hash_mix(number, 5), i, r->known.data[i].number == number);
    uint32_t id = at == IDSET_NONE ? 0 : r->known.data[at].text;
    if (at == IDSET_NONE) {
        if (is_hopeless(r) || !has_room(r))
            return 0;
        /* Asked afterwards, it was there while it was read. */
        if (!read_text(r, number, &t) || !is_there(r, number))
            bad_number(r, number);
        else if ((id = keep_text(r, number, &t.head, t.data)) == 0)
            no_room(r);
    }
    if (id == 0)
        return 0;
    if (r->texts.data[id].kind == (uint16_t)kind)
        return id;
    r->doubts.bad_texts++;
    return 0;
}

const struct segment_text *segment_reader_get(const struct segment_reader *r, uint32_t text)
{
    return &r->texts.data[text < r->texts.len ? text : 0];
}

size_t segment_reader_n_texts(const struct segment_reader *r)
{
    return r->texts.len;
}

bool segment_reader_renew(struct segment_reader *r, size_t max_memory)
{
    size_t limit = max_memory ? max_memory : r->budget.limit;
    bool is_anew = r->is_full || r->budget.used > limit / 2;

    r->forgiven = doubts_of(r);
    if (is_anew) {
        free_texts(r);
        budget_init(&r->budget, limit);
        begin_texts(r);
        r->modules_at = 0;
        r->is_full = false;
    }
    r->budget.limit = limit;
    return is_anew;
}

/* ---- Live memory ---- */

static void hand_over_live(struct segment_reader *r, const struct live_part *part, size_t first,
                           size_t n, segment_live_fn fn, void *arg)
{
    for (size_t i = first; i < n; i++) {
        const struct preload_live *live = &part->values[i];
        if (part->keys[i] <= KEY_CLAIMED || part->keys[i] != part->keys_again[i])
            continue;
        if (live->what < PRELOAD_WHATS)
            fn(arg, part->keys[i], live);
        else
            r->doubts.bad_live++;
    }
}

/* Reads the values of keys[first...n), and the keys again: what is the same before and after was
 * there all the time. */
static int read_values(const struct segment_reader *r, struct live_part *part, uint64_t at,
                       size_t first, size_t n, struct error *err)
{
    uint64_t index = at + first;
    int result = read_at(r, part->values + first, (n - first) * sizeof(part->values[0]),
                         r->header.live.offset + index * sizeof(part->values[0]), err);

    return result < 0 ? result
                      : read_at(r, part->keys_again + first, (n - first) * sizeof(part->keys[0]),
                                r->header.live_keys.offset + index * sizeof(part->keys[0]), err);
}

/*
 * From key number `at` on, the next ones that may be there: most of the table was never touched, so
 * the file has holes. Their number is *ret_n; 0 behind the last.
 */
static uint64_t next_written(const struct segment_reader *r, uint64_t at, uint64_t *ret_n)
{
    uint64_t start = r->header.live_keys.offset, size = sizeof(uint64_t);
    uint64_t n_keys = r->header.live_keys.size / size;
    off_t data = lseek(r->fd, (off_t)(start + at * size), SEEK_DATA);

    *ret_n = n_keys - at;
    if (data < 0 && errno != ENXIO)
        return at; /* the file system does not tell */
    if (data < 0 || (uint64_t)data >= start + n_keys * size) {
        *ret_n = 0;
        return n_keys;
    }
    if ((uint64_t)data > start + at * size)
        at = ((uint64_t)data - start) / size;
    *ret_n = n_keys - at;
    off_t hole = lseek(r->fd, data, SEEK_HOLE);
    if (hole > data && (uint64_t)hole < start + n_keys * size)
        *ret_n = ((uint64_t)hole - start + size - 1) / size - at;
    return at;
}

static int read_live_part(struct segment_reader *r, struct live_part *part, uint64_t at, size_t n,
                          segment_live_fn fn, void *arg, struct error *err)
{
    size_t first = 0;
    int result = read_at(r, part->keys, n * sizeof(part->keys[0]),
                         r->header.live_keys.offset + at * sizeof(part->keys[0]), err);

    if (result < 0)
        return result;
    while (n > 0 && part->keys[n - 1] == 0)
        n--;
    while (first < n && part->keys[first] == 0)
        first++;
    result = first < n ? read_values(r, part, at, first, n, err) : 0;
    if (result == 0)
        hand_over_live(r, part, first, n, fn, arg);
    return result;
}

/* A hole, and the end of a file that is shorter than it says, look the same to lseek(). */
static int check_last_key(const struct segment_reader *r, struct error *err)
{
    const struct preload_area *keys = &r->header.live_keys;
    uint64_t last;

    return keys->size < sizeof(last)
               ? 0
               : read_at(r, &last, sizeof(last), keys->offset + keys->size - sizeof(last), err);
}

int segment_reader_live(struct segment_reader *r, segment_live_fn fn, void *arg, struct error *err)
{
    CLEANUP(freep) struct live_part *part = must_calloc(1, sizeof(*part));
    int result = check_last_key(r, err);
    uint64_t n = 0;

    for (uint64_t at = next_written(r, 0, &n); n > 0 && result == 0; at = next_written(r, at, &n)) {
        for (uint64_t end = at + n; at < end && result == 0; at += n) {
            if (is_hopeless(r))
                return give_up(r, err);
            n = end - at < LIVE_BATCH ? end - at : LIVE_BATCH;
            result = read_live_part(r, part, at, (size_t)n, fn, arg, err);
        }
    }
    return result < 0 ? result : is_hopeless(r) ? give_up(r, err) : 0;
}

/* ---- Modules ---- */

static bool is_sound_module(const struct preload_module *m, uint64_t room)
{
    return m->size % 8 == 0 && m->size <= room && m->path_len <= PATH_LEN_MAX &&
           m->size >= sizeof(*m) + m->path_len && m->build_id_len <= sizeof(m->build_id) &&
           m->start < m->end;
}

static bool keep_module(struct segment_reader *r, const struct preload_module *m, uint64_t offset,
                        struct error *err)
{
    char path[PATH_LEN_MAX];

    if (read_at(r, path, m->path_len, offset + sizeof(*m), err) < 0)
        return false;
    struct bytes text = {(const uint8_t *)path, strnlen(path, m->path_len)};
    struct segment_module kept = {.start = m->start,
                                  .end = m->end,
                                  .file_offset = m->file_offset,
                                  .bias = m->bias,
                                  .build_id_len = m->build_id_len,
                                  .path = arena_strdup(&r->arena, text)};
    memcpy(kept.build_id, m->build_id, sizeof(kept.build_id));
    return kept.path && vec_push(&r->budget, &r->modules, kept);
}

int segment_reader_read_modules(struct segment_reader *r, struct error *err)
{
    uint64_t size = r->header.modules.size;
    struct preload_module m;

    while (size - r->modules_at >= sizeof(m) && r->modules.len < MODULES_MAX) {
        uint64_t offset = r->header.modules.offset + r->modules_at;
        int result = read_at(r, &m, sizeof(m), offset, err);
        if (result < 0)
            return result;
        if (m.size == 0) /* the end so far */
            return 0;
        /* Its size was written last: read again what it stands for. */
        result = read_at(r, &m, sizeof(m), offset, err);
        if (result < 0)
            return result;
        if (!has_room(r)) /* for none of the others either, until segment_reader_renew() */
            return 0;
        if (!is_sound_module(&m, size - r->modules_at) || !keep_module(r, &m, offset, err)) {
            /* Where the next one begins is not known. */
            r->doubts.bad_modules++;
            r->modules_at = size;
            return 0;
        }
        r->modules_at += m.size;
    }
    return 0;
}

const struct segment_module *segment_reader_module(const struct segment_reader *r, uint64_t address)
{
    for (size_t i = r->modules.len; i-- > 0;)
        if (address >= r->modules.data[i].start && address < r->modules.data[i].end)
            return &r->modules.data[i];
    return NULL;
}

size_t segment_reader_n_modules(const struct segment_reader *r)
{
    return r->modules.len;
}
