#include <assert.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/must.h"
#include "probe/perf_backend.h"
#include "probe/probe_internal.h"

/*
 * The arrays that walks read. Ranges are written while nobody knows of them, then published by one
 * store; what is taken out of use is not written again before a walk that may know it has ended.
 */

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_real());
}

static size_t whole_pages(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (size_t)((bytes + page - 1) / page * page);
}

size_t probe_array_bytes(const struct probe_array *a)
{
    return whole_pages((uint64_t)a->n * a->element);
}

static struct probe_array array_of(const struct probe *p, const char *name, size_t element)
{
    const struct bpf_map *m = bpf_object__find_map_by_name(p->object, name);
    assert(m);
    return (struct probe_array){bpf_map__fd(m), element, bpf_map__max_entries(m), NULL};
}

/* All of it, to stay. */
static int map_array(struct probe_array *a, struct error *err)
{
    void *data = mmap(NULL, probe_array_bytes(a), PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
    if (data == MAP_FAILED)
        return error_set(err, -errno, "could not map an array of the kernel's: %m");
    a->data = data;
    return 0;
}

/* A part of an array, while it is written. */
struct array_window {
    void *map; /* NULL: the array is mapped anyway */
    size_t bytes;
    void *at; /* the first element asked for */
};

static int open_window(const struct probe_array *a, struct range r, struct array_window *ret)
{
    uint64_t first = (uint64_t)r.first * a->element, last = first + (uint64_t)r.n * a->element;
    if (a->data || r.n == 0) {
        *ret = (struct array_window){.at = a->data ? (uint8_t *)a->data + first : NULL};
        return 0;
    }
    uint64_t begin = first / whole_pages(1) * whole_pages(1);
    struct array_window w = {.bytes = whole_pages(last - begin)};
    w.map = mmap(NULL, w.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, (off_t)begin);
    if (w.map == MAP_FAILED)
        return -errno;
    w.at = (uint8_t *)w.map + (first - begin);
    *ret = w;
    return 0;
}

static void close_window(struct array_window *w)
{
    if (w->map)
        munmap(w->map, w->bytes);
}

static int write_array(const struct probe_array *a, struct range r, const void *from)
{
    struct array_window w;
    int failed = open_window(a, r, &w);
    if (failed < 0 || r.n == 0)
        return failed;
    memcpy(w.at, from, r.n * a->element);
    close_window(&w);
    return 0;
}

static int map_arrays(struct probe *p, struct error *err)
{
    struct probe_array settings = array_of(p, ".data.settings", sizeof(struct unwind_settings));
    p->rows = array_of(p, "rows", sizeof(struct unwind_row_pair));
    p->rows.n *= 2; /* each element is two */
    p->rows.element /= 2;
    p->pages = array_of(p, "pages", sizeof(struct unwind_page));
    p->rules = array_of(p, "rules", sizeof(struct unwind_rule));
    p->files = array_of(p, "files", sizeof(struct unwind_file));
    p->mappings = array_of(p, "mappings", sizeof(struct unwind_mapping));
    int r = map_array(&p->files, err);
    if (r == 0)
        r = map_array(&settings, err);
    p->settings = settings.data;
    return r;
}

void probe_pools_init(struct probe *p)
{
    range_pool_init(&p->free_rows, 0, p->rows.n);
    range_pool_init(&p->free_pages, 0, p->pages.n);
    range_pool_init(&p->free_rules, 0, p->rules.n);
    range_pool_init(&p->free_files, 1, p->files.n - 1);
    range_pool_init(&p->free_mappings, 0, p->mappings.n);
    p->file_ranges = must_calloc(p->files.n, sizeof(*p->file_ranges));
}

int probe_tables_init(struct probe *p, struct error *err)
{
    int r = map_arrays(p, err);
    if (r < 0)
        return r;
    probe_pools_init(p);
    return 0;
}

void probe_tables_done(struct probe *p)
{
    const struct probe_array *arrays[] = {&p->rows, &p->pages, &p->rules, &p->files, &p->mappings};
    for (size_t i = 0; i < ARRAY_SIZE(arrays); i++)
        if (arrays[i]->data)
            munmap(arrays[i]->data, probe_array_bytes(arrays[i]));
    if (p->settings)
        munmap(p->settings, whole_pages(sizeof(*p->settings)));
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

static int write_pages(struct probe *p, const struct unwind_view *v,
                       const struct probe_file_ranges *r)
{
    struct array_window w;
    int failed = open_window(&p->pages, r->pages, &w);
    if (failed < 0)
        return failed;
    struct unwind_page *pages = w.at;
    for (uint32_t i = 0; i < v->n_pages; i++)
        pages[i] = (struct unwind_page){r->rows.first + v->pages[i], v->pages[i + 1] - v->pages[i]};
    close_window(&w);
    return 0;
}

static int write_table(struct probe *p, const struct unwind_view *v,
                       const struct probe_file_ranges *r)
{
    int failed = write_array(&p->rows, r->rows, v->rows);
    if (failed == 0)
        failed = write_array(&p->rules, r->rules, v->rules);
    return failed < 0 ? failed : write_pages(p, v, r);
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
    int failed = write_table(p, v, &r);
    if (failed < 0) {
        give_ranges(p, &r);
        return failed;
    }
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
    if (p->perf)
        perf_backend_changed(p);
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
    bool is_there = p->perf ? perf_backend_process(p, tgid, &old)
                            : bpf_map_lookup_elem(p->process_map, &tgid, &old) == 0;
    return is_there ? old : (struct unwind_process){0};
}

static int put_entry(struct probe *p, uint32_t tgid, const struct unwind_process *value)
{
    if (p->perf)
        return perf_backend_put_process(p, tgid, value);
    if (bpf_map_update_elem(p->process_map, &tgid, value, BPF_ANY) < 0)
        return errno == E2BIG ? -ENOSPC : -errno;
    return 0;
}

static bool drop_entry(struct probe *p, uint32_t tgid)
{
    return p->perf ? perf_backend_drop_process(p, tgid)
                   : bpf_map_delete_elem(p->process_map, &tgid) == 0;
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
    int failed = write_array(&p->mappings, r, mappings);
    struct unwind_process next = *value;
    next.first_mapping = r.first;
    next.n_mappings = n;
    next.mappings_id = ++p->mappings_id;
    if (failed == 0)
        failed = put_entry(p, tgid, &next);
    if (failed < 0) {
        range_pool_undo(&p->free_mappings, r);
        return failed;
    }
    end_process(p, tgid, &old, next.collected);
    return 0;
}

void probe_process_drop(struct probe *p, uint32_t tgid)
{
    struct unwind_process old = process_of(p, tgid);
    if (drop_entry(p, tgid))
        end_process(p, tgid, &old, 0);
}
