#pragma once

#include <errno.h>
#include <stdatomic.h>

#include "base/fs.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "store_local/epoch.h"
#include "store_local/local.h"
#include "store_local/local_internal.h"
#include "store_local/memtable.h"

/*
 * A store in a directory of its own, over a file system that counts and can be told to fail, with a
 * clock that stands still until it is moved.
 */
#define NOW_NS ((int64_t)1700000000 * 1000000000)
#define SEC_NS ((int64_t)1000000000)

struct test_fs {
    struct fs fs;
    struct fs *under;
    atomic_uint n_syncs, n_writes;
    atomic_int fail_read, fail_write, fail_sync, fail_truncate; /* errno; 0: none */
    atomic_bool torn;                /* a failing write leaves half of it behind */
    atomic_int other_fails;          /* after this many syncs, another's fails */
    atomic_bool is_slow;             /* syncs take a millisecond */
    atomic_uint_fast64_t free_bytes; /* 0: as it is */
};

struct test_file {
    struct fs_file file;
    struct fs_file *under;
};

static inline struct test_fs *test_fs_of(struct fs *fs)
{
    return (struct test_fs *)fs;
}

static inline struct fs_file *test_under(struct fs_file *file)
{
    return ((struct test_file *)file)->under;
}

static int test_fs_open(struct fs *fs, const char *path, unsigned flags, struct fs_file **ret,
                        struct error *err)
{
    struct fs_file *under;
    int r = fs_open(test_fs_of(fs)->under, path, flags, &under, err);
    if (r < 0)
        return r;
    struct test_file *f = calloc(1, sizeof(*f));
    f->file.fs = fs;
    f->under = under;
    *ret = &f->file;
    return 0;
}

static void test_fs_close(struct fs_file *file)
{
    fs_close(test_under(file));
    free(file);
}

static ssize_t test_fs_pread(struct fs_file *file, void *to, size_t n, uint64_t offset,
                             struct error *err)
{
    struct test_fs *t = test_fs_of(file->fs);
    if (t->fail_read)
        return error_set(err, -t->fail_read, "could not read: made to fail");
    return fs_pread(test_under(file), to, n, offset, err);
}

static int test_fs_pwrite(struct fs_file *file, const void *from, size_t n, uint64_t offset,
                          struct error *err)
{
    struct test_fs *t = test_fs_of(file->fs);
    t->n_writes++;
    if (t->fail_write) {
        if (t->torn)
            (void)fs_pwrite(test_under(file), from, n / 2, offset, NULL);
        return error_set(err, -t->fail_write, "could not write: made to fail");
    }
    return fs_pwrite(test_under(file), from, n, offset, err);
}

/* Ours went well, but another thread was told that its own did not. */
static int test_fs_count_down(struct test_fs *t, int r)
{
    if (t->other_fails > 0 && --t->other_fails == 0)
        t->fs.is_in_doubt = true;
    return r;
}

static int test_fs_sync(struct fs_file *file, struct error *err)
{
    struct test_fs *t = test_fs_of(file->fs);
    t->n_syncs++;
    if (t->is_slow)
        usleep(1000);
    if (t->fail_sync)
        return error_set(err, -t->fail_sync, "could not sync: made to fail");
    return test_fs_count_down(t, fs_sync(test_under(file), err));
}

static int test_fs_truncate(struct fs_file *file, uint64_t size, struct error *err)
{
    struct test_fs *t = test_fs_of(file->fs);
    if (t->fail_truncate)
        return error_set(err, -t->fail_truncate, "could not truncate: made to fail");
    return fs_truncate(test_under(file), size, err);
}

static int test_fs_size(struct fs_file *file, uint64_t *ret, struct error *err)
{
    return fs_size(test_under(file), ret, err);
}

static int test_fs_lock(struct fs_file *file, struct error *err)
{
    return fs_lock(test_under(file), err);
}

static int test_fs_rename(struct fs *fs, const char *from, const char *to, struct error *err)
{
    return fs_rename(test_fs_of(fs)->under, from, to, err);
}

static int test_fs_unlink(struct fs *fs, const char *path, struct error *err)
{
    return fs_unlink(test_fs_of(fs)->under, path, err);
}

static int test_fs_mkdir(struct fs *fs, const char *path, struct error *err)
{
    return fs_mkdir(test_fs_of(fs)->under, path, err);
}

