#include "profile/frames.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "profile/path.h"

void frames_init(struct frames *f, struct dict *d, struct frame_options options)
{
    *f = (struct frames){.dict = d, .options = options};
    arena_init(&f->text, d->budget);
    (void)vec_push(d->budget, &f->all, (struct frame){0});
}

void frames_done(struct frames *f)
{
    struct budget *b = f->dict->budget;

    vec_done(b, &f->all);
    vec_done(b, &f->is_inlined);
    vec_done(b, &f->ids);
    vec_done(b, &f->first);
    vec_done(b, &f->count);
    vec_done(b, &f->files);
    vec_done(b, &f->names);
    idset_done(b, &f->index);
    arena_done(&f->text);
}

static bool frame_equal(const struct frame *a, const struct frame *b)
{
    return a->name == b->name && a->file == b->file && a->object == b->object &&
           a->address == b->address && a->start_line == b->start_line && a->line == b->line &&
           a->column == b->column;
}

static uint32_t intern(struct frames *f, struct frame frame)
{
    uint64_t hash = hash_mix((uint64_t)frame.name << 32 | frame.file,
                             frame.address ^ (uint64_t)frame.object << 32);
    hash = hash_mix(hash ^ (uint64_t)frame.line,
                    (uint64_t)frame.start_line << 20 ^ (uint64_t)frame.column);
    uint32_t id = IDSET_FIND(&f->index, hash, i, frame_equal(&f->all.data[i], &frame));
    if (id != IDSET_NONE) {
        if (f->all.data[id].mapping == 0)
            f->all.data[id].mapping = frame.mapping;
        return id;
    }
    size_t n = f->all.len;
    if (n >= UINT32_MAX - 1 || !vec_push(f->dict->budget, &f->all, frame) ||
        !vec_resize(f->dict->budget, &f->is_inlined, n + 1) ||
        !idset_add(f->dict->budget, &f->index, hash, (uint32_t)n)) {
        f->dict->budget->failed = true;
        return 0;
    }
    return (uint32_t)n;
}

/* A file name as reports show it. */
static uint32_t shown_file(struct frames *f, uint32_t file)
{
    struct dict *d = f->dict;

    if (file == 0)
        return 0;
    if (file >= f->files.len && !vec_resize(d->budget, &f->files, d->strings.len))
        return 0;
    if (f->files.data[file] == 0) {
        struct buf clean = {0};
        struct bytes trimmed = dict_text(d, file);
        if (!f->options.keep_paths)
            trimmed = path_trim(trimmed, f->options.trim_path, f->options.source_path);
        if (trimmed.len > 0)
            path_clean(trimmed, &clean);
        f->files.data[file] = dict_string(d, buf_bytes(&clean)) + 1;
        buf_done(&clean);
    }
    return f->files.data[file] - 1;
}

struct bytes frames_package(struct bytes function)
{
    /* Arguments and type parameters may hold any separator. */
    size_t end = 0;
    while (end < function.len && !strchr("(<[{ ", function.data[end]))
        end++;
    struct bytes head = bytes_head(function, end);

    const uint8_t *slash = head.len ? memrchr(head.data, '/', head.len) : NULL;
    size_t from = slash ? (size_t)(slash - head.data) + 1 : 0;
    const uint8_t *dot = bytes_find_byte(bytes_from(head, from), '.');
    const uint8_t *colons = NULL;
    for (size_t i = head.len; !colons && i >= 2; i--) {
        if (head.data[i - 1] == ':' && head.data[i - 2] == ':')
            colons = head.data + i - 2;
    }
    if (colons)
        return bytes_head(head, (size_t)(colons - head.data));
    if (!dot)
        return (struct bytes){0};
    /* Java: what stands before Class.method. A leading lower-case dotted path tells. */
    const uint8_t *last = memrchr(head.data, '.', head.len);
    if (!slash && last > dot) {
        const uint8_t *before = memrchr(head.data, '.', (size_t)(last - head.data));
        return bytes_head(head, (size_t)(before - head.data));
    }
    return bytes_head(head, (size_t)(dot - head.data));
}

/* Binaries go by their base names: the same library lies elsewhere on other machines. What has none
 * (interpreted code) goes by its kind: "[python]". */
static struct frame binary_frame(struct frames *f, const struct location *l)
{
    struct dict *d = f->dict;
    struct bytes file = dict_text(d, d->mappings.data[l->mapping].file);
    CLEANUP(buf_done) struct buf name = {0};

    if (file.len > 0)
        buf_add_bytes(&name, path_base(file));
    else if (l->type)
        buf_addf(&name, "[%s]", dict_cstr(d, l->type));
    return (struct frame){
        .name = dict_string(d, buf_bytes(&name)), .type = l->type, .mapping = l->mapping};
}

/* A frame of a location without lines, or of a line without a function. */
static struct frame unknown_frame(struct frames *f, const struct location *l, bool has_address)
{
    struct dict *d = f->dict;
    uint32_t object = d->mappings.data[l->mapping].file;

