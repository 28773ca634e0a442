#include "symbols/pclntab.h"

#include <endian.h>
#include <errno.h>

#include "base/bisect.h"

#define INLINE_DEPTH_MAX 200
/* Rows of one function's table of lines; a function of a megabyte has some ten thousand. */
#define VALUE_STEPS_MAX  (1 << 18)
#define NAME_BYTES_MAX   ((size_t)1 << 16)
/* How much is looked through at a time for the end of a text. */
#define TEXT_STEP        ((size_t)256)

#define PCDATA_INLINE_TREE_INDEX 2
#define FUNCDATA_INLINE_TREE     3

static void need(const struct pclntab *t, const uint8_t *p, size_t n)
{
    if (t->lazy)
        lazy_bytes_need(t->lazy, p, n);
}

static uint32_t get32(const struct pclntab *t, const uint8_t *p)
{
    need(t, p, sizeof(uint32_t));
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return t->is_big_endian ? be32toh(v) : le32toh(v);
}

static uint64_t get_word(const struct pclntab *t, const uint8_t *p)
{
    uint64_t v;
    if (t->word == 4)
        return get32(t, p);
    need(t, p, sizeof(v));
    memcpy(&v, p, sizeof(v));
    return t->is_big_endian ? be64toh(v) : le64toh(v);
}

/* The u32 at an offset, or false past the end. */
static bool read32(const struct pclntab *t, struct bytes b, uint64_t at, uint32_t *ret)
{
    if (at > b.len || b.len - at < 4)
        return false;
    *ret = get32(t, b.data + at);
    return true;
}

static bool version_of(uint32_t magic, enum pclntab_version *ret)
{
    switch (magic) {
    case 0xfffffffb:
        *ret = PCLNTAB_1_2;
        return true;
    case 0xfffffffa:
        *ret = PCLNTAB_1_16;
        return true;
    case 0xfffffff0:
        *ret = PCLNTAB_1_18;
        return true;
    case 0xfffffff1:
        *ret = PCLNTAB_1_20;
        return true;
    default:
        return false;
    }
}

static uint64_t function_entry_size(const struct pclntab *t)
{
    return 2 * (uint64_t)(t->version >= PCLNTAB_1_18 ? 4 : t->word);
}

/* The table that header word `n` points to. */
static struct bytes table_at(const struct pclntab *t, struct bytes data, size_t n)
{
    uint64_t at = get_word(t, data.data + 8 + n * t->word);
    return at <= data.len ? bytes_from(data, (size_t)at) : (struct bytes){0};
}

static int take_functions(struct pclntab *t, struct bytes from, struct error *err)
{
    /* One more address stands behind the last function: where it ends. */
    uint64_t size = function_entry_size(t);
    if (t->n_functions > from.len / size || t->n_functions * size + size / 2 > from.len)
        return error_set(err, -EBADMSG, "pclntab: %ju functions do not fit its %zu bytes",
                         (uintmax_t)t->n_functions, from.len);
    t->functions = bytes_head(from, (size_t)(t->n_functions * size + size / 2));
    return 0;
}

static int parse_1_2(struct pclntab *t, struct bytes data, struct error *err)
{
    uint32_t at, n;

    t->n_functions = get_word(t, data.data + 8);
    t->records = t->names = t->values = data;
    struct bytes from = bytes_from(data, 8 + t->word);
    int r = take_functions(t, from, err);
    if (r < 0)
        return r;
    if (!read32(t, from, t->functions.len, &at) || !read32(t, data, at, &n) ||
        n > (data.len - at) / 4)
        return error_set(err, -EBADMSG, "pclntab: its table of files runs past the end");
    t->files = bytes_head(bytes_from(data, at), (size_t)n * 4);
    return 0;
}

