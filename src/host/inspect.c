#include "host/inspect.h"

#include <errno.h>

#include "base/le.h"
#include "host/inspect_internal.h"
#include "wire/protobuf.h"

static void put_head(struct buf *out, enum ask_kind kind, uint32_t pid, uint64_t start_ns)
{
    pb_put_u64(out, ASK_KIND, kind);
    pb_put_u64_opt(out, ASK_PID, pid);
    pb_put_u64_opt(out, ASK_START, start_ns);
}

void inspect_question(const struct inspect_ask *a, struct buf *out)
{
    put_head(out, ASK_PROCESS, a->pid, a->start_ns);
    pb_put_u64(out, ASK_FLAGS,
               (a->maps ? ASK_MAPS : 0u) | (a->identity ? ASK_IDENTITY : 0u) |
                   (a->cmdline ? ASK_CMDLINE : 0u) | (a->ports ? ASK_PORTS : 0u) |
                   (a->ancestors ? ASK_ANCESTORS : 0u) | (a->carefully ? ASK_CAREFULLY : 0u));
    for (const char *const *v = a->variables; v && *v; v++)
        pb_put_bytes(out, ASK_VARIABLE, bytes_of(*v));
}

void inspect_question_file(uint32_t pid, uint64_t start_ns, uint64_t begin, uint64_t end,
                           struct buf *out)
{
    put_head(out, ASK_FILE, pid, start_ns);
    pb_put_u64(out, ASK_BEGIN, begin);
    pb_put_u64(out, ASK_END, end);
}

void inspect_question_handover(uint32_t pid, uint64_t start_ns, uint64_t begin, uint64_t end,
                               struct buf *out)
{
    put_head(out, ASK_HANDOVER, pid, start_ns);
    pb_put_u64(out, ASK_BEGIN, begin);
    pb_put_u64(out, ASK_END, end);
}

void inspect_question_path(uint32_t pid, uint64_t start_ns, const char *path, bool no_link,
                           uint32_t owner, struct buf *out)
{
    put_head(out, ASK_BY_PATH, pid, start_ns);
    pb_put_u64(out, ASK_FLAGS, no_link ? ASK_NO_LINK : 0);
    pb_put_bytes(out, ASK_PATH, bytes_of(path));
    pb_put_u64(out, ASK_OWNER, owner);
}

void inspect_question_list(struct buf *out)
{
    put_head(out, ASK_LIST, 0, 0);
}

void inspect_question_words(uint32_t pid, uint64_t start_ns, const uint64_t *addresses, size_t n,
                            struct buf *out)
{
    put_head(out, ASK_WORDS, pid, start_ns);
    for (size_t i = 0; i < n && i < INSPECT_WORDS_MAX; i++)
        pb_put_fixed64(out, ASK_ADDRESS, addresses[i]);
}

static int bad_answer(struct error *err, const char *what)
{
    return error_set(err, -EBADMSG, "the answer about a process is damaged: %s", what);
}

int inspect_read_file(struct bytes answer, struct inspect_file *ret, struct error *err)
{
    if (answer.len != sizeof(*ret))
        return bad_answer(err, "a file's facts are not as long as they are");
    memcpy(ret, answer.data, sizeof(*ret));
    return 0;
}

#define LISTED_BYTES 12

int inspect_read_list(struct bytes answer, struct inspect_listed *ret, struct error *err)
{
    if (answer.len % LISTED_BYTES != 0 || answer.len / LISTED_BYTES > INSPECT_LIST_MAX)
        return bad_answer(err, "a list that is not made of pairs");
    size_t n = answer.len / LISTED_BYTES;
    for (size_t i = 0; i < n; i++)
        ret[i] = (struct inspect_listed){le32_get(answer.data + i * LISTED_BYTES),
                                         le64_get(answer.data + i * LISTED_BYTES + 4)};
    return (int)n;
}

