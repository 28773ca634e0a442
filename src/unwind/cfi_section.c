#include <errno.h>
#include <string.h>

#include "unwind/cfi.h"

/* Entries are read whole: one that is larger is left out. */
#define ENTRY_BYTES_MAX  ((uint64_t)128 << 10)
#define COMMON_BYTES_MAX 1024
#define COMMONS          64 /* that are kept; by where they are */
/* Bytes of common entries read again and again: a file that was linked needs a few hundred. */
#define COMMON_WORK_MAX  ((uint64_t)16 << 20)

/* How a pointer is written. */
enum {
    PE_ABSPTR = 0,
    PE_UDATA2 = 2,
    PE_UDATA4 = 3,
    PE_UDATA8 = 4,
    PE_ULEB128 = 1,
    PE_SLEB128 = 9,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_FORMAT = 0x0f,
    PE_PCREL = 0x10,
    PE_BASE = 0x70,
    PE_INDIRECT = 0x80,
    PE_OMIT = 0xff,
};

/* The number alone, signs extended. */
static bool take_number(struct cfi_cursor *c, uint8_t encoding, uint64_t *ret)
{
    switch (encoding & PE_FORMAT) {
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8:
        *ret = cfi_u64(c);
        break;
    case PE_UDATA2:
        *ret = cfi_u16(c);
        break;
    case PE_UDATA4:
        *ret = cfi_u32(c);
        break;
    case PE_SDATA2:
        *ret = (uint64_t)(int16_t)cfi_u16(c);
        break;
    case PE_SDATA4:
        *ret = (uint64_t)(int32_t)cfi_u32(c);
        break;
    case PE_ULEB128:
        *ret = cfi_uleb(c);
        break;
    case PE_SLEB128:
        *ret = (uint64_t)cfi_sleb(c);
        break;
    default:
        return false;
    }
    return !c->failed;
}

bool cfi_pointer(struct cfi_cursor *c, uint8_t encoding, uint64_t va, uint64_t *ret)
{
    uint8_t base = encoding & PE_BASE;

    if ((base != 0 && base != PE_PCREL) || encoding & PE_INDIRECT || encoding == PE_OMIT ||
        !take_number(c, encoding, ret))
        return false;
    if (base == PE_PCREL)
        *ret += va;
    return true;
}

struct reader {
    const struct cfi_section *s;
    const struct cfi_machine *machine;
    struct row_builder *rows;
    uint64_t common_work;
    uint64_t n_good, n_damaged;
    struct cfi_common commons[COMMONS];
};

/* One entry of the section. */
struct entry {
    uint64_t at;         /* of its length */
    uint64_t body, next; /* behind its length; the entry behind it */
    bool is_wide;        /* 64-bit DWARF */
    bool is_common;
    uint64_t common_at; /* else: where its common entry is */
    struct bytes bytes; /* from `contents` on */
    uint64_t contents;  /* behind its id */
};

/* The head of the entry at `at`. 0 at the end of the section or where it is damaged. */
static int read_head(struct reader *r, uint64_t at, struct entry *ret, struct error *err)
{
    struct section_window *w = r->s->bytes;
    struct bytes b;
    int got = section_window_get(w, at, 12, &b, err);

    if (got < 0)
        return got;
    if (b.len < 4)
        return 0;
    uint64_t len = le32_get(b.data);
    *ret = (struct entry){.at = at, .body = at + 4, .is_wide = len == UINT32_MAX};
    if (ret->is_wide) {
        if (b.len < 12)
            return 0;
        len = le64_get(b.data + 4);
        ret->body = at + 12;
    } else if (len >= 0xfffffff0) {
        return 0;
    }
    if (len > w->size - ret->body || (len == 0 && r->s->ends_at_zero))
        return 0;
    ret->next = ret->body + len;
    return 1;
}

/* The id behind the head says which kind it is. False when it is too short or too long. */
static bool read_id(const struct cfi_section *s, struct entry *e, struct bytes b)
{
    size_t size = e->is_wide && !s->is_eh_frame ? 8 : 4;

    if (b.len < size)
        return false;
    uint64_t id = size == 8 ? le64_get(b.data) : le32_get(b.data);
    e->contents = e->body + size;
    e->bytes = bytes_from(b, size);
    if (s->is_eh_frame) {
        e->is_common = id == 0;
        e->common_at = e->body - id;
        return id <= e->body;
    }
    e->is_common = id == (size == 8 ? UINT64_MAX : UINT32_MAX);
    e->common_at = id;
    return true;
}

/* Reads what an augmentation string promises. False when it is of no known kind. */
static bool read_augmentation(struct cfi_cursor *c, const char *text, struct cfi_common *ret)
{
    uint64_t ignored;

    if (text[0] == '\0')
        return true;
    if (text[0] != 'z')
        return false;
    struct bytes data = cfi_block(c);
    struct cfi_cursor a = {.left = data};
    ret->has_augmentation_size = true;
    for (const char *p = text + 1; *p; p++) {
        switch (*p) {
        case 'R':
            ret->pointer_encoding = cfi_u8(&a);
            break;
        case 'L':
            cfi_u8(&a);
            break;
        case 'P': {
            uint8_t encoding = cfi_u8(&a);
            if (encoding != PE_OMIT && !take_number(&a, encoding, &ignored))
                return false;
            break;
        }
        case 'S':
            ret->is_signal = true;
            break;
        case 'B': /* aarch64: which key signs return addresses */
        case 'G': /* and whether the stack is tagged */
            break;
        default:
            return false;
        }
    }
    return !a.failed && !c->failed;
}

