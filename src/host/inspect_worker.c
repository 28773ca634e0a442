#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/le.h"
#include "base/must.h"
#include "host/container.h"
#include "host/inspect_internal.h"
#include "host/inspect_text.h"
#include "wire/protobuf.h"

#define ENVIRON_SCAN_MAX ((size_t)1 << 20)
#define DEADLINE_NS      1000000000LL
#define MEMORY_MAX       ((uint64_t)64 << 20)
#define PF_KTHREAD       0x00200000u

/* Of an answer, what is left for mappings once all else is in it. */
#define MAPS_ROOM (WORKER_ANSWER_MAX - 64)

int question_read(struct bytes data, struct question *ret, struct error *err)
{
    struct question q = {.owner = UINT32_MAX};
    struct pb_reader r = pb_reader(data);

    while (pb_next(&r)) {
        switch (r.field) {
        case ASK_KIND:
            q.kind = (enum ask_kind)pb_u64(&r);
            break;
        case ASK_PID:
            q.pid = (uint32_t)pb_u64(&r);
            break;
        case ASK_START:
            q.start_ns = pb_u64(&r);
            break;
        case ASK_FLAGS:
            q.flags = pb_u64(&r);
            break;
        case ASK_VARIABLE:
            if (q.n_variables < ARRAY_SIZE(q.variables))
                q.variables[q.n_variables++] = pb_bytes(&r);
            break;
        case ASK_BEGIN:
            q.begin = pb_u64(&r);
            break;
        case ASK_END:
            q.end = pb_u64(&r);
            break;
        case ASK_PATH:
            q.path = pb_bytes(&r);
            break;
        case ASK_OWNER:
            q.owner = (uint32_t)pb_u64(&r);
            break;
        case ASK_ADDRESS:
            if (q.n_addresses < ARRAY_SIZE(q.addresses))
                q.addresses[q.n_addresses++] = pb_u64(&r);
            break;
        default:
            break;
        }
    }
    if (r.failure)
        return error_set(err, -EBADMSG, "a question is damaged: %s", r.failure);
    *ret = q;
    return 0;
}

int target_read(const struct target *t, const char *file, size_t max, struct buf *out)
{
    CLEANUP(closep) int fd = openat(t->fd, file, O_RDONLY | O_CLOEXEC);
    size_t from = out->len;

    if (fd < 0)
        return -errno;
    while (out->len - from < max) {
        size_t want = max - (out->len - from);
        if (want > 4096 && out->len == from)
            want = 4096; /* most are small */
        ssize_t n = read(fd, buf_reserve(out, want), want);
        if (n < 0)
            return -errno;
        out->len += (size_t)n;
        if (n < 2048) /* the kernel fills a page, or there is no more */
            break;
    }
    return 0;
}

int target_link(const struct target *t, const char *file, char *ret, size_t size)
{
    ssize_t n = readlinkat(t->fd, file, ret, size - 1);

    if (n < 0)
        return -errno;
    ret[n] = '\0';
    return (int)n;
}

size_t target_memory(const struct target *t, uint64_t address, void *to, size_t n)
{
    struct iovec local = {to, n}, remote = {(void *)(uintptr_t)address, n};
    ssize_t got = process_vm_readv((pid_t)t->pid, &local, 1, &remote, 1, 0);

    return got < 0 ? 0 : (size_t)got;
}

static int gone(struct error *err, uint32_t pid)
{
    return error_set(err, -ESRCH, "process %u is gone", pid);
}

static int read_self(const struct target *t, struct buf *room, struct stat_text *ret,
                     struct error *err)
{
    buf_clear(room);
    int r = target_read(t, "stat", 4096, room);
    if (r == -ESRCH || r == -ENOENT || (r == 0 && !stat_read(buf_bytes(room), ret)))
        return gone(err, t->pid);
    if (r < 0)
        return error_set(err, r, "could not look at process %u: %s", t->pid, strerror(-r));
    return 0;
}

int target_open(uint32_t pid, struct target *ret, struct error *err)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/%u", pid);
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? gone(err, pid)
                               : error_set(err, -errno, "could not open \"%s\": %m", path);
    *ret = (struct target){fd, pid};
    return 0;
}

int target_check(const struct target *t, uint64_t start_ns, struct buf *room, struct stat_text *ret,
                 struct error *err)
{
    int r = read_self(t, room, ret, err);

