#include "symbols/symbol_cache.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bisect.h"
#include "base/hash.h"
#include "base/idset.h"
#include "base/vec.h"

#define MAGIC_BYTES  16
#define HEADER_BYTES (MAGIC_BYTES + 8)
#define FRAMES_MAX   1024
/* What one cache may take in memory, its file included. */
#define MEMORY_MAX   ((size_t)256 << 20)

static const char magic[MAGIC_BYTES] = "vesta-symbols-1\n"; /* no NUL */

struct entry {
    uint64_t va;
    struct code_frame *innermost;
};

struct symbol_cache {
    struct budget budget;
    struct arena arena;
    char path[PATH_MAX];
    char dir[PATH_MAX];
    struct buf stamp;
    uint8_t *file; /* the content, which texts point into */
    size_t file_size;
    VEC(struct entry) known; /* ascending by address */
    VEC(struct entry) added;
};

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

/* Takes a u32 off the front; a short rest yields 0 and becomes NULL, which stays. */
static uint32_t take32(struct bytes *b)
{
    if (!b->data || b->len < 4) {
        *b = (struct bytes){0};
        return 0;
    }
    uint32_t v = get32(b->data);
    *b = bytes_from(*b, 4);
    return v;
}

static uint64_t take64(struct bytes *b)
{
    uint64_t low = take32(b);
    return low | (uint64_t)take32(b) << 32;
}

/* Splits the texts off; false when one of them does not end. */
static bool take_texts(struct symbol_cache *c, struct bytes *b, const char ***ret, uint32_t *ret_n)
{
    uint32_t n = take32(b);

    if (!b->data || n == 0 || n > b->len)
        return false;
    const char **texts = arena_new(&c->arena, const char *, n);
    for (uint32_t i = 0; texts && i < n; i++) {
        const uint8_t *end = bytes_find_byte(*b, 0);
        if (!end)
            return false;
        texts[i] = (const char *)b->data;
        *b = bytes_from(*b, (size_t)(end - b->data) + 1);
    }
    *ret = texts;
    *ret_n = n;
    return texts != NULL;
}

static const char *text_or_null(const char *const *texts, uint32_t n, uint32_t id)
{
    return id > 0 && id < n ? texts[id] : NULL;
}

/* The frames of one address. */
static bool take_frames(struct symbol_cache *c, struct bytes *b, const char *const *texts,
                        uint32_t n_texts, struct code_frame **ret)
{
    uint32_t n = take32(b);
    struct code_frame **end = ret;

    *ret = NULL;
    if (n > FRAMES_MAX)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        struct code_frame *f = arena_new(&c->arena, struct code_frame, 1);
        if (!f)
            return false;
        f->name = text_or_null(texts, n_texts, take32(b));
        f->file = text_or_null(texts, n_texts, take32(b));
        f->line = take32(b);
        f->column = take32(b);
        f->start_line = take32(b);
        *end = f;
        end = &f->outer;
    }
    return b->data != NULL;
}

static bool parse(struct symbol_cache *c, struct bytes b)
{
    const char **texts;
    uint32_t n_texts;
    size_t stamp = take32(&b);

    if (!b.data || !bytes_equal(bytes_head(b, stamp), buf_bytes(&c->stamp)))
        return false;
    b = bytes_from(b, stamp);
    if (!take_texts(c, &b, &texts, &n_texts))
        return false;
    uint32_t n = take32(&b);
    for (uint32_t i = 0; i < n; i++) {
        struct entry e = {.va = take64(&b)};
        bool ascends = c->known.len == 0 || vec_last(&c->known).va < e.va;
        if (!take_frames(c, &b, texts, n_texts, &e.innermost) || !ascends ||
            !vec_push(&c->budget, &c->known, e))
            return false;
    }
    return b.data != NULL;
}

static void load(struct symbol_cache *c)
{
    struct stat st;
    CLEANUP(closep) int fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < HEADER_BYTES ||
        (uint64_t)st.st_size > SYMBOL_CACHE_FILE_MAX)
        return;
    size_t size = (size_t)st.st_size;
    c->file = malloc(size);
    if (!c->file || read(fd, c->file, size) != (ssize_t)size)
        return;
    struct bytes body = {c->file + HEADER_BYTES, size - HEADER_BYTES};
    if (memcmp(c->file, magic, MAGIC_BYTES) != 0 ||
        get64(c->file + MAGIC_BYTES) != lzma_crc64(body.data, body.len, 0) || !parse(c, body))
        vec_clear(&c->known);
    c->budget.failed = false;
}

/* Makes the folder and those above it; what goes wrong shows when the file is written. */
static void make_folders(const char *dir)
{
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s", dir) >= sizeof(path))
        return;
    for (char *p = path + 1; *p; p++) {
        if (*p == '/') {
            *p = '\0';
            mkdir(path, 0700);
            *p = '/';
        }
    }
    mkdir(path, 0700);
}

int symbol_cache_open(const char *dir, struct binary *b, struct symbol_cache **ret)
{
    struct build_id_text id = elf_build_id_text(binary_elf(b));

    if (strlen(id.text) < 8)
        return -ENOENT;
    CLEANUP(symbol_cache_closep) struct symbol_cache *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    budget_init(&c->budget, MEMORY_MAX);
    arena_init(&c->arena, &c->budget);
    int n = snprintf(c->path, sizeof(c->path), "%s/%s", dir, id.text);
    if (n < 0 || n >= PATH_MAX - 16)
        return -ENAMETOOLONG;
    snprintf(c->dir, sizeof(c->dir), "%s", dir);
    binary_stamp(b, &c->stamp);
    load(c);
    *ret = TAKE_PTR(c);
    return 0;
}