static bool parse_common(struct reader *r, const struct entry *e, struct cfi_common *ret)
{
    struct cfi_cursor c = {.left = e->bytes};
    uint8_t version = cfi_u8(&c);
    const uint8_t *end = bytes_find_byte(c.left, 0);

    if (version < 1 || version > 4 || version == 2 || !end)
        return false;
    const char *text = (const char *)c.left.data;
    cfi_take(&c, (size_t)(end - c.left.data) + 1);
    if (strcmp(text, "eh") == 0) { /* gcc 2's */
        cfi_u64(&c);
        text = "";
    }
    if (version == 4 && (cfi_u8(&c) != 8 || cfi_u8(&c) != 0))
        return false;
    ret->code_align = cfi_uleb(&c);
    ret->data_align = cfi_sleb(&c);
    uint64_t ra = version == 1 ? cfi_u8(&c) : cfi_uleb(&c);
    if (ra != r->machine->ra || !read_augmentation(&c, text, ret) || c.failed)
        return false;
    return cfi_run_common(r->machine, ret, c.left);
}

/* The common entry at an offset; NULL when it is damaged, or was not worth reading again. */
static const struct cfi_common *find_common(struct reader *r, uint64_t at)
{
    struct cfi_common *slot = &r->commons[(at >> 2) % COMMONS];
    uint8_t room[COMMON_BYTES_MAX];
    struct entry e;
    struct bytes b;

    if (slot->at == at + 1)
        return slot->is_good ? slot : NULL;
    if (r->common_work > COMMON_WORK_MAX ||
        section_window_copy(r->s->bytes, at, sizeof(room), room, &b, NULL) < 0 || b.len < 4)
        return NULL;
    r->common_work += sizeof(room);
    *slot = (struct cfi_common){.at = at + 1};
    bool is_wide = le32_get(b.data) == UINT32_MAX;
    if (is_wide && b.len < 12)
        return NULL;
    uint64_t len = is_wide ? le64_get(b.data + 4) : le32_get(b.data);
    e = (struct entry){.at = at, .body = at + (is_wide ? 12 : 4), .is_wide = is_wide};
    b = bytes_from(b, is_wide ? 12 : 4);
    if (len > b.len)
        return NULL;
    slot->is_good =
        read_id(r->s, &e, bytes_head(b, (size_t)len)) && e.is_common && parse_common(r, &e, slot);
    return slot->is_good ? slot : NULL;
}

/* Adds one function. False when it is damaged. */
static bool read_function(struct reader *r, const struct entry *e)
{
    const struct cfi_common *common = find_common(r, e->common_at);
    struct cfi_cursor c = {.left = e->bytes};
    uint64_t start, size, va = r->s->va + e->contents;

    if (!common || !cfi_pointer(&c, common->pointer_encoding, va, &start) ||
        !take_number(&c, common->pointer_encoding & PE_FORMAT, &size))
        return false;
    if (common->has_augmentation_size)
        cfi_block(&c);
    /* Functions that the linker left out start at 0. */
    if (c.failed || size > UINT64_MAX - start)
        return false;
    if (start == 0 || size == 0)
        return true;
    struct cfi_function f = {
        .machine = r->machine,
        .common = common,
        .start = start,
        .end = start + size,
        .program_va = va + (uint64_t)(c.left.data - e->bytes.data),
        .program = c.left,
    };
    return cfi_run(&f, r->rows);
}

static int read_entry(struct reader *r, struct entry *e, struct error *err)
{
    struct bytes b;

    if (e->next == e->body)
        return 0;
    if (e->next - e->body > ENTRY_BYTES_MAX) {
        r->n_damaged++;
        return 0;
    }
    int got = section_window_get(r->s->bytes, e->body, (size_t)(e->next - e->body), &b, err);
    if (got < 0)
        return got;
    if (!read_id(r->s, e, b)) {
        r->n_damaged++;
    } else if (!e->is_common) {
        bool good = read_function(r, e);
        r->n_good += good;
        r->n_damaged += !good;
    }
    return 0;
}

int cfi_read_section(const struct cfi_section *s, const struct cfi_machine *m,
                     struct row_builder *rows, struct error *err)
{
    struct reader r = {.s = s, .machine = m, .rows = rows};
    struct entry e;
    uint64_t at = 0;
    int more;

    while ((more = read_head(&r, at, &e, err)) > 0) {
        more = read_entry(&r, &e, err);
        if (more < 0 || budget_failed(rows->budget) || rows->too_many)
            break;
        at = e.next;
    }
    if (more < 0)
        return more;
    if (r.n_good == 0 && r.n_damaged > 0)
        return error_set(err, -EBADMSG, "all %ju entries of %s are damaged", (uintmax_t)r.n_damaged,
                         s->is_eh_frame ? ".eh_frame" : ".debug_frame");
    return 0;
}
