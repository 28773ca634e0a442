#include "store_data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/formats.h"
#include "wire/inflate.h"

#define R_FILE       "pprof/bench/cpu_go_truncated_1.pb.gz.fixed"
#define R_MAGIC      "vesta bench set R 1"
#define R_SEED       UINT64_C(0x5EED0001)
/* This level gives the size that profiles of set R are known to have, about 42 kB.
 */
#define R_GZIP_LEVEL 6

uint64_t data_random64(struct data_random *r)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint32_t data_random_below(struct data_random *r, uint32_t n)
{
    return (uint32_t)((data_random64(r) >> 32) * n >> 32);
}

uint32_t data_random_geometric(struct data_random *r)
{
    return 1 + (uint32_t)__builtin_ctzll(data_random64(r) | UINT64_C(1) << 40);
}

char *data_corpus_path(const char *name)
{
    const char *root = getenv("VESTA_CORPUS");
    char *path = NULL;

    if (asprintf(&path, "%s/%s", root ? root : "../shared/corpus", name) < 0)
        abort();
    return path;
}

int data_read_pprof(const char *path, struct profile_set *set, struct error *err)
{
    struct input *opened;
    int rc = input_open(path, set->budget, &opened, err);
    if (rc < 0)
        return rc;
    CLEANUP(input_closep) struct input *in = opened;
    return format_read(in, &format_pprof, set, NULL, err);
}

#define MADE_FUNCTIONS 1200
#define MADE_PLACES    1900
#define MADE_STACKS    650
#define MADE_DEPTH_MIN 6
#define MADE_DEPTH_MAX 80

/* A place in code: the same number always names the same function, line and address. */
static uint32_t made_location(struct dict *d, uint32_t mapping, uint64_t seed, uint32_t place)
{
    char name[96], file[96];
    uint32_t f = (place * 2654435761u + (uint32_t)seed) % MADE_FUNCTIONS;

    snprintf(name, sizeof(name), "example.com/shop%u/internal/cart%u.(*Session).Handle%u",
             (unsigned)(seed % 1000), f % 97, f);
    snprintf(file, sizeof(file), "/build/shop/internal/cart%u/handler_%u.go", f % 97, f / 4);
    uint32_t id = dict_cstring(d, name);
    struct line line = {.function =
                            dict_function(d, (struct function){.name = id,
                                                               .system_name = id,
                                                               .file = dict_cstring(d, file),
                                                               .start_line = f % 500}),
                        .line = f % 500 + place % 40};
    struct location l = {.address = 0x400000 + place * 61ul, .mapping = mapping};
    return dict_location(d, l, &line, 1);
}

void data_make_profile(struct profile_set *set, uint64_t seed)
{
    struct dict *d = set->dict;
    struct data_random r = {seed};
    struct profile *p = profile_set_add(set);
    uint32_t mapping = dict_mapping(d, (struct mapping){.start = 0x400000,
                                                        .limit = 0x4000000,
                                                        .file = dict_cstring(d, "/srv/shop"),
                                                        .has_functions = true});

    profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "cpu", "nanoseconds");
    p->period_type = p->types[1];
    p->period = 10000000;
    for (size_t n = 0; n < MADE_STACKS; n++) {
        uint32_t node = 0, depth = 0, place = 1;
        while (depth < MADE_DEPTH_MAX && (depth < MADE_DEPTH_MIN || data_random_below(&r, 24))) {
            /* The same place calls one of a few others. */
            place = (place * 7919u + data_random_below(&r, depth % 4 ? 1 : 3)) % MADE_PLACES;
            node = dict_node(d, node, made_location(d, mapping, seed, place));
            depth++;
        }
        int64_t count = data_random_geometric(&r);
        int64_t values[2] = {count, count * p->period};
        profile_add(p, &(struct sample){.node = node, .values = values});
    }
}

/* The file: a line that names it, the number of profiles, their descriptions, their bytes. */
struct r_entry {
    int64_t time_ns;
    uint64_t offset;
    uint32_t len, pod, n_samples, plain_len;
};

struct r_header {
    char magic[24];
    uint64_t n;
    uint32_t is_synthetic, reserved;
};

/* What one pod saw in one window, of the stacks of `from`. Depends on nothing but the two. */
static struct profile *r_profile(const struct profile *from, uint32_t pod, uint32_t window)
{
    struct data_random r = {R_SEED + ((uint64_t)window << 32 | pod)};
    struct profile *p = profile_new(from->dict);

    (void)data_random64(&r);
    for (uint32_t t = 0; t < from->n_types; t++)
        profile_add_type(p, from->types[t].type, from->types[t].unit);
    p->period_type = from->period_type;
    p->period = from->period;
    p->default_mapping = from->default_mapping;
    p->time_unix_ns = DATA_START_NS + window * DATA_WINDOW_NS;
    p->duration_ns = DATA_WINDOW_NS;
    for (size_t i = 0; i < from->n_samples; i++) {
        if (data_random64(&r) >> 63)
            continue;
        int64_t count = data_random_geometric(&r);
        int64_t values[2] = {count, count * from->period};
        profile_add(p, &(struct sample){.node = from->node[i], .values = values});
    }
    return p;
}

/* Encodes one profile, appends it packed to `out` and describes it. */
static int r_append(struct profile_set *set, const struct profile *from, struct r_entry *e,
                    struct buf *out, struct error *err)
{
    struct profile_set one = {.budget = set->budget, .dict = set->dict};
    CLEANUP(profile_freep)
    struct profile *p =
        r_profile(from, e->pod, (uint32_t)((e->time_ns - DATA_START_NS) / DATA_WINDOW_NS));
    struct buf packed = {0}, losses = {0};