    if (!f->options.name_unknown)
        return (struct frame){.object = object,
                              .type = l->type,
                              .mapping = l->mapping,
                              .address = has_address ? l->address : 0};
    struct buf name = {0};
    if (object)
        buf_add_bytes(&name, path_base(dict_text(d, object)));
    buf_addf(&name, "%s0x%llx", object ? "+" : "", (unsigned long long)l->address);
    uint32_t id = dict_string(d, buf_bytes(&name));
    buf_done(&name);
    return (struct frame){.name = id, .object = object, .type = l->type, .mapping = l->mapping};
}

static struct frame make_frame(struct frames *f, const struct location *l, const struct line *line)
{
    const struct frame_options *o = &f->options;
    enum granularity g = o->granularity;
    bool has_address = g == GRANULARITY_ADDRESSES;
    bool has_line = has_address || g == GRANULARITY_LINES;

    if (g == GRANULARITY_BINARIES)
        return binary_frame(f, l);
    if (!line || line->function == 0)
        return unknown_frame(f, l, has_address);
    struct function fn = f->dict->functions.data[line->function];
    struct frame frame = {.type = l->type,
                          .source = fn.file,
                          .mapping = l->mapping,
                          .address = has_address ? l->address : 0};
    if (g != GRANULARITY_PACKAGES && g != GRANULARITY_FILES)
        frame.source_line = fn.start_line;
    if (g == GRANULARITY_PACKAGES)
        frame.name = dict_string(f->dict, frames_package(dict_text(f->dict, fn.name)));
    else if (g != GRANULARITY_FILES)
        frame.name = fn.name;
    if (has_line || g == GRANULARITY_FILES || g == GRANULARITY_FILEFUNCTIONS)
        frame.file = shown_file(f, fn.file);
    if (has_line)
        frame.line = line->line;
    /* Like pprof, whose plain address view keeps all there is. */
    if (has_line && (o->show_columns || (has_address && !o->no_inlines)))
        frame.column = line->column;
    if (!(o->by_name && frame.file != 0) && (o->keep_objects || frame.name == 0)) {
        frame.object = f->dict->mappings.data[l->mapping].file;
        frame.start_line = g == GRANULARITY_PACKAGES ? 0 : fn.start_line;
    }
    return frame;
}

static bool resolve(struct frames *f, uint32_t location)
{
    struct dict *d = f->dict;
    struct location l = d->locations.data[location];
    uint32_t from = f->options.no_inlines && l.n_lines > 1 ? l.n_lines - 1 : 0;
    size_t first = f->ids.len;

    for (uint32_t i = from; i < l.n_lines || (i == 0 && l.n_lines == 0); i++) {
        struct line line = l.n_lines ? d->lines.data[l.first_line + i] : (struct line){0};
        uint32_t id = intern(f, make_frame(f, &l, l.n_lines ? &line : NULL));
        if (id == 0 || !vec_push(d->budget, &f->ids, id))
            return false;
        f->is_inlined.data[id] |= i + 1 < l.n_lines;
    }
    if (f->ids.len >= UINT32_MAX) {
        d->budget->failed = true;
        return false;
    }
    f->first.data[location] = (uint32_t)first + 1;
    f->count.data[location] = (uint32_t)(f->ids.len - first);
    return true;
}

size_t frames_resolve(struct frames *f, uint32_t location, uint32_t *ret_n)
{
    struct dict *d = f->dict;

    *ret_n = 0;
    if (location >= f->first.len && (!vec_resize(d->budget, &f->first, d->locations.len) ||
                                     !vec_resize(d->budget, &f->count, d->locations.len)))
        return 0;
    if (!resolve(f, location))
        return 0;
    *ret_n = f->count.data[location];
    return f->first.data[location] - 1;
}

static void add_place(const struct dict *d, const struct frame *frame, struct buf *out)
{
    struct bytes name = dict_text(d, frame->name), file = dict_text(d, frame->file);

    if (frame->address != 0)
        buf_addf(out, "%016llx ", (unsigned long long)frame->address);
    if (name.len > 0) {
        buf_add_bytes(out, name);
        buf_add_byte(out, ' ');
    }
    if (frame->line != 0) {
        buf_add_bytes(out, file);
        buf_addf(out, ":%lld", (long long)frame->line);
        if (frame->column != 0)
            buf_addf(out, ":%lld", (long long)frame->column);
        buf_add_byte(out, ' ');
    } else if (file.len > 0) {
        buf_add_bytes(out, file);
        buf_add_byte(out, ' ');
    } else if (name.len == 0 && frame->object != 0) {
        buf_add_byte(out, '[');
        buf_add_bytes(out, path_base(dict_text(d, frame->object)));
        buf_add_str(out, "] ");
    } else if (name.len == 0) {
        buf_add_str(out, "<unknown> ");
    }
    out->len--; /* the last space */
}

const char *frames_name(struct frames *f, uint32_t frame)
{
    struct dict *d = f->dict;
    const struct frame *what = &f->all.data[frame];

    if (what->name != 0 && what->address == 0 && what->line == 0 && what->file == 0)
        return dict_cstr(d, what->name);
    if (frame >= f->names.len && !vec_resize(d->budget, &f->names, f->all.len))
        return "";
    if (!f->names.data[frame]) {
        struct buf text = {0};
        add_place(d, what, &text);
        f->names.data[frame] = arena_strdup(&f->text, buf_bytes(&text));
        buf_done(&text);
    }
    return f->names.data[frame] ? f->names.data[frame] : "";
}
