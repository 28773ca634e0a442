#include <assert.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/must.h"
#include "probe/probe_internal.h"

/*
 * The arrays that walks read. Ranges are written while nobody knows of them, then published by one
 * store; what is taken out of use is not written again before a walk that may know it has ended.
 */

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_real());
}

static int map_array(struct probe *p, const char *name, size_t element, struct probe_array *ret,
                     struct error *err)
{
    const struct bpf_map *m = bpf_object__find_map_by_name(p->object, name);
    assert(m);
    uint32_t n = bpf_map__max_entries(m);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (element * n + page - 1) / page * page;
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(m), 0);
    if (data == MAP_FAILED)
        return error_set(err, -errno, "could not map the BPF map \"%s\": %m", name);
    *ret = (struct probe_array){data, bytes, n};
    return 0;
}

static int map_arrays(struct probe *p, struct error *err)
{
    struct probe_array settings = {0};
    int r = map_array(p, "rows", sizeof(struct unwind_row_pair), &p->rows, err);
    if (r == 0)
        r = map_array(p, "pages", sizeof(struct unwind_page), &p->pages, err);
    if (r == 0)
        r = map_array(p, "rules", sizeof(struct unwind_rule), &p->rules, err);
    if (r == 0)
        r = map_array(p, "files", sizeof(struct unwind_file), &p->files, err);
    if (r == 0)
        r = map_array(p, "mappings", sizeof(struct unwind_mapping), &p->mappings, err);
    if (r == 0)
        r = map_array(p, ".data.settings", sizeof(struct unwind_settings), &settings, err);
    p->settings = settings.data;
    return r;
}

int probe_tables_init(struct probe *p, struct error *err)
{
    int r = map_arrays(p, err);
    if (r < 0)
        return r;
    p->rows.n *= 2; /* each element is two */
    range_pool_init(&p->free_rows, 0, p->rows.n);
    range_pool_init(&p->free_pages, 0, p->pages.n);
    range_pool_init(&p->free_rules, 0, p->rules.n);
    range_pool_init(&p->free_files, 1, p->files.n - 1);
    range_pool_init(&p->free_mappings, 0, p->mappings.n);
    p->file_ranges = must_calloc(p->files.n, sizeof(*p->file_ranges));
    return 0;
}

static void unmap(struct probe_array *a)
{
    if (a->data)
        munmap(a->data, a->bytes);
}

void probe_tables_done(struct probe *p)
{
    unmap(&p->rows);
    unmap(&p->pages);
    unmap(&p->rules);
    unmap(&p->files);
    unmap(&p->mappings);
    if (p->settings)
        munmap(p->settings, (size_t)sysconf(_SC_PAGESIZE));
    range_pool_done(&p->free_rows);
    range_pool_done(&p->free_pages);
    range_pool_done(&p->free_rules);
    range_pool_done(&p->free_files);
    range_pool_done(&p->free_mappings);
    free(p->file_ranges);
}

static struct unwind_file *file_at(const struct probe *p, uint32_t file)
{
    assert(file > 0 && file < p->files.n && p->file_ranges[file].is_used);
    return (struct unwind_file *)p->files.data + file;
}

int probe_file_new(struct probe *p, uint32_t *ret)
{
    struct range r;
    if (!range_pool_take(&p->free_files, 1, now_ns(), &r))
        return -ENOSPC;
    p->file_ranges[r.first] = (struct probe_file_ranges){.is_used = true};
    struct unwind_file *f = file_at(p, r.first);
    *f = (struct unwind_file){.state = UNWIND_FILE_WANTED, .version = f->version + 1};
    *ret = r.first;
    return 0;
}

static void give_ranges(struct probe *p, const struct probe_file_ranges *r)
{
    int64_t now = now_ns();
    range_pool_give(&p->free_rows, r->rows, now);
    range_pool_give(&p->free_pages, r->pages, now);
    range_pool_give(&p->free_rules, r->rules, now);
}

static int take_ranges(struct probe *p, const struct unwind_view *v, struct probe_file_ranges *ret)
{
    int64_t now = now_ns();
    struct probe_file_ranges r = {.is_used = true};
    if (!range_pool_take(&p->free_rows, v->n_rows, now, &r.rows))
        return -ENOSPC;
    if (!range_pool_take(&p->free_pages, v->n_pages, now, &r.pages)) {
        range_pool_undo(&p->free_rows, r.rows);
        return -ENOSPC;
    }
    if (!range_pool_take(&p->free_rules, v->n_rules, now, &r.rules)) {
        range_pool_undo(&p->free_rows, r.rows);
        range_pool_undo(&p->free_pages, r.pages);
        return -ENOSPC;
    }
    *ret = r;
    return 0;
}

static void copy(void *to, const void *from, size_t n)
{
    if (n > 0)
        memcpy(to, from, n);
}