/* `t` has what the caller knows. */
static int parse(struct pclntab t, struct bytes data, struct pclntab *ret, struct error *err)
{
    if (data.len < 8 + 8 * 8)
        return error_set(err, -EBADMSG, "pclntab: only %zu bytes long", data.len);
    need(&t, data.data, 8 + 8 * 8);
    uint32_t little = get32(&t, data.data);
    if (!version_of(little, &t.version)) {
        t.is_big_endian = true;
        if (!version_of(__builtin_bswap32(little), &t.version))
            return error_set(err, -EBADMSG, "pclntab: unknown magic number 0x%08x", little);
    }
    t.quantum = data.data[6];
    t.word = data.data[7];
    if (data.data[4] != 0 || data.data[5] != 0 ||
        (t.quantum != 1 && t.quantum != 2 && t.quantum != 4) || (t.word != 4 && t.word != 8))
        return error_set(err, -EBADMSG, "pclntab: damaged header");

    int r;
    if (t.version == PCLNTAB_1_2) {
        r = parse_1_2(&t, data, err);
    } else {
        size_t first = t.version >= PCLNTAB_1_18 ? 3 : 2;
        t.n_functions = get_word(&t, data.data + 8);
        t.names = table_at(&t, data, first);
        t.units = table_at(&t, data, first + 1);
        t.files = table_at(&t, data, first + 2);
        t.values = table_at(&t, data, first + 3);
        t.records = table_at(&t, data, first + 4);
        r = take_functions(&t, t.records, err);
    }
    if (r < 0)
        return r;
    *ret = t;
    return 0;
}

int pclntab_parse(struct bytes data, uint64_t text, struct bytes funcdata, struct pclntab *ret,
                  struct error *err)
{
    return parse((struct pclntab){.text = text, .funcdata = funcdata}, data, ret, err);
}

int pclntab_parse_lazy(struct lazy_bytes *lazy, struct pclntab *ret, struct error *err)
{
    return parse((struct pclntab){.lazy = lazy}, (struct bytes){lazy->data, lazy->size}, ret, err);
}

static uint64_t function_pc(const struct pclntab *t, uint64_t i)
{
    const uint8_t *p = t->functions.data + i * function_entry_size(t);
    return t->version >= PCLNTAB_1_18 ? t->text + get32(t, p) : get_word(t, p);
}

/* One function's record: where its tables are. */
struct record {
    struct bytes bytes; /* from the record on */
    uint64_t entry;
    uint32_t name, stack, file, line, n_pcdata, unit, start_line;
    uint8_t n_funcdata, flags;
    size_t size; /* of the fixed part */
};

static bool read_record(const struct pclntab *t, uint64_t i, struct record *ret)
{
    const uint8_t *p = t->functions.data + i * function_entry_size(t);
    bool new_layout = t->version >= PCLNTAB_1_18;
    uint64_t at = new_layout ? get32(t, p + 4) : get_word(t, p + t->word);
    size_t first = new_layout ? 4 : t->word; /* the entry address or offset */

    if (at >= t->records.len)
        return false;
    struct bytes b = bytes_from(t->records, (size_t)at);
    *ret = (struct record){.bytes = b, .entry = function_pc(t, i)};
    size_t fields = t->version >= PCLNTAB_1_20 ? 10 : t->version >= PCLNTAB_1_16 ? 9 : 8;
    ret->size = first + 4 * fields;
    if (b.len < ret->size)
        return false;
    const uint8_t *f = b.data + first;
    ret->name = get32(t, f);
    ret->stack = get32(t, f + 12);
    ret->file = get32(t, f + 16);
    ret->line = get32(t, f + 20);
    ret->n_pcdata = get32(t, f + 24);
    if (t->version >= PCLNTAB_1_16)
        ret->unit = get32(t, f + 28);
    if (t->version >= PCLNTAB_1_20)
        ret->start_line = get32(t, f + 32);
    need(t, f, ret->size - first);
    ret->flags = b.data[ret->size - 3];
    ret->n_funcdata = b.data[ret->size - 1];
    return true;
}

