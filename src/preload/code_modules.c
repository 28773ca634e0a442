#include "preload/code_modules.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/inside.h"
#include "preload/map_lines.h"
#include "preload/stack_memory.h"

#define MODULES_MAX 2048
#define LINE_MAX    8192 /* a path has at most 4096 */

/* Written by who holds `refresher`; its version is odd meanwhile. */
struct slot {
    uint32_t version;
    struct code_module m; /* start 0: free */
    uint64_t inode;
};

static struct slot slots[MODULES_MAX];
static uint32_t n_slots;
static uint32_t epoch;
static uintptr_t own_start, own_end;

/* The thread that reads what is mapped, by where its own memory is; 0: none. */
static uintptr_t refresher;

/*
 * When it may be read again: so that it takes a hundredth of the time at most, as it takes long
 * where very much is mapped. Each useless time doubles the wait, so that programs that make code as
 * they run pay little. Turns that were not taken are saved, some of them.
 */
#define WAIT_MIN_NS 20000000ull
#define WAIT_MAX_NS 30000000000ull
#define TIMES_COST  100
#define TURNS_MAX   16 /* without any wait */
static uint64_t next_ns, between_ns, wait_ns = WAIT_MIN_NS;

/* Code without tables and build id may be replaced, and nothing tells. It is believed so long. Then
 * one thread tries to read again, now and then, and no other waits for it. */
#define BELIEVED_NS  1000000000ull
#define ASK_AGAIN_NS WAIT_MIN_NS
static uint64_t believed_until_ns;
static uint32_t turns_left = TURNS_MAX;

#define LINES_BEFORE 8

/* What one refresh has seen. Guarded by `refresher`: too large for a stack. */
static struct {
    int memory; /* image_bytes() */
    uint8_t seen[MODULES_MAX];
    char text[LINE_MAX];
    struct code_image image;
    uint64_t inode; /* of the image; 0: it is no file */
    bool has_image;
    size_t path_len;
    char path[LINE_MAX];
    /* A file of which no code was mapped so far: nothing of it is read before that. */
    struct map_line before[LINES_BEFORE];
    uint32_t n_before;
} turn;

/* No fences: sanitizers cannot follow them. */
#define LOAD(x)     __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)

/* ---- Slots ---- */

static bool slot_read(const struct slot *s, struct code_module *ret)
{
    uint32_t version = LOAD(s->version);

    ret->start = LOAD(s->m.start);
    ret->end = LOAD(s->m.end);
    ret->tables.start = LOAD(s->m.tables.start);
    ret->tables.end = LOAD(s->m.tables.end);
    ret->tables.header = LOAD(s->m.tables.header);
    ret->id = LOAD(s->m.id);
    ret->sign = LOAD(s->m.sign);
    return version % 2 == 0 && LOAD(s->version) == version;
}

static void slot_write(struct slot *s, const struct code_module *m, uint64_t inode)
{
    /* It is odd already where a fork or a jump came between. */
    STORE(s->version, s->version | 1);
    STORE(s->m.start, m->start);
    STORE(s->m.end, m->end);
    STORE(s->m.tables.start, m->tables.start);
    STORE(s->m.tables.end, m->tables.end);
    STORE(s->m.tables.header, m->tables.header);
    STORE(s->m.id, m->id);
    STORE(s->m.sign, m->sign);
    s->inode = inode;
    STORE(s->version, s->version + 1);
}

static bool find_known(uintptr_t pc, struct code_module *ret)
{
    uint32_t n = LOAD(n_slots);

    for (uint32_t i = 0; i < n; i++) {
        uintptr_t start = LOAD(slots[i].m.start);
        if (pc >= start && pc < LOAD(slots[i].m.end) && slot_read(&slots[i], ret) &&
            pc >= ret->start && pc < ret->end)
            return true;
    }
    return false;
}

static bool is_same(const struct slot *s, const struct code_module *m, uint64_t inode)
{
    return s->m.start == m->start && s->m.end == m->end && s->inode == inode &&
           s->m.tables.header == m->tables.header && s->m.tables.end == m->tables.end &&
           s->m.id == m->id && s->m.sign == m->sign;
}

