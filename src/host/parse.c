#include "host/parse.h"

#include <errno.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/le.h"
#include "host/parse_internal.h"
#include "symbols/debug_file.h"
#include "unwind/unwind_table.h"

enum question {
    QUESTION_FACTS = 1,
    QUESTION_UNWIND,
    QUESTION_NAMES,
    QUESTION_PERF_MAP,
    QUESTION_KALLSYMS,
    QUESTION_LINES
};

void parse_question_facts(struct buf *out)
{
    buf_add_byte(out, QUESTION_FACTS);
}

void parse_question_unwind(struct buf *out)
{
    buf_add_byte(out, QUESTION_UNWIND);
}

void parse_question_names(struct buf *out)
{
    buf_add_byte(out, QUESTION_NAMES);
}

void parse_question_perf_map(struct buf *out)
{
    buf_add_byte(out, QUESTION_PERF_MAP);
}

void parse_question_kallsyms(struct buf *out)
{
    buf_add_byte(out, QUESTION_KALLSYMS);
}

void parse_question_lines(const uint64_t *vas, size_t n, struct buf *out)
{
    uint8_t number[8];

    buf_add_byte(out, QUESTION_LINES);
    for (size_t i = 0; i < n && i < PARSE_LINES_MAX; i++) {
        le64_put(number, vas[i]);
        buf_add(out, number, sizeof(number));
    }
}

static void settle_bool(bool *b)
{
    uint8_t v;

    memcpy(&v, b, 1);
    *b = v != 0;
}

/* Both sides are one program, so the answer is the struct; what is no bool or text is made one. */
static void settle_facts(struct parse_facts *f)
{
#define END_TEXT(text) ((text)[sizeof(text) - 1] = '\0')
    END_TEXT(f->build_id);
    END_TEXT(f->go_build_id);
    END_TEXT(f->htlhash);
    END_TEXT(f->debug_link);
    END_TEXT(f->go_version);
    END_TEXT(f->go_module);
    END_TEXT(f->go_module_version);
    END_TEXT(f->vcs_revision);
    END_TEXT(f->vcs_time);
    END_TEXT(f->package_name);
    END_TEXT(f->package_version);
    END_TEXT(f->runtime);
    END_TEXT(f->runtime_version);
#undef END_TEXT
    settle_bool(&f->is_go);
    settle_bool(&f->is_static);
    settle_bool(&f->has_symbols);
    settle_bool(&f->has_dwarf);
    settle_bool(&f->vcs_modified);
    settle_bool(&f->has_thread_context);
}

int parse_read_facts(struct bytes answer, struct parse_file *ret, struct error *err)
{
    struct parse_file file;

    if (answer.len != sizeof(file))
        return error_set(err, -EBADMSG, "facts of a file: %zu bytes, not %zu", answer.len,
                         sizeof(file));
    memcpy(&file, answer.data, sizeof(file));
    if (file.n_loads > PARSE_LOADS_MAX || file.facts.tls_model > PARSE_TLS_DESCRIPTOR)
        return error_set(err, -EBADMSG, "facts of a file: out of range");
    settle_facts(&file.facts);
    *ret = file;
    return 0;
}

void parse_put_text(char *to, size_t size, struct bytes text)
{
    size_t n = text.len < size - 1 ? text.len : size - 1;

    for (size_t i = 0; i < n; i++)
        to[i] = (char)(text.data[i] < 0x20 || text.data[i] == 0x7f ? '?' : text.data[i]);
    to[n] = '\0';
}

/* The files of a question, while it is answered. */
struct files {
    struct budget budget;
    struct elf_file *elf, *debug;
};

static void files_close(struct files *f)
{
    elf_close(f->debug);
    elf_close(f->elf);
}

static bool is_same_file(int a, int b)
{
    struct stat x, y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int files_open(struct files *f, const struct worker_question *q, struct error *err)
{
    budget_init(&f->budget, PARSE_MEMORY_MAX);
    int r = elf_from_fd(q->fds[0], "file", &f->budget, &f->elf, err);
    if (r < 0 || q->fds[1] < 0 || is_same_file(q->fds[0], q->fds[1]))
        return r;
    /* A bad debug file takes nothing from the file itself. */
    if (elf_from_fd(q->fds[1], "debug file", &f->budget, &f->debug, NULL) >= 0 &&
        !debug_file_fits(f->elf, f->debug)) {
        elf_close(f->debug);
        f->debug = NULL;
    }
    f->budget.failed = false;
    return 0;
}

static int write_all(int fd, struct bytes data, struct error *err)
{
    uint64_t at = 0;

    while (data.len > 0) {
        ssize_t n = pwrite(fd, data.data, data.len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_set(err, n < 0 ? -errno : -EIO, "could not write the result: %m");
        data = bytes_from(data, (size_t)n);
        at += (uint64_t)n;
    }
    return 0;
}

static int serve_facts(struct files *f, struct worker_answer *a, struct error *err)
{
    struct parse_file file;

    memset(&file, 0, sizeof(file)); /* padding too: it is sent */
    int r = parse_facts_of(f->elf, &file, err);
    if (r >= 0)
        buf_add(&a->data, &file, sizeof(file));
    return r;
}

static int serve_unwind(struct files *f, int out, struct error *err)
{
    struct unwind_table t = {0};
    CLEANUP(buf_done) struct buf image = {0};

    int r = unwind_table_build(f->elf, f->debug, &f->budget, &t, err);
    if (r >= 0) {
        unwind_table_write(&t, &image);
        r = write_all(out, buf_bytes(&image), err);
    }
    unwind_table_done(&t);
    return r;
}

static int serve_elf(uint8_t what, const struct worker_question *q, struct worker_answer *a,
                     struct error *err)
{
    CLEANUP(files_close) struct files f = {0};
    int r = files_open(&f, q, err);

    if (r < 0)
        return r;
    if (what == QUESTION_FACTS)
        return serve_facts(&f, a, err);
    if (q->fds[2] < 0)
        return error_set(err, -EINVAL, "a question without a place for its result");
    return what == QUESTION_UNWIND ? serve_unwind(&f, q->fds[2], err)
                                   : parse_names_of(f.elf, f.debug, q->fds[2], err);
}

static int serve(const struct worker_question *q, struct worker_answer *a, struct error *err)
{
    uint8_t what = q->data.len > 0 ? q->data.data[0] : 0;

    if (q->fds[0] < 0)
        return error_set(err, -EINVAL, "a question without a file");
    switch (what) {
    case QUESTION_FACTS:
    case QUESTION_UNWIND:
    case QUESTION_NAMES:
        return serve_elf(what, q, a, err);
    case QUESTION_PERF_MAP:
        return parse_perf_map_of(q->fds[0], q->fds[2], err);
    case QUESTION_KALLSYMS:
        return parse_kallsyms_of(q->fds[0], q->fds[2], err);
    case QUESTION_LINES:
        return parse_lines_of(bytes_from(q->data, 1), q->fds[0],
                              is_same_file(q->fds[0], q->fds[1]) ? -1 : q->fds[1], &a->data, err);
    default:
        return error_set(err, -EINVAL, "unknown question %u", what);
    }
}

int parse_serve(void *state, const struct worker_question *q, struct worker_answer *a,
                struct error *err)
{
    (void)state;
    int r = serve(q, a, err);
    /* It waits for the next file holding nothing of this one. */
    malloc_trim(0);
    return r;
}

const struct worker_kind parse_worker = {
    .name = "vesta-parser",
    .deadline_ns = 3000000000,
    .memory_max = (uint64_t)512 << 20,
    .serve = parse_serve,
};
