#include <elf.h>
#include <stdio.h>

#include "base/hex.h"
#include "base/sha256.h"
#include "host/parse_dynsym.h"
#include "host/parse_internal.h"
#include "symbols/debug_file.h"
#include "wire/json.h"

#define HASHED_BYTES   4096
#define NOTE_BYTES_MAX ((uint64_t)16 << 10)
#define NOTE_PACKAGE   0xcafe1a7e
#define SEARCH_CHUNK   ((size_t)64 << 10)
#define SEARCH_MAX     ((uint64_t)128 << 20)
#define SEARCH_AROUND  ((size_t)128) /* bytes around what is found */

/* The id that every file has: of its first and last 4 KiB, and its length. */
static int hash_file(const struct elf_file *f, char ret[33], struct error *err)
{
    uint8_t block[HASHED_BYTES], digest[SHA256_BYTES], length[8];
    size_t n = f->size < HASHED_BYTES ? (size_t)f->size : HASHED_BYTES;
    struct sha256 s;

    sha256_init(&s);
    int r = elf_read_into(f, 0, block, n, err);
    if (r < 0)
        return r;
    sha256_add(&s, (struct bytes){block, n});
    r = elf_read_into(f, f->size - n, block, n, err);
    if (r < 0)
        return r;
    sha256_add(&s, (struct bytes){block, n});
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(f->size >> (56 - 8 * i));
    sha256_add(&s, (struct bytes){length, sizeof(length)});
    sha256_end(&s, digest);
    hex_encode(digest, 16, ret);
    return 0;
}

/* {"type":"deb","name":"bash","version":"5.2.15-2",...} */
static void read_package(struct budget *b, struct bytes json, struct parse_facts *ret)
{
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, b);

    json_reader_set_text(r, json, 0);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "name"))
            PARSE_PUT(ret->package_name, json_get_string_or_empty(r));
        else if (bytes_are(key, "version"))
            PARSE_PUT(ret->package_version, json_get_string_or_empty(r));
        else
            json_skip(r);
    }
    b->failed = false;
}

static void read_package_note(struct elf_file *f, struct parse_facts *ret)
{
    const struct elf_section *s = elf_find_section(f, ".note.package");
    struct bytes b;

    if (!s || s->size < 16 || s->size > NOTE_BYTES_MAX ||
        elf_read(f, s->offset, s->size, &b, NULL) < 0)
        return;
    uint32_t owner_len = elf_u32(f, b.data), len = elf_u32(f, b.data + 4);
    if (owner_len != 4 || elf_u32(f, b.data + 8) != NOTE_PACKAGE ||
        memcmp(b.data + 12, "FDO", 4) != 0 || len > b.len - 16)
        return;
    struct bytes json = {b.data + 16, len};
    while (json.len > 0 && json.data[json.len - 1] == '\0')
        json.len--;
    read_package(f->budget, json, ret);
}

static void read_segments(const struct elf_file *f, struct parse_file *ret)
{
    bool has_interpreter = false;

    for (size_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *p = &f->segments[i];
        if (p->type == PT_INTERP)
            has_interpreter = true;
        if (p->type != PT_LOAD || !(p->flags & PF_X) || ret->n_loads == PARSE_LOADS_MAX)
            continue;
        if (ret->n_loads == 0) {
            ret->facts.first_text = p->vaddr;
            ret->facts.text_offset = p->offset;
        }
        ret->loads[ret->n_loads++] = (struct parse_load){p->vaddr, p->offset, p->file_size};
    }
    ret->facts.is_static = !has_interpreter;
}

/* Looks for a text in .rodata; `ret` is what stands around it, with a NUL at both ends. */
static bool search_rodata(const struct elf_file *f, struct bytes needle,
                          char ret[2 * SEARCH_AROUND + 1])
{
    const struct elf_section *s = elf_find_section(f, ".rodata");
    CLEANUP(freep) uint8_t *chunk = malloc(SEARCH_CHUNK);
    uint64_t size = s && s->size < SEARCH_MAX ? s->size : 0;

    for (uint64_t at = 0; chunk && at < size; at += SEARCH_CHUNK - SEARCH_AROUND) {
        size_t n = size - at < SEARCH_CHUNK ? (size_t)(size - at) : SEARCH_CHUNK;
        if (elf_read_into(f, s->offset + at, chunk, n, NULL) < 0)
            return false;
        const uint8_t *found = bytes_find((struct bytes){chunk, n}, needle);
        if (!found)
            continue;
        uint64_t from = at + (uint64_t)(found - chunk);
        uint64_t before = from < SEARCH_AROUND ? from : SEARCH_AROUND;
        uint64_t left = size - from < SEARCH_AROUND ? size - from : SEARCH_AROUND;
        memset(ret, 0, 2 * SEARCH_AROUND + 1);
        return elf_read_into(f, s->offset + from - before, ret + SEARCH_AROUND - before,
                             (size_t)(before + left), NULL) >= 0;
    }
    return false;
}

