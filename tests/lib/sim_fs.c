#include "lib/sim_fs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/random.h"
#include "lib/sim_disk.h"

#define SPACE_DEFAULT ((uint64_t)1 << 40)
#define SECTOR        512

enum { UP, CRASHED, KILLED };

struct sim_fs {
    struct fs fs;
    pthread_mutex_t lock;
    struct disk disk;
    struct random random;
    uint64_t space;
    uint64_t counts[SIM_OP_COUNT];
    struct sim_fault faults[SIM_FAULTS_MAX]; /* nth counted from the beginning */
    size_t n_faults;
    uint64_t n_struck;
    int state;
    uint64_t life; /* files opened before the last restart are dead */
    FILE *trace;
};

struct sim_file {
    struct fs_file file;
    struct disk_node *node;
    uint64_t life;
    bool is_writable;
    char path[];
};

/* One operation under way: what it is, and how it is to go wrong. */
struct step {
    struct sim_fs *sim;
    enum sim_op op;
    const char *path;
    uint64_t offset, n;     /* for the trace */
    struct sim_fault fault; /* error 0: none */
    bool is_refused;        /* fails before anything is done */
};

static const struct {
    const char *name; /* in "could not NAME" */
    bool is_change;
} kinds[SIM_OP_COUNT] = {
    [SIM_ANY] = {"do anything to", false},
    [SIM_CHANGE] = {"change", false},
    [SIM_OPEN] = {"open", false},
    [SIM_CREATE] = {"create", true},
    [SIM_READ] = {"read", false},
    [SIM_WRITE] = {"write", true},
    [SIM_SYNC] = {"sync", true},
    [SIM_TRUNCATE] = {"truncate", true},
    [SIM_SIZE] = {"get the size of", false},
    [SIM_LOCK] = {"lock", false},
    [SIM_RENAME] = {"rename", true},
    [SIM_UNLINK] = {"remove", true},
    [SIM_MKDIR] = {"make the directory", true},
    [SIM_LINK] = {"link", true},
    [SIM_SYNC_DIR] = {"sync the directory", true},
    [SIM_LIST] = {"list", false},
    [SIM_SPACE] = {"get the free space of", false},
};

const char *sim_op_name(enum sim_op op)
{
    return kinds[op].name;
}

static struct sim_fs *sim_of(struct fs *fs)
{
    return (struct sim_fs *)fs;
}

static struct sim_file *file_of(struct fs_file *file)
{
    return (struct sim_file *)file;
}

/* The fault that strikes this operation, taken off the list unless it lasts. */
static struct sim_fault take_fault(struct sim_fs *sim, enum sim_op op)
{
    for (size_t i = 0; i < sim->n_faults; i++) {
        struct sim_fault f = sim->faults[i];
        bool is_meant =
            f.op == op || f.op == SIM_ANY || (f.op == SIM_CHANGE && kinds[op].is_change);
        if (!is_meant || sim->counts[f.op] < f.nth)
            continue;
        if (!f.is_lasting)
            sim->faults[i] = sim->faults[--sim->n_faults];
        sim->n_struck++;
        return f;
    }
    return (struct sim_fault){0};
}

/* A fault that this operation cannot have is a plain failure. */
static enum sim_fault_what meaning(enum sim_fault_what what, enum sim_op op)
{
    bool is_sync = op == SIM_SYNC || op == SIM_SYNC_DIR;

    if (((what == SIM_SHORT || what == SIM_TORN) && op != SIM_WRITE) ||
        (what == SIM_LIE && !is_sync))
        return SIM_FAIL;
    return what;
}

static bool is_end(enum sim_fault_what what)
{
    return what == SIM_CRASH || what == SIM_KILL;
}

/* Counts the operation and finds what goes wrong with it. Takes the lock; step_end() lets go. */
static struct step step_begin(struct fs *fs, enum sim_op op, const char *path)
{
    struct sim_fs *sim = sim_of(fs);
    struct step s = {.sim = sim, .op = op, .path = path};