int inspect_read_words(struct bytes answer, uint64_t *ret, size_t n, uint32_t *ret_read,
                       struct error *err)
{
    if (answer.len != 4 + 8 * n)
        return bad_answer(err, "other words than were asked for");
    *ret_read = le32_get(answer.data);
    for (size_t i = 0; i < n; i++)
        ret[i] = le64_get(answer.data + 4 + 8 * i);
    return 0;
}

/* Reading what is told of a process. */
struct reading {
    struct inspect_process *p;
    struct budget *budget;
    VEC(struct inspect_mapping) files; /* only their files' parts are set */
    const char *wrong;
};

/* A copy in the arena; longer ones than `max` nobody sends. */
static void take_text(struct reading *r, struct bytes text, size_t max, struct bytes *ret)
{
    if (text.len > max) {
        r->wrong = "a text is too long";
        return;
    }
    char *copy = arena_strdup(&r->p->arena, text);
    if (copy)
        *ret = (struct bytes){(const uint8_t *)copy, text.len};
}

static void read_file_of(struct reading *r, struct bytes message)
{
    struct pb_reader f = pb_reader(message);
    struct inspect_mapping m = {0};

    while (pb_next(&f)) {
        switch (f.field) {
        case FILE_MAJOR:
            m.device_major = (uint32_t)pb_u64(&f);
            break;
        case FILE_MINOR:
            m.device_minor = (uint32_t)pb_u64(&f);
            break;
        case FILE_INODE:
            m.inode = pb_u64(&f);
            break;
        case FILE_PATH:
            take_text(r, pb_bytes(&f), 4095, &m.path);
            break;
        case FILE_DELETED:
            m.is_deleted = pb_u64(&f) != 0;
            break;
        default:
            break;
        }
    }
    if (f.failure)
        r->wrong = f.failure;
    (void)vec_push(r->budget, &r->files, m);
}

static void read_mappings(struct reading *r, struct bytes all)
{
    static const uint64_t pages_max = (uint64_t)1 << (64 - INSPECT_PAGE_BITS);
    const uint8_t *pos = all.data, *end = all.data + all.len;
    uint64_t at = 0; /* in pages */

    if (r->p->mappings.len > 0) {
        r->wrong = "mappings come twice";
        return;
    }
    while (pos < end) {
        uint64_t gap, n, offset, file;
        if (!pb_varint(&pos, end, &gap) || !pb_varint(&pos, end, &n) ||
            !pb_varint(&pos, end, &offset) || !pb_varint(&pos, end, &file)) {
            r->wrong = "mappings are cut short";
            return;
        }
        if (gap >= pages_max - at || n == 0 || n >= pages_max - at - gap || offset >= pages_max ||
            file > r->files.len || r->p->mappings.len == INSPECT_MAPPINGS_MAX) {
            r->wrong = "a mapping is out of range";
            return;
        }
        struct inspect_mapping m = {0};
        if (file > 0)
            m = r->files.data[file - 1];
        m.begin = (at + gap) << INSPECT_PAGE_BITS;
        m.end = (at + gap + n) << INSPECT_PAGE_BITS;
        m.offset = offset << INSPECT_PAGE_BITS;
        m.is_executable = true;
        at += gap + n;
        if (!vec_push(r->budget, &r->p->mappings, m))
            return;
    }
}

static void read_flags(struct inspect_process *p, uint64_t flags)
{
    p->is_kernel_thread = flags & TOLD_KERNEL_THREAD;
    p->shares_mount_namespace = flags & TOLD_SAME_MOUNTS;
    p->listens = flags & TOLD_LISTENS;
    p->mappings_cut = flags & TOLD_CUT;
}