static int test_fs_link(struct fs *fs, const char *from, const char *to, struct error *err)
{
    return fs_link(test_fs_of(fs)->under, from, to, err);
}

static int test_fs_sync_dir(struct fs *fs, const char *dir, struct error *err)
{
    return test_fs_count_down(test_fs_of(fs), fs_sync_dir(test_fs_of(fs)->under, dir, err));
}

static int test_fs_list(struct fs *fs, const char *dir, fs_list_fn each, void *arg,
                        struct error *err)
{
    return fs_list(test_fs_of(fs)->under, dir, each, arg, err);
}

static int test_fs_path_size(struct fs *fs, const char *path, uint64_t *ret, struct error *err)
{
    return fs_path_size(test_fs_of(fs)->under, path, ret, err);
}

static int test_fs_space(struct fs *fs, uint64_t *ret_free, uint64_t *ret_total, struct error *err)
{
    int r = fs_space(test_fs_of(fs)->under, ret_free, ret_total, err);
    if (test_fs_of(fs)->free_bytes)
        *ret_free = test_fs_of(fs)->free_bytes;
    return r;
}

static void test_fs_free(struct fs *fs)
{
    fs_free(test_fs_of(fs)->under);
    free(fs);
}

static const struct fs_ops test_fs_ops = {
    .open = test_fs_open,
    .close = test_fs_close,
    .pread = test_fs_pread,
    .pwrite = test_fs_pwrite,
    .sync = test_fs_sync,
    .truncate = test_fs_truncate,
    .size = test_fs_size,
    .lock = test_fs_lock,
    .rename = test_fs_rename,
    .unlink = test_fs_unlink,
    .mkdir = test_fs_mkdir,
    .link = test_fs_link,
    .sync_dir = test_fs_sync_dir,
    .list = test_fs_list,
    .path_size = test_fs_path_size,
    .space = test_fs_space,
    .free = test_fs_free,
};

struct test_clock {
    struct clock clock;
    atomic_int_fast64_t wall_ns, monotonic_ns;
};

static int64_t test_clock_wall(const struct clock *c)
{
    return ((const struct test_clock *)c)->wall_ns;
}

static int64_t test_clock_monotonic(const struct clock *c)
{
    return ((const struct test_clock *)c)->monotonic_ns;
}

struct fixture {
    struct scratch dir;
    struct fs *disk; /* in place of the directory; NULL: none */
    struct test_fs *fs;
    struct test_clock clock;
    struct local_options options;
    struct store *store;
    struct store_source *source;
    int fail_next_write; /* errno with which writes fail from the next open on */
    char log[8192];
    struct error err;
};

static void fixture_log(void *ctx, const char *text)
{
    struct fixture *f = ctx;
    size_t n = strlen(f->log);
    snprintf(f->log + n, sizeof(f->log) - n, "%s\n", text);
}

/* Opens the store in the directory; the result, with f->err. */
static int fixture_open(struct fixture *f)
{
    f->log[0] = '\0';
    f->store = NULL;
    f->source = NULL;
    f->fs = calloc(1, sizeof(*f->fs));
    f->fs->fs.ops = &test_fs_ops;
    f->fs->fail_write = f->fail_next_write;
    f->fail_next_write = 0;
    f->fs->under = f->disk;
    if (!f->disk && fs_real_new(f->dir.path, &f->fs->under, &f->err) < 0)
        return -EIO;
    f->options.fs = &f->fs->fs;
    int r = local_open(&f->options, &f->store, &f->err);
    if (r == 0)
        r = store_source_new(f->store, 0, &f->source, &f->err);
    return r;
}

static inline void fixture_init(struct test *t, struct fixture *f)
{
    *f = (struct fixture){.clock = {.clock = {test_clock_wall, test_clock_monotonic},
                                    .wall_ns = NOW_NS,
                                    .monotonic_ns = SEC_NS}};
    scratch_init(&f->dir);
    f->options = (struct local_options){.clock = &f->clock.clock,
                                        .threads = 1,
                                        .seed = 1,
                                        .disk_reserve = 1,
                                        .log = fixture_log,
                                        .log_ctx = f};
    int r = fixture_open(f);
    CHECK_INT(t, r, 0);
    if (r < 0)
        printf("# %s\n", f->err.text);
}

