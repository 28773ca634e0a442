#include <errno.h>

#include "host/parse_internal.h"

/*
 * Go's build information: a head of 32 bytes, then either (from Go 1.18 on) the version and the
 * text about modules, each behind its length as a varint, or pointers to both as Go strings.
 */
#define MAGIC        "\xff Go buildinf:"
#define HEAD_BYTES   32
#define FLAG_BIG     1
#define FLAG_INLINE  2
#define VERSION_MAX  ((uint64_t)256)
#define MODULE_MAX   ((uint64_t)1 << 20)
#define MODULE_GUARD 16 /* bytes before and behind the text about modules */

static bool take_varint(struct bytes *b, uint64_t *ret)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 63 && b->len > 0; shift += 7) {
        uint8_t c = b->data[0];
        *b = bytes_from(*b, 1);
        v |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80) {
            *ret = v;
            return true;
        }
    }
    return false;
}

static bool take_text(struct bytes *b, struct bytes *ret)
{
    uint64_t n;

    if (!take_varint(b, &n) || n > b->len)
        return false;
    *ret = bytes_head(*b, (size_t)n);
    *b = bytes_from(*b, (size_t)n);
    return true;
}

/* The Go string whose header is at an address. */
static struct bytes string_at(struct elf_file *f, uint64_t va, uint64_t max)
{
    size_t word = f->is_64 ? 8 : 4;
    struct bytes head, text = {0};

    if (elf_read_va(f, va, 2 * word, &head, NULL) < 0 || head.len < 2 * word)
        return text;
    uint64_t at = f->is_64 ? elf_u64(f, head.data) : elf_u32(f, head.data);
    uint64_t n = f->is_64 ? elf_u64(f, head.data + 8) : elf_u32(f, head.data + 4);
    if (n > max || elf_read_va(f, at, n, &text, NULL) < 0)
        return (struct bytes){0};
    return text;
}

/* Takes the text up to the next tab off the line. */
static struct bytes next_field(struct bytes *line)
{
    const uint8_t *tab = bytes_find_byte(*line, '\t');
    size_t n = tab ? (size_t)(tab - line->data) : line->len;
    struct bytes field = bytes_head(*line, n);

    *line = bytes_from(*line, tab ? n + 1 : n);
    return field;
}

static void take_setting(struct bytes line, struct parse_facts *ret)
{
    const uint8_t *is = bytes_find_byte(line, '=');

    if (!is)
        return;
    struct bytes key = bytes_head(line, (size_t)(is - line.data));
    struct bytes value = bytes_from(line, key.len + 1);
    if (bytes_are(key, "vcs.revision"))
        PARSE_PUT(ret->vcs_revision, value);
    else if (bytes_are(key, "vcs.time"))
        PARSE_PUT(ret->vcs_time, value);
    else if (bytes_are(key, "vcs.modified"))
        ret->vcs_modified = bytes_are(value, "true");
}

void parse_go_build_info(struct bytes version, struct bytes module, struct parse_facts *ret)
{
    struct bytes line;

    ret->is_go = true;
    PARSE_PUT(ret->go_version, version);
    if (module.len < (size_t)2 * MODULE_GUARD)
        return;
    module = (struct bytes){module.data + MODULE_GUARD, module.len - (size_t)2 * MODULE_GUARD};
    while (bytes_next_line(&module, &line)) {
        struct bytes key = next_field(&line);
        if (bytes_are(key, "mod")) {
            PARSE_PUT(ret->go_module, next_field(&line));
            PARSE_PUT(ret->go_module_version, next_field(&line));
        } else if (bytes_are(key, "path") && ret->go_module[0] == '\0') {
            PARSE_PUT(ret->go_module, line);
        } else if (bytes_are(key, "build")) {
            take_setting(line, ret);
        }
    }
}

void parse_go_facts(struct elf_file *f, struct parse_facts *ret)
{
    const struct elf_section *s = elf_find_section(f, ".go.buildinfo");
    struct bytes b, version = {0}, module = {0};

    if (!s || s->size < HEAD_BYTES ||
        elf_read(f, s->offset, s->size < MODULE_MAX ? s->size : MODULE_MAX, &b, NULL) < 0 ||
        !bytes_start_with(b, BYTES(MAGIC)))
        return;
    uint8_t flags = b.data[15];
    if (flags & FLAG_INLINE) {
        struct bytes rest = bytes_from(b, HEAD_BYTES);
        if (!take_text(&rest, &version))
            return;
        take_text(&rest, &module);
    } else if (((flags & FLAG_BIG) != 0) == f->is_big_endian && b.data[14] == (f->is_64 ? 8 : 4)) {
        const uint8_t *p = b.data + 16;
        size_t word = b.data[14];
        version = string_at(f, f->is_64 ? elf_u64(f, p) : elf_u32(f, p), VERSION_MAX);
        p += word;
        module = string_at(f, f->is_64 ? elf_u64(f, p) : elf_u32(f, p), MODULE_MAX);
    }
    parse_go_build_info(bytes_head(version, VERSION_MAX), module, ret);
}