    if (r < 0)
        return r;
    if (start_ns != 0 && start_ns / INSPECT_TICK_NS != ret->start_ticks)
        return error_set(err, -ESRCH, "process %u is another one by now", t->pid);
    if (ret->state == 'Z' || ret->state == 'X')
        return error_set(err, -ESRCH, "process %u has ended", t->pid);
    if (ret->code_start == 1) /* what the kernel tells those without rights */
        return error_set(err, -EACCES, "process %u is not ours to look at", t->pid);
    return 0;
}

int target_check_again(const struct target *t, const struct stat_text *before, struct error *err)
{
    struct buf room = {0};
    struct stat_text now = {0};
    int r = read_self(t, &room, &now, err);

    buf_done(&room);
    if (r < 0)
        return r;
    if (now.start_ticks != before->start_ticks || now.code_start != before->code_start ||
        now.code_end != before->code_end || now.stack_start != before->stack_start)
        return error_set(err, -ESRCH, "process %u has begun another program", t->pid);
    return 0;
}

bool inspect_shares_mounts(const struct target *t)
{
    static char own[64];
    char theirs[64];

    if (own[0] == '\0') {
        ssize_t n = readlink("/proc/self/ns/mnt", own, sizeof(own) - 1);
        own[n < 0 ? 0 : n] = '\0';
    }
    return target_link(t, "ns/mnt", theirs, sizeof(theirs)) > 0 && strcmp(own, theirs) == 0;
}

static void tell_text(const struct target *t, const char *file, size_t max, uint32_t field,
                      struct buf *out)
{
    struct buf text = {0};

    if (target_read(t, file, max, &text) == 0)
        pb_put_bytes_opt(out, field, buf_bytes(&text));
    buf_done(&text);
}

static void tell_exe(const struct target *t, struct buf *out)
{
    static const struct bytes deleted = BYTES(" (deleted)");
    char link[4096 + 16];

    if (target_link(t, "exe", link, sizeof(link)) <= 0)
        return;
    /* Unlike in maps, a newline is a newline: only the end is cut. */
    struct bytes exe = bytes_of(link);
    if (exe.len > deleted.len && bytes_equal(bytes_from(exe, exe.len - deleted.len), deleted))
        exe.len -= deleted.len;
    pb_put_bytes(out, TOLD_EXE, bytes_head(exe, 4095));
}

static void tell_environ(const struct target *t, const struct question *q, struct buf *out)
{
    struct buf text = {0}, picked = {0};

    if (q->n_variables > 0 && target_read(t, "environ", ENVIRON_SCAN_MAX, &text) == 0) {
        environ_pick(buf_bytes(&text), q->variables, q->n_variables, INSPECT_ENVIRON_MAX, &picked);
        pb_put_bytes_opt(out, TOLD_ENVIRON, buf_bytes(&picked));
    }
    buf_done(&text);
    buf_done(&picked);
}

/* Processes of a container come together: what was found last is looked at first. */
static const struct container_names *names_of(const struct container_place *place)
{
    static struct {
        char id[sizeof(place->id)];
        struct container_names names;
    } known[16];
    static size_t next;
    struct container_names names;

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (place->id[0] != '\0' && strcmp(known[i].id, place->id) == 0)
            return &known[i].names;
    }
    if (!container_names(place, "", &names))
        return NULL;
    size_t at = next++ % ARRAY_SIZE(known);
    memcpy(known[at].id, place->id, sizeof(known[at].id));
    known[at].names = names;
    return &known[at].names;
}

static void tell_container(const struct target *t, struct buf *out)
{
    struct buf cgroup = {0};
    struct container_place place;
    const struct container_names *n = NULL;

    if (target_read(t, "cgroup", 8192, &cgroup) == 0) {
        pb_put_bytes_opt(out, TOLD_CGROUP, buf_bytes(&cgroup));
        container_place(buf_bytes(&cgroup), &place);
        n = names_of(&place);
    }
    buf_done(&cgroup);
    if (!n)
        return;
    pb_put_bytes_opt(out, TOLD_CONTAINER_NAME, bytes_of(n->name));
    pb_put_bytes_opt(out, TOLD_CONTAINER_IMAGE, bytes_of(n->image));
    pb_put_bytes_opt(out, TOLD_CONTAINER_SERVICE, bytes_of(n->service));
    pb_put_bytes_opt(out, TOLD_POD, bytes_of(n->pod));
    pb_put_bytes_opt(out, TOLD_POD_NAMESPACE, bytes_of(n->pod_namespace));
    pb_put_bytes_opt(out, TOLD_POD_CONTAINER, bytes_of(n->pod_container));
}