static bool is_node(struct elf_file *f, struct parse_facts *ret)
{
    char around[2 * SEARCH_AROUND + 1];
    struct dynamic_symbol s;
    struct bytes prefix = BYTES("node.js/v");

    if (!parse_dynsym_find(f, "node_module_register", &s))
        return false;
    PARSE_PUT(ret->runtime, BYTES("nodejs"));
    if (search_rodata(f, prefix, around))
        PARSE_PUT(ret->runtime_version, bytes_of(around + SEARCH_AROUND + prefix.len));
    return true;
}

/* "OpenJDK 64-Bit Server VM (17.0.15+6-Debian-1deb12u1) for linux-amd64 ..." */
static bool is_jvm(struct elf_file *f, const struct dynamic_facts *d, struct parse_facts *ret)
{
    char around[2 * SEARCH_AROUND + 1];

    if (strcmp(d->soname, "libjvm.so") != 0)
        return false;
    PARSE_PUT(ret->runtime, BYTES("jvm"));
    if (search_rodata(f, BYTES(") for linux-"), around)) {
        const char *end = around + SEARCH_AROUND, *at = end;
        while (at > around && at[-1] != '(' && at[-1] != '\0')
            at--;
        PARSE_PUT(ret->runtime_version, ((struct bytes){(const uint8_t *)at, (size_t)(end - at)}));
    }
    return true;
}

/* Py_Version (from 3.11 on) is a number like 0x030b02f0; else the library's name tells. */
static bool is_python(struct elf_file *f, const struct dynamic_facts *d, struct parse_facts *ret)
{
    struct dynamic_symbol s;
    struct bytes version, name = bytes_of(d->soname), prefix = BYTES("libpython");

    if (!parse_dynsym_find(f, "Py_BytesMain", &s) && !bytes_start_with(name, prefix))
        return false;
    PARSE_PUT(ret->runtime, BYTES("cpython"));
    if (parse_dynsym_find(f, "Py_Version", &s) && s.type == STT_OBJECT &&
        elf_read_va(f, s.value, 4, &version, NULL) >= 0 && version.len == 4) {
        uint32_t v = elf_u32(f, version.data);
        snprintf(ret->runtime_version, sizeof(ret->runtime_version), "%u.%u.%u", v >> 24,
                 v >> 16 & 0xff, v >> 8 & 0xff);
    } else if (bytes_start_with(name, prefix)) {
        struct bytes rest = bytes_from(name, prefix.len);
        const uint8_t *end = bytes_find(rest, BYTES(".so"));
        PARSE_PUT(ret->runtime_version,
                  bytes_head(rest, end ? (size_t)(end - rest.data) : rest.len));
    }
    return true;
}

static void find_runtime(struct elf_file *f, const struct dynamic_facts *d, struct parse_facts *ret)
{
    if (ret->is_go) {
        const char *v = ret->go_version;
        PARSE_PUT(ret->runtime, BYTES("go"));
        PARSE_PUT(ret->runtime_version, bytes_of(strncmp(v, "go", 2) == 0 ? v + 2 : v));
        return;
    }
    if (!is_jvm(f, d, ret) && !is_python(f, d, ret))
        is_node(f, ret);
}

static void read_ids(struct elf_file *f, struct parse_facts *ret)
{
    struct build_id_text id = elf_build_id_text(f);
    const char *link = debug_file_link(f, &ret->debug_link_crc);

    PARSE_PUT(ret->build_id, bytes_of(id.text));
    if (f->go_build_id)
        PARSE_PUT(ret->go_build_id, bytes_of(f->go_build_id));
    if (link)
        PARSE_PUT(ret->debug_link, bytes_of(link));
}

int parse_facts_of(struct elf_file *f, struct parse_file *ret, struct error *err)
{
    struct parse_facts *facts = &ret->facts;
    struct dynamic_facts dynamic;
    int r = hash_file(f, facts->htlhash, err);

    if (r < 0)
        return r;
    facts->machine = f->machine;
    read_ids(f, facts);
    read_segments(f, ret);
    parse_dynamic(f, &dynamic);
    facts->is_static = facts->is_static && (f->type == ET_EXEC || dynamic.is_pie);
    facts->has_symbols = elf_find_section(f, ".symtab") != NULL;
    facts->has_dwarf = elf_find_section(f, ".debug_info") || elf_find_section(f, ".zdebug_info");
    facts->is_go = facts->go_build_id[0] != '\0' || elf_find_section(f, ".gopclntab") ||
                   elf_find_section(f, ".data.rel.ro.gopclntab");
    parse_go_facts(f, facts);
    read_package_note(f, facts);
    find_runtime(f, &dynamic, facts);
    parse_tls_facts(f, facts);
    /* What could not be had is not known, which is no failure. */
    f->budget->failed = false;
    return 0;
}
