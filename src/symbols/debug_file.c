#include "symbols/debug_file.h"

#include <errno.h>
#include <limits.h>
#include <lzma.h>
#include <stdarg.h>
#include <stdio.h>

#define SYSTEM_DEBUG_DIR "/usr/lib/debug"
/* Checksumming reads the whole file, so it must have a limit of its own. */
#define CRC_FILE_MAX     ((uint64_t)4 << 30)

uint32_t debug_crc32(uint32_t crc, const void *data, size_t n)
{
    return lzma_crc32(data, n, crc);
}

static int file_crc32(const struct elf_file *f, uint32_t *ret)
{
    CLEANUP(freep) uint8_t *block = malloc((size_t)1 << 16);
    uint32_t crc = 0;

    if (!block || f->size > CRC_FILE_MAX)
        return -EFBIG;
    for (uint64_t at = 0; at < f->size;) {
        size_t n = f->size - at < (size_t)1 << 16 ? (size_t)(f->size - at) : (size_t)1 << 16;
        int r = elf_read_into(f, at, block, n, NULL);
        if (r < 0)
            return r;
        crc = debug_crc32(crc, block, n);
        at += n;
    }
    *ret = crc;
    return 0;
}

/* What the file must be: `crc` counts only when not both have a build id. */
struct wanted {
    const struct elf_file *stripped;
    bool has_crc;
    uint32_t crc;
};

static bool fits(const struct wanted *w, const struct elf_file *candidate)
{
    const struct elf_file *s = w->stripped;
    uint32_t crc = 0;

    if (s->build_id_len > 0 && candidate->build_id_len > 0)
        return s->build_id_len == candidate->build_id_len &&
               memcmp(s->build_id, candidate->build_id, s->build_id_len) == 0;
    return w->has_crc && file_crc32(candidate, &crc) == 0 && crc == w->crc;
}

const char *debug_file_link(struct elf_file *f, uint32_t *ret_crc)
{
    const struct elf_section *s = elf_find_section(f, ".gnu_debuglink");
    struct bytes b;

    if (!s || elf_section_bytes(f, s, &b, NULL) < 0)
        return NULL;
    const uint8_t *end = bytes_find_byte(b, 0);
    if (!end || end == b.data || bytes_find_byte(bytes_head(b, (size_t)(end - b.data)), '/'))
        return NULL;
    size_t crc_at = ((size_t)(end - b.data) + 4) & ~(size_t)3;
    if (crc_at + 4 > b.len)
        return NULL;
    *ret_crc = elf_u32(f, b.data + crc_at);
    return (const char *)b.data;
}

bool debug_file_fits(struct elf_file *stripped, const struct elf_file *candidate)
{
    struct wanted w = {.stripped = stripped};

    w.has_crc = debug_file_link(stripped, &w.crc) != NULL;
    return fits(&w, candidate);
}

/* Opens the file of this name if it is the wanted one. */
static bool try_path(const struct wanted *w, struct elf_file **ret, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool try_path(const struct wanted *w, struct elf_file **ret, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(path, sizeof(path), fmt, args);
    va_end(args);
    if (n < 0 || n >= PATH_MAX || strcmp(path, w->stripped->path) == 0)
        return false;
    CLEANUP(elf_closep) struct elf_file *f = NULL;
    if (elf_open(path, w->stripped->budget, &f, NULL) < 0 || !fits(w, f))
        return false;
    *ret = TAKE_PTR(f);
    return true;
}

static bool try_build_id(const struct wanted *w, const char *dir, struct elf_file **ret)
{
    struct build_id_text id = elf_build_id_text(w->stripped);

    return strlen(id.text) > 2 &&
           (try_path(w, ret, "%s/.build-id/%.2s/%s.debug", dir, id.text, id.text + 2) ||
            try_path(w, ret, "%s/%.2s/%s.debug", dir, id.text, id.text + 2));
}

/* The folder of the file without a trailing slash: "" for the root, "." for a bare name. */
static struct bytes folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (struct bytes){(const uint8_t *)path, (size_t)(slash - path)} : BYTES(".");
}

static bool try_link(const struct wanted *w, const char *name, const char *const *dirs, size_t n,
                     struct elf_file **ret)
{
    struct bytes in = folder_of(w->stripped->path);
    int len = (int)in.len;
    const char *folder = (const char *)in.data;

    if (try_path(w, ret, "%.*s/%s", len, folder, name) ||
        try_path(w, ret, "%.*s/.debug/%s", len, folder, name))
        return true;
    for (size_t i = 0; i < n; i++) {
        if (try_path(w, ret, "%s%.*s/%s", dirs[i], len, folder, name) ||
            try_path(w, ret, "%s/%s", dirs[i], name))
            return true;
    }
    return try_path(w, ret, SYSTEM_DEBUG_DIR "%.*s/%s", len, folder, name);
}

int debug_file_find(struct elf_file *f, const char *const *dirs, size_t n, struct elf_file **ret,
                    struct error *err)
{
    struct wanted w = {.stripped = f};

    for (size_t i = 0; i < n; i++) {
        if (try_build_id(&w, dirs[i], ret))
            return 0;
    }
    if (try_build_id(&w, SYSTEM_DEBUG_DIR, ret))
        return 0;
    const char *name = debug_file_link(f, &w.crc);
    w.has_crc = name != NULL;
    if (name && try_link(&w, name, dirs, n, ret))
        return 0;
    return error_set(err, -ENOENT, "no separate debug file found");
}