static inline void fixture_close(struct fixture *f)
{
    store_source_free(f->source);
    store_close(f->store);
    f->source = NULL;
    f->store = NULL;
}

/* The process is gone: nothing is flushed. */
static inline void fixture_crash(struct fixture *f)
{
    if (f->store)
        local_of(f->store)->is_dead = true;
    fixture_close(f);
}

static inline void fixture_reopen(struct test *t, struct fixture *f)
{
    fixture_crash(f);
    CHECK_INT(t, fixture_open(f), 0);
}

static inline void fixture_done(struct fixture *f)
{
    fixture_close(f);
    scratch_done(&f->dir);
}

/* A profile of n stacks main;work;step<i>, i from `first`, with the value 10 + i. */
static inline struct profile *make_profile(struct store_source *source, int64_t start_ns,
                                           unsigned first, unsigned n)
{
    struct profile *p = profile_set_add(source->set);
    struct dict *d = p->dict;
    char name[32];

    profile_add_ctype(p, "cpu", "nanoseconds");
    p->period_type = (struct value_type){dict_cstring(d, "cpu"), dict_cstring(d, "nanoseconds")};
    p->time_unix_ns = start_ns;
    p->duration_ns = 10 * SEC_NS;
    p->period = 10000000;
    uint32_t root = dict_frame(d, 0, (struct function){.name = dict_cstring(d, "main")}, 1, 0, 0);
    uint32_t work =
        dict_frame(d, root, (struct function){.name = dict_cstring(d, "work")}, 2, 0, 0);
    for (unsigned i = first; i < first + n; i++) {
        snprintf(name, sizeof(name), "step%u", i);
        struct function f = {.name = dict_cstring(d, name), .file = dict_cstring(d, "w.c")};
        profile_add_value(p, dict_frame(d, work, f, i, 0, 0), 10 + i);
    }
    return p;
}

static inline struct label test_label(const char *name, const char *value)
{
    return (struct label){bytes_of(name), bytes_of(value)};
}

/* Appends one profile of a pod; the result of the call, or the verdict when it is 0. */
static inline int append_profile(struct fixture *f, const struct profile *p, const char *pod,
                                 const uint8_t *id, struct store_outcome *ret)
{
    struct label labels[] = {test_label("pod", pod), test_label(LABEL_SERVICE, "checkout")};
    struct store_incoming in = {.profile = p, .labels = labels, .n_labels = 2};

    if (id) {
        in.has_id = true;
        memcpy(in.id, id, 16);
    }
    return store_append(f->source, bytes_of("default"), &in, 1, ret, &f->err);
}

#define CHECK_APPEND(t, f, profile, pod, id, want)                                                 \
    do {                                                                                           \
        struct store_outcome outcome_ = {0};                                                       \
        int r_ = append_profile((f), (profile), (pod), (id), &outcome_);                           \
        CHECK_INT(t, r_, 0);                                                                       \
        if (r_ < 0)                                                                                \
            printf("# %s\n", (f)->err.text);                                                       \
        CHECK_INT(t, outcome_.verdict, want);                                                      \
        if (outcome_.verdict == STORE_REJECTED && (want) != STORE_REJECTED)                        \
            printf("# %s\n", outcome_.why.text);                                                   \
    } while (0)

static inline uint64_t stored_profiles(struct fixture *f)
{
    struct store_stat stat;
    store_stat(f->store, &stat);
    return stat.profiles;
}

/* All profiles and the total of their first type, as found by asking. */
struct everything {
    uint64_t n, n_samples;
    int64_t total, sample_total;
};

static int count_found(void *ctx, const struct store_found *found)
{
    struct everything *e = ctx;
    e->n++;
    e->total += found->totals[0];
    if (found->profile) {
        e->n_samples += found->profile->n_samples;
        e->sample_total += profile_total(found->profile, 0);
    }
    return 0;
}

static inline struct everything find_everything(struct test *t, struct fixture *f)
{
    struct everything e = {0};
    struct store_find find = {
        .tenant = bytes_of("default"), .from_ns = 0, .to_ns = INT64_MAX, .with_samples = true};
    int r = store_profiles(f->store, &find, count_found, &e, &f->err);
    CHECK_INT(t, r, 0);
    if (r < 0)
        printf("# %s\n", f->err.text);
    return e;
}