static void write_table(struct probe *p, const struct unwind_view *v,
                        const struct probe_file_ranges *r)
{
    copy((struct unwind_row *)p->rows.data + r->rows.first, v->rows, v->n_rows * sizeof(*v->rows));
    copy((struct unwind_rule *)p->rules.data + r->rules.first, v->rules,
         v->n_rules * sizeof(*v->rules));
    struct unwind_page *pages = (struct unwind_page *)p->pages.data + r->pages.first;
    for (uint32_t i = 0; i < v->n_pages; i++)
        pages[i] = (struct unwind_page){r->rows.first + v->pages[i], v->pages[i + 1] - v->pages[i]};
}

/* What is in *f changes between the first and the last store here; a walk that saw part of it sees
 * another version. */
static void publish(struct unwind_file *f, const struct unwind_file *next)
{
    __atomic_store_n(&f->state, UNWIND_FILE_WANTED, __ATOMIC_SEQ_CST);
    __atomic_store_n(&f->version, f->version + 1, __ATOMIC_SEQ_CST);
    f->first_page = next->first_page;
    f->n_pages = next->n_pages;
    f->first_rule = next->first_rule;
    f->n_rules = next->n_rules;
    f->first_text_page = next->first_text_page;
    __atomic_store_n(&f->version, f->version + 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&f->state, next->state, __ATOMIC_SEQ_CST);
}

int probe_file_put(struct probe *p, uint32_t file, const struct unwind_view *v)
{
    struct unwind_file *f = file_at(p, file);
    struct probe_file_ranges r;
    if (take_ranges(p, v, &r) < 0)
        return -ENOSPC;
    write_table(p, v, &r);
    struct unwind_file next = {
        .first_page = r.pages.first,
        .n_pages = v->n_pages,
        .first_rule = r.rules.first,
        .n_rules = v->n_rules,
        .first_text_page = v->first_text_page,
        .state = v->wants_frame_pointers ? UNWIND_FILE_FRAME_POINTERS : UNWIND_FILE_READY,
    };
    publish(f, &next);
    give_ranges(p, &p->file_ranges[file]);
    p->file_ranges[file] = r;
    return 0;
}

void probe_file_clear(struct probe *p, uint32_t file)
{
    struct unwind_file *f = file_at(p, file);
    publish(f, &(struct unwind_file){.state = UNWIND_FILE_WANTED});
    give_ranges(p, &p->file_ranges[file]);
    p->file_ranges[file] = (struct probe_file_ranges){.is_used = true};
}

void probe_file_free(struct probe *p, uint32_t file)
{
    probe_file_clear(p, file);
    p->file_ranges[file].is_used = false;
    range_pool_give(&p->free_files, (struct range){file, 1}, now_ns());
}

const struct unwind_file *probe_file(const struct probe *p, uint32_t file)
{
    return file_at(p, file);
}

uint64_t probe_table_bytes(const struct probe *p)
{
    return (uint64_t)p->free_rows.used * sizeof(struct unwind_row) +
           (uint64_t)p->free_pages.used * sizeof(struct unwind_page) +
           (uint64_t)p->free_rules.used * sizeof(struct unwind_rule);
}

/* Its entry as it is in the map now; zeroes when there is none. */
static struct unwind_process process_of(const struct probe *p, uint32_t tgid)
{
    struct unwind_process old;
    if (bpf_map_lookup_elem(p->process_map, &tgid, &old) < 0)
        return (struct unwind_process){0};
    return old;
}

/* What was kept for an entry that has been replaced. */
static void end_process(struct probe *p, uint32_t tgid, const struct unwind_process *old,
                        uint32_t collected)
{
    range_pool_give(&p->free_mappings, (struct range){old->first_mapping, old->n_mappings},
                    now_ns());
    probe_waits_process(p, tgid, old->collected, collected);
}

int probe_process_put(struct probe *p, uint32_t tgid, const struct unwind_process *value,
                      const struct unwind_mapping *mappings, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (mappings[i].begin >= mappings[i].end ||
            (i > 0 && mappings[i - 1].end > mappings[i].begin))
            return -EINVAL;
    struct unwind_process old = process_of(p, tgid);
    struct range r;
    if (!range_pool_take(&p->free_mappings, n, now_ns(), &r))
        return -ENOSPC;
    copy((struct unwind_mapping *)p->mappings.data + r.first, mappings, n * sizeof(*mappings));
    struct unwind_process next = *value;
    next.first_mapping = r.first;
    next.n_mappings = n;
    next.mappings_id = ++p->mappings_id;
    if (bpf_map_update_elem(p->process_map, &tgid, &next, BPF_ANY) < 0) {
        int failed = errno == E2BIG ? -ENOSPC : -errno;
        range_pool_undo(&p->free_mappings, r);
        return failed;
    }
    end_process(p, tgid, &old, next.collected);
    return 0;
}

void probe_process_drop(struct probe *p, uint32_t tgid)
{
    struct unwind_process old = process_of(p, tgid);
    if (bpf_map_delete_elem(p->process_map, &tgid) == 0)
        end_process(p, tgid, &old, 0);
}
