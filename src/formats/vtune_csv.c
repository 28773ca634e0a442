/*
 * VTune's top-down tree as CSV (`vtune -report top-down -format csv`): functions indented by one
 * blank a level, each with the seconds that are its own and its module.
 *
 *     Function Stack,CPU Time:Self,Module
 *     Total,0.0,[Unknown]
 *      RtlUserThreadStart,0.0,ntdll.dll
 */
#include <math.h>

#include "formats/formats.h"
#include "wire/lines.h"

#define CELLS_MAX 64

struct reader {
    struct profile *profile;
    struct dict *dict;
    struct budget *budget;
    struct lines lines;
    VEC(uint32_t) path; /* nodes by depth */
    size_t time_column, module_column;
};

static int vtune_csv_sniff(struct bytes head)
{
    return bytes_start_with(head, BYTES("Function Stack,CPU Time")) ? 90 : 0;
}

static int fail(const struct reader *r, struct error *err, const char *why)
{
    return lines_refuse(&r->lines, "VTune CSV", why, err);
}

/* The next cell, without quotes around it. A quote inside a name does not occur in symbols. */
static struct bytes next_cell(struct bytes *rest)
{
    struct bytes s = *rest;
    size_t blanks = 0;

    while (blanks < s.len && s.data[blanks] == ' ')
        blanks++;
    struct bytes quoted = bytes_from(s, blanks + 1);
    const uint8_t *close =
        blanks < s.len && s.data[blanks] == '"' ? bytes_find_byte(quoted, '"') : NULL;
    if (close) {
        struct bytes after = bytes_from(s, (size_t)(close - s.data) + 1);
        const uint8_t *comma = bytes_find_byte(after, ',');
        *rest = comma ? bytes_from(after, (size_t)(comma - after.data) + 1) : bytes_from(s, s.len);
        return bytes_head(quoted, (size_t)(close - quoted.data));
    }
    const uint8_t *comma = bytes_find_byte(s, ',');
    size_t len = comma ? (size_t)(comma - s.data) : s.len;
    *rest = bytes_from(s, comma ? len + 1 : len);
    return bytes_head(s, len);
}

static int read_heading(struct reader *r, struct bytes line, struct error *err)
{
    for (size_t i = 0; i < CELLS_MAX && line.len > 0; i++) {
        struct bytes cell = next_cell(&line);
        if (bytes_are(cell, "CPU Time:Self") || bytes_are(cell, "CPU Time"))
            r->time_column = i;
        else if (bytes_are(cell, "Module"))
            r->module_column = i;
    }
    return r->time_column ? 0 : fail(r, err, "there is no column \"CPU Time:Self\"");
}

static uint32_t make_node(struct reader *r, uint32_t parent, struct bytes name, struct bytes module)
{
    struct dict *d = r->dict;
    struct location l = {.type = dict_cstring(d, "native")};

    if (module.len > 0 && !bytes_are(module, "[Unknown]"))
        l.mapping = dict_mapping(d, (struct mapping){.file = dict_string(d, module)});
    struct function f = {.name = dict_string(d, name)};
    struct line line = {.function = dict_function(d, f)};
    return dict_node(d, parent, dict_location(d, l, &line, line.function ? 1 : 0));
}

static int read_line(struct reader *r, struct bytes line, struct error *err)
{
    size_t depth = 0;
    struct bytes cells[CELLS_MAX] = {0};
    double seconds;

    while (depth < line.len && line.data[depth] == ' ')
        depth++;
    for (size_t i = 0; i < CELLS_MAX && line.len > 0; i++)
        cells[i] = next_cell(&line);
    if (!bytes_to_double(bytes_trim(cells[r->time_column]), &seconds) || !(seconds >= 0) ||
        seconds > 9e9)
        return fail(r, err, "the time is not a number of seconds");
    if (depth > r->path.len)
        return fail(r, err, "a function is too far to the right");
    r->path.len = depth;
    struct bytes name = bytes_trim(cells[0]);
    struct bytes module =
        r->module_column ? bytes_trim(cells[r->module_column]) : cells[CELLS_MAX - 1];
    uint32_t parent = depth > 0 ? vec_last(&r->path) : 0;
    bool is_root = depth == 0 && bytes_are(name, "Total"); /* of all, no function */
    uint32_t node = is_root ? 0 : make_node(r, parent, name, module);
    vec_push(r->budget, &r->path, node);
    if (seconds > 0)
        profile_add_value(r->profile, node, (int64_t)round(seconds * 1e9));
    return 0;
}

static void reader_done(struct reader *r)
{
    lines_done(&r->lines);
    vec_done(r->budget, &r->path);
}

static int vtune_csv_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);

    CLEANUP(reader_done)
    struct reader r = {.profile = p, .dict = out->dict, .budget = out->budget};
    lines_init(&r.lines, in, out->budget);
    profile_add_ctype(p, "cpu", "nanoseconds");
    for (struct bytes line; lines_next(&r.lines, &line);) {
        int result = 0;
        if (r.lines.number == 1)
            result = read_heading(&r, line, err);
        else if (bytes_trim(line).len > 0)
            result = read_line(&r, line, err);
        if (result < 0)
            return result;
    }
    return lines_result(&r.lines, err);
}

const struct format format_vtune_csv = {
    .name = "vtune-csv",
    .title = "VTune top-down tree (CSV)",
    .sniff = vtune_csv_sniff,
    .decode = vtune_csv_decode,
};
