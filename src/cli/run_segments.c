#include "cli/run_segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "base/vec.h"
#include "inproc/inproc_profiles.h"
#include "net/http.h"

#define NAME_LEN_MAX   64
#define ATTRS_MAX      64
#define PROCESSES_MAX  4096                /* at a time */
#define ENTRIES_MAX    (2 * PROCESSES_MAX) /* of the folder, for one look */
#define READER_MEMORY  ((size_t)64 << 20)
#define HOST_NAME_MAX_ 256

/* Files of other users, which root's folder takes: as small as vesta-agent's limits. */
#define THEIRS_MAX         512 /* at a time */
#define ONE_USERS_MAX      256
#define THEIRS_NOT_READY   64 /* for one look */
#define THEIR_MEMORY       ((size_t)2 << 20)
#define THEIR_RECORDS      65536
#define THEIR_LIVE_KEYS    262144
#define THEIR_TEXTS_SIZE   ((uint64_t)16 << 20)
#define THEIR_MODULES_SIZE ((uint64_t)1 << 20)
#define THEIR_DRAINED      8192

/* How often a process is looked at that would tell us when it ends: by a lock, which stays with its
 * children, or by a pidfd. */
#define LOOK_NS ((uint64_t)1000 * 1000 * 1000)

/* A process, for the time between two execs. */
struct followed {
    char name[NAME_LEN_MAX]; /* of its file */
    char program[256];       /* path; "" when not known */
    struct segment_reader *reader;
    struct inproc_window *window;
    bool has_pid; /* its pid is one of ours: in another namespace it is not */
    uid_t user;   /* whose file it is */
    int process;  /* a pidfd; -1: none */
    bool is_ended, is_replaced, is_gone;
    uint64_t next_look_ns; /* at its pid */
};

struct run_segments {
    struct run_segments_options o;
    int folder, watch, ends; /* ends: pidfds are waited for there */
    struct budget budget;
    VEC(struct followed) all;
    struct run_window *window;
    bool is_changed; /* the folder, since it was read */
    bool is_last;    /* the command has ended */
    size_t n_processes, n_no_room, n_failed;
    size_t n_not_ready; /* of other users, when the folder was read last */
    uint64_t n_apart;
    struct error why;
};

static int64_t wall_ns(void)
{
    return clock_wall_ns(clock_real());
}

static uint64_t now_ns(void)
{
    return (uint64_t)clock_monotonic_ns(clock_real());
}

/* ---- The window ---- */

static struct run_window *window_new(size_t max_memory)
{
    struct run_window *w = must_calloc(1, sizeof(*w));

    budget_init(&w->budget, max_memory);
    w->set = profile_set_new(&w->budget);
    w->start_unix_ns = wall_ns();
    return w;
}

void run_window_free(struct run_window *w)
{
    if (!w)
        return;
    profile_set_free(w->set);
    free(w);
}

/* ---- Who a process is ---- */

static uint32_t own_pid_namespace(void)
{
    struct stat st;

    return stat("/proc/self/ns/pid", &st) == 0 ? (uint32_t)st.st_ino : 0;
}

static void find_program(struct followed *f)
{
    char path[64];

    if (!f->has_pid)
        return;

    snprintf(path, sizeof(path), "/proc/%u/exe", segment_reader_facts(f->reader)->pid);
    ssize_t n = readlink(path, f->program, sizeof(f->program) - 1);
    f->program[n > 0 ? n : 0] = '\0';
}

struct resource {
    struct dict *dict;
    uint32_t ids[ATTRS_MAX], keys[ATTRS_MAX];
    size_t n;
};

/* The first that says something counts. */
static void put_id(struct resource *r, uint32_t key, uint32_t attribute)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->keys[i] == key)
            return;
    if (r->n == ATTRS_MAX || key == 0)
        return;
    r->keys[r->n] = key;
    r->ids[r->n++] = attribute;
}

static void put_text(struct resource *r, struct bytes key, struct bytes value)
{
    uint32_t name = dict_string(r->dict, key);

    if (value.len > 0)
        put_id(r, name, dict_string_attribute(r->dict, name, dict_string(r->dict, value)));
}