    pthread_mutex_lock(&sim->lock);
    if (sim->state != UP) {
        s.fault = (struct sim_fault){.error = EIO};
        s.is_refused = true;
        return s;
    }
    sim->counts[SIM_ANY]++;
    sim->counts[SIM_CHANGE] += kinds[op].is_change;
    sim->counts[op]++;
    s.fault = take_fault(sim, op);
    if (s.fault.error == 0)
        return s;
    s.fault.what = meaning(s.fault.what, op);
    s.is_refused =
        s.fault.what == SIM_FAIL || (is_end(s.fault.what) && random_below(&sim->random, 2) == 0);
    return s;
}

static struct step file_begin(struct fs_file *file, enum sim_op op)
{
    struct sim_file *f = file_of(file);
    struct step s = step_begin(file->fs, op, f->path);

    if (!s.is_refused && f->life != s.sim->life) {
        s.fault = (struct sim_fault){.error = EIO};
        s.is_refused = true;
    }
    return s;
}

static void trace(const struct step *s, int r)
{
    FILE *to = s->sim->trace;

    if (!to)
        return;
    fprintf(to, "%6ju %s %s", (uintmax_t)s->sim->counts[SIM_ANY], kinds[s->op].name, s->path);
    if (s->n > 0)
        fprintf(to, " %ju+%ju", (uintmax_t)s->offset, (uintmax_t)s->n);
    if (r < 0)
        fprintf(to, ": %s", strerror(-r));
    fprintf(to, "%s\n", s->sim->state == UP ? "" : " (down)");
}

/* Ends an operation whose outcome would have been r, and says so to the caller. */
static int step_end(struct step *s, int r, struct error *err)
{
    struct sim_fs *sim = s->sim;

    if (s->fault.error && sim->state == UP && is_end(s->fault.what))
        sim->state = s->fault.what == SIM_KILL ? KILLED : CRASHED;
    if (s->is_refused || sim->state != UP)
        r = sim->state != UP ? -EIO : -s->fault.error;
    trace(s, r);
    bool is_down = sim->state != UP;
    pthread_mutex_unlock(&sim->lock);
    if (r >= 0)
        return r;
    return error_set(err, r, "could not %s \"%s\": %s%s", kinds[s->op].name, s->path, strerror(-r),
                     is_down ? " (the machine is down)" : "");
}

/* What is at a path now: NULL and -ENOENT or -ENOTDIR when nothing is. */
static int find(struct sim_fs *sim, const char *path, struct disk_node **ret)
{
    struct disk_node *dir;
    struct disk_entry *e;
    const char *leaf;

    if (!fs_path_is_sound(path))
        return -EINVAL;
    int r = disk_find(&sim->disk, path, &dir, &leaf, &e);
    if (r < 0)
        return r;
    *ret = strcmp(path, ".") == 0 ? sim->disk.root : e ? e->now : NULL;
    return *ret ? 0 : -ENOENT;
}

static int find_or_create(struct sim_fs *sim, const char *path, unsigned flags,
                          struct disk_node **ret)
{
    struct disk_node *dir;
    struct disk_entry *e;
    const char *leaf;

    if (!fs_path_is_sound(path))
        return -EINVAL;
    int r = disk_find(&sim->disk, path, &dir, &leaf, &e);
    if (r < 0)
        return r;
    if (e && e->now) {
        if (flags & FS_EXCLUSIVE)
            return -EEXIST;
        *ret = e->now;
        return e->now->is_dir && flags & FS_WRITE ? -EISDIR : 0;
    }
    if (!(flags & FS_CREATE))
        return -ENOENT;
    disk_create(dir, leaf, false, ret);
    return 0;
}

static int sim_open(struct fs *fs, const char *path, unsigned flags, struct fs_file **ret,
                    struct error *err)
{
    struct step s = step_begin(fs, flags & FS_CREATE ? SIM_CREATE : SIM_OPEN, path);
    struct disk_node *node = NULL;
    struct sim_file *f = NULL;
    int r = s.is_refused ? 0 : find_or_create(s.sim, path, flags, &node);

