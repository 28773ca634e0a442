#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/must.h"
#include "probe/perf_internal.h"

/* Who is sampled, and what is known about them. */

#define STAT_FIELDS 29

static size_t bucket_of(uint32_t id)
{
    return hash_mix(id, 1) % PERF_BUCKETS;
}

struct perf_process *perf_process_find(const struct perf_backend *b, uint32_t tgid)
{
    for (struct perf_process *p = b->processes[bucket_of(tgid)]; p; p = p->next)
        if (p->tgid == tgid)
            return p;
    return NULL;
}

struct perf_process *perf_process_get(struct perf_backend *b, uint32_t tgid)
{
    struct perf_process *p = perf_process_find(b, tgid);
    if (p || b->n_processes >= b->processes_max)
        return p;
    p = must_calloc(1, sizeof(*p));
    p->tgid = tgid;
    struct perf_process **bucket = &b->processes[bucket_of(tgid)];
    p->next = *bucket;
    *bucket = p;
    b->n_processes++;
    return p;
}

void perf_processes_trim(struct perf_backend *b)
{
    for (size_t i = 0; i < PERF_BUCKETS; i++) {
        for (struct perf_process **at = &b->processes[i]; *at;) {
            struct perf_process *p = *at;
            if (p->has_entry || p->family) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            b->n_processes--;
            free(p);
        }
    }
}

/* A process names itself: its name may hold anything, but no more than 15 bytes of it. */
bool perf_read_stat(uint32_t tgid, struct perf_stat *ret)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%u/stat", tgid);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    text[n] = '\0';
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open || strlen(close) < 4)
        return false;
    uint64_t fields[STAT_FIELDS] = {0};
    char *at = (char *)close + 3; /* behind the state, field 3 */
    for (size_t i = 4; i < STAT_FIELDS; i++)
        fields[i] = strtoull(at, &at, 10);
    uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
    *ret = (struct perf_stat){.parent = (uint32_t)fields[4],
                              .start_ns = fields[22] * tick_ns,
                              .code_start = fields[26],
                              .stack_start = fields[28],
                              .state = close[2]};
    size_t len = (size_t)(close - open - 1);
    memcpy(ret->comm, open + 1, len < sizeof(ret->comm) ? len : sizeof(ret->comm) - 1);
    return true;
}

void perf_process_renew(struct perf_process *p)
{
    struct perf_stat stat;
    p->code_start = p->stack_start = UINT64_MAX;
    if (!perf_read_stat(p->tgid, &stat))
        return;
    p->start_ns = stat.start_ns;
    p->parent = stat.parent;
    p->code_start = stat.code_start;
    p->stack_start = stat.stack_start;
    memcpy(p->comm, stat.comm, sizeof(p->comm));
}

static bool is_at(const struct perf_process *entry, const struct perf_process *p)
{
    return entry && entry->has_entry && entry->value.code_start == p->code_start &&
           entry->value.stack_start == p->stack_start;
}

const struct unwind_process *perf_process_entry(const struct perf_backend *b,
                                                const struct perf_process *p, bool *ret_is_own)
{
    *ret_is_own = is_at(p, p);
    if (*ret_is_own)
        return &p->value;
    const struct perf_process *parent = perf_process_find(b, p->parent);
    return is_at(parent, p) ? &parent->value : NULL;
}

void perf_family_join(struct perf_process *p, struct perf_family *f)
{
    if (p->family || !f)
        return;
    p->family = f;
    f->members++;
}

void perf_family_leave(struct perf_backend *b, struct perf_process *p)
{
    struct perf_family *f = p->family;
    p->family = NULL;
    if (!f || --f->members > 0)
        return;
    for (size_t i = 0; i < f->n; i++)
        close(f->fds[i]);
    free(f->fds);
    free(f);
    b->attached--;
}

static struct perf_thread *find_thread(const struct perf_backend *b, uint32_t tid)
{
    for (struct perf_thread *t = b->threads[bucket_of(tid)]; t; t = t->next)
        if (t->tid == tid)
            return t;
    return NULL;
}

void perf_thread_name(struct perf_backend *b, uint32_t tgid, uint32_t tid, const char *comm)
{
    struct perf_thread *t = find_thread(b, tid);
    if (!t) {
        if (b->n_threads >= PERF_THREADS_MAX)
            return;
        t = must_calloc(1, sizeof(*t));
        struct perf_thread **bucket = &b->threads[bucket_of(tid)];
        t->next = *bucket;
        *bucket = t;
        b->n_threads++;
    }
    t->tgid = tgid;
    t->tid = tid;
    memset(t->comm, 0, sizeof(t->comm));
    memcpy(t->comm, comm, strnlen(comm, sizeof(t->comm) - 1));
}

const char *perf_thread_comm(const struct perf_backend *b, uint32_t tid)
{
    const struct perf_thread *t = find_thread(b, tid);
    return t ? t->comm : NULL;
}

void perf_thread_forget(struct perf_backend *b, uint32_t tid)
{
    for (struct perf_thread **at = &b->threads[bucket_of(tid)]; *at; at = &(*at)->next) {
        if ((*at)->tid == tid) {
            struct perf_thread *t = *at;
            *at = t->next;
            free(t);
            b->n_threads--;
            return;
        }
    }
}

void perf_processes_done(struct perf_backend *b)
{
    for (size_t i = 0; i < PERF_BUCKETS; i++) {
        while (b->processes[i]) {
            struct perf_process *p = b->processes[i];
            perf_family_leave(b, p);
            b->processes[i] = p->next;
            free(p);
        }
        while (b->threads[i])
            perf_thread_forget(b, b->threads[i]->tid);
    }
}
