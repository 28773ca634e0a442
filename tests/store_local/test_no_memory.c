/*
 * One life of a store in which each allocation fails in turn, once and for ever, each in a process
 * of its own: it may go on with a clean error or end itself, but not crash, and what it had
 * acknowledged is there once when the store is opened again.
 *
 *     test_no_memory        a sample of the allocations
 *     test_no_memory full   all of them
 *     test_no_memory N      the one, in this process
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/scratch.h"
#include "lib/set_clock.h"
#include "lib/test.h"
#include "store_local/local.h"
#include "store_local/numbered.h"

#define PROFILES 24
#define SAMPLES  40

#define COULD_NOT_OPEN 10 /* how a child may end */

/* The linker puts these in the place of malloc and so on, in all but the C library. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static unsigned long n_asked, fails_at; /* 0: never */
static bool fails_for_ever;

static bool fails(void)
{
    n_asked++;
    if (fails_at == 0 || n_asked < fails_at || (n_asked > fails_at && !fails_for_ever))
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

static int open_store(const char *path, struct set_clock *clock, struct store **ret,
                      struct error *err)
{
    struct fs *fs;
    int r = fs_real_new(path, &fs, err);
    if (r < 0)
        return r;
    struct local_options options = {
        .fs = fs, .clock = &clock->clock, .threads = 1, .seed = 1, .disk_reserve = 1};
    return local_open(&options, ret, err);
}

static int64_t ask(struct store *store, struct error *err)
{
    CLEANUP(selector_freep) struct selector *cpu = NULL;
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new((size_t)16 << 20);
    int64_t sum = 0;

    if (selector_parse(bytes_of("cpu"), &cpu, err) < 0)
        return -1;
    struct store_plan plan = {.tenant = bytes_of("default"),
                              .selector = cpu,
                              .to_ns = INT64_MAX,
                              .what = PLAN_STACKS,
                              .threads = 1};
    if (store_aggregate(store, &plan, answer, err) < 0 || answer->is_incomplete)
        return -1;
    for (size_t i = 0; i < answer->cells.len; i++)
        sum += profile_total(answer->cells.data[i].profile, 0);
    return sum;
}

/* Tells through the pipe which profiles are safe; in between, all that a store does. */
static void live(const char *path, int pipe)
{
    struct set_clock clock;
    struct store_source *source = NULL;
    struct store *store = NULL;
    struct error err;

    set_clock_init(&clock, NUMBERED_FIRST_NS + (int64_t)3600 * 1000000000);
    clock.monotonic_ns = 1;
    for (uint32_t i = 0; i < PROFILES; i++) {
        struct store_outcome out;
        if (i % 8 == 0) { /* and again, and again */
            store_source_free(source);
            store_close(store);
            source = NULL;
            store = NULL;
            if (open_store(path, &clock, &store, &err) < 0 ||
                store_source_new(store, 0, &source, &err) < 0)
                _exit(COULD_NOT_OPEN);
        }
        if (numbered_append(source, i, &out, &err) == 0 && out.verdict != STORE_REJECTED &&
            write(pipe, &i, sizeof(i)) != (ssize_t)sizeof(i))
            _exit(11);
        set_clock_advance(&clock, (int64_t)1000000000);
        if (i % 4 == 3)
            (void)store_upkeep(store, i % 8 == 7 ? UPKEEP_SETTLE : UPKEEP_FLUSH, &err);
        if (i % 6 == 5)
            (void)ask(store, &err);
    }
    store_source_free(source);
    store_close(store);
}

struct seen {
    unsigned n[PROFILES];
    bool is_strange;
};

static int see(void *ctx, const struct store_found *f)
{
    struct seen *seen = ctx;
    int64_t number = numbered_of(f);

    if (number < 0 || number >= PROFILES)
        seen->is_strange = true;
    else
        seen->n[number]++;
    return 0;
}

/* True when it ended as it may, having told what it had stored. */
static bool live_in_child(const char *path, bool *acked)
{
    int ends[2], status;
    uint32_t number;

    fflush(stdout);
    if (pipe(ends) < 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        if (!freopen("/dev/null", "w", stderr))
            _exit(12);
        n_asked = 0;
        live(path, ends[1]);
        _exit(0);
    }
    fails_at = 0;
    close(ends[1]);
    while (read(ends[0], &number, sizeof(number)) == (ssize_t)sizeof(number))
        acked[number] = true;
    close(ends[0]);
    waitpid(child, &status, 0);
    bool is_fine = WIFSIGNALED(status)
                       ? WTERMSIG(status) == SIGABRT
                       : WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == COULD_NOT_OPEN;
    if (!is_fine)
        printf("# ended with status %#x\n", (unsigned)status);
    return is_fine;
}

static void check(struct test *t, const char *path, const bool *acked)
{
    struct store_find find = {
        .tenant = bytes_of("default"), .to_ns = INT64_MAX, .with_samples = true};
    struct seen seen = {{0}};
    struct set_clock clock;
    struct store *store;
    struct error err = {{0}};
    int64_t sum = 0;

    set_clock_init(&clock, NUMBERED_FIRST_NS + (int64_t)3600 * 1000000000);
    int r = open_store(path, &clock, &store, &err);
    CHECK_INT(t, r, 0);
    if (r < 0) {
        printf("# %s\n", err.text);
        return;
    }
    CHECK_INT(t, store_profiles(store, &find, see, &seen, &err), 0);
    CHECK(t, !seen.is_strange);
    for (uint32_t i = 0; i < PROFILES; i++) {
        CHECK(t, seen.n[i] == 1 || (seen.n[i] == 0 && !acked[i]));
        sum += seen.n[i] ? numbered_value(i) : 0;
    }
    CHECK_INT(t, ask(store, &err), sum);
    store_close(store);
}

static void fail_at(struct test *t, unsigned long nth, bool for_ever)
{
    bool acked[PROFILES] = {false};
    struct scratch dir;
    int before = t->failures;

    scratch_init(&dir);
    fails_at = nth;
    fails_for_ever = for_ever;
    CHECK(t, live_in_child(dir.path, acked));
    check(t, dir.path, acked);
    if (t->failures > before)
        printf("# allocation %lu failed%s\n", nth, for_ever ? ", and all after it" : "");
    scratch_done(&dir);
}

static unsigned long live_here(unsigned long nth)
{
    struct scratch dir;
    int nowhere[2];

    scratch_init(&dir);
    if (pipe(nowhere) < 0)
        return 0;
    n_asked = 0;
    fails_at = nth;
    live(dir.path, nowhere[1]);
    close(nowhere[0]);
    close(nowhere[1]);
    scratch_done(&dir);
    return n_asked;
}

int main(int argc, char **argv)
{
    bool is_full = argc > 1 && strcmp(argv[1], "full") == 0;
    struct test t = {.name = "nothing is lost when an allocation fails"};
    unsigned long n = live_here(argc > 1 ? strtoul(argv[1], NULL, 10) : 0);
    unsigned long step = is_full ? 1 : n / SAMPLES + 1;

    printf("1..1\n# %lu allocations\n", n);
    for (unsigned long i = 1; i <= n && t.failures < 5; i += step) {
        fail_at(&t, i, false);
        fail_at(&t, i, true);
    }
    printf("%s 1 - %s\n", t.failures ? "not ok" : "ok", t.name);
    return t.failures > 0;
}
