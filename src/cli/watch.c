#include "cli/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/vec.h"
#include "cli/beside.h"
#include "cli/terminal.h"
#include "cli/watch_state.h"

#define SETTLE_NS  ((int64_t)300 * 1000000) /* for a sidecar that comes a little later */
#define LEASELESS  ((int64_t)2000 * 1000000)
#define SOON_MS    300
#define RESCAN_MS  10000 /* where nothing tells of new files, and in case it was missed */
#define TROUBLE_MS 10000
#define NAMES_MAX  1000 /* of one name in the folder of what is done */

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

struct found {
    char *name;
    struct watch_mark mark;
};

struct watch {
    struct pusher *p;
    const char *folder;
    int dir, done, inotify;
    struct watch_state *state;
    struct budget budget;
    VEC(struct found) found;
    bool is_told; /* of what keeps files from being taken */
};

static void tell(const struct watch *w, const char *name, const char *text)
{
    CLEANUP(buf_done) struct buf line = {0};

    buf_addf(&line, "vesta: %s%s%s\n", name ? name : "", name ? ": " : "", text);
    if (!w->p->o->quiet)
        terminal_say(buf_bytes(&line));
}

static bool ends_with(const char *name, const char *ending)
{
    size_t len = strlen(name), n = strlen(ending);
    return len >= n && strcmp(name + len - n, ending) == 0;
}

/* Whether the first len bytes of the name are a file of the folder. */
static bool has_file(const struct watch *w, const char *name, size_t len)
{
    char other[NAME_MAX + 1];
    struct stat st;

    snprintf(other, sizeof(other), "%.*s", (int)len, name);
    return fstatat(w->dir, other, &st, 0) == 0 && S_ISREG(st.st_mode);
}

/* A sidecar whose file is there, or will be: it says what only sidecars say. */
static bool is_sidecar(const struct watch *w, const char *name)
{
    char file[NAME_MAX + 1];
    CLEANUP(sidecar_done) struct sidecar s = {0};
    size_t len = strlen(name);

    if (!ends_with(name, ".json"))
        return false;
    snprintf(file, sizeof(file), "%.*s", (int)len - 5, name);
    return has_file(w, name, len - 5) || sidecar_read(w->dir, file, 0, &s, NULL) == 0;
}

static bool is_to_push(const struct watch *w, const char *name, const struct stat *st)
{
    size_t len;

    return name[0] != '.' && !ends_with(name, "~") && !ends_with(name, ".tmp") &&
           !ends_with(name, ".part") && S_ISREG(st->st_mode) && st->st_size > 0 &&
           !(beside_is_one(name, &len) && has_file(w, name, len)) && !is_sidecar(w, name);
}