    vec_push(set->budget, &one.profiles, p);
    int rc = format_pprof.encode(&one, &packed, &losses, err);
    if (rc == 0) {
        e->n_samples = (uint32_t)p->n_samples;
        e->plain_len = (uint32_t)gzip_size_hint(buf_bytes(&packed));
        e->len = (uint32_t)packed.len;
        e->offset = out->len;
        buf_add(out, packed.data, packed.len);
    }
    vec_done(set->budget, &one.profiles);
    buf_done(&packed);
    buf_done(&losses);
    return rc;
}

/* The profile that is replayed. */
static int r_source(struct profile_set *set, bool *ret_synthetic, struct error *err)
{
    CLEANUP(freep) char *path = data_corpus_path(R_FILE);
    int rc = data_read_pprof(path, set, err);

    *ret_synthetic = rc == -ENOENT;
    if (rc == -ENOENT)
        data_make_profile(set, R_SEED);
    else if (rc < 0)
        return rc;
    if (set->profiles.data[0]->n_types != 2)
        return error_set(err, -EINVAL, "%s: set R is made for two sample types", path);
    return 0;
}

static int r_write(const char *path, const struct r_header *h, const struct r_entry *entries,
                   struct bytes content, struct error *err)
{
    CLEANUP(freep) char *temporary = NULL;
    if (asprintf(&temporary, "%s.tmp", path) < 0)
        abort();
    CLEANUP(fclosep) FILE *f = fopen(temporary, "wb");
    if (!f || fwrite(h, sizeof(*h), 1, f) != 1 ||
        fwrite(entries, sizeof(*entries), h->n, f) != h->n ||
        fwrite(content.data, 1, content.len, f) != content.len || fflush(f) != 0 ||
        rename(temporary, path) < 0)
        return error_set(err, -errno, "could not write \"%s\": %m", path);
    return 0;
}

static int r_make(const char *path, uint32_t pods, uint32_t windows, struct error *err)
{
    struct budget budget;
    budget_init(&budget, SIZE_MAX / 2);
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&budget);
    struct r_header h = {.magic = R_MAGIC, .n = (uint64_t)pods * windows};
    bool is_synthetic = false;
    int rc = r_source(set, &is_synthetic, err);
    if (rc < 0)
        return rc;
    h.is_synthetic = is_synthetic;

    CLEANUP(freep) struct r_entry *entries = calloc(h.n, sizeof(*entries));
    struct buf content = {0};
    if (!entries)
        abort();
    for (size_t i = 0; i < h.n && rc == 0; i++) {
        entries[i].pod = (uint32_t)(i % pods);
        entries[i].time_ns = DATA_START_NS + (int64_t)(i / pods) * DATA_WINDOW_NS;
        rc = r_append(set, set->profiles.data[0], &entries[i], &content, err);
    }
    if (rc == 0)
        rc = r_write(path, &h, entries, buf_bytes(&content), err);
    buf_done(&content);
    return rc;
}

static int r_load(const char *path, struct data_r **ret, struct error *err)
{
    CLEANUP(data_r_closep) struct data_r *r = calloc(1, sizeof(*r));
    CLEANUP(fclosep) FILE *f = fopen(path, "rb");
    struct r_header h;
    struct stat st;

    if (!r)
        abort();
    if (!f || fstat(fileno(f), &st) < 0)
        return error_set(err, -errno, "could not open \"%s\": %m", path);
    if (fread(&h, sizeof(h), 1, f) != 1 || memcmp(h.magic, R_MAGIC, sizeof(R_MAGIC)) != 0)
        return error_set(err, -EBADMSG, "\"%s\" is not a file of set R: delete it", path);
    CLEANUP(freep) struct r_entry *entries = calloc(h.n, sizeof(*entries));
    r->profiles = calloc(h.n, sizeof(*r->profiles));
    size_t len = (size_t)st.st_size - sizeof(h) - h.n * sizeof(*entries);
    r->content = malloc(len + 16);
    if (!entries || !r->profiles || !r->content)
        abort();
    if (fread(entries, sizeof(*entries), h.n, f) != h.n || fread(r->content, 1, len, f) != len)
        return error_set(err, -EBADMSG, "\"%s\" is cut short: delete it", path);
    r->is_synthetic = h.is_synthetic;
    for (; r->n < h.n; r->n++) {
        const struct r_entry *e = &entries[r->n];
        r->profiles[r->n] = (struct data_r_profile){
            .pod = e->pod,
            .n_samples = e->n_samples,
            .time_ns = e->time_ns,
            .packed = {r->content + e->offset, e->len},
        };
        r->n_samples += e->n_samples;
        r->plain_bytes += e->plain_len;
        r->packed_bytes += e->len;
    }
    *ret = TAKE_PTR(r);
    return 0;
}

int data_r_open(const char *dir, uint32_t pods, uint32_t windows, struct data_r **ret,
                struct error *err)
{
    CLEANUP(freep) char *path = NULL;

    if (asprintf(&path, "%s/r-%ux%u.bin", dir, pods, windows) < 0)
        abort();
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return error_set(err, -errno, "could not make the folder \"%s\": %m", dir);
    if (access(path, R_OK) < 0) {
        int rc = r_make(path, pods, windows, err);
        if (rc < 0)
            return rc;
    }
    return r_load(path, ret, err);
}

void data_r_close(struct data_r *r)
{
    if (!r)
        return;
    free(r->profiles);
    free(r->content);
    free(r);
}