    if (r == 0 && node) {
        f = must_calloc(1, sizeof(*f) + strlen(path) + 1);
        f->file.fs = fs;
        f->node = disk_node_hold(node);
        f->life = s.sim->life;
        f->is_writable = flags & FS_WRITE;
        strcpy(f->path, path);
    }
    r = step_end(&s, r, err);
    if (r < 0)
        fs_close(f ? &f->file : NULL);
    else
        *ret = &f->file;
    return r;
}

static void sim_close(struct fs_file *file)
{
    struct sim_file *f = file_of(file);
    struct sim_fs *sim = sim_of(file->fs);

    pthread_mutex_lock(&sim->lock);
    if (f->node->locked_by == f)
        f->node->locked_by = NULL;
    disk_node_release(f->node);
    pthread_mutex_unlock(&sim->lock);
    free(f);
}

static ssize_t sim_pread(struct fs_file *file, void *to, size_t n, uint64_t offset,
                         struct error *err)
{
    struct step s = file_begin(file, SIM_READ);
    const struct disk_node *node = file_of(file)->node;
    size_t got = 0;
    int r = 0;

    s.offset = offset;
    s.n = n;
    if (!s.is_refused) {
        r = node->is_dir ? -EISDIR : -node->read_error;
        if (r == 0 && offset < node->now.len)
            got = n < node->now.len - offset ? n : (size_t)(node->now.len - offset);
        if (got > 0)
            memcpy(to, node->now.data + offset, got);
    }
    r = step_end(&s, r, err);
    return r < 0 ? r : (ssize_t)got;
}

/* Puts down some whole sectors of a write. */
static void write_sieve(struct disk_node *node, struct random *random, const uint8_t *from,
                        size_t n, uint64_t offset)
{
    for (uint64_t at = offset, next, end = offset + n; at < end; at = next) {
        next = (at / SECTOR + 1) * SECTOR < end ? (at / SECTOR + 1) * SECTOR : end;
        if (random_below(random, 2) == 0)
            disk_write(node, from + (at - offset), (size_t)(next - at), at);
    }
}

/* How much of a write fits on the disk. */
static size_t that_fits(const struct sim_fs *sim, const struct disk_node *node, size_t n,
                        uint64_t offset)
{
    uint64_t left = sim->space > sim->disk.used ? sim->space - sim->disk.used : 0;
    uint64_t end = node->now.len + left;

    if (offset + n <= node->now.len || offset + n <= end)
        return n;
    return offset < end ? (size_t)(end - offset) : 0;
}

static int do_write(struct step *s, struct disk_node *node, const void *from, size_t n,
                    uint64_t offset)
{
    size_t fits = that_fits(s->sim, node, n, offset);
    struct random *random = &s->sim->random;

    if (s->fault.error && s->fault.what == SIM_SHORT) {
        size_t some = (size_t)random_below(random, n);
        disk_write(node, from, some < fits ? some : fits, offset);
        return -s->fault.error;
    }
    if (s->fault.error && s->fault.what == SIM_TORN) {
        write_sieve(node, random, from, fits, offset);
        return -s->fault.error;
    }
    disk_write(node, from, fits, offset);
    return fits < n ? -ENOSPC : 0;
}

static int sim_pwrite(struct fs_file *file, const void *from, size_t n, uint64_t offset,
                      struct error *err)
{
    struct step s = file_begin(file, SIM_WRITE);
    struct sim_file *f = file_of(file);
    int r = 0;

    s.offset = offset;
    s.n = n;
    if (!s.is_refused && !f->is_writable)
        r = -EBADF;
    else if (!s.is_refused && (offset > INT64_MAX || n > INT64_MAX - offset))
        r = -EFBIG;
    else if (!s.is_refused)
        r = do_write(&s, f->node, from, n, offset);
    return step_end(&s, r, err);
}

static int sim_sync(struct fs_file *file, struct error *err)
{
    struct step s = file_begin(file, SIM_SYNC);
    struct sim_file *f = file_of(file);

    if (s.fault.error && s.fault.what == SIM_FAIL && s.sim->state == UP && f->life == s.sim->life)
        disk_sync_failed(f->node, &s.sim->random);
    else if (!s.is_refused && !(s.fault.error && s.fault.what == SIM_LIE))
        disk_sync(f->node);
    return step_end(&s, 0, err);
}

