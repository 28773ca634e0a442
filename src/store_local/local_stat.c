#include <stdio.h>

#include "segment/block_cache.h"
#include "store_local/epoch.h"
#include "store_local/local_ops.h"
#include "store_local/memtable.h"
#include "store_local/series_table.h"

static void widen(struct store_stat *s, int64_t first, int64_t last)
{
    if (first < s->first_ns)
        s->first_ns = first;
    if (last > s->last_ns)
        s->last_ns = last;
}

static void add_memtable(const struct memtable *m, struct store_stat *ret)
{
    if (!m)
        return;
    ret->profiles += m->rows.len;
    ret->samples += m->n_samples;
    ret->spans += m->span_keys.len;
    ret->head_bytes += memtable_bytes(m);
    if (m->rows.len > 0)
        widen(ret, m->min_start_ns, m->max_start_ns);
}

static void add_segments(const struct version *v, struct store_stat *ret)
{
    for (size_t i = 0; i < v->segments.len; i++) {
        const struct segment *s = v->segments.data[i];
        ret->segments++;
        ret->segment_bytes += s->bytes;
        if (s->kind == SEGMENT_SPANS) {
            ret->spans += s->n_rows;
            continue;
        }
        ret->profiles += s->n_rows;
        ret->samples += s->n_samples;
        widen(ret, s->min_ns, s->max_ns);
    }
}

static void add_tables(const struct local *l, struct store_stat *ret)
{
    for (size_t i = 0; i < l->tenants.len; i++) {
        const struct tenant *t = &l->tenants.data[i];
        for (uint32_t id = 1; id <= series_table_len(t->series); id++)
            ret->series += !series_table_get(t->series, id)->is_group;
        ret->dict_bytes += t->series_file_len;
    }
    for (size_t i = 0; i < l->epochs.len; i++) {
        ret->dict_bytes += l->epochs.data[i]->file_len;
        ret->head_bytes += epoch_bytes(l->epochs.data[i]);
    }
}

/* Sizes of files as they are now: cheap, since there are few beside segments and dictionaries. */
struct file_sizes {
    struct local *l;
    const char *dir;
    uint64_t bytes;
};

static int add_size(void *arg, const char *name, bool is_dir)
{
    struct file_sizes *sizes = arg;
    char path[300];
    uint64_t bytes = 0;

    snprintf(path, sizeof(path), "%s%s%.255s", sizes->dir, *sizes->dir ? "/" : "", name);
    if (!is_dir && fs_path_size(sizes->l->fs, path, &bytes, NULL) == 0)
        sizes->bytes += bytes;
    return 0;
}

static uint64_t size_of_files(struct local *l, const char *dir)
{
    struct file_sizes sizes = {.l = l, .dir = dir};

    (void)fs_list(l->fs, *dir ? dir : ".", add_size, &sizes, NULL);
    return sizes.bytes;
}

void local_stat(struct store *s, struct store_stat *ret)
{
    struct local *l = local_of(s);
    uint64_t total = 0;

    *ret = (struct store_stat){.first_ns = INT64_MAX, .last_ns = INT64_MIN};
    pthread_mutex_lock(&l->lock);
    ret->tenants = l->tenants.len;
    ret->epochs = l->epochs.len;
    ret->tombstones = l->version->tombstones.len;
    add_memtable(l->head, ret);
    add_memtable(l->frozen, ret);
    add_segments(l->version, ret);
    add_tables(l, ret);
    ret->limit_bytes = l->version->disk_limit;
    ret->head_limit = l->options.memory_limit;
    ret->cache_bytes = block_cache_stats(l->cache).bytes;
    ret->appended = l->n_appended;
    ret->duplicates = l->n_duplicates;
    ret->rejected = l->n_rejected;
    ret->lost_records = l->n_lost;
    ret->is_read_only = l->options.read_only || local_is_dead(l, NULL);
    if (l->is_dead)
        snprintf(ret->trouble, sizeof(ret->trouble), "%.255s", l->trouble.text);
    pthread_mutex_unlock(&l->lock);
    if (ret->first_ns > ret->last_ns)
        ret->first_ns = ret->last_ns = 0;
    (void)fs_space(l->fs, &ret->free_bytes, &total, NULL);
    ret->wal_bytes = size_of_files(l, "wal");
    ret->disk_bytes = ret->segment_bytes + ret->dict_bytes + ret->wal_bytes + size_of_files(l, "");
}