/* True when it was not known yet. */
static bool put_module(const struct code_module *m, uint64_t inode)
{
    uint32_t at = n_slots;

    for (uint32_t i = 0; i < n_slots; i++) {
        if (is_same(&slots[i], m, inode)) {
            turn.seen[i] = 1;
            return false;
        }
        if (slots[i].m.start == 0 && at == n_slots)
            at = i;
    }
    if (at == MODULES_MAX)
        return false;
    slot_write(&slots[at], m, inode);
    turn.seen[at] = 1;
    if (at == n_slots)
        STORE(n_slots, at + 1);
    return true;
}

/* Those that are not there any more. */
static void drop_unseen(void)
{
    static const struct code_module none;
    bool dropped = false;

    for (uint32_t i = 0; i < n_slots; i++)
        if (!turn.seen[i] && slots[i].m.start != 0) {
            slot_write(&slots[i], &none, 0);
            dropped = true;
        }
    if (dropped)
        __atomic_add_fetch(&epoch, 1, __ATOMIC_RELEASE);
}

/* ---- Reading what is mapped ---- */

/* What tells that another library is in the place of one: its build id, and the header of its
 * tables with as much of the table as is on the same page, but not more than this. */
#define ID_BYTES     16
#define SIGNED_BYTES 128

struct signed_bytes {
    uint64_t words[(ID_BYTES + SIGNED_BYTES) / 8];
};

static size_t table_bytes(const struct frame_tables *t)
{
    size_t n = STACK_PAGE - t->header % STACK_PAGE;

    n = n < SIGNED_BYTES ? n : SIGNED_BYTES;
    return n < t->end - t->header ? n : t->end - t->header;
}

/* Never 0. */
static uint64_t sign_of(const struct signed_bytes *b)
{
    uint64_t sign = 0;

    for (size_t i = 0; i < sizeof(b->words) / 8; i += 2)
        sign = (sign ^ b->words[i] ^ (b->words[i + 1] + i) * 0xff51afd7ed558ccdull) *
               0x9e3779b97f4a7c15ull;
    return sign | 1;
}

/* 0: they cannot be read. */
static uint64_t sign_at(const struct code_module *m)
{
    struct signed_bytes b = {0};

    if (m->id && !image_bytes(turn.memory, m->id, b.words, ID_BYTES))
        return 0;
    if (m->tables.header && !image_bytes(turn.memory, m->tables.header, &b.words[ID_BYTES / 8],
                                         table_bytes(&m->tables)))
        return 0;
    return sign_of(&b);
}

static void tell_module(const struct image_part *p)
{
    const struct code_image *i = &turn.image;
    struct preload_module m = {
        .start = p->start,
        .end = p->end,
        .file_offset = p->file_offset,
        .bias = i->bias,
        .build_id_len = i->build_id_len,
        .path_len = (uint16_t)turn.path_len,
    };

    memcpy(m.build_id, i->build_id, sizeof(m.build_id));
    segment_module(&m, turn.path);
}

/* Also of the program that has the library's parts in itself, as tests have. */
static void note_own(const struct code_module *m)
{
    uintptr_t here = (uintptr_t)modules_is_own, entry = getauxval(AT_ENTRY);

    if (here < m->start || here >= m->end)
        return;
    if (entry >= m->start && entry < m->end)
        return;
    STORE(own_end, m->end);
    STORE(own_start, m->start);
}

/* All its lines were read. */
static void end_image(void)
{
    const struct code_image *i = &turn.image;

    if (!turn.has_image)
        return;
    turn.has_image = false;
    for (uint32_t k = 0; k < i->n_parts; k++) {
        const struct image_part *p = &i->parts[k];
        struct code_module m = {.start = p->start, .end = p->end};

        if (!p->is_mapped)
            continue;
        if (i->tables && i->tables < i->tables_end)
            m.tables = (struct frame_tables){i->tables_start, i->tables_end, i->tables};
        if (i->build_id_len >= ID_BYTES)
            m.id = i->build_id_at;
        m.sign = m.id || m.tables.header ? sign_at(&m) : 0;
        if (m.sign == 0) {
            m.tables = (struct frame_tables){0};
            m.id = 0;
        }
        if (!put_module(&m, turn.inode))
            continue;
        note_own(&m);
        if (turn.inode)
            tell_module(p);
    }
}