static uint64_t tell_identity(const struct target *t, const struct question *q, struct buf *out)
{
    struct buf text = {0};
    uint32_t uid, inner_pid;

    if (target_read(t, "status", 4096, &text) == 0 &&
        status_read(buf_bytes(&text), &uid, &inner_pid)) {
        pb_put_u64(out, TOLD_UID, uid);
        pb_put_u64(out, TOLD_INNER_PID, inner_pid);
    }
    buf_done(&text);
    tell_exe(t, out);
    tell_container(t, out);
    if (!(q->flags & ASK_CAREFULLY))
        tell_environ(t, q, out);
    return inspect_shares_mounts(t) ? TOLD_SAME_MOUNTS : 0;
}

static void tell_context(const struct target *t, uint64_t address, struct buf *out)
{
    struct buf payload = {0};
    uint64_t time;

    if (inspect_context(t, address, &payload, &time)) {
        pb_put_bytes(out, TOLD_CONTEXT, buf_bytes(&payload));
        pb_put_u64(out, TOLD_CONTEXT_TIME, time);
    }
    buf_done(&payload);
}

/* Maps go last: what does not fit of them is cut. They tell where a context is, so that is read
 * into the same answer behind them, and has its room kept. */
static int tell_maps(const struct target *t, const struct question *q, struct buf *out,
                     uint64_t *flags, struct error *err)
{
    struct map_marks marks;
    bool is_cut = false, is_identity = q->flags & ASK_IDENTITY;
    struct buf *to = q->flags & ASK_MAPS ? out : NULL;

    int r =
        inspect_maps(t, MAPS_ROOM - (is_identity ? INSPECT_CONTEXT_MAX : 0), to, &is_cut, &marks);
    if (r < 0)
        return r == -ESRCH ? gone(err, t->pid)
                           : error_set(err, r, "could not read the mappings of process %u: %s",
                                       t->pid, strerror(-r));
    pb_put_u64_opt(out, TOLD_HANDOVER, marks.handover_begin);
    pb_put_u64_opt(out, TOLD_HANDOVER_END, marks.handover_end);
    pb_put_u64_opt(out, TOLD_HANDOVER_INODE, marks.handover_inode);
    if (is_identity && marks.context != 0 && !(q->flags & ASK_CAREFULLY))
        tell_context(t, marks.context, out);
    *flags |= is_cut ? TOLD_CUT : 0;
    return 0;
}

/* Whose child it is, and theirs, as far up as there are. */
static void tell_ancestors(uint32_t parent, struct buf *out)
{
    for (int i = 0; i < INSPECT_ANCESTORS_MAX && parent > 1; i++) {
        char path[32], text[1024];
        struct stat_text s;
        pb_put_u64(out, TOLD_ANCESTOR, parent);
        snprintf(path, sizeof(path), "/proc/%u/stat", parent);
        CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
        if (n <= 0 || !stat_read((struct bytes){(const uint8_t *)text, (size_t)n}, &s))
            return;
        parent = s.parent;
    }
}

static int look(const struct target *t, const struct question *q, struct buf *out,
                struct error *err)
{
    struct buf room = {0};
    struct stat_text s = {0};
    uint64_t flags = 0;

    int r = target_check(t, q->start_ns, &room, &s, err);
    if (r == 0) {
        uint64_t start = s.start_ticks * INSPECT_TICK_NS;
        pb_put_u64(out, TOLD_PID, t->pid);
        pb_put_u64(out, TOLD_PARENT, s.parent);
        pb_put_u64(out, TOLD_START, q->start_ns != 0 ? q->start_ns : start);
        pb_put_u64(out, TOLD_CODE, s.code_start);
        pb_put_u64(out, TOLD_STACK, s.stack_start);
        pb_put_bytes(out, TOLD_COMM, s.comm);
        flags |= s.flags & PF_KTHREAD ? TOLD_KERNEL_THREAD : 0;
        if (q->flags & ASK_ANCESTORS)
            tell_ancestors(s.parent, out);
    }
    buf_done(&room);
    if (r < 0)
        return r;
    if (q->flags & ASK_IDENTITY)
        flags |= tell_identity(t, q, out);
    if (q->flags & ASK_CMDLINE && !(q->flags & ASK_CAREFULLY))
        tell_text(t, "cmdline", 4096, TOLD_CMDLINE, out);
    if (q->flags & ASK_PORTS && inspect_ports(t, out))
        flags |= TOLD_LISTENS;
    if (q->flags & (ASK_MAPS | ASK_IDENTITY) && !(flags & TOLD_KERNEL_THREAD))
        r = tell_maps(t, q, out, &flags, err);
    pb_put_u64(out, TOLD_FLAGS, flags);
    return r < 0 ? r : target_check_again(t, &s, err);
}