static int sim_truncate(struct fs_file *file, uint64_t size, struct error *err)
{
    struct step s = file_begin(file, SIM_TRUNCATE);
    struct sim_file *f = file_of(file);
    int r = 0;

    if (!s.is_refused) {
        if (!f->is_writable)
            r = -EINVAL;
        else if (size > f->node->now.len && that_fits(s.sim, f->node, 1, size - 1) == 0)
            r = -ENOSPC;
        else
            disk_truncate(f->node, size);
    }
    return step_end(&s, r, err);
}

static int sim_size(struct fs_file *file, uint64_t *ret, struct error *err)
{
    struct step s = file_begin(file, SIM_SIZE);
    uint64_t size = file_of(file)->node->now.len;
    int r = step_end(&s, 0, err);

    if (r == 0)
        *ret = size;
    return r;
}

static int sim_lock(struct fs_file *file, struct error *err)
{
    struct step s = file_begin(file, SIM_LOCK);
    struct sim_file *f = file_of(file);
    struct disk_node *node = f->node;
    char holder[21] = "";
    int r = 0;

    if (!s.is_refused && !f->is_writable) {
        r = -EBADF;
    } else if (!s.is_refused && node->locked_by && node->locked_by != f) {
        r = -EBUSY;
        size_t n = node->now.len < sizeof(holder) - 1 ? node->now.len : sizeof(holder) - 1;
        memcpy(holder, n ? node->now.data : (const uint8_t *)"", n);
    } else if (!s.is_refused) {
        node->locked_by = f;
    }
    r = step_end(&s, r, err);
    if (r == -EBUSY && atol(holder) > 0)
        return error_set(err, r, "could not lock \"%s\": process %ld holds it", f->path,
                         atol(holder));
    return r;
}

static int do_rename(struct sim_fs *sim, const char *from, const char *to)
{
    struct disk_node *from_dir, *to_dir;
    struct disk_entry *from_entry, *to_entry;
    const char *leaf;
    size_t len = strlen(from);
    int r = disk_find(&sim->disk, from, &from_dir, &leaf, &from_entry);

    if (r == 0)
        r = disk_find(&sim->disk, to, &to_dir, &leaf, &to_entry);
    if (r < 0)
        return r;
    if (!from_entry || !from_entry->now)
        return -ENOENT;
    if (to_entry && to_entry->now == from_entry->now)
        return 0; /* two names of one file both stay, as they really do */
    if (strncmp(from, to, len) == 0 && to[len] == '/')
        return -EINVAL; /* into itself */
    if (to_entry && to_entry->now && to_entry->now->is_dir)
        return from_entry->now->is_dir ? -ENOTEMPTY : -EISDIR;
    if (to_entry && to_entry->now && from_entry->now->is_dir)
        return -ENOTDIR;
    disk_rename(from_dir, from_entry, to_dir, leaf);
    return 0;
}

static int sim_rename(struct fs *fs, const char *from, const char *to, struct error *err)
{
    struct step s = step_begin(fs, SIM_RENAME, from);
    int r = 0;

    if (!s.is_refused)
        r = fs_path_is_sound(from) && fs_path_is_sound(to) ? do_rename(s.sim, from, to) : -EINVAL;
    return step_end(&s, r, err);
}

static int do_unlink(struct sim_fs *sim, const char *path)
{
    struct disk_node *dir;
    struct disk_entry *e;
    const char *leaf;

    if (!fs_path_is_sound(path))
        return -EINVAL;
    int r = disk_find(&sim->disk, path, &dir, &leaf, &e);
    if (r < 0)
        return r;
    if (!e || !e->now)
        return -ENOENT;
    if (e->now->is_dir)
        return -EISDIR;
    disk_unlink(dir, e);
    return 0;
}

static int sim_unlink(struct fs *fs, const char *path, struct error *err)
{
    struct step s = step_begin(fs, SIM_UNLINK, path);
    int r = s.is_refused ? 0 : do_unlink(s.sim, path);

    return step_end(&s, r, err);
}

