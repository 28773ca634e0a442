/*
 * What macOS's sample(1) prints: a call graph per thread, each line the number of times it was
 * seen, indented by two columns a level. Lines of '+', '!', ':' and '|' only guide the eye.
 *
 *     825 Thread_15758535
 *     + 825 thread_start  (in libsystem_pthread.dylib) + 13  [0x7fff739c240d]
 */

#include "formats/formats.h"
#include "wire/lines.h"

struct level {
    size_t column;
    uint32_t node;
    int64_t count, below;
};

struct reader {
    struct profile *profile;
    struct dict *dict;
    struct budget *budget;
    struct lines lines;
    VEC(struct level) path;
    uint32_t attrs; /* of the thread being read */
    int64_t interval_ns;
    bool in_graph, has_graph;
};

static int macos_sample_sniff(struct bytes head)
{
    return bytes_start_with(head, BYTES("Analysis of sampling ")) ? 95 : 0;
}

static int fail(const struct reader *r, struct error *err, const char *why)
{
    return lines_refuse(&r->lines, "macOS sample", why, err);
}

/* Closes the levels at this column or to the right of it; what is not of callees is their own. */
static void leave(struct reader *r, size_t column)
{
    while (r->path.len > 0 && vec_last(&r->path).column >= column) {
        struct level l = vec_last(&r->path);
        int64_t own = l.count > l.below ? l.count - l.below : 0,
                values[2] = {own, own * r->interval_ns};
        if (own > 0)
            profile_add(r->profile,
                        &(struct sample){.node = l.node, .attrs = r->attrs, .values = values});
        r->path.len--;
    }
}

/* "name  (in module) + 13  [0x7fff739c240d]" */
static uint32_t make_node(struct reader *r, uint32_t parent, struct bytes text)
{
    struct dict *d = r->dict;
    struct location l = {0};
    struct function f = {0};
    const uint8_t *in = bytes_find(text, BYTES("  (in ")), *open = bytes_find(text, BYTES("[0x"));

    if (open) {
        struct bytes address = bytes_from(text, (size_t)(open - text.data) + 1);
        const uint8_t *close = bytes_find_byte(address, ']');
        if (close)
            bytes_to_hex(bytes_head(address, (size_t)(close - address.data)), &l.address);
    }
    if (in) {
        struct bytes module = bytes_from(text, (size_t)(in - text.data) + 6);
        const uint8_t *close = bytes_find_byte(module, ')');
        module = bytes_head(module, close ? (size_t)(close - module.data) : module.len);
        l.mapping = dict_mapping(d, (struct mapping){.file = dict_string(d, module)});
        l.type = dict_cstring(d, "native");
        text = bytes_head(text, (size_t)(in - text.data));
    }
    text = bytes_trim(text);
    if (!bytes_are(text, "???"))
        f.name = dict_string(d, text);
    struct line line = {.function = dict_function(d, f)};
    return dict_node(d, parent, dict_location(d, l, &line, line.function ? 1 : 0));
}

static void start_thread(struct reader *r, struct bytes text)
{
    struct dict *d = r->dict;
    const uint8_t *gap = bytes_find(text, BYTES("  "));
    struct bytes name = gap ? bytes_head(text, (size_t)(gap - text.data)) : text;
    uint32_t a = dict_string_attribute(d, dict_cstring(d, "thread.name"), dict_string(d, name));

    r->attrs = dict_attrs(d, &a, 1);
}

static int read_line(struct reader *r, struct bytes line, struct error *err)
{
    static const char marks[] = {' ', '+', '!', ':', '|'};
    size_t column = 0, end;
    int64_t count;

    while (column < line.len && memchr(marks, line.data[column], sizeof(marks)))
        column++;
    for (end = column; end < line.len && line.data[end] >= '0' && line.data[end] <= '9'; end++)
        continue;
    if (end >= line.len || line.data[end] != ' ' ||
        !bytes_to_i64(bytes_head(bytes_from(line, column), end - column), &count))
        return fail(r, err, "not \"count function\"");
    if (count > INT64_MAX / r->interval_ns)
        return fail(r, err, "the count is too large");
    leave(r, column);
    struct bytes text = bytes_trim(bytes_from(line, end));
    if (r->path.len == 0) {
        start_thread(r, text);
        vec_push(r->budget, &r->path, (struct level){column, 0, count, 0});
        return 0;
    }
    struct level *parent = &vec_last(&r->path);
    if (__builtin_add_overflow(parent->below, count, &parent->below))
        return fail(r, err, "the callees of a function have too many samples");
    uint32_t node = make_node(r, parent->node, text);
    vec_push(r->budget, &r->path, (struct level){column, node, count, 0});
    return 0;
}

/* "Analysis of sampling rg (pid 64751) every 1 millisecond" */
static void read_heading(struct reader *r, struct bytes line)
{
    const uint8_t *every = bytes_find(line, BYTES(" every "));
    int64_t n;

    if (!every)
        return;
    struct bytes rest = bytes_from(line, (size_t)(every - line.data) + 7);
    const uint8_t *blank = bytes_find_byte(rest, ' ');
    bool is_number = blank && bytes_to_i64(bytes_head(rest, (size_t)(blank - rest.data)), &n);
    if (is_number && n > 0 && n < 1000000 && bytes_find(rest, BYTES(" millisecond")))
        r->interval_ns = n * 1000000;
}

static void reader_done(struct reader *r)
{
    lines_done(&r->lines);
    vec_done(r->budget, &r->path);
}

static int macos_sample_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);

    CLEANUP(reader_done)
    struct reader r = {
        .profile = p, .dict = out->dict, .budget = out->budget, .interval_ns = 1000000};
    lines_init(&r.lines, in, out->budget);
    profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "wall", "nanoseconds");
    for (struct bytes line; lines_next(&r.lines, &line);) {
        int result = 0;
        if (r.lines.number == 1)
            read_heading(&r, line);
        else if (bytes_start_with(line, BYTES("Call graph:")))
            r.in_graph = r.has_graph = true;
        else if (bytes_trim(line).len == 0)
            r.in_graph = false;
        else if (r.in_graph)
            result = read_line(&r, line, err);
        if (result < 0)
            return result;
    }
    leave(&r, 0);
    p->period = r.interval_ns;
    p->period_type = p->types[1];
    int result = lines_result(&r.lines, err);
    return result == 0 && !r.has_graph ? fail(&r, err, "there is no call graph") : result;
}

const struct format format_macos_sample = {
    .name = "macos-sample",
    .title = "macOS sample",
    .sniff = macos_sample_sniff,
    .decode = macos_sample_decode,
};