/* "a=b,c=d", values with %XX in them. */
static void put_variable(struct resource *r, const char *text)
{
    struct bytes rest = text ? bytes_of(text) : (struct bytes){0};

    while (rest.len > 0) {
        const uint8_t *comma = bytes_find_byte(rest, ',');
        size_t len = comma ? (size_t)(comma - rest.data) : rest.len;
        struct bytes item = bytes_head(rest, len);
        const uint8_t *equals = bytes_find_byte(item, '=');
        CLEANUP(buf_done) struct buf value = {0};
        rest = bytes_from(rest, len + 1);
        if (!equals)
            continue;
        struct bytes key = bytes_trim(bytes_head(item, (size_t)(equals - item.data)));
        struct bytes raw = bytes_trim(bytes_from(item, (size_t)(equals - item.data) + 1));
        if (key.len > 0 && http_unescape(raw, false, &value))
            put_text(r, key, buf_bytes(&value));
    }
}

static uint32_t resource_of(const struct run_segments *s, const struct followed *f)
{
    struct resource r = {.dict = s->window->set->dict};
    const char *slash = strrchr(f->program, '/');
    char host[HOST_NAME_MAX_] = "";
    struct utsname machine;

    for (size_t i = 0; i < s->o.n_labels; i++) {
        const char *equals = strchr(s->o.labels[i], '=');
        if (equals)
            put_text(&r, bytes_head(bytes_of(s->o.labels[i]), (size_t)(equals - s->o.labels[i])),
                     bytes_of(equals + 1));
    }
    if (s->o.service)
        put_text(&r, BYTES("service.name"), bytes_of(s->o.service));
    put_variable(&r, getenv("OTEL_RESOURCE_ATTRIBUTES"));
    put_text(&r, BYTES("service.name"), bytes_of(s->o.command));
    uint32_t pid_key = dict_cstring(r.dict, "process.pid");
    put_id(&r, pid_key,
           dict_int_attribute(r.dict, pid_key, segment_reader_facts(f->reader)->pid, 0));
    put_text(&r, BYTES("process.executable.path"), bytes_of(f->program));
    put_text(&r, BYTES("process.executable.name"), bytes_of(slash ? slash + 1 : f->program));
    if (gethostname(host, sizeof(host) - 1) == 0)
        put_text(&r, BYTES("host.name"), bytes_of(host));
    if (uname(&machine) == 0)
        put_text(&r, BYTES("host.arch"),
                 bytes_of(strcmp(machine.machine, "x86_64") == 0    ? "amd64"
                          : strcmp(machine.machine, "aarch64") == 0 ? "arm64"
                                                                    : machine.machine));
    put_text(&r, BYTES("os.type"), BYTES("linux"));
    return dict_attrs(r.dict, r.ids, r.n);
}

/* ---- Following ---- */

static void forget(struct followed *f)
{
    inproc_window_free(f->window);
    segment_reader_free(f->reader);
    if (f->process >= 0)
        close(f->process);
}

static bool is_known(const struct run_segments *s, const char *name)
{
    for (size_t i = 0; i < s->all.len; i++)
        if (strcmp(s->all.data[i].name, name) == 0)
            return true;
    return false;
}

/* It goes, so that it is not looked at again. */
static void refuse(struct run_segments *s, const char *name, int r, const struct error *why)
{
    if (r == -EMFILE || r == -ENFILE)
        s->is_changed = true; /* when others have gone */
    else if (unlinkat(s->folder, name, 0) == 0)
        s->n_failed++;
    s->why = *why;
}

/* The kernel tells when it ends, where it can. */
static void wait_for_end(const struct run_segments *s, struct followed *f)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (f->has_pid)
        f->process = (int)syscall(SYS_pidfd_open, segment_reader_facts(f->reader)->pid, 0);
    event.data.fd = f->process;
    if (f->process < 0 || epoll_ctl(s->ends, EPOLL_CTL_ADD, f->process, &event) == 0)
        return;
    close(f->process);
    f->process = -1;
}