static int do_mkdir(struct sim_fs *sim, const char *path)
{
    struct disk_node *dir, *made;
    struct disk_entry *e;
    const char *leaf;

    if (!fs_path_is_sound(path))
        return -EINVAL;
    int r = disk_find(&sim->disk, path, &dir, &leaf, &e);
    if (r < 0 || strcmp(path, ".") == 0)
        return r;
    if (e && e->now)
        return e->now->is_dir ? 0 : -EEXIST;
    disk_create(dir, leaf, true, &made);
    return 0;
}

static int sim_mkdir(struct fs *fs, const char *path, struct error *err)
{
    struct step s = step_begin(fs, SIM_MKDIR, path);
    int r = s.is_refused ? 0 : do_mkdir(s.sim, path);

    return step_end(&s, r, err);
}

static int do_link(struct sim_fs *sim, const char *from, const char *to)
{
    struct disk_node *node, *dir;
    struct disk_entry *e;
    const char *leaf;
    int r = find(sim, from, &node);

    if (r == 0 && !fs_path_is_sound(to))
        r = -EINVAL;
    if (r == 0)
        r = disk_find(&sim->disk, to, &dir, &leaf, &e);
    if (r < 0)
        return r;
    if (e && e->now)
        return -EEXIST;
    if (node->is_dir)
        return -EPERM;
    disk_link(dir, leaf, node);
    return 0;
}

static int sim_link(struct fs *fs, const char *from, const char *to, struct error *err)
{
    struct step s = step_begin(fs, SIM_LINK, from);
    int r = s.is_refused ? 0 : do_link(s.sim, from, to);

    return step_end(&s, r, err);
}

static int sim_sync_dir(struct fs *fs, const char *dir, struct error *err)
{
    struct step s = step_begin(fs, SIM_SYNC_DIR, dir);
    struct disk_node *node;
    int r = s.is_refused ? 0 : find(s.sim, dir, &node);

    if (r == 0 && !s.is_refused && !node->is_dir)
        r = -ENOTDIR;
    if (r == 0 && !s.is_refused && !(s.fault.error && s.fault.what == SIM_LIE))
        disk_sync_dir(node);
    return step_end(&s, r, err);
}

static int sim_list(struct fs *fs, const char *dir, fs_list_fn each, void *arg, struct error *err)
{
    CLEANUP(fs_names_done) struct fs_names names = {0};
    struct step s = step_begin(fs, SIM_LIST, dir);
    struct disk_node *node;
    int r = s.is_refused ? 0 : find(s.sim, dir, &node);

    if (r == 0 && !s.is_refused && !node->is_dir)
        r = -ENOTDIR;
    for (size_t i = 0; r == 0 && !s.is_refused && i < node->n_slots; i++) {
        const struct disk_entry *e = node->slots[i];
        if (e && e->now)
            fs_names_add(&names, e->name, e->now->is_dir);
    }
    r = step_end(&s, r, err);
    return r < 0 ? r : fs_names_each(&names, each, arg);
}

static int sim_path_size(struct fs *fs, const char *path, uint64_t *ret, struct error *err)
{
    struct step s = step_begin(fs, SIM_SIZE, path);
    struct disk_node *node = NULL;
    int r = s.is_refused ? 0 : find(s.sim, path, &node);
    uint64_t size = r == 0 && node ? node->now.len : 0;

    r = step_end(&s, r, err);
    if (r == 0)
        *ret = size;
    return r;
}

static int sim_space(struct fs *fs, uint64_t *ret_free, uint64_t *ret_total, struct error *err)
{
    struct step s = step_begin(fs, SIM_SPACE, ".");
    uint64_t total = s.sim->space, used = s.sim->disk.used;
    int r = step_end(&s, 0, err);

    if (r < 0)
        return r;
    *ret_total = total;
    *ret_free = used < total ? total - used : 0;
    return 0;
}

static void sim_free(struct fs *fs)
{
    (void)fs;
}