static void keep_line(const struct map_line *l)
{
    turn.before[turn.n_before] = *l;
    turn.before[turn.n_before++].path = NULL; /* it is in turn.path */
}

/* The first line of a file that may be an image. */
static void begin_file(const struct map_line *l)
{
    end_image();
    turn.inode = l->inode;
    turn.path_len = l->path_len < sizeof(turn.path) ? l->path_len : sizeof(turn.path) - 1;
    memcpy(turn.path, l->path, turn.path_len);
    turn.path[turn.path_len] = 0;
    turn.n_before = 0;
    keep_line(l);
}

/* The part of an image that this line maps; false: code that belongs to none. */
static bool line_of_image(const struct map_line *l)
{
    struct code_image *i = &turn.image;
    bool found = false;

    if (!turn.has_image || l->start >= i->end)
        return false;
    if (i->tables >= l->start && i->tables < l->end) {
        if (!l->can_read)
            i->tables = 0;
        if (i->tables_start < l->start)
            i->tables_start = l->start;
        if (i->tables_end > l->end)
            i->tables_end = l->end;
    }
    for (uint32_t k = 0; l->can_run && k < i->n_parts; k++)
        if (l->start < i->parts[k].end && l->end > i->parts[k].start)
            found = i->parts[k].is_mapped = true;
    return found;
}

/* Code of the file has come, so it is worth while. */
static void begin_image(void)
{
    turn.has_image = image_read(&turn.before[0], turn.memory, &turn.image);
    for (uint32_t i = 0; i < turn.n_before; i++)
        line_of_image(&turn.before[i]);
    turn.n_before = 0;
}

/* Some programs move their code to large pages, which are no file's. */
static bool is_copied_code(const struct map_line *l)
{
    return l->inode == 0 && l->start == turn.before[turn.n_before - 1].end;
}

static void take_line(const struct map_line *l)
{
    bool is_vdso = l->path_len == 6 && memcmp(l->path, "[vdso]", 6) == 0;
    bool is_file = l->inode || is_vdso;

    if (l->start >= (uint64_t)1 << 63)
        return; /* [vsyscall] is the kernel's */
    if (l->offset == 0 && l->can_read && is_file &&
        !(turn.has_image && l->inode == turn.inode && l->start < turn.image.end))
        begin_file(l);
    else if (turn.n_before > 0 && l->inode == turn.inode && turn.n_before < LINES_BEFORE)
        keep_line(l);
    if (turn.n_before > 0 && l->can_run && (l->inode == turn.inode || is_copied_code(l)))
        begin_image();
    if (!line_of_image(l) && l->can_run)
        put_module(&(struct code_module){.start = l->start, .end = l->end}, l->inode);
}

/* Takes the whole lines, and moves the rest to the front. */
static size_t take_lines(size_t n)
{
    size_t from = 0;

    for (;;) {
        const char *end = memchr(turn.text + from, '\n', n - from);
        struct map_line l;
        if (!end)
            break;
        if (map_line_parse(turn.text + from, (size_t)(end - turn.text) - from, &l))
            take_line(&l);
        from = (size_t)(end - turn.text) + 1;
    }
    memmove(turn.text, turn.text + from, n - from);
    return n - from;
}

static void read_maps(void)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    long got = -1;

    if (fd < 0)
        return;
    turn.memory = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC);
    memset(turn.seen, 0, n_slots);
    turn.has_image = false;
    turn.n_before = 0;
    while (n < sizeof(turn.text) &&
           (got = syscall(SYS_read, fd, turn.text + n, sizeof(turn.text) - n)) > 0)
        n = take_lines(n + (size_t)got);
    end_image();
    if (got == 0)
        drop_unseen();
    if (turn.memory >= 0)
        syscall(SYS_close, turn.memory);
    syscall(SYS_close, fd);
}

/* ---- When ---- */

