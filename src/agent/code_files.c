#include "agent/code_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/place.h"
#include "base/bytes.h"
#include "base/must.h"
#include "unwind/unwind_table.h"

#define SECOND_NS      ((int64_t)1000000000)
#define FD_IDLE_NS     (30 * SECOND_NS)
#define FILE_IDLE_NS   (60 * SECOND_NS)
#define TABLE_IDLE_S   60
#define IMAGE_MAX      ((uint64_t)64 << 20)
#define TABLES_AT_ONCE 8
#define HANGS_MAX      3
#define RETRY_NS       SECOND_NS
#define RETRIES_ASKED  16 /* questions that may be open while something is tried again */

struct code_files {
    struct code_files_options o;
    struct code_file **by_number; /* holes are NULL */
    uint32_t cap;
    uint64_t evicted;
    size_t asked;
    uint32_t tables_asked;
};

/* A question about a file that is under way. */
struct asking {
    struct code_files *files;
    uint32_t number;
    enum { ASK_OPEN, ASK_FACTS, ASK_DEBUG, ASK_UNWIND, ASK_NAMES } what;
    int memfd;
};

static void ask_names(struct code_files *files, struct code_file *f);
static void ask_unwind(struct code_files *files, struct code_file *f);

struct code_files *code_files_new(const struct code_files_options *o)
{
    struct code_files *files = must_calloc(1, sizeof(*files));

