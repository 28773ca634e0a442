#include "floor.h"
#include "floor_walk.h"

struct sample_row {
    uint32_t first_ref, n_refs, first_value, n_values, first_label, n_labels;
};
struct location_row {
    uint64_t id, mapping, address;
    uint32_t first_line, n_lines;
};
struct line_row {
    uint64_t function;
    int64_t line;
};
struct function_row {
    uint64_t id, name, system_name, file;
    int64_t start_line;
};
struct string_row {
    const uint8_t *data;
    uint32_t len;
};
struct label_row {
    uint64_t key, text;
    int64_t number;
};

COLUMN(struct sample_row, samples);
COLUMN(struct location_row, locations);
COLUMN(struct line_row, lines);
COLUMN(struct function_row, functions);
COLUMN(struct string_row, strings);
COLUMN(struct label_row, labels);
COLUMN(uint64_t, refs);
COLUMN(uint64_t, values);

static bool walk_line(const uint8_t *p, const uint8_t *end)
{
    struct line_row *row = PUSH(lines);

    *row = (struct line_row){0};
    EACH_FIELD(p, end)
    {
        if (f.number == 1)
            row->function = f.value;
        else if (f.number == 2)
            row->line = (int64_t)f.value;
    }
    return true;
}

static bool walk_location(const uint8_t *p, const uint8_t *end)
{
    struct location_row *row = PUSH(locations);

    *row = (struct location_row){.first_line = (uint32_t)n_lines};
    EACH_FIELD(p, end)
    {
        if (f.number == 1)
            row->id = f.value;
        else if (f.number == 2)
            row->mapping = f.value;
        else if (f.number == 3)
            row->address = f.value;
        else if (f.number == 4 && !walk_line(f.data, f.data_end))
            return false;
    }
    row->n_lines = (uint32_t)n_lines - row->first_line;
    return true;
}

static bool walk_function(const uint8_t *p, const uint8_t *end)
{
    struct function_row *row = PUSH(functions);

    *row = (struct function_row){0};
    EACH_FIELD(p, end)
    {
        if (f.number == 1)
            row->id = f.value;
        else if (f.number == 2)
            row->name = f.value;
        else if (f.number == 3)
            row->system_name = f.value;
        else if (f.number == 4)
            row->file = f.value;
        else if (f.number == 5)
            row->start_line = (int64_t)f.value;
    }
    return true;
}

static bool walk_label(const uint8_t *p, const uint8_t *end)
{
    struct label_row *row = PUSH(labels);

    *row = (struct label_row){0};
    EACH_FIELD(p, end)
    {
        if (f.number == 1)
            row->key = f.value;
        else if (f.number == 2)
            row->text = f.value;
        else if (f.number == 3)
            row->number = (int64_t)f.value;
    }
    return true;
}

static bool walk_sample(const uint8_t *p, const uint8_t *end)
{
    size_t at = n_samples;
    struct sample_row row = {.first_ref = (uint32_t)n_refs,
                             .first_value = (uint32_t)n_values,
                             .first_label = (uint32_t)n_labels};

    (void)PUSH(samples);
    EACH_FIELD(p, end)
    {
        if (f.number == 1)
            ADD_NUMBERS(refs, f);
        else if (f.number == 2)
            ADD_NUMBERS(values, f);
        else if (f.number == 3 && !walk_label(f.data, f.data_end))
            return false;
    }
    row.n_refs = (uint32_t)n_refs - row.first_ref;
    row.n_values = (uint32_t)n_values - row.first_value;
    row.n_labels = (uint32_t)n_labels - row.first_label;
    samples[at] = row;
    return true;
}

bool floor_walk_pprof(struct bytes message, struct pprof_arrays *ret)
{
    n_samples = n_locations = n_lines = n_functions = n_strings = n_labels = 0;
    n_refs = n_values = 0;
    EACH_FIELD(message.data, message.data + message.len)
    {
        bool ok = true;
        if (f.number == 2)
            ok = walk_sample(f.data, f.data_end);
        else if (f.number == 4)
            ok = walk_location(f.data, f.data_end);
        else if (f.number == 5)
            ok = walk_function(f.data, f.data_end);
        else if (f.number == 6)
            *PUSH(strings) = (struct string_row){f.data, (uint32_t)(f.data_end - f.data)};
        if (!ok)
            return false;
    }
    *ret = (struct pprof_arrays){n_samples, n_locations, n_lines, n_functions,
                                 n_strings, n_labels,    n_refs,  n_values};
    return true;
}
