/*
 * Every place that asks for memory is refused once. Linked so that requests come here first
 * (see tests/meson.build): a place is known by the calls that led to it, and each is refused the
 * first time it is met while an operation is watched. The operation then fails and says why, or
 * does without; what was acknowledged stays there once, whatever was refused.
 */
#include <stdatomic.h>

#include "base/hash.h"
#include "base/must.h"
#include "store_local/ask_all.h"
#include "store_local/backup.h"
#include "store_local/disk_bytes.h"
#include "store_local/small_store.h"

#define DEPTH      8 /* calls that tell places apart */
#define PLACES_MAX 65536

static struct {
    bool is_watching, has_refused;
    unsigned excused;            /* in calls that end the process without memory */
    const struct budget *newest; /* of the dictionary that was made last: as one of an epoch... */
    unsigned n_hashes;           /* ...it still needs so many tables */
    unsigned n_refused;
    uint64_t seen[PLACES_MAX];
} place;

/* Everything is built with frame pointers: following them takes little time. */
__attribute__((no_sanitize("address"))) static uint64_t hash_calls(void)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    uintptr_t calls[DEPTH];
    size_t n = 0;

    while (n < DEPTH) {
        calls[n++] = frame[1];
        if (frame[0] <= (uintptr_t)frame || frame[0] - (uintptr_t)frame > 1 << 20)
            break;
        frame = (const uintptr_t *)frame[0];
    }
    return hash_bytes(calls, n * sizeof(*calls)) | 1;
}