    files->o = *o;
    return files;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void free_file(struct code_file *f)
{
    if (!f)
        return;
    close_fd(&f->fd);
    close_fd(&f->debug_fd);
    name_table_close(f->table);
    free(f->path);
    free(f);
}

void code_files_free(struct code_files *files)
{
    if (!files)
        return;
    for (uint32_t i = 0; i < files->cap; i++)
        free_file(files->by_number[i]);
    free(files->by_number);
    free(files);
}

struct code_file *code_files_get(struct code_files *files, uint32_t number)
{
    return number < files->cap ? files->by_number[number] : NULL;
}

static struct name_cache_key key_of(const struct code_file *f, bool has_debug)
{
    return name_cache_key(&f->parsed.facts, f->owner, has_debug);
}

/* The image in a descriptor, which somebody we do not trust wrote. */
static int put_table(struct code_files *files, struct code_file *f, int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    struct unwind_view view;
    struct error err;

    if (size <= 0 || (uint64_t)size > IMAGE_MAX)
        return -EBADMSG;
    CLEANUP(freep) uint8_t *image = malloc((size_t)size);
    if (!image)
        return -ENOMEM;
    if (pread(fd, image, (size_t)size, 0) != size)
        return -EBADMSG;
    int r = unwind_table_read((struct bytes){image, (size_t)size}, &view, &err);
    if (r == 0)
        r = probe_file_put(files->o.probe, f->number, &view);
    if (r == -ENOSPC) {
        code_files_shed(files);
        r = probe_file_put(files->o.probe, f->number, &view);
    }
    return r;
}

static void put_frame_pointers(struct code_files *files, struct code_file *f)
{
    struct unwind_view view = {.wants_frame_pointers = true};

    (void)probe_file_put(files->o.probe, f->number, &view);
}

static void keep(struct code_files *files, struct name_cache_key key, enum name_cache_kind kind,
                 int fd)
{
    struct error err;

    (void)name_cache_put(files->o.cache, &key, kind, fd, &err); /* the cache counts what fails */
}

static void got_unwind(struct code_files *files, struct code_file *f, int r, int memfd)
{
    files->tables_asked--;
    if (r == 0)
        r = put_table(files, f, memfd);
    f->has_no_room = r == -ENOSPC;
    f->unwind = r == 0 ? CODE_PART_READY : CODE_PART_MISSING;
    if (r < 0)
        put_frame_pointers(files, f);
    else
        keep(files, key_of(f, false), NAME_CACHE_UNWIND, memfd);
}

static void got_names(struct code_files *files, struct code_file *f, int r, int *memfd)
{
    struct error err;

    if (r == 0)
        keep(files, key_of(f, f->debug_fd >= 0), NAME_CACHE_NAMES, *memfd);
    if (r == 0)
        r = name_table_open(TAKE_FD(*memfd), &f->table, &err);
    f->names = r == 0 ? CODE_PART_READY : CODE_PART_MISSING;
}

static bool cached_unwind(struct code_files *files, struct code_file *f)
{
    struct name_cache_key key = key_of(f, false);
    CLEANUP(closep) int fd = name_cache_get(files->o.cache, &key, NAME_CACHE_UNWIND);

    if (fd < 0)
        return false;
    int r = put_table(files, f, fd);
    if (r == -EBADMSG)
        name_cache_drop(files->o.cache, &key, NAME_CACHE_UNWIND);
    if (r == 0)
        f->unwind = CODE_PART_READY;
    return r == 0;
}

static bool cached_names(struct code_files *files, struct code_file *f, bool has_debug)
{
    struct name_cache_key key = key_of(f, has_debug);
    struct error err;
    int fd = name_cache_get(files->o.cache, &key, NAME_CACHE_NAMES);

    if (fd < 0)
        return false;
    if (name_table_open(fd, &f->table, &err) < 0) {
        name_cache_drop(files->o.cache, &key, NAME_CACHE_NAMES);
        return false;
    }
    f->names = CODE_PART_READY;
    return true;
}

/* What was wanted while the file was being opened. */
static void go_on(struct code_files *files, struct code_file *f)
{
    if (f->names == CODE_PART_ASKED)
        ask_names(files, f);
    if (f->unwind == CODE_PART_ASKED)
        ask_unwind(files, f);
}

static void got_facts(struct code_files *files, struct code_file *f, int r, struct bytes data)
{
    struct error err;

    if (r == 0)
        r = parse_read_facts(data, &f->parsed, &err);
    f->state = r == 0 ? CODE_FILE_KNOWN : CODE_FILE_BAD;
    if (r < 0) {
        f->names = f->unwind = CODE_PART_MISSING;
        put_frame_pointers(files, f);
        return;
    }
    f->wants_debug = !f->parsed.facts.has_symbols && !f->parsed.facts.is_go;
    if (f->unwind == CODE_PART_NONE && !cached_unwind(files, f) && files->o.is_eager)
        ask_unwind(files, f);
    if (files->o.offer && !f->offered && f->parsed.facts.build_id[0]) {
        f->offered = true;
        files->o.offer(files->o.arg, f, f->fd);
    }
    go_on(files, f);
}

static void ask(struct code_files *files, struct code_file *f, struct asking what,
                struct bytes question);

static void ask_facts(struct code_files *files, struct code_file *f)
{
    CLEANUP(buf_done) struct buf q = {0};

    parse_question_facts(&q);
    ask(files, f, (struct asking){.what = ASK_FACTS, .memfd = -1}, buf_bytes(&q));
}

static void got_open(struct code_files *files, struct code_file *f, int r, struct bytes data,
                     int *fd)
{
    struct inspect_file facts = {.uid = UINT32_MAX};

    if (r == 0 && data.len == sizeof(facts))
        memcpy(&facts, data.data, sizeof(facts));
    if (r == 0 && *fd >= 0) {
        close_fd(&f->fd);
        f->fd = TAKE_FD(*fd);
        f->owner = facts.uid;
        f->is_fresh = true;
        if (f->state == CODE_FILE_ASKED)
            ask_facts(files, f);
        else
            go_on(files, f);
        return;
    }
    bool was_unwind = f->unwind == CODE_PART_ASKED;
    files->tables_asked -= was_unwind;
    if (f->state == CODE_FILE_ASKED)
        f->state = CODE_FILE_BAD;
    if (f->names == CODE_PART_ASKED || f->state == CODE_FILE_BAD)
        f->names = CODE_PART_MISSING;
    if (was_unwind || f->state == CODE_FILE_BAD) {
        f->unwind = CODE_PART_MISSING;
        put_frame_pointers(files, f);
    }
}

static void got_debug(struct code_files *files, struct code_file *f, int r, int *fd)
{
    if (r == 0 && *fd >= 0) {
        f->debug_fd = TAKE_FD(*fd);
        f->wants_debug = false;
    }
    ask_names(files, f);
}

/* No fault of the file, or perhaps none: its process is gone, nobody had time, a worker hung. */
static void note_failure(struct code_file *f, int r)
{
    bool hung = r == -ETIMEDOUT || r == -EPIPE;

    f->hangs += hung;
    if (r == -ESRCH || r == -EAGAIN || (hung && f->hangs < HANGS_MAX)) {
        f->is_untried = true;
        f->retry_ns = 0;
    }
}

static void answered(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct asking *a = arg;
    struct code_files *files = a->files;
    struct code_file *f = code_files_get(files, a->number);

    files->asked--;
    if (f)
        note_failure(f, r);
    if (r < 0 && f && files->o.complain)
        files->o.complain(files->o.arg, f, r, text);
    if (f && r != -ECANCELED) {
        switch (a->what) {
        case ASK_OPEN:
            got_open(files, f, r, data, &fd);
            break;
        case ASK_FACTS:
            got_facts(files, f, r, data);
            break;
        case ASK_DEBUG:
            got_debug(files, f, r, &fd);
            break;
        case ASK_UNWIND:
            got_unwind(files, f, r, a->memfd);
            break;
        case ASK_NAMES:
            got_names(files, f, r, &a->memfd);
            break;
        }
        files->o.changed(files->o.arg);
    }
    close_fd(&fd);
    close_fd(&a->memfd);
    free(a);
}

static void ask(struct code_files *files, struct code_file *f, struct asking what,
                struct bytes question)
{
    bool is_open = what.what == ASK_OPEN || what.what == ASK_DEBUG;
    struct asking *a = must_calloc(1, sizeof(*a));
    int fds[] = {f->fd, f->debug_fd >= 0 ? f->debug_fd : f->fd, what.memfd};
    size_t n = is_open ? 0 : what.memfd >= 0 ? 3 : 2;