static const struct fs_ops sim_ops = {
    .open = sim_open,
    .close = sim_close,
    .pread = sim_pread,
    .pwrite = sim_pwrite,
    .sync = sim_sync,
    .truncate = sim_truncate,
    .size = sim_size,
    .lock = sim_lock,
    .rename = sim_rename,
    .unlink = sim_unlink,
    .mkdir = sim_mkdir,
    .link = sim_link,
    .sync_dir = sim_sync_dir,
    .list = sim_list,
    .path_size = sim_path_size,
    .space = sim_space,
    .free = sim_free,
};

struct sim_fs *sim_fs_new(uint64_t seed)
{
    struct sim_fs *sim = must_calloc(1, sizeof(*sim));

    sim->fs.ops = &sim_ops;
    sim->space = SPACE_DEFAULT;
    pthread_mutex_init(&sim->lock, NULL);
    disk_init(&sim->disk);
    random_init(&sim->random, seed);
    return sim;
}

void sim_fs_free(struct sim_fs *sim)
{
    if (!sim)
        return;
    disk_done(&sim->disk);
    pthread_mutex_destroy(&sim->lock);
    free(sim);
}

struct fs *sim_fs_fs(struct sim_fs *sim)
{
    return &sim->fs;
}

uint64_t sim_fs_count(const struct sim_fs *sim, enum sim_op op)
{
    return sim->counts[op];
}

void sim_fs_fault(struct sim_fs *sim, struct sim_fault fault)
{
    if (sim->n_faults == SIM_FAULTS_MAX)
        abort();
    fault.nth += sim->counts[fault.op];
    if (fault.error == 0)
        fault.error = EIO;
    sim->faults[sim->n_faults++] = fault;
}

void sim_fs_clear_faults(struct sim_fs *sim)
{
    sim->n_faults = 0;
}

uint64_t sim_fs_struck(const struct sim_fs *sim)
{
    return sim->n_struck;
}

static void go_down(struct sim_fs *sim, int state)
{
    pthread_mutex_lock(&sim->lock);
    if (sim->state != CRASHED)
        sim->state = state;
    pthread_mutex_unlock(&sim->lock);
}

void sim_fs_crash(struct sim_fs *sim)
{
    go_down(sim, CRASHED);
}

void sim_fs_kill(struct sim_fs *sim)
{
    go_down(sim, KILLED);
}

bool sim_fs_is_down(struct sim_fs *sim)
{
    pthread_mutex_lock(&sim->lock);
    bool is_down = sim->state != UP;
    pthread_mutex_unlock(&sim->lock);
    return is_down;
}

void sim_fs_restart(struct sim_fs *sim)
{
    pthread_mutex_lock(&sim->lock);
    if (sim->state != KILLED)
        disk_crash(&sim->disk, &sim->random);
    for (struct disk_node *n = sim->disk.first; n; n = n->next)
        n->locked_by = NULL;
    sim->life++;
    sim->state = UP;
    if (sim->trace)
        fprintf(sim->trace, "%6ju restart\n", (uintmax_t)sim->counts[SIM_ANY]);
    pthread_mutex_unlock(&sim->lock);
}

void sim_fs_set_space(struct sim_fs *sim, uint64_t total_bytes)
{
    pthread_mutex_lock(&sim->lock);
    sim->space = total_bytes;
    pthread_mutex_unlock(&sim->lock);
}

bool sim_fs_flip(struct sim_fs *sim, const char *path, uint64_t bit)
{
    struct disk_node *node;

    if (find(sim, path, &node) < 0 || bit / 8 >= node->now.len)
        return false;
    disk_flip(node, bit);
    return true;
}

bool sim_fs_rot(struct sim_fs *sim, char *ret_path, size_t size, uint64_t *ret_bit)
{
    struct disk_node *node = disk_pick_file(&sim->disk, &sim->random, ret_path, size);

    if (!node)
        return false;
    *ret_bit = random_below(&sim->random, (uint64_t)node->durable.len * 8);
    disk_flip(node, *ret_bit);
    return true;
}

bool sim_fs_break(struct sim_fs *sim, const char *path, int error)
{
    struct disk_node *node;

    if (find(sim, path, &node) < 0)
        return false;
    node->read_error = error;
    return true;
}

void sim_fs_trace(struct sim_fs *sim, FILE *to)
{
    sim->trace = to;
}