void symbol_cache_close(struct symbol_cache *c)
{
    if (!c)
        return;
    vec_done(&c->budget, &c->known);
    vec_done(&c->budget, &c->added);
    arena_done(&c->arena);
    buf_done(&c->stamp);
    free(c->file);
    free(c);
}

bool symbol_cache_get(const struct symbol_cache *c, uint64_t va, struct code_frame **ret)
{
    size_t at = BISECT(c->known.len, i, c->known.data[i].va < va);

    if (at == c->known.len || c->known.data[at].va != va)
        return false;
    *ret = c->known.data[at].innermost;
    return true;
}

void symbol_cache_put(struct symbol_cache *c, uint64_t va, struct code_frame *innermost)
{
    vec_push(&c->budget, &c->added, (struct entry){va, innermost});
}

/* Texts of the file being written, each once. */
struct texts {
    struct symbol_cache *cache;
    struct idset index;
    VEC(const char *) items;
};

static uint32_t text_id(struct texts *t, const char *s)
{
    struct budget *b = &t->cache->budget;

    if (!s || !s[0])
        return 0;
    uint64_t hash = hash_bytes(s, strlen(s));
    uint32_t id = IDSET_FIND(&t->index, hash, at, strcmp(t->items.data[at], s) == 0);
    if (id != IDSET_NONE)
        return id;
    id = (uint32_t)t->items.len;
    if (!vec_push(b, &t->items, s) || !idset_add(b, &t->index, hash, id))
        return 0;
    return id;
}

static void add32(struct buf *b, uint32_t v)
{
    v = htole32(v);
    buf_add(b, &v, sizeof(v));
}

static void add_entry(struct texts *t, const struct entry *e, struct buf *out)
{
    uint32_t n = 0;

    add32(out, (uint32_t)e->va);
    add32(out, (uint32_t)(e->va >> 32));
    for (const struct code_frame *f = e->innermost; f && n < FRAMES_MAX; f = f->outer)
        n++;
    add32(out, n);
    for (const struct code_frame *f = e->innermost; n > 0; f = f->outer, n--) {
        add32(out, text_id(t, f->name));
        add32(out, text_id(t, f->file));
        add32(out, f->line);
        add32(out, f->column);
        add32(out, f->start_line);
    }
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

/* Everything that is known now, as a file. */
static void encode(struct symbol_cache *c, struct buf *out)
{
    struct texts t = {.cache = c};
    struct buf entries = {0};
    uint32_t n = 0;

    vec_append(&c->budget, &c->known, c->added.data, c->added.len);
    qsort(c->known.data, c->known.len, sizeof(struct entry), compare_entries);
    vec_push(&c->budget, &t.items, "");
    for (size_t i = 0; i < c->known.len; i++) {
        if (i > 0 && c->known.data[i].va == c->known.data[i - 1].va)
            continue;
        add_entry(&t, &c->known.data[i], &entries);
        n++;
    }
    add32(out, (uint32_t)c->stamp.len);
    buf_add_bytes(out, buf_bytes(&c->stamp));
    add32(out, (uint32_t)t.items.len);
    for (size_t i = 0; i < t.items.len; i++)
        buf_add(out, t.items.data[i], strlen(t.items.data[i]) + 1);
    add32(out, n);
    buf_add_bytes(out, buf_bytes(&entries));
    buf_done(&entries);
    idset_done(&c->budget, &t.index);
    vec_done(&c->budget, &t.items);
}

/* Deletes the oldest file while the folder holds too much; one per save is enough to keep up. */
static void trim_folder(const struct symbol_cache *c)
{
    struct dirent **entries = NULL;
    char path[PATH_MAX + 256], oldest[PATH_MAX + 256] = "";
    int64_t oldest_time = INT64_MAX;
    uint64_t total = 0;
    int n = scandir(c->dir, &entries, NULL, NULL);

    for (int i = 0; i < n; i++) {
        struct stat st;
        snprintf(path, sizeof(path), "%s/%s", c->dir, entries[i]->d_name);
        free(entries[i]);
        if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        total += (uint64_t)st.st_size;
        if (st.st_mtime < oldest_time) {
            oldest_time = st.st_mtime;
            memcpy(oldest, path, sizeof(oldest));
        }
    }
    free(entries);
    if (total > SYMBOL_CACHE_TOTAL_MAX && oldest[0])
        unlink(oldest);
}

static int write_file(const char *path, struct bytes header, struct bytes body)
{
    CLEANUP(closep) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    if (write(fd, header.data, header.len) != (ssize_t)header.len ||
        write(fd, body.data, body.len) != (ssize_t)body.len)
        return -EIO;
    return 0;
}

int symbol_cache_save(struct symbol_cache *c)
{
    CLEANUP(buf_done) struct buf body = {0};
    char path[PATH_MAX + 16];
    CLEANUP(buf_done) struct buf header = {0};

    if (c->added.len == 0)
        return 0;
    encode(c, &body);
    if (budget_failed(&c->budget) || body.len + HEADER_BYTES > SYMBOL_CACHE_FILE_MAX)
        return -ENOBUFS;
    uint64_t sum = htole64(lzma_crc64(body.data, body.len, 0));
    buf_add(&header, magic, MAGIC_BYTES);
    buf_add(&header, &sum, sizeof(sum));
    make_folders(c->dir);
    snprintf(path, sizeof(path), "%s.%d", c->path, (int)getpid());
    int r = write_file(path, buf_bytes(&header), buf_bytes(&body));
    if (r == 0 && rename(path, c->path) < 0)
        r = -errno;
    if (r < 0 && r != -EEXIST)
        unlink(path);
    trim_folder(c);
    return r;
}