    *a = what;
    a->files = files;
    a->number = f->number;
    files->asked++;
    int r =
        worker_ask(is_open ? files->o.inspector : files->o.parser, question, fds, n, answered, a);
    if (r < 0)
        answered(a, r, (struct bytes){0}, -1, "");
}

static void ask_open(struct code_files *files, struct code_file *f)
{
    CLEANUP(buf_done) struct buf q = {0};

    inspect_question_file(f->pid, f->start_ns, f->begin, f->end, &q);
    ask(files, f, (struct asking){.what = ASK_OPEN, .memfd = -1}, buf_bytes(&q));
}

/* Steps to the n-th candidate. */
struct nth {
    unsigned left;
    char path[4096];
};

static int pick(void *arg, const char *path)
{
    struct nth *n = arg;

    if (n->left-- > 0)
        return 0;
    snprintf(n->path, sizeof(n->path), "%s", path);
    return 1;
}

/* The next place where its debug file may be: in the root of the process, then in ours. */
static bool ask_debug(struct code_files *files, struct code_file *f)
{
    unsigned i = f->debug_tried++;
    bool is_ours = i % 2 == 1;
    struct nth nth = {.left = i / 2};

    if (parse_debug_paths(&f->parsed.facts, f->path, files->o.debug_dirs, files->o.n_debug_dirs,
                          pick, &nth) == 0)
        return false;
    CLEANUP(buf_done) struct buf q = {0};
    inspect_question_path(is_ours ? 0 : f->pid, is_ours ? 0 : f->start_ns, nth.path, false,
                          UINT32_MAX, &q);
    ask(files, f, (struct asking){.what = ASK_DEBUG, .memfd = -1}, buf_bytes(&q));
    return true;
}

static void ask_names(struct code_files *files, struct code_file *f)
{
    CLEANUP(buf_done) struct buf q = {0};

    f->names = CODE_PART_ASKED;
    if (f->state != CODE_FILE_KNOWN)
        return; /* go_on() */
    if (cached_names(files, f, true) || (!f->wants_debug && cached_names(files, f, false)))
        return;
    if (f->fd < 0) {
        ask_open(files, f);
        return;
    }
    if (f->wants_debug && f->debug_fd < 0 && ask_debug(files, f))
        return;
    if (f->debug_fd < 0 && cached_names(files, f, false))
        return;
    int memfd = name_cache_scratch(files->o.cache);
    if (memfd < 0) {
        f->names = CODE_PART_MISSING;
        return;
    }
    parse_question_names(&q);
    ask(files, f, (struct asking){.what = ASK_NAMES, .memfd = memfd}, buf_bytes(&q));
}

static void ask_unwind(struct code_files *files, struct code_file *f)
{
    CLEANUP(buf_done) struct buf q = {0};

    if (f->unwind != CODE_PART_ASKED)
        files->tables_asked++;
    f->unwind = CODE_PART_ASKED;
    if (f->state != CODE_FILE_KNOWN)
        return; /* go_on() */
    if (cached_unwind(files, f)) {
        files->tables_asked--;
        return;
    }
    if (f->fd < 0) {
        ask_open(files, f);
        return;
    }
    int memfd = name_cache_scratch(files->o.cache);
    if (memfd < 0) {
        f->unwind = CODE_PART_MISSING;
        files->tables_asked--;
        return;
    }
    parse_question_unwind(&q);
    ask(files, f, (struct asking){.what = ASK_UNWIND, .memfd = memfd}, buf_bytes(&q));
}

void code_file_want_names(struct code_files *files, struct code_file *f)
{
    if (files->o.wants_names && f->names == CODE_PART_NONE)
        ask_names(files, f);
}

static bool is_of(const struct code_file *f, const struct inspect_mapping *m)
{
    return f->inode == m->inode && f->device_major == m->device_major &&
           f->device_minor == m->device_minor && (m->inode != 0 || bytes_are(m->path, f->path));
}

static bool make_room(struct code_files *files, uint32_t number)
{
    if (number < files->cap)
        return true;
    if (number > PLACE_FILE_MAX)
        return false;
    uint32_t cap = files->cap ? files->cap * 2 : 256;
    while (cap <= number)
        cap *= 2;
    files->by_number = must_realloc(files->by_number, cap * sizeof(*files->by_number));
    memset(files->by_number + files->cap, 0, (cap - files->cap) * sizeof(*files->by_number));
    files->cap = cap;
    return true;
}

static struct code_file *new_file(struct code_files *files, const struct inspect_process *p,
                                  const struct inspect_mapping *m)
{
    uint32_t number = 0;

    if (probe_file_new(files->o.probe, &number) < 0)
        return NULL;
    if (!make_room(files, number)) {
        probe_file_free(files->o.probe, number);
        return NULL;
    }
    struct code_file *f = must_calloc(1, sizeof(*f));
    *f = (struct code_file){.number = number,
                            .inode = m->inode,
                            .device_major = m->device_major,
                            .device_minor = m->device_minor,
                            .path = must_copy(m->path),
                            .fd = -1,
                            .debug_fd = -1,
                            .pid = p->pid,
                            .start_ns = p->start_ns,
                            .begin = m->begin,
                            .end = m->end};
    files->by_number[number] = f;
    ask_open(files, f);
    return f;
}

static bool is_asked(const struct code_file *f)
{
    return f->state == CODE_FILE_ASKED || f->names == CODE_PART_ASKED ||
           f->unwind == CODE_PART_ASKED;
}

static void try_again(struct code_files *files, struct code_file *f)
{
    f->is_untried = false;
    f->tries++;
    if (f->unwind == CODE_PART_MISSING) {
        f->unwind = CODE_PART_NONE;
        probe_file_clear(files->o.probe, f->number);
    }
    if (f->names == CODE_PART_MISSING)
        f->names = CODE_PART_NONE;
    if (f->state == CODE_FILE_BAD) {
        f->state = CODE_FILE_ASKED;
        ask_open(files, f);
    }
}

static void may_try_again(struct code_files *files, struct code_file *f, int64_t now_ns)
{
    if (!f->is_untried || f->refs == 0 || is_asked(f) || files->asked > RETRIES_ASKED)
        return;
    if (f->retry_ns == 0)
        f->retry_ns = now_ns + (RETRY_NS << (f->tries < 5 ? f->tries : 5));
    else if (now_ns >= f->retry_ns)
        try_again(files, f);
}

struct code_file *code_files_hold(struct code_files *files, const struct inspect_process *p,
                                  const struct inspect_mapping *m)
{
    struct code_file *found = NULL;

    if (m->inode == 0 && !bytes_are(m->path, "[vdso]"))
        return NULL;
    for (uint32_t i = 0; i < files->cap && !found; i++)
        if (files->by_number[i] && is_of(files->by_number[i], m))
            found = files->by_number[i];
    if (!found)
        found = new_file(files, p, m);
    if (found) {
        found->refs++;
        /* Whoever started last is most likely still there when it has to be opened again. */
        found->pid = p->pid;
        found->start_ns = p->start_ns;
        found->begin = m->begin;
        found->end = m->end;
        if (found->is_untried && found->hangs == 0 && !is_asked(found))
            try_again(files, found);
    }
    return found;
}

void code_files_let_go(struct code_files *files, struct code_file *f)
{
    (void)files;
    f->refs--;
}

bool code_file_bias(const struct code_file *f, const struct inspect_mapping *m, uint64_t *ret)
{
    if (f->state != CODE_FILE_KNOWN)
        return false;
    for (uint32_t i = 0; i < f->parsed.n_loads; i++) {
        const struct parse_load *l = &f->parsed.loads[i];
        uint64_t len = m->end - m->begin;
        /* Mappings start at the page that holds the segment's first byte. */
        if (l->offset < m->offset + len && m->offset < l->offset + l->file_size) {
            *ret = m->begin - (l->vaddr - l->offset + m->offset);
            return true;
        }
    }
    return false;
}

static void free_idle(struct code_files *files, uint32_t i, int64_t now_ns)
{
    struct code_file *f = files->by_number[i];

    if (f->refs > 0 || is_asked(f)) {
        f->idle_since = 0;
        return;
    }
    if (f->idle_since == 0) {
        f->idle_since = now_ns;
    } else if (now_ns - f->idle_since > FILE_IDLE_NS) {
        files->o.forgotten(files->o.arg, f->number);
        probe_file_free(files->o.probe, f->number);
        files->by_number[i] = NULL;
        free_file(f);
    }
}

/* Descriptors are few, and what is needed of a file is mostly asked for soon after it is opened. */
static void close_idle(const struct code_files *files, struct code_file *f, int64_t now_ns)
{
    if (f->fd < 0)
        return;
    if (f->is_fresh) {
        f->is_fresh = false;
        f->opened_ns = now_ns;
    }
    bool is_done = f->names >= CODE_PART_READY && f->unwind >= CODE_PART_READY;
    if (is_asked(f) || files->o.keeps_open || (!is_done && now_ns - f->opened_ns < FD_IDLE_NS))
        return;
    close_fd(&f->fd);
    close_fd(&f->debug_fd);
}

void code_files_tick(struct code_files *files, int64_t now_ns)
{
    for (uint32_t i = 0; i < files->cap; i++) {
        struct code_file *f = files->by_number[i];
        if (!f)
            continue;
        const struct unwind_file *u = probe_file(files->o.probe, f->number);
        if (f->unwind == CODE_PART_NONE && f->state == CODE_FILE_KNOWN && u->last_used != 0 &&
            files->tables_asked < TABLES_AT_ONCE)
            ask_unwind(files, f);
        may_try_again(files, f, now_ns);
        close_idle(files, f, now_ns);
        free_idle(files, i, now_ns);
    }
}

void code_files_shed(struct code_files *files)
{
    uint32_t now_s = probe_settings(files->o.probe)->now_s;

    for (uint32_t i = 0; i < files->cap; i++) {
        struct code_file *f = files->by_number[i];
        if (f && f->has_no_room) {
            f->has_no_room = false; /* asked for again: there may be room now */
            f->unwind = CODE_PART_NONE;
            probe_file_clear(files->o.probe, f->number);
            continue;
        }
        if (!f || f->unwind != CODE_PART_READY ||
            now_s - probe_file(files->o.probe, f->number)->last_used < TABLE_IDLE_S)
            continue;
        probe_file_clear(files->o.probe, f->number);
        f->unwind = CODE_PART_NONE;
        files->evicted++;
    }
}

void code_files_stats(const struct code_files *files, struct code_files_stats *ret)
{
    *ret = (struct code_files_stats){.evicted = files->evicted, .asked = files->asked};
    for (uint32_t i = 0; i < files->cap; i++) {
        const struct code_file *f = files->by_number[i];
        if (!f)
            continue;
        ret->files++;
        ret->tables += f->unwind == CODE_PART_READY;
        ret->name_tables += f->names == CODE_PART_READY;
        ret->bad += f->state == CODE_FILE_BAD;
    }
}
