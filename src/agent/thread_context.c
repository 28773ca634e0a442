#include "agent/thread_context.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"

/* Static TLS of all files together is smaller, and nothing is mapped so low. */
#define TLS_OFFSET_MAX ((int64_t)1 << 20)
#define MODULES_MAX    65536

static bool is_offset(uint16_t machine, int64_t n)
{
    if (machine == EM_AARCH64) /* above the thread pointer */
        return n >= 16 && n < TLS_OFFSET_MAX;
    return n < 0 && n > -((int64_t)1 << 32);
}

void thread_context_of_file(const struct parse_facts *f, uint64_t bias, bool is_program,
                            bool is_musl, struct thread_context_search *ret)
{
    *ret = (struct thread_context_search){
        .machine = f->machine, .model = f->tls_model, .place = {.is_musl = is_musl}};

    if (!f->has_thread_context)
        return;
    if (f->tls_model != PARSE_TLS_LOCAL) {
        ret->at = f->tls_got + bias;
        ret->n_words = f->tls_model == PARSE_TLS_INITIAL ? 1 : 2;
    } else if (is_program && is_offset(f->machine, f->tls_offset)) {
        /* A library without relocations for it does not use it. */
        ret->place.kind = THREAD_CONTEXT_TLS;
        ret->place.tls_offset = f->tls_offset;
    }
}

static void take_offset(struct thread_context_search *s, uint64_t word)
{
    if (is_offset(s->machine, (int64_t)word)) {
        s->place.kind = THREAD_CONTEXT_TLS;
        s->place.tls_offset = (int64_t)word;
    } else {
        s->is_not_ready = true;
    }
}

/* A module's number, and the offset in its block. */
static void take_index(struct thread_context_search *s, const uint64_t *words)
{
    if (words[0] == 0 || words[0] >= MODULES_MAX || words[1] >= (uint64_t)TLS_OFFSET_MAX << 10) {
        s->is_not_ready = true;
        return;
    }
    s->place.kind = THREAD_CONTEXT_TLS_DTV;
    s->place.tls_module = (uint32_t)words[0];
    s->place.tls_offset = (int64_t)words[1];
}

void thread_context_words(struct thread_context_search *s, const uint64_t *words)
{
    s->n_words = 0;
    if (s->model == PARSE_TLS_INITIAL) {
        take_offset(s, words[0]);
    } else if (s->model == PARSE_TLS_GENERAL) {
        take_index(s, words);
    } else if (words[0] == 0 || words[1] == 0 || is_offset(s->machine, (int64_t)words[1])) {
        /* A descriptor: a function, and what it is handed. */
        take_offset(s, words[1]);
    } else {
        s->model = PARSE_TLS_GENERAL;
        s->at = words[1];
        s->n_words = 2;
    }
}

/* ---- Go ---- */

#define GO_OLDEST 18

/* By minor version, from the first on that has them; 64-bit machines have the same. */
static const struct go_layout {
    unsigned from;
    uint16_t m_curg, g_labels;
    bool is_slice;
} go_layouts[] = {{26, 184, 352, true},  {25, 184, 344, true},  {24, 192, 352, true},
                  {23, 192, 352, false}, {21, 192, 344, false}, {GO_OLDEST, 192, 360, false}};

#define GO_G_M 48

/* "go1.26.8", "devel go1.27-2a7b". */
static unsigned go_minor(const char *version)
{
    const char *p = strstr(version, "go1.");

    return p ? (unsigned)strtoul(p + strlen("go1."), NULL, 10) : 0;
}

struct thread_context_place thread_context_of_go(const struct parse_facts *f)
{
    unsigned minor = go_minor(f->go_version);
    struct thread_context_place found = {.kind = THREAD_CONTEXT_NONE};

    if (f->machine != EM_AARCH64 && !is_offset(f->machine, f->go_tls_offset))
        return found;
    for (size_t i = 0; i < sizeof(go_layouts) / sizeof(go_layouts[0]); i++) {
        const struct go_layout *l = &go_layouts[i];
        if (minor < l->from)
            continue;
        found = (struct thread_context_place){.kind = THREAD_CONTEXT_GO_LABELS,
                                              .tls_offset = f->go_tls_offset,
                                              .g_m = GO_G_M,
                                              .m_curg = l->m_curg,
                                              .g_labels = l->g_labels,
                                              .labels_are_slice = l->is_slice};
        break;
    }
    return found;
}

