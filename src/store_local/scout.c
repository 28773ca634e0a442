#include "store_local/scout.h"

#include <errno.h>

#include "base/bisect.h"
#include "segment/file_name.h"
#include "store_local/version.h"

struct local *scout_new(struct fs *fs, const struct clock *clock)
{
    return local_new(&(struct local_options){
        .fs = fs, .clock = clock, .seed = 1, .read_only = true, .threads = 1});
}

void scout_free(struct local *l)
{
    if (!l)
        return;
    l->fs = NULL;
    local_free(l);
}

int scout_manifest(struct local *l, struct manifest_report *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf content = {0};

    int r = manifest_file_read(l->fs, &content, ret, err);
    if (r < 0)
        return r;
    r = version_decode(buf_bytes(&content), &l->version, err);
    if (r < 0)
        return error_prefix(err, r, MANIFEST_NAME);
    l->next_id = l->version->next_id;
    return 0;
}

static bool has_segment(const struct version *v, uint64_t id)
{
    size_t at = BISECT(v->segments.len, i, v->segments.data[i]->id < id);

    return at < v->segments.len && v->segments.data[at]->id == id;
}

static bool has_tenant(const struct version *v, uint64_t id)
{
    size_t at = BISECT(v->tenants.len, i, v->tenants.data[i].id < id);

    return at < v->tenants.len && v->tenants.data[at].id == id;
}

bool scout_is_named(const struct version *v, const char *name)
{
    uint64_t id;

    if (file_name_id(name, "wal", &id))
        return id > v->flushed_wal;
    if (file_name_id(name, "seg", &id))
        return has_segment(v, id);
    if (file_name_id(name, "dict", &id))
        return version_epoch(v, id) != NULL;
    if (file_name_id(name, "series", &id))
        return has_tenant(v, id);
    return false;
}

struct wal_listing {
    struct local *l;
    struct scout_ids *ids;
};

static int note_wal(void *arg, const char *name, bool is_dir)
{
    struct wal_listing *list = arg;
    uint64_t id;

    if (is_dir || !file_name_id(name, "wal", &id) || id <= list->l->version->flushed_wal)
        return 0;
    return vec_push(&list->l->budget, &list->ids->ids, id) ? 0 : -ENOMEM;
}

static int by_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

int scout_wals(struct local *l, struct scout_ids *ret, struct error *err)
{
    struct wal_listing list = {.l = l, .ids = ret};
    int r = fs_list(l->fs, "wal", note_wal, &list, err);

    if (r == -ENOENT)
        return 0;
    if (r == -ENOMEM)
        return error_set(err, r, "no memory for a list of files");
    if (ret->ids.len > 0) /* names of more than ten digits do not come in order */
        qsort(ret->ids.data, ret->ids.len, sizeof(uint64_t), by_u64);
    return r;
}