static void read_words(const struct target *t, const struct question *q, struct buf *out)
{
    uint8_t number[8];
    uint32_t got = 0;
    uint64_t words[INSPECT_WORDS_MAX] = {0};

    for (size_t i = 0; i < q->n_addresses; i++) {
        if (target_memory(t, q->addresses[i], &words[i], 8) == 8)
            got |= 1u << i;
        else
            words[i] = 0;
    }
    le32_put(number, got);
    buf_add(out, number, 4);
    for (size_t i = 0; i < q->n_addresses; i++) {
        le64_put(number, words[i]);
        buf_add(out, number, 8);
    }
}

/* What needs a process that is checked before and behind. */
static int serve_target(const struct target *t, const struct question *q, struct worker_answer *a,
                        struct error *err)
{
    struct buf room = {0};
    struct stat_text before = {0};
    struct inspect_file file = {0};

    if (q->kind == ASK_PROCESS)
        return look(t, q, &a->data, err);
    int r = target_check(t, q->start_ns, &room, &before, err);
    if (r == 0 && q->kind == ASK_WORDS)
        read_words(t, q, &a->data);
    else if (r == 0 && q->kind == ASK_FILE)
        r = inspect_open_mapping(t, q, &a->fd, &file, err);
    else if (r == 0 && q->kind == ASK_HANDOVER)
        r = inspect_open_handover(t, q, &a->fd, &file, err);
    else if (r == 0)
        r = inspect_open_path(t, q, &a->fd, &file, err);
    buf_done(&room);
    if (r < 0)
        return r;
    if (q->kind != ASK_WORDS)
        buf_add(&a->data, &file, sizeof(file));
    return target_check_again(t, &before, err);
}

static int serve_list(struct worker_answer *a, struct error *err)
{
    struct buf room = {0};
    uint8_t pair[12];
    DIR *dir = opendir("/proc");

    if (!dir)
        return error_set(err, -errno, "could not read \"/proc\": %m");
    while (a->data.len < INSPECT_LIST_MAX * sizeof(pair)) {
        const struct dirent *e = readdir(dir);
        uint64_t pid;
        struct target t;
        struct stat_text s;
        if (!e)
            break;
        if (!bytes_to_u64(bytes_of(e->d_name), &pid) || pid > INT32_MAX)
            continue;
        if (target_open((uint32_t)pid, &t, NULL) < 0)
            continue;
        if (read_self(&t, &room, &s, NULL) == 0 && s.state != 'Z') {
            le32_put(pair, t.pid);
            le64_put(pair + 4, s.start_ticks * INSPECT_TICK_NS);
            buf_add(&a->data, pair, sizeof(pair));
        }
        close(t.fd);
    }
    closedir(dir);
    buf_done(&room);
    return 0;
}

static int serve(void *state, const struct worker_question *asked, struct worker_answer *a,
                 struct error *err)
{
    struct question q;
    struct inspect_file file = {0};
    struct target t = {.fd = -1};

    (void)state;
    int r = question_read(asked->data, &q, err);
    if (r < 0)
        return r;
    if (q.kind == ASK_LIST)
        return serve_list(a, err);
    if (q.kind == ASK_BY_PATH && q.pid == 0) {
        r = inspect_open_path(NULL, &q, &a->fd, &file, err);
        buf_add(&a->data, &file, sizeof(file));
        return r;
    }
    if (q.kind < ASK_PROCESS || q.kind > ASK_HANDOVER)
        return error_set(err, -EINVAL, "a question of kind %d is unknown", (int)q.kind);
    r = target_open(q.pid, &t, err);
    if (r == 0)
        r = serve_target(&t, &q, a, err);
    closep(&t.fd);
    return r;
}

const struct worker_kind inspect_worker = {
    .name = "vesta-inspector",
    .deadline_ns = DEADLINE_NS,
    .capabilities = (uint64_t)1 << CAP_SYS_PTRACE | (uint64_t)1 << CAP_DAC_READ_SEARCH |
                    (uint64_t)1 << CAP_CHECKPOINT_RESTORE,
    .memory_max = MEMORY_MAX,
    .may_open = true,
    .serve = serve,
};