/* A process that executes another program with the library in it has a new segment. */
static void replace_older(struct run_segments *s, struct followed *f)
{
    const struct segment_facts *facts = segment_reader_facts(f->reader);

    for (size_t i = 0; f->has_pid && i < s->all.len; i++) {
        const struct segment_facts *other = segment_reader_facts(s->all.data[i].reader);
        if (!s->all.data[i].has_pid || other->pid != facts->pid)
            continue;
        if (other->started_ns < facts->started_ns)
            s->all.data[i].is_replaced = true;
        else
            f->is_replaced = true;
    }
}

/* ---- Files of other users ---- */

static bool is_theirs(const struct followed *f)
{
    return f->user != geteuid();
}

/* Whether the process is, or may become, this user; or is gone. The owner of /proc/PID is root for
 * one that has left root's rights. */
static bool is_of_user(uint32_t pid, uid_t user)
{
    char path[64], line[256];
    CLEANUP(fclosep) FILE *f = NULL;
    unsigned ids[4];

    snprintf(path, sizeof(path), "/proc/%u/status", pid);
    f = fopen(path, "re");
    if (!f)
        return errno == ENOENT;
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "Uid: %u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
            continue;
        return user == ids[0] || user == ids[1] || user == ids[2] || user == ids[3];
    }
    return ferror(f) != 0; /* it has gone meanwhile */
}

/* Anybody may say to be any process, and so end what is read of it. */
static int check_user(const struct followed *f, struct error *err)
{
    uint32_t pid = segment_reader_facts(f->reader)->pid;

    if (!is_theirs(f) || !f->has_pid || is_of_user(pid, f->user))
        return 0;
    return error_set(err, -EPERM, "a file of user %u says it is of process %u, which is another's",
                     (unsigned)f->user, pid);
}

static int check_number(const struct run_segments *s, const struct followed *f, struct error *err)
{
    size_t theirs = 0, of_user = 0;

    for (size_t i = 0; is_theirs(f) && i < s->all.len; i++) {
        theirs += is_theirs(&s->all.data[i]);
        of_user += s->all.data[i].user == f->user;
    }
    if (theirs < THEIRS_MAX && of_user < ONE_USERS_MAX)
        return 0;
    return error_set(err, -EUSERS, "user %u, or other users together, have too many at a time",
                     (unsigned)f->user);
}

/* ---- A new one ---- */

/* Takes over the descriptor. */
static int open_segment(struct run_segments *s, int fd, struct followed *f, struct error *err)
{
    struct segment_options ours = {.max_memory = READER_MEMORY},
                           theirs = {.max_memory = THEIR_MEMORY,
                                     .max_records = THEIR_RECORDS,
                                     .max_live_keys = THEIR_LIVE_KEYS,
                                     .max_texts_bytes = THEIR_TEXTS_SIZE,
                                     .max_modules_bytes = THEIR_MODULES_SIZE,
                                     .max_drained = THEIR_DRAINED};
    struct stat st;
    int r = fstat(fd, &st) < 0 ? error_set(err, -errno, "could not look at it: %m") : 0;

    f->user = r == 0 ? st.st_uid : (uid_t)-1;
    r = r < 0 ? r : check_number(s, f, err);
    if (r < 0) {
        close(fd);
        return r;
    }
    r = segment_reader_open(fd, is_theirs(f) ? &theirs : &ours, &f->reader, err);
    if (r == -EAGAIN && is_theirs(f) && ++s->n_not_ready > THEIRS_NOT_READY)
        return -EBADMSG;
    if (r < 0)
        return r;
    uint32_t pids_of = segment_reader_facts(f->reader)->pid_namespace;
    f->has_pid = pids_of != 0 && pids_of == own_pid_namespace();
    return check_user(f, err);
}

static void follow(struct run_segments *s, const char *name)
{
    struct followed f = {.process = -1};
    struct error err = {""};
    int fd = openat(s->folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0) {
        if (errno != ENOENT)
            refuse(s, name, error_set(&err, -errno, "could not open it: %s", strerror(errno)),
                   &err);
        return;
    }
    memcpy(f.name, name, strnlen(name, sizeof(f.name) - 1));
    int r = open_segment(s, fd, &f, &err);
    if (r == -EAGAIN) {
        s->is_changed = true; /* it is being made: look again */
        return;
    }
    if (r < 0) {
        forget(&f);
        refuse(s, name, r, &err);
        return;
    }
    struct inproc_window_options o = {.window_ns = s->o.window_ns,
                                      .leak_windows = s->o.leak_windows};
    f.window = inproc_window_new(f.reader, &o);
    find_program(&f);
    wait_for_end(s, &f);
    replace_older(s, &f);
    if (!vec_push(&s->budget, &s->all, f)) {
        forget(&f);
        return;
    }
    s->n_processes++;
    (void)segment_reader_set(f.reader, s->o.is_on ? s->o.wanted : 0, s->o.alloc_rate,
                             s->o.lock_rate, NULL);
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), len = strlen(end);

    return n > len && n < NAME_LEN_MAX && strcmp(name + n - len, end) == 0;
}