static int64_t ns_of(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* Whether nobody writes to it any more. A lease for reading is given only then; where there are no
 * leases, a file that has not changed for a while is taken to be complete. */
static bool is_complete(const struct watch *w, const char *name, const struct stat *st)
{
    int64_t now = clock_wall_ns(clock_real()), age = now - ns_of(&st->st_ctim);

    if (age >= 0 && age < SETTLE_NS)
        return false;
    CLEANUP(closep) int fd = openat(w->dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return true; /* pushing will say why */
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
        (void)fcntl(fd, F_SETLEASE, F_UNLCK);
        return true;
    }
    age = now - ns_of(&st->st_mtim);
    return errno != EAGAIN && !(age >= 0 && age < LEASELESS);
}

static int by_time(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    if (x->mark.mtime_ns != y->mark.mtime_ns)
        return x->mark.mtime_ns < y->mark.mtime_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void forget(struct watch *w)
{
    for (size_t i = 0; i < w->found.len; i++)
        free(w->found.data[i].name);
    vec_clear(&w->found);
}

/* Finds what is to be pushed, oldest first. *ret_more: some are not complete yet. */
static int look(struct watch *w, bool *ret_more, struct error *err)
{
    int fd = openat(w->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    if (!d)
        return error_set(err, -errno, "could not read \"%s\": %m", w->folder);
    forget(w);
    *ret_more = false;
    for (struct dirent *e; (e = readdir(d)) && !stop;) {
        struct stat st;
        if (fstatat(w->dir, e->d_name, &st, 0) < 0)
            continue;
        struct found f = {.mark = {.size = (uint64_t)st.st_size, .mtime_ns = ns_of(&st.st_mtim)}};
        if (watch_state_has(w->state, e->d_name, &f.mark) || !is_to_push(w, e->d_name, &st))
            continue;
        if (!is_complete(w, e->d_name, &st)) {
            *ret_more = true;
            continue;
        }
        f.name = must_copy(bytes_of(e->d_name));
        if (!vec_push(&w->budget, &w->found, f)) { /* the rest comes with the next look */
            free(f.name);
            *ret_more = true;
            break;
        }
    }
    closedir(d);
    if (w->found.len > 0)
        qsort(w->found.data, w->found.len, sizeof(struct found), by_time);
    return 0;
}

/* Moves one file to the folder of what is done, under another name where there is one. */
static int move_one(const struct watch *w, const char *name)
{
    char to[NAME_MAX + 16];

    for (int i = 0; i < NAMES_MAX; i++) {
        snprintf(to, sizeof(to), i > 0 ? "%s.%d" : "%s", name, i);
        if (renameat2(w->dir, name, w->done, to, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

/* Whether the file itself is there now. */
static bool move_done(struct watch *w, const char *name)
{
    bool is_moved = false;
    static const char *const endings[] = {"", ".json", ".svg", ".speedscope.json"};

    for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
        char one[NAME_MAX + 32];
        snprintf(one, sizeof(one), "%s%s", name, endings[i]);
        int r = move_one(w, one);
        is_moved = is_moved || (r == 0 && i == 0);
        if (r == 0 || (r == -ENOENT && i > 0))
            continue;
        CLEANUP(buf_done) struct buf text = {0};
        errno = -r;
        buf_addf(&text, "could not be moved to \"%s\": %m", w->p->o->done_dir);
        tell(w, one, buf_cstr(&text));
    }
    return is_moved;
}

static int push_one(struct watch *w, const struct found *f, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};
    struct watch_mark mark = f->mark;
    size_t before = w->p->stored;

    int r = push_file(w->p, w->dir, f->name, err);
    if (r < 0)
        return r;
    mark.is_ok = r > 0;
    if (mark.is_ok) {
        tell(w, f->name, w->p->stored > before ? "stored" : "was there already");
        buf_addf(&path, "%s/%s", w->folder, f->name);
        beside_write(w->p->o, buf_cstr(&path));
    }
    if (!mark.is_ok || w->done < 0 || !move_done(w, f->name))
        watch_state_add(w->state, f->name, &mark);
    return 0;
}

/* What the server has against us may be mended while we wait: a token, its certificate, its disk.
 */
static int push_all(struct watch *w, bool *ret_more, struct error *err)
{
    for (size_t i = 0; i < w->found.len && !stop; i++) {
        struct error why = {""};
        int r = push_one(w, &w->found.data[i], &why);
        if (r == -EINVAL || r == -ENOMEM)
            return *err = why, r;
        if (r < 0) {
            if (!w->is_told && r != -ECANCELED)
                tell(w, NULL, why.text);
            w->is_told = true;
            *ret_more = true;
            return 1;
        }
        w->is_told = false;
    }
    return 0;
}

/* Until something happens in the folder, or for so long. */
static void rest(const struct watch *w, int ms)
{
    char events[4096];
    struct pollfd p = {.fd = w->inotify, .events = POLLIN};

    for (int left = ms; left > 0 && !stop; left -= 500) { /* a signal may come just before poll */
        int n = poll(&p, 1, left < 500 ? left : 500);
        if (n > 0) {
            while (read(w->inotify, events, sizeof(events)) > 0)
                ;
            return;
        }
    }
}

static int run(struct watch *w, struct error *err)
{
    while (!stop) {
        bool more = false;
        int r = look(w, &more, err);
        if (r == 0)
            r = push_all(w, &more, err);
        if (r < 0)
            return r;
        rest(w, r > 0 ? TROUBLE_MS : more ? SOON_MS : RESCAN_MS);
    }
    return -ECANCELED;
}

static int open_folder(const char *path, int *ret, struct error *err)
{
    *ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret < 0 ? error_set(err, -ENOTDIR, "could not open folder \"%s\": %m", path) : 0;
}

static void listen_to_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal}; /* without SA_RESTART: waits end */

    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGINT, &a, NULL);
    signal(SIGIO, SIG_IGN); /* somebody opens a file while its lease is tried */
}

static void watch_done(struct watch *w)
{
    forget(w);
    vec_done(&w->budget, &w->found);
    watch_state_close(w->state);
    closep(&w->dir);
    closep(&w->done);
    closep(&w->inotify);
}

int watch_folder(struct pusher *p, const char *folder, struct error *err)
{
    CLEANUP(watch_done)
    struct watch w = {.p = p, .folder = folder, .dir = -1, .done = -1, .inotify = -1};
    struct error trouble = {""};

    budget_init(&w.budget, (size_t)64 << 20);
    p->stop = &stop;
    p->retry_ns = INT64_MAX;
    listen_to_signals();
    int r = open_folder(folder, &w.dir, err);
    if (r == 0 && p->o->done_dir)
        r = open_folder(p->o->done_dir, &w.done, err);
    if (r < 0)
        return r;
    w.state = watch_state_open(w.dir, &trouble);
    if (trouble.text[0])
        tell(&w, folder, trouble.text);
    w.inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w.inotify < 0 ||
        inotify_add_watch(w.inotify, folder, IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR) < 0)
        tell(&w, folder, "cannot be told of new files; looking every 10 seconds");
    tell(&w, folder, "watching; SIGTERM ends it");
    return run(&w, err);
}