static bool read_number(struct inspect_process *p, uint32_t field, uint64_t v)
{
    switch (field) {
    case TOLD_PID:
        p->pid = (uint32_t)v;
        return true;
    case TOLD_PARENT:
        p->parent = (uint32_t)v;
        return true;
    case TOLD_ANCESTOR:
        if (p->n_ancestors < INSPECT_ANCESTORS_MAX)
            p->ancestors[p->n_ancestors++] = (uint32_t)v;
        return true;
    case TOLD_UID:
        p->uid = (uint32_t)v;
        return true;
    case TOLD_START:
        p->start_ns = v;
        return true;
    case TOLD_CODE:
        p->code_start = v;
        return true;
    case TOLD_STACK:
        p->stack_start = v;
        return true;
    case TOLD_INNER_PID:
        p->namespaced_pid = (uint32_t)v;
        return true;
    case TOLD_FLAGS:
        read_flags(p, v);
        return true;
    case TOLD_CONTEXT_TIME:
        p->context_time = v;
        return true;
    case TOLD_HANDOVER:
        p->handover_begin = v;
        return true;
    case TOLD_HANDOVER_END:
        p->handover_end = v;
        return true;
    case TOLD_HANDOVER_INODE:
        p->handover_inode = v;
        return true;
    case TOLD_PORT:
        if (p->n_ports < sizeof(p->ports) / sizeof(p->ports[0]))
            p->ports[p->n_ports++] = (uint16_t)v;
        return true;
    default:
        return false;
    }
}

static void read_text(struct reading *r, uint32_t field, struct bytes text)
{
    struct inspect_process *p = r->p;

    switch (field) {
    case TOLD_COMM:
        take_text(r, text, 15, &p->comm);
        break;
    case TOLD_EXE:
        take_text(r, text, 4095, &p->exe);
        break;
    case TOLD_CMDLINE:
        take_text(r, text, 4096, &p->cmdline);
        break;
    case TOLD_CGROUP:
        take_text(r, text, 8192, &p->cgroup);
        break;
    case TOLD_ENVIRON:
        take_text(r, text, INSPECT_ENVIRON_MAX, &p->environ);
        break;
    case TOLD_CONTEXT:
        take_text(r, text, INSPECT_CONTEXT_MAX, &p->context);
        break;
    case TOLD_CONTAINER_NAME:
        take_text(r, text, 255, &p->container_name);
        break;
    case TOLD_CONTAINER_IMAGE:
        take_text(r, text, 255, &p->container_image);
        break;
    case TOLD_CONTAINER_SERVICE:
        take_text(r, text, 255, &p->container_service);
        break;
    case TOLD_POD:
        take_text(r, text, 255, &p->pod);
        break;
    case TOLD_POD_NAMESPACE:
        take_text(r, text, 255, &p->pod_namespace);
        break;
    case TOLD_POD_CONTAINER:
        take_text(r, text, 255, &p->pod_container);
        break;
    case TOLD_FILE:
        read_file_of(r, text);
        break;
    case TOLD_MAPPINGS:
        read_mappings(r, text);
        break;
    default:
        break;
    }
}

int inspect_read(struct bytes answer, struct budget *b, struct inspect_process *ret,
                 struct error *err)
{
    struct inspect_process p = {0};
    struct reading r = {.p = &p, .budget = b};
    struct pb_reader m = pb_reader(answer);

    arena_init(&p.arena, b);
    while (pb_next(&m) && !r.wrong && !budget_failed(b)) {
        if (m.wire == PB_BYTES)
            read_text(&r, m.field, m.data);
        else
            (void)read_number(&p, m.field, m.value);
    }
    vec_done(b, &r.files);
    if (!r.wrong && m.failure)
        r.wrong = m.failure;
    if (!r.wrong && p.pid == 0)
        r.wrong = "it is about nobody";
    if (budget_failed(b) || r.wrong) {
        inspect_process_done(&p);
        return budget_failed(b) ? budget_error(b, err) : bad_answer(err, r.wrong);
    }
    *ret = p;
    return 0;
}

void inspect_process_done(struct inspect_process *p)
{
    if (p->arena.budget) {
        vec_done(p->arena.budget, &p->mappings);
        arena_done(&p->arena);
    }
    *p = (struct inspect_process){0};
}