static bool is_refused(void)
{
    if (!place.is_watching || place.has_refused || place.excused)
        return false;
    uint64_t h = hash_calls();
    size_t at = h % PLACES_MAX;
    while (place.seen[at] && place.seen[at] != h)
        at = (at + 1) % PLACES_MAX;
    if (place.seen[at])
        return false;
    place.seen[at] = h;
    place.has_refused = true;
    place.n_refused++;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
bool __real_budget_resize(struct budget *b, void **p, size_t old_size, size_t new_size);
void *__real_must_calloc(size_t n, size_t size);
char *__real_must_copy(struct bytes text);
struct dict *__real_dict_new(struct budget *budget);
int __real_regex_new(struct bytes pattern, struct regex **ret, struct error *err);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
bool __wrap_budget_resize(struct budget *b, void **p, size_t old_size, size_t new_size);
void *__wrap_must_calloc(size_t n, size_t size);
char *__wrap_must_copy(struct bytes text);
struct dict *__wrap_dict_new(struct budget *budget);
int __wrap_regex_new(struct bytes pattern, struct regex **ret, struct error *err);

void *__wrap_malloc(size_t size)
{
    return is_refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_refused() ? NULL : __real_calloc(n, size);
}

char *__wrap_strdup(const char *s)
{
    return is_refused() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return is_refused() ? NULL : __real_strndup(s, n);
}

bool __wrap_budget_resize(struct budget *b, void **p, size_t old_size, size_t new_size)
{
    if (b == place.newest && place.n_hashes > 0)
        place.n_hashes--;
    else if (new_size > old_size && b->limit < SIZE_MAX && is_refused()) {
        budget_fail(b, new_size - old_size);
        return false;
    }
    place.excused++;
    bool done = __real_budget_resize(b, p, old_size, new_size);
    place.excused--;
    return done;
}

void *__wrap_must_calloc(size_t n, size_t size)
{
    place.excused++;
    void *p = __real_must_calloc(n, size);
    place.excused--;
    return p;
}

char *__wrap_must_copy(struct bytes text)
{
    place.excused++;
    char *p = __real_must_copy(text);
    place.excused--;
    return p;
}

int __wrap_regex_new(struct bytes pattern, struct regex **ret, struct error *err)
{
    place.excused++;
    int r = __real_regex_new(pattern, ret, err);
    place.excused--;
    return r;
}

struct dict *__wrap_dict_new(struct budget *budget)
{
    place.excused++;
    struct dict *d = __real_dict_new(budget);
    place.excused--;
    place.newest = budget;
    place.n_hashes = 3;
    return d;
}

/* ---- A life */

#define APPENDS_MAX 65536

struct life {
    struct test *t;
    struct sim_fs *sim;
    struct fixture f;
    unsigned n_appends;
    bool is_acknowledged[APPENDS_MAX];
    uint8_t n_found[APPENDS_MAX];
};

static void reopen(struct life *x)
{
    fixture_crash(&x->f);
    sim_fs_restart(x->sim);
    int r = kept_open(&x->f, x->sim, false);
    CHECK_INT(x->t, r, 0);
    if (r < 0) {
        printf("# could not open it again: %s\n", x->f.err.text);
        exit(1);
    }
}

/* Does something again and again, until nothing in it is refused that was not before. */
static void attempt(struct life *x, const char *what, void (*prepare)(struct life *x),
                    int (*op)(struct life *x))
{
    unsigned before = place.n_refused, n = 0;

    for (bool again = true; again && x->t->failures < 5; n++) {
        if (prepare)
            prepare(x);
        x->f.err.text[0] = '\0';
        place.has_refused = false;
        place.is_watching = true;
        int r = op(x);
        place.is_watching = false;
        again = place.has_refused;
        CHECK(x->t, again ? r >= 0 || x->f.err.text[0] != '\0' : r >= 0);
        if (!again && r < 0)
            printf("# %s: %s\n", what, x->f.err.text);
        if (again && r < 0 && x->f.err.text[0] == '\0')
            printf("# %s: %d without a text\n", what, r);
        if (x->f.store && !x->f.options.read_only && local_of(x->f.store)->is_dead)
            reopen(x);
    }
    printf("# %s: %u places in %u tries\n", what, place.n_refused - before, n);
}

static int64_t start_of(unsigned i)
{
    return NOW_NS - 20 * HOUR_NS + (int64_t)i * 7 * SEC_NS;
}

/* A profile with all that one can have, of a series and names of its own now and then. */
static struct profile *make_full(struct life *x, unsigned i)
{
    struct profile *p = make_profile(x->f.source, start_of(i), i % 5, 3);
    struct dict *d = p->dict;
    char text[32];

    snprintf(text, sizeof(text), "own%u", i / 3);
    struct mapping m = {.start = 4096,
                        .limit = 8192,
                        .file = dict_cstring(d, text),
                        .build_id = dict_cstring(d, text)};
    uint32_t mapping = dict_mapping(d, m);
    struct function fn = {.name = dict_cstring(d, text), .file = dict_cstring(d, "o.c")};
    struct line line = {.function = dict_function(d, fn), .line = i};
    uint32_t at =
        dict_location(d, (struct location){.address = 4096 + i % 64, .mapping = mapping}, &line, 1);
    uint32_t attr = dict_string_attribute(d, dict_cstring(d, "thread.name"),
                                          dict_cstring(d, i % 2 ? "t" : text));
    profile_add(p, &(struct sample){.node = dict_node(d, 0, at),
                                    .attrs = dict_attrs(d, &attr, 1),
                                    .link = dict_link(d, (struct link){{7}, {(uint8_t)i}}),
                                    .time_ns = (uint64_t)start_of(i) + 5,
                                    .values = (int64_t[]){3}});
    return p;
}

static int append(struct life *x)
{
    bool is_watching = place.is_watching;
    unsigned i = x->n_appends++;
    char pod[32], service[32];

    place.is_watching = false;
    snprintf(pod, sizeof(pod), "pod%u", i % 64);
    snprintf(service, sizeof(service), "svc%u", i % 128 / 32);
    struct label labels[] = {test_label("pod", i % 4 ? "a" : pod),
                             test_label(LABEL_SERVICE, i % 4 ? "checkout" : service)};
    struct store_incoming in = {.profile = make_full(x, i),
                                .labels = labels,
                                .n_labels = 2,
                                .is_instant = i % 8 == 3,
                                .has_id = i % 3 == 0};
    struct store_outcome outcome = {0};
    memcpy(in.id, &i, sizeof(i));
    place.is_watching = is_watching;
    int r = store_append(x->f.source, bytes_of(i % 16 == 9 ? "other" : "default"), &in, 1, &outcome,
                         &x->f.err);
    place.is_watching = false;
    x->is_acknowledged[i] = r == 0 && outcome.verdict == STORE_STORED;
    if (r == 0 && outcome.verdict == STORE_REJECTED)
        r = error_set(&x->f.err, -ENOBUFS, "%s", outcome.why.text);
    store_source_reset(x->f.source);
    return r;
}

static void fill(struct life *x)
{
    for (unsigned i = 0; i < 4; i++)
        (void)append(x);
}

static void add_spans(struct life *x, unsigned n)
{
    kept_spans(x->t, &x->f, start_of(x->n_appends++), n);
}

static int append_span(struct life *x)
{
    struct label route = test_label("http.route", "/pay");
    struct store_span s = {.service = bytes_of("checkout"),
                           .name = bytes_of("pay"),
                           .trace_id = {9},
                           .span_id = {8},
                           .parent_id = {1},
                           .start_ns = start_of(x->n_appends++),
                           .attributes = &route,
                           .n_attributes = 1};

    return store_append_spans(x->f.store, bytes_of("default"), &s, 1, &x->f.err);
}

static void fill_both(struct life *x)
{
    fill(x);
    add_spans(x, 2);
}

static void fill_files(struct life *x)
{
    for (unsigned i = 0; i < 2; i++) {
        fill_both(x);
        kept_upkeep(x->t, &x->f, UPKEEP_FLUSH);
    }
}

static int upkeep(struct life *x, enum store_upkeep what)
{
    int r = 1;

    while (r > 0)
        r = store_upkeep(x->f.store, what, &x->f.err);
    return r;
}

static int flush(struct life *x)
{
    return upkeep(x, UPKEEP_FLUSH);
}

static int settle(struct life *x)
{
    return upkeep(x, UPKEEP_SETTLE);
}

static int expire(struct life *x)
{
    return upkeep(x, UPKEEP_EXPIRE);
}

static void close_it(struct life *x)
{
    fixture_crash(&x->f);
}

static int open_it(struct life *x)
{
    return kept_open(&x->f, x->sim, false);
}

static int open_to_read(struct life *x)
{
    struct fixture beside;

    kept_init(&beside);
    int r = kept_open(&beside, x->sim, true);
    x->f.err = beside.err;
    fixture_close(&beside);
    return r;
}

static int make_source(struct life *x)
{
    CLEANUP(store_source_freep) struct store_source *s = NULL;

    return store_source_new(x->f.store, 0, &s, &x->f.err);
}

static int ask(struct life *x)
{
    return ask_all(&x->f);
}

static int erase(struct life *x)
{
    CLEANUP(selector_freep) struct selector *s = NULL;
    int r = selector_parse(bytes_of("{pod=\"none\"}"), &s, &x->f.err);

    return r < 0 ? r
                 : store_erase(x->f.store,
                               &(struct store_scope){bytes_of("default"), s, start_of(0), NOW_NS},
                               &x->f.err);
}

static int set_policy(struct life *x)
{
    struct store_policy policy = {.max_age_ns = 29 * 24 * HOUR_NS};

    return store_set_policy(x->f.store, bytes_of("default"), &policy, &x->f.err);
}

static int verify(struct life *x)
{
    struct findings found;

    return kept_verify(&x->f, &found);
}

static int back_up(struct life *x)
{
    CLEANUP(sim_fs_freep) struct sim_fs *copy = sim_fs_new(5);

    return backup_copy(sim_fs_fs(x->sim), &x->f.clock.clock, sim_fs_fs(copy), &x->f.err);
}

static int repair(struct life *x)
{
    struct findings found = {0};

    return local_repair(sim_fs_fs(x->sim), note_finding, &found, &x->f.err);
}

static void lose_manifest(struct life *x)
{
    (void)fs_unlink(sim_fs_fs(x->sim), "MANIFEST", NULL);
    (void)fs_unlink(sim_fs_fs(x->sim), "MANIFEST.old", NULL);
}

/* ---- What is left of it */

static int note_profile(void *ctx, const struct store_found *found)
{
    struct life *x = ctx;
    int64_t i = (found->start_ns - start_of(0)) / (7 * SEC_NS);

    if (i >= 0 && i < APPENDS_MAX)
        x->n_found[i]++;
    return 0;
}

static void look(struct life *x)
{
    unsigned n_wrong = 0;

    memset(x->n_found, 0, sizeof(x->n_found));
    for (unsigned i = 0; i < 2; i++) {
        struct store_find find = {
            .tenant = bytes_of(i ? "other" : "default"), .to_ns = INT64_MAX, .with_samples = true};
        CHECK_INT(x->t, store_profiles(x->f.store, &find, note_profile, x, &x->f.err), 0);
    }
    for (unsigned i = 0; i < x->n_appends; i++) {
        if ((x->n_found[i] != 1 && x->is_acknowledged[i]) || x->n_found[i] > 1) {
            if (n_wrong++ < 5)
                printf("# profile %u of %u was found %u times, acknowledged: %d\n", i, x->n_appends,
                       x->n_found[i], x->is_acknowledged[i]);
        }
    }
    CHECK_INT(x->t, n_wrong, 0);
}

static void each_place_may_be_refused_memory(struct test *t)
{
    CLEANUP(freep) struct life *x = __real_calloc(1, sizeof(*x));
    struct findings found;

    x->t = t;
    x->sim = sim_fs_new(1);
    kept_init(&x->f);
    attempt(x, "making a store", close_it, open_it);
    attempt(x, "making a source", NULL, make_source);
    attempt(x, "appending", NULL, append);
    attempt(x, "appending spans", NULL, append_span);
    attempt(x, "appending more", fill, append);
    attempt(x, "erasing", NULL, erase);
    attempt(x, "setting a policy", NULL, set_policy);
    attempt(x, "asking memory", NULL, ask);
    attempt(x, "flushing", fill_both, flush);
    attempt(x, "opening to read", NULL, open_to_read);
    reopen(x);
    fill_both(x);
    attempt(x, "recovering", close_it, open_it);
    attempt(x, "compacting", fill_files, settle);
    attempt(x, "expiring", NULL, expire);
    fill_files(x);
    fill_both(x);
    attempt(x, "asking", reopen, ask);
    look(x);
    attempt(x, "verifying", NULL, verify);
    attempt(x, "backing up", NULL, back_up);
    close_it(x);
    attempt(x, "repairing", NULL, repair);
    attempt(x, "repairing without a manifest", lose_manifest, repair);
    reopen(x);
    look(x);
    CHECK_INT(t, kept_verify(&x->f, &found), 0);
    CHECK_STR(t, found.text, "");
    CHECK(t, place.n_refused > 300);
    fixture_close(&x->f);
    sim_fs_free(x->sim);
}

/* What can be saved of a file that is damaged in its middle. */
static void saving_may_be_refused_memory(struct test *t)
{
    struct findings found;
    struct fixture f;
    struct names all = {.n = 1};

    for (size_t i = 0; i < all.n && t->failures < 5; i++) {
        for (bool again = true; again;) {
            CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(2);
            make_small(t, &f, sim);
            list_files(sim, &all);
            flip(sim, all.files[i].path, all.files[i].size / 2, 0xff);
            found = (struct findings){0};
            f.err.text[0] = '\0';
            place.has_refused = false;
            place.is_watching = true;
            int r = local_repair(sim_fs_fs(sim), note_finding, &found, &f.err);
            place.is_watching = false;
            again = place.has_refused;
            CHECK(t, again ? r >= 0 || f.err.text[0] != '\0' : r == 0);
        }
    }
}

static const struct test_case cases[] = {TEST(each_place_may_be_refused_memory),
                                         TEST(saving_may_be_refused_memory)};
TEST_MAIN(cases)