static void read_folder(struct run_segments *s)
{
    int fd = openat(s->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    struct dirent *e;
    s->n_not_ready = 0;
    for (size_t i = 0; i < ENTRIES_MAX && (e = readdir(dir)); i++) {
        if (ends_with(e->d_name, PRELOAD_NO_ROOM) && unlinkat(s->folder, e->d_name, 0) == 0)
            s->n_no_room++;
        if (!ends_with(e->d_name, ".ring") || is_known(s, e->d_name))
            continue;
        if (s->all.len < PROCESSES_MAX)
            follow(s, e->d_name);
        else
            s->is_changed = true; /* when others have gone */
    }
    closedir(dir);
}

static void look_for_new(struct run_segments *s)
{
    char events[4096];

    while (read(s->watch, events, sizeof(events)) > 0)
        s->is_changed = true;
    if (s->is_changed) {
        s->is_changed = false;
        read_folder(s);
    }
}

/* A zombie makes no samples any more. */
static bool is_running(uint32_t pid)
{
    char path[64], text[512];
    CLEANUP(fclosep) FILE *f = NULL;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    text[n] = '\0';
    const char *paren = strrchr(text, ')');
    return paren && paren[1] == ' ' && paren[2] != 'Z' && paren[2] != 'X';
}

/* A program without the library runs in this process now. */
static bool is_other_program(const struct followed *f)
{
    struct followed now = {.reader = f->reader, .has_pid = f->has_pid};

    find_program(&now);
    /* A file that was replaced on disk is called "PATH (deleted)". */
    return f->program[0] && now.program[0] &&
           strncmp(now.program, f->program, strlen(f->program)) != 0;
}

static void look_for_ended(struct run_segments *s)
{
    struct epoll_event events[64];
    int n;

    while ((n = epoll_wait(s->ends, events, ARRAY_SIZE(events), 0)) > 0)
        for (int i = 0; i < n; i++) {
            (void)epoll_ctl(s->ends, EPOLL_CTL_DEL, events[i].data.fd, NULL);
            for (size_t k = 0; k < s->all.len; k++)
                if (s->all.data[k].process == events[i].data.fd)
                    s->all.data[k].is_ended = true;
        }
}

/* Whether nothing more will come from it. Where there is neither a lock nor a pid to ask, it must
 * say so itself; what does not is read to the end of the command. */
static bool is_gone(const struct run_segments *s, struct followed *f)
{
    const struct segment_facts *facts = segment_reader_facts(f->reader);
    struct segment_counters counters;
    struct error err = {""};
    uint64_t now = now_ns();
    bool is_time = now >= f->next_look_ns || s->is_last;

    if (f->is_ended || f->is_replaced)
        return true;
    if (f->process >= 0 && !is_time)
        return false;
    if (segment_reader_is_left(f->reader))
        return true;
    if (!f->has_pid)
        return !facts->is_locked && segment_reader_counters(f->reader, &counters, &err) == 0 &&
               counters.is_over;
    if (facts->is_locked && !is_time)
        return false;
    f->next_look_ns = now + LOOK_NS;
    return (f->process < 0 && !is_running(facts->pid)) || is_other_program(f);
}

static void add_profiles(struct run_segments *s, struct followed *f)
{
    struct error err = {""};

    if (!s->window)
        s->window = window_new(s->o.max_memory);
    if (inproc_window_end(f->window, now_ns(), f->is_gone, &err) < 0)
        s->why = err;
    struct inproc_profiles_options o = {.resource_attrs = resource_of(s, f),
                                        .scope_name = "vesta-run",
                                        .start_unix_ns = s->window->start_unix_ns,
                                        .end_unix_ns = wall_ns(),
                                        .pid =
                                            f->has_pid ? segment_reader_facts(f->reader)->pid : 0,
                                        .with_suspects = true};
    inproc_profiles_add(f->window, &o, s->window->set);
    s->n_apart += inproc_window_losses(f->window)->lost[PRELOAD_LOSS_CHILDREN];
    inproc_window_begin(f->window);
}

static void take_off(struct run_segments *s, size_t i)
{
    forget(&s->all.data[i]);
    s->all.data[i] = vec_last(&s->all);
    s->all.len--;
}

static void give_up(struct run_segments *s, size_t i)
{
    struct error err = {""};
    int r = error_set(&err, -EFBIG, "a file of user %u has grown beyond its limits",
                      (unsigned)s->all.data[i].user);

    refuse(s, s->all.data[i].name, r, &err);
    take_off(s, i);
}

void run_segments_poll(struct run_segments *s)
{
    struct error err = {""};

    look_for_new(s);
    look_for_ended(s);
    for (size_t i = 0; i < s->all.len;) {
        struct followed *f = &s->all.data[i];
        if (is_theirs(f) && segment_reader_has_grown(f->reader)) {
            give_up(s, i);
            continue;
        }
        /* Asked before reading: what is read afterwards is all there will be. */
        f->is_gone = is_gone(s, f);
        if (inproc_window_poll(f->window, now_ns(), f->is_gone, &err) < 0)
            s->why = err;
        if (!f->is_gone) {
            i++;
            continue;
        }
        add_profiles(s, f);
        (void)unlinkat(s->folder, f->name, 0);
        take_off(s, i);
    }
}

void run_segments_switch(struct run_segments *s, bool is_on)
{
    s->o.is_on = is_on;
    for (size_t i = 0; i < s->all.len; i++)
        (void)segment_reader_set(s->all.data[i].reader, is_on ? s->o.wanted : 0, s->o.alloc_rate,
                                 s->o.lock_rate, NULL);
}

struct run_window *run_segments_end(struct run_segments *s, bool is_last)
{
    s->is_changed = s->is_changed || is_last;
    s->is_last = is_last;
    run_segments_poll(s);
    if (is_last)
        run_segments_switch(s, false);
    for (size_t i = 0; i < s->all.len; i++)
        add_profiles(s, &s->all.data[i]);
    struct run_window *w = s->window;
    s->window = NULL;
    if (!w)
        return NULL;
    w->end_unix_ns = wall_ns();
    if (!is_last)
        s->window = window_new(s->o.max_memory);
    if (w->set->profiles.len > 0)
        return w;
    run_window_free(w);
    return NULL;
}

/* ---- Making one ---- */

struct run_segments *run_segments_new(const struct run_segments_options *o, struct error *err)
{
    struct run_segments *s = must_calloc(1, sizeof(*s));

    s->o = *o;
    budget_init(&s->budget, (size_t)64 << 20);
    s->folder = open(o->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    s->ends = epoll_create1(EPOLL_CLOEXEC);
    if (s->folder < 0 || s->watch < 0 || s->ends < 0 ||
        inotify_add_watch(s->watch, o->folder, IN_CREATE | IN_MOVED_TO) < 0) {
        error_set(err, -errno, "could not watch \"%s\": %s", o->folder, strerror(errno));
        run_segments_free(s);
        return NULL;
    }
    s->window = window_new(o->max_memory);
    return s;
}

void run_segments_free(struct run_segments *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->all.len; i++)
        forget(&s->all.data[i]);
    vec_done(&s->budget, &s->all);
    run_window_free(s->window);
    if (s->folder >= 0)
        close(s->folder);
    if (s->watch >= 0)
        close(s->watch);
    if (s->ends >= 0)
        close(s->ends);
    free(s);
}

int run_segments_fd(const struct run_segments *s)
{
    return s->watch;
}

struct run_counts run_segments_counts(const struct run_segments *s)
{
    return (struct run_counts){.processes = s->n_processes,
                               .failed = s->n_failed,
                               .no_room = s->n_no_room,
                               .apart = s->n_apart,
                               .why_failed = s->why};
}