static bool read_varint(const struct pclntab *t, struct bytes *b, uint32_t *ret)
{
    uint32_t v = 0;

    for (unsigned shift = 0; shift < 35 && b->len > 0; shift += 7) {
        need(t, b->data, 1);
        uint8_t c = b->data[0];
        *b = bytes_from(*b, 1);
        v |= (uint32_t)((uint64_t)(c & 0x7f) << shift);
        if (c < 0x80) {
            *ret = v;
            return true;
        }
    }
    return false;
}

/* The value for `pc` in a table of (value delta, pc delta) pairs; -1 when there is none. */
static int32_t value_at(const struct pclntab *t, uint32_t table, uint64_t entry, uint64_t pc)
{
    struct bytes b = bytes_from(t->values, table);
    uint32_t value = UINT32_MAX, delta, step;
    uint64_t at = entry;

    for (int i = 0; i < VALUE_STEPS_MAX; i++) {
        if (!read_varint(t, &b, &delta) || (delta == 0 && i > 0) || !read_varint(t, &b, &step))
            return -1;
        value += delta & 1 ? ~(delta >> 1) : delta >> 1;
        at += (uint64_t)step * t->quantum;
        if (pc < at)
            return (int32_t)value;
    }
    return -1;
}

/* A NUL-terminated text in a table, or NULL. */
static const char *text_at(const struct pclntab *t, struct bytes table, uint64_t at)
{
    if (at >= table.len)
        return NULL;
    struct bytes from = bytes_head(bytes_from(table, (size_t)at), NAME_BYTES_MAX);
    for (size_t n = 0; n < from.len; n += TEXT_STEP) {
        struct bytes part = bytes_head(bytes_from(from, n), TEXT_STEP);
        need(t, part.data, part.len);
        if (bytes_find_byte(part, 0))
            return (const char *)from.data;
    }
    return NULL;
}

static const char *file_at(const struct pclntab *t, const struct record *r, uint64_t pc)
{
    int32_t n = value_at(t, r->file, r->entry, pc);
    uint32_t at;

    if (n < 0)
        return NULL;
    if (t->version == PCLNTAB_1_2)
        return n > 0 && read32(t, t->files, 4 * (uint64_t)n, &at) ? text_at(t, t->records, at)
                                                                  : NULL;
    if (!read32(t, t->units, 4 * ((uint64_t)r->unit + (uint64_t)n), &at) || at == UINT32_MAX)
        return NULL;
    return text_at(t, t->files, at);
}

/* An inlined call, and the place in the function that it was made from. */
struct inlined {
    const char *name;
    uint32_t start_line;
    uint64_t parent_pc;
};

/* The offset of the table of inlined calls in funcdata; false when the function has none. */
static bool inline_tree(const struct pclntab *t, const struct record *r, uint32_t *ret)
{
    uint64_t funcdata = r->size + 4 * (uint64_t)r->n_pcdata;

    return t->funcdata.len > 0 && t->version >= PCLNTAB_1_18 &&
           r->n_funcdata > FUNCDATA_INLINE_TREE && r->n_pcdata > PCDATA_INLINE_TREE_INDEX &&
           read32(t, r->bytes, funcdata + 4 * (uint64_t)FUNCDATA_INLINE_TREE, ret) &&
           *ret != UINT32_MAX;
}

/* The innermost call that was inlined at pc; false when there is none. */
static bool inlined_at(const struct pclntab *t, const struct record *r, uint64_t pc,
                       struct inlined *ret)
{
    bool old = t->version < PCLNTAB_1_20;
    uint32_t tree, table, name, parent, start = 0;

    if (!inline_tree(t, r, &tree) ||
        !read32(t, r->bytes, r->size + 4 * (uint64_t)PCDATA_INLINE_TREE_INDEX, &table) ||
        table == 0)
        return false;
    int32_t index = value_at(t, table, r->entry, pc);
    if (index < 0)
        return false;
    uint64_t at = tree + (uint64_t)index * (old ? 20 : 16);
    if (!read32(t, t->funcdata, at + (old ? 12 : 4), &name) ||
        !read32(t, t->funcdata, at + (old ? 16 : 8), &parent) ||
        (!old && !read32(t, t->funcdata, at + 12, &start)))
        return false;
    *ret = (struct inlined){text_at(t, t->names, name), start, r->entry + parent};
    return ret->name != NULL;
}