/* ---- Looking ---- */

static const struct parse_facts *facts_of(const struct process_mapping *m)
{
    return m->file && m->is_placed && m->file->state == CODE_FILE_KNOWN ? &m->file->parsed.facts
                                                                        : NULL;
}

static bool is_main(const struct process *p, const struct process_mapping *m)
{
    return p->code_start >= m->begin && p->code_start < m->end;
}

static bool has_musl(const struct process *p)
{
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct code_file *f = p->mappings[i].file;
        if (f && (strstr(f->path, "/ld-musl-") || strstr(f->path, "-musl/libc.so")))
            return true;
    }
    return false;
}

/* The program's own variable before those of libraries. */
static bool begin(const struct process *p, struct thread_context_search *ret)
{
    bool is_musl = has_musl(p);
    struct thread_context_search s;

    *ret = (struct thread_context_search){0};
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct process_mapping *m = &p->mappings[i];
        const struct parse_facts *f = facts_of(m);
        if (!f || !f->has_thread_context)
            continue;
        thread_context_of_file(f, m->bias, is_main(p, m), is_musl, &s);
        if ((s.n_words || s.place.kind) && (is_main(p, m) || !(ret->n_words || ret->place.kind)))
            *ret = s;
    }
    return ret->n_words || ret->place.kind;
}

static struct thread_context_place by_labels(const struct process *p)
{
    struct thread_context_place none = {.kind = THREAD_CONTEXT_NONE};

    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct parse_facts *f = facts_of(&p->mappings[i]);
        if (f && f->is_go && is_main(p, &p->mappings[i]))
            return thread_context_of_go(f);
    }
    return none;
}

struct finding {
    struct process_table *table;
    struct worker *inspector;
    struct process *process; /* held */
    struct thread_context_search search;
};

static void got_words(void *arg, int r, struct bytes data, int fd, const char *text);

static bool ask(struct finding *d)
{
    struct thread_context_search *s = &d->search;
    uint64_t at[2] = {s->at, s->at + 8};
    CLEANUP(buf_done) struct buf q = {0};

    inspect_question_words(d->process->tgid, d->process->start_ns, at, s->n_words, &q);
    return worker_ask(d->inspector, buf_bytes(&q), NULL, 0, got_words, d) == 0;
}

static void got_words(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct finding *d = arg;
    uint64_t words[2] = {0};
    uint32_t read = 0;
    struct error err;

    (void)text;
    if (fd >= 0)
        close(fd);
    if (r == -ECANCELED) {
        free(d);
        return;
    }
    if (r == 0)
        r = inspect_read_words(data, words, d->search.n_words, &read, &err);
    if (r == 0) {
        thread_context_words(&d->search, words); /* what could not be read is 0 */
        if (d->search.n_words && ask(d))
            return;
    }
    if (d->search.is_not_ready)
        process_look_later(d->process);
    else
        process_table_set_context(d->table, d->process, &d->search.place);
    process_let_go(d->table, d->process);
    free(d);
}

void thread_context_find(struct process_table *t, struct worker *inspector, struct process *p)
{
    enum identity_threads threads = identity_threads(p->identity);
    struct thread_context_search s = {0};

    if (!p->is_wanted || p->is_kernel || threads == IDENTITY_THREADS_OTHER)
        return;
    if (threads == IDENTITY_THREADS_GO || (threads == IDENTITY_THREADS_UNSAID && p->is_go))
        s.place = by_labels(p);
    else
        begin(p, &s);
    if (s.n_words == 0) {
        process_table_set_context(t, p, &s.place);
        return;
    }
    struct finding *d = must_calloc(1, sizeof(*d));
    *d = (struct finding){t, inspector, p, s};
    if (ask(d))
        process_hold(p);
    else
        free(d);
}
