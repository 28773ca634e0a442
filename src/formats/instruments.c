/*
 * What Apple's Instruments puts on the clipboard as a "deep copy" of a call tree: a table with the
 * weight of each line, its own weight, and its symbol, indented by depth. Older versions write
 * "Running Time / Self (ms)", newer ones "Weight / Self Weight" with a unit in every cell.
 */
#include <math.h>

#include "formats/formats.h"
#include "wire/lines.h"

struct level {
    size_t indent;
    uint32_t node;
};

struct reader {
    struct profile *profile;
    struct dict *dict;
    struct budget *budget;
    struct lines lines;
    VEC(struct level) path;
    const char *unit;         /* of the column, once a cell said */
    const char *default_unit; /* what a number without a unit is in: "ms" in older versions */
};

/* What the cells may be measured in, and how much of the unit that we keep. */
static const struct {
    const char *text;
    const char *unit;
    double factor;
} units[] = {
    {"ns", "nanoseconds", 1},
    {"\xc2\xb5s", "nanoseconds", 1e3},
    {"us", "nanoseconds", 1e3},
    {"\xce\xbcs", "nanoseconds", 1e3},
    {"ms", "nanoseconds", 1e6},
    {"s", "nanoseconds", 1e9},
    {"min", "nanoseconds", 60e9},
    {"h", "nanoseconds", 3600e9},
    {"Bytes", "bytes", 1},
    {"bytes", "bytes", 1},
    {"B", "bytes", 1},
    {"KB", "bytes", 1024},
    {"KiB", "bytes", 1024},
    {"MB", "bytes", 1048576},
    {"MiB", "bytes", 1048576},
    {"GB", "bytes", 1073741824},
    {"GiB", "bytes", 1073741824},
    {"", "count", 1},
};

static int instruments_sniff(struct bytes head)
{
    bool is_old = bytes_start_with(head, BYTES("Running Time\tSelf"));
    bool is_new = bytes_start_with(head, BYTES("Weight\tSelf Weight\t"));

    return is_old || is_new ? 90 : 0;
}

static int fail(const struct reader *r, struct error *err, const char *why)
{
    return lines_refuse(&r->lines, "instruments", why, err);
}

/* "846.00 ms": the number in the unit that is kept. A zero may stand in any unit. */
static const char *parse_cell(struct reader *r, struct bytes cell, int64_t *ret)
{
    size_t n = 0;
    double v;

    cell = bytes_trim(cell);
    while (n < cell.len && ((cell.data[n] >= '0' && cell.data[n] <= '9') || cell.data[n] == '.'))
        n++;
    if (!bytes_to_double(bytes_head(cell, n), &v))
        return "the self weight is not a number";
    struct bytes unit = bytes_trim(bytes_from(cell, n));
    if (unit.len == 0)
        unit = bytes_of(r->default_unit);
    size_t i = 0;
    while (i < ARRAY_SIZE(units) && !bytes_are(unit, units[i].text))
        i++;
    if (i == ARRAY_SIZE(units))
        return "the self weight has a unit that is not known";
    if (v == 0) {
        *ret = 0;
        return NULL;
    }
    if (r->unit && strcmp(r->unit, units[i].unit) != 0)
        return "the self weight is of another kind than those above";
    r->unit = units[i].unit;
    v = round(v * units[i].factor);
    if (v >= 0x1p63)
        return "the self weight is too large";
    *ret = (int64_t)v;
    return NULL;
}

static uint32_t place_in_tree(struct reader *r, struct bytes symbol)
{
    size_t indent = 0;

    while (indent < symbol.len && symbol.data[indent] == ' ')
        indent++;
    while (r->path.len > 0 && vec_last(&r->path).indent >= indent)
        r->path.len--;
    uint32_t parent = r->path.len > 0 ? vec_last(&r->path).node : 0;
    struct function f = {.name = dict_string(r->dict, bytes_trim(symbol))};
    uint32_t node = dict_frame(r->dict, parent, f, 0, 0, 0);
    vec_push(r->budget, &r->path, (struct level){indent, node});
    return node;
}

static int read_line(struct reader *r, struct bytes line, struct error *err)
{
    const uint8_t *tab = bytes_find_byte(line, '\t');
    if (!tab)
        return fail(r, err, "not a table of weight, self weight and symbol");
    struct bytes rest = bytes_from(line, (size_t)(tab - line.data) + 1);
    const uint8_t *end = bytes_find_byte(rest, '\t');
    if (!end)
        return fail(r, err, "there is no symbol");
    struct bytes self = bytes_head(rest, (size_t)(end - rest.data));
    struct bytes symbol = bytes_from(rest, (size_t)(end - rest.data) + 1);
    for (const uint8_t *p; (p = bytes_find_byte(symbol, '\t'));)
        symbol = bytes_from(symbol, (size_t)(p - symbol.data) + 1);
    if (bytes_trim(symbol).len == 0)
        return fail(r, err, "there is no symbol");
    int64_t value = 0;
    const char *why = parse_cell(r, self, &value);
    if (why)
        return fail(r, err, why);
    uint32_t node = place_in_tree(r, symbol);
    if (value != 0)
        profile_add_value(r->profile, node, value);
    return 0;
}

static void reader_done(struct reader *r)
{
    lines_done(&r->lines);
    vec_done(r->budget, &r->path);
}

static int instruments_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);

    CLEANUP(reader_done)
    struct reader r = {.profile = p, .dict = out->dict, .budget = out->budget, .default_unit = ""};
    lines_init(&r.lines, in, out->budget);
    profile_add_ctype(p, "weight", "count");
    for (struct bytes line; lines_next(&r.lines, &line);) {
        int result = 0;
        if (r.lines.number == 1)
            r.default_unit = bytes_find(line, BYTES("Self (ms)")) ? "ms" : "";
        else if (bytes_trim(line).len > 0)
            result = read_line(&r, line, err);
        if (result < 0)
            return result;
    }
    if (r.unit) {
        bool is_time = strcmp(r.unit, "nanoseconds") == 0;
        p->types[0] = (struct value_type){dict_cstring(out->dict, is_time ? "cpu" : "weight"),
                                          dict_cstring(out->dict, r.unit)};
    }
    return lines_result(&r.lines, err);
}

const struct format format_instruments = {
    .name = "instruments",
    .title = "Instruments call tree (deep copy)",
    .sniff = instruments_sniff,
    .decode = instruments_decode,
};