static struct code_frame *frame_at(const struct pclntab *t, const struct record *r, uint64_t pc,
                                   struct arena *arena)
{
    struct code_frame *f = arena_new(arena, struct code_frame, 1);

    if (!f)
        return NULL;
    int32_t line = value_at(t, r->line, r->entry, pc);
    f->file = file_at(t, r, pc);
    f->line = line > 0 ? (uint32_t)line : 0;
    return f;
}

static bool find_function(const struct pclntab *t, uint64_t pc, struct record *ret)
{
    if (t->n_functions == 0 || pc < function_pc(t, 0) || pc >= function_pc(t, t->n_functions))
        return false;
    size_t after = BISECT(t->n_functions, i, function_pc(t, i) <= pc);
    return after > 0 && read_record(t, after - 1, ret);
}

bool pclntab_function(const struct pclntab *t, uint64_t i, struct pclntab_function *ret)
{
    struct record r;

    if (i >= t->n_functions || !read_record(t, i, &r))
        return false;
    *ret = (struct pclntab_function){.start = r.entry,
                                     .end = function_pc(t, i + 1),
                                     .name = text_at(t, t->names, r.name),
                                     .start_line = r.start_line};
    if (!ret->name || ret->end < ret->start)
        return false;
    ret->file = file_at(t, &r, r.entry);
    if (ret->start_line == 0) {
        int32_t line = value_at(t, r.line, r.entry, r.entry);
        ret->start_line = line > 0 ? (uint32_t)line : 0;
    }
    return true;
}

bool pclntab_holds(const struct pclntab *t, uint64_t pc)
{
    struct record r;

    return find_function(t, pc, &r);
}

struct code_frame *pclntab_find(const struct pclntab *t, uint64_t pc, struct arena *arena)
{
    struct code_frame *innermost = NULL, **end = &innermost;
    struct record r;

    if (!find_function(t, pc, &r) || !text_at(t, t->names, r.name))
        return NULL;
    for (int depth = 0; depth < INLINE_DEPTH_MAX; depth++) {
        struct inlined call;
        bool is_inlined = depth + 1 < INLINE_DEPTH_MAX && inlined_at(t, &r, pc, &call);
        struct code_frame *f = frame_at(t, &r, pc, arena);
        if (!f)
            return innermost;
        f->name = is_inlined ? call.name : text_at(t, t->names, r.name);
        f->start_line = is_inlined ? call.start_line : r.start_line;
        *end = f;
        end = &f->outer;
        if (!is_inlined)
            break;
        pc = call.parent_pc;
    }
    return innermost;
}

bool pclntab_frame(const struct pclntab *t, uint64_t i, struct pclntab_frame *ret)
{
    struct record r;

    if (!read_record(t, i, &r))
        return false;
    *ret = (struct pclntab_frame){
        .start = r.entry,
        .end = function_pc(t, i + 1),
        .name = text_at(t, t->names, r.name),
        .flags = t->version >= PCLNTAB_1_16 ? r.flags : 0,
        .stack = r.stack,
    };
    return true;
}

void pclntab_stack_begin(const struct pclntab *t, const struct pclntab_frame *f,
                         struct pclntab_stack *s)
{
    *s = (struct pclntab_stack){
        .end = f->start, .bytes = -1, .left = bytes_from(t->values, f->stack)};
}

bool pclntab_stack_next(const struct pclntab *t, struct pclntab_stack *s)
{
    uint32_t delta, step;
    bool is_first = s->start == 0;

    if (!read_varint(t, &s->left, &delta) || (delta == 0 && !is_first) ||
        !read_varint(t, &s->left, &step))
        return false;
    s->start = s->end;
    s->bytes = (int32_t)((uint32_t)s->bytes + (delta & 1 ? ~(delta >> 1) : delta >> 1));
    s->end += (uint64_t)step * t->quantum;
    return step > 0;
}
