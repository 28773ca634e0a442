#include "floor.h"
#include "floor_walk.h"

struct sample_row {
    uint64_t stack, link;
    uint32_t first_attr, n_attrs, first_value, n_values, first_time, n_times;
};
struct stack_row {
    uint32_t first_ref, n_refs;
};
struct location_row {
    uint64_t mapping, address;
    uint32_t first_line, n_lines;
};
struct line_row {
    uint64_t function;
    int64_t line, column;
};
struct function_row {
    uint64_t name, system_name, file;
    int64_t start_line;
};
struct string_row {
    const uint8_t *data;
    uint32_t len;
};
struct attribute_row {
    uint64_t key, unit;
    const uint8_t *value, *value_end;
};

COLUMN(struct sample_row, samples);
COLUMN(struct stack_row, stacks);
COLUMN(struct location_row, locations);
COLUMN(struct line_row, lines);
COLUMN(struct function_row, functions);
COLUMN(struct string_row, strings);
COLUMN(struct attribute_row, attributes);
COLUMN(uint64_t, refs);
COLUMN(uint64_t, attrs);
COLUMN(uint64_t, values);
COLUMN(uint64_t, times);

static bool walk_line(const uint8_t *p, const uint8_t *end)
{
    struct line_row row = {0};

    EACH_FIELD(p, end)
    {
        if (f.number == 1)
            row.function = f.value;
        else if (f.number == 2)
            row.line = (int64_t)f.value;
        else if (f.number == 3)
            row.column = (int64_t)f.value;
    }
    *PUSH(lines) = row;
    return true;
}

static bool walk_location(const uint8_t *p, const uint8_t *end)
{
    struct location_row row = {.first_line = (uint32_t)n_lines};

    EACH_FIELD(p, end)
    {
        if (f.number == 1)
            row.mapping = f.value;
        else if (f.number == 2)
            row.address = f.value;
        else if (f.number == 3 && !walk_line(f.data, f.data_end))
            return false;
        else if (f.number == 4)
            ADD_NUMBERS(attrs, f);
    }
    row.n_lines = (uint32_t)n_lines - row.first_line;
    *PUSH(locations) = row;
    return true;
}

static bool walk_function(const uint8_t *p, const uint8_t *end)
{
    struct function_row row = {0};

    EACH_FIELD(p, end)
    {
        if (f.number == 1)
            row.name = f.value;
        else if (f.number == 2)
            row.system_name = f.value;
        else if (f.number == 3)
            row.file = f.value;
        else if (f.number == 4)
            row.start_line = (int64_t)f.value;
    }
    *PUSH(functions) = row;
    return true;
}

static bool walk_attribute(const uint8_t *p, const uint8_t *end)
{
    struct attribute_row row = {0};

    EACH_FIELD(p, end)
    {
        if (f.number == 1)
            row.key = f.value;
        else if (f.number == 2)
            row.value = f.data, row.value_end = f.data_end;
        else if (f.number == 3)
            row.unit = f.value;
    }
    *PUSH(attributes) = row;
    return true;
}

static bool walk_stack(const uint8_t *p, const uint8_t *end)
{
    struct stack_row row = {.first_ref = (uint32_t)n_refs};

    EACH_FIELD(p, end)
    {
        if (f.number == 1)
            ADD_NUMBERS(refs, f);
    }
    row.n_refs = (uint32_t)n_refs - row.first_ref;
    *PUSH(stacks) = row;
    return true;
}

static bool walk_dictionary(const uint8_t *p, const uint8_t *end)
{
    EACH_FIELD(p, end)
    {
        bool ok = true;
        if (f.number == 2)
            ok = walk_location(f.data, f.data_end);
        else if (f.number == 3)
            ok = walk_function(f.data, f.data_end);
        else if (f.number == 5)
            *PUSH(strings) = (struct string_row){f.data, (uint32_t)(f.data_end - f.data)};
        else if (f.number == 6)
            ok = walk_attribute(f.data, f.data_end);
        else if (f.number == 7)
            ok = walk_stack(f.data, f.data_end);
        if (!ok)
            return false;
    }
    return true;
}

static bool walk_sample(const uint8_t *p, const uint8_t *end)
{
    struct sample_row row = {.first_attr = (uint32_t)n_attrs,
                             .first_value = (uint32_t)n_values,
                             .first_time = (uint32_t)n_times};

    EACH_FIELD(p, end)
    {
        if (f.number == 1)
            row.stack = f.value;
        else if (f.number == 2)
            ADD_NUMBERS(attrs, f);
        else if (f.number == 3)
            row.link = f.value;
        else if (f.number == 4)
            ADD_NUMBERS(values, f);
        else if (f.number == 5) {
            for (const uint8_t *at = f.data; f.data_end - at >= 8; at += 8) {
                uint64_t *time = PUSH(times);
                memcpy(time, at, 8);
            }
        }
    }
    row.n_attrs = (uint32_t)n_attrs - row.first_attr;
    row.n_values = (uint32_t)n_values - row.first_value;
    row.n_times = (uint32_t)n_times - row.first_time;
    *PUSH(samples) = row;
    return true;
}

/* Messages within messages, down to the samples: field 2 at every level. */
static bool walk_levels(const uint8_t *p, const uint8_t *end, int levels)
{
    EACH_FIELD(p, end)
    {
        if (f.number != 2 || f.wire != 2)
            continue;
        if (!(levels == 0 ? walk_sample(f.data, f.data_end)
                          : walk_levels(f.data, f.data_end, levels - 1)))
            return false;
    }
    return true;
}

bool floor_walk_otlp(struct bytes message, struct otlp_arrays *ret)
{
    n_samples = n_stacks = n_locations = n_lines = n_functions = n_strings = n_attributes = 0;
    n_refs = n_attrs = n_values = n_times = 0;
    EACH_FIELD(message.data, message.data + message.len)
    {
        bool ok = true;
        if (f.number == 1)
            ok = walk_levels(f.data, f.data_end, 2);
        else if (f.number == 2)
            ok = walk_dictionary(f.data, f.data_end);
        if (!ok)
            return false;
    }
    *ret = (struct otlp_arrays){n_samples, n_stacks,     n_locations, n_lines, n_functions,
                                n_strings, n_attributes, n_refs,      n_values};
    return true;
}