static uint64_t now_ns(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool may_refresh(uint64_t now)
{
    for (; now >= next_ns && turns_left < TURNS_MAX; next_ns += between_ns)
        turns_left++;
    if (turns_left == 0)
        return false;
    turns_left--;
    return true;
}

/* Another thread is at it. What it finds may be what is asked for: so give it some time, but not
 * more than that. Else this stack is cut. */
static bool wait_for_other(uintptr_t pc, struct code_module *ret)
{
    enum { WAIT_NS = 500000 };
    uint64_t until = now_ns() + WAIT_NS;

    while (LOAD(refresher) && now_ns() < until)
        syscall(SYS_sched_yield);
    return find_known(pc, ret);
}

/* False: another thread is at it. If it is this one, it has left that by a jump out of a signal
 * handler. */
static bool take_turn(void)
{
    uintptr_t me = (uintptr_t)&preload_thread, holder = 0;

    return __atomic_compare_exchange_n(&refresher, &holder, me, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED) ||
           holder == me;
}

/* Reads anew if it is time to, and gives the turn back. True when pc is known afterwards. */
static bool refresh_in_turn(uintptr_t pc, uint64_t now, struct code_module *ret)
{
    bool found = false;

    if (may_refresh(now)) {
        read_maps();
        found = find_known(pc, ret);
        uint64_t end = now_ns();
        between_ns = (end - now) * TIMES_COST + 1;
        wait_ns = found ? WAIT_MIN_NS : wait_ns * 2 < WAIT_MAX_NS ? wait_ns * 2 : WAIT_MAX_NS;
        if (!found && between_ns < wait_ns)
            between_ns = wait_ns;
        next_ns = end + between_ns;
        STORE(believed_until_ns, end + BELIEVED_NS);
    }
    STORE(refresher, 0);
    return found;
}

static bool refresh(uintptr_t pc, struct code_module *ret)
{
    uint64_t now = now_ns();

    return take_turn() ? refresh_in_turn(pc, now, ret) : wait_for_other(pc, ret);
}

/* Of code that nothing tells about: looks whether it is still the same. What is known is good
 * enough for who would have to wait. */
static void look_again(uintptr_t pc, struct code_module *ret)
{
    uint64_t now = now_ns();
    struct code_module again;

    if (now < LOAD(believed_until_ns))
        return;
    STORE(believed_until_ns, now + ASK_AGAIN_NS);
    if (take_turn() && refresh_in_turn(pc, now, &again))
        *ret = again;
}

void modules_forget(void)
{
    STORE(n_slots, 0);
    for (uint32_t i = 0; i < MODULES_MAX && slots[i].version; i++)
        slot_write(&slots[i], &(struct code_module){0}, 0);
    turns_left = TURNS_MAX;
    wait_ns = WAIT_MIN_NS;
    next_ns = 0;
    __atomic_add_fetch(&epoch, 1, __ATOMIC_RELEASE);
    STORE(refresher, 0); /* who held it is not in this child */
}

/* Its tables can be read, and are those that were there. The thread is to return to this code, so
 * nobody unmaps it meanwhile. */
static bool is_there(const struct code_module *m)
{
    struct signed_bytes b = {0};

    if (m->sign == 0)
        return true;
    if (m->id) {
        if (!memory_probe_range(m->id, ID_BYTES))
            return false;
        memcpy(b.words, (const void *)m->id, ID_BYTES);
    }
    if (m->tables.header) {
        if (!memory_probe(m->tables.header & ~(uintptr_t)7))
            return false;
        memcpy(&b.words[ID_BYTES / 8], (const void *)m->tables.header, table_bytes(&m->tables));
    }
    return sign_of(&b) == m->sign;
}

bool modules_find(uintptr_t pc, struct code_module *ret)
{
    if (find_known(pc, ret) && is_there(ret)) {
        if (ret->sign == 0)
            look_again(pc, ret);
        return true;
    }
    return refresh(pc, ret) && is_there(ret);
}

bool modules_is_own(uintptr_t pc)
{
    uintptr_t start = LOAD(own_start);

    return pc >= start && start != 0 && pc < LOAD(own_end);
}

void modules_unloaded(void)
{
    __atomic_add_fetch(&epoch, 1, __ATOMIC_RELEASE);
}

uint32_t modules_epoch(void)
{
    return LOAD(epoch);
}
