#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/color.h"
#include "cli/command.h"
#include "cli/compare.h"
#include "cli/flame.h"
#include "cli/load.h"
#include "cli/terminal.h"
#include "profile/graph.h"
#include "profile/measure.h"
#include "wire/json.h"

#define ROWS_DEFAULT 40

/* A change with its sign: "+120ms". */
static void signed_label(int64_t v, const char *unit, char text[MEASURE_TEXT_MAX + 1])
{
    text[0] = '+';
    measure_label(v, unit, "auto", v > 0 ? text + 1 : text);
}

static void percent_label(const int64_t v[2], char text[32])
{
    if (v[0] == v[1])
        snprintf(text, 32, "0%%");
    else if (v[0] == 0)
        snprintf(text, 32, "new");
    else if (v[1] == 0)
        snprintf(text, 32, "gone");
    else
        snprintf(text, 32, "%+.2f%%",
                 100 * ((double)v[1] - (double)v[0]) / (double)graph_abs(v[0]));
}

static void add_row(const struct compare *c, const int64_t v[2], const char *name, bool color,
                    struct buf *out)
{
    char before[MEASURE_TEXT_MAX], after[MEASURE_TEXT_MAX], by[MEASURE_TEXT_MAX + 1], percent[32];

    measure_label(v[0], c->unit, "auto", before);
    measure_label(v[1], c->unit, "auto", after);
    signed_label(v[1] - v[0], c->unit, by);
    percent_label(v, percent);
    const char *start = !color || v[0] == v[1] ? "" : v[1] > v[0] ? COLOR_RED : COLOR_GREEN;
    buf_addf(out, "%12s %12s %s%12s %10s%s  %s\n", before, after, start, by, percent,
             *start ? COLOR_END : "", name);
}

static bool is_small(const struct compare *c, const int64_t v[2], double fraction)
{
    double whole =
        (double)(graph_abs(c->total[0]) > graph_abs(c->total[1]) ? graph_abs(c->total[0])
                                                                 : graph_abs(c->total[1]));
    return v[0] == v[1] || (double)graph_abs(v[1] - v[0]) < fraction * whole;
}

static void write_text(struct compare *c, const struct options *o, struct buf *out)
{
    size_t most = o->report.nodecount < 0 ? ROWS_DEFAULT : (size_t)o->report.nodecount, shown = 0,
           left_out = 0;

    buf_addf(out, "Type: %s\n", c->type);
    if (o->normalize)
        buf_addf(out, "Normalized: values before are multiplied with %.4g\n", c->scale);
    buf_addf(out, "%s%12s %12s %12s %10s  (%s)%s\n", o->report.color ? COLOR_BOLD : "", "before",
             "after", "change", "change%", o->report.cum ? "cum" : "flat",
             o->report.color ? COLOR_END : "");
    add_row(c, c->total, "total", o->report.color, out);
    for (size_t i = 0; i < c->rows.len; i++) {
        const struct compared *row = &c->rows.data[i];
        const int64_t *v = o->report.cum ? row->cum : row->flat;
        if (v[0] == v[1])
            continue;
        if ((most && shown == most) || (o->report.trim && is_small(c, v, o->report.nodefraction))) {
            left_out++;
            continue;
        }
        add_row(c, v, frames_name(&c->frames, row->frame), o->report.color, out);
        shown++;
    }
    if (left_out)
        buf_addf(out,
                 "%zu smaller changes are not shown (-nodefraction=0 -nodecount=0 shows all)\n",
                 left_out);
}

static void add_json_number(struct json_writer *w, const char *key, int64_t v)
{
    json_key(w, key);
    json_i64(w, v);
}

static void write_json(struct compare *c, struct buf *out)
{
    struct json_writer w = {.out = out};

    json_begin_object(&w);
    json_key(&w, "type");
    json_cstring(&w, c->type);
    json_key(&w, "unit");
    json_cstring(&w, c->unit);
    add_json_number(&w, "total_before", c->total[0]);
    add_json_number(&w, "total_after", c->total[1]);
    json_key(&w, "scale_before");
    json_double(&w, c->scale);
    json_key(&w, "functions");
    json_begin_array(&w);
    for (size_t i = 0; i < c->rows.len; i++) {
        const struct compared *row = &c->rows.data[i];
        json_begin_object(&w);
        json_key(&w, "name");
        json_cstring(&w, frames_name(&c->frames, row->frame));
        add_json_number(&w, "flat_before", row->flat[0]);
        add_json_number(&w, "flat_after", row->flat[1]);
        add_json_number(&w, "cum_before", row->cum[0]);
        add_json_number(&w, "cum_after", row->cum[1]);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

static void write_csv(struct compare *c, struct buf *out)
{
    buf_add_str(out, "flat_before,flat_after,cum_before,cum_after,name\n");
    for (size_t i = 0; i < c->rows.len; i++) {
        const struct compared *row = &c->rows.data[i];
        buf_addf(out, "%lld,%lld,%lld,%lld,", (long long)row->flat[0], (long long)row->flat[1],
                 (long long)row->cum[0], (long long)row->cum[1]);
        report_csv_field(out, frames_name(&c->frames, row->frame), true);
    }
}

/* `vesta diff BEFORE AFTER`, or more on each side with -base. */
static int load_sides(struct loaded *l, struct options *o, struct error *err)
{
    if (o->base.n == 0 && o->diff_base.n == 0) {
        if (o->n_args != 2)
            return error_set(err, -EINVAL, "diff takes two profiles: BEFORE AFTER");
        o->base.items[o->base.n++] = o->args[0];
        o->args++, o->n_args--;
        int r = load_parts(l, o, o->args, o->n_args, err);
        o->args--, o->n_args++;
        return r;
    }
    return load_parts(l, o, o->args, o->n_args, err);
}

static void write_report(struct compare *c, const struct options *o, struct buf *out)
{
    if (o->json)
        write_json(c, out);
    else if (o->csv)
        write_csv(c, out);
    else
        write_text(c, o, out);
}

/* Into a file that is a picture. */
static int draw(const struct loaded *l, const struct options *o, struct buf *out, struct error *err)
{
    struct options after = *o;

    if (o->n_args == 2 && o->base.n == 1 && o->base.items[0] == o->args[0])
        after.args++, after.n_args--;
    int r = flame_draw(l, &after, "What changed", out, err);
    return r == 0 && buf_full(out) ? buf_error(out, err) : r;
}

int cmd_diff(const struct command *self, struct options *o)
{
    CLEANUP(load_done) struct loaded l = {0};
    CLEANUP(compare_done) struct compare c = {0};
    CLEANUP(buf_done) struct buf out = {0};
    CLEANUP(buf_done) struct buf breached = {0};
    size_t n_breached = 0;
    struct error err = {""};
    struct compare_options options = {&o->report, o->normalize};

    if (o->n_args == 0)
        return command_usage(self, "diff takes two profiles: BEFORE AFTER");
    int r = load_sides(&l, o, &err);
    if (r == 0)
        r = compare_build(&c, l.base, l.profile, &options, &err);
    if (r == 0 && o->fail_if)
        r = compare_check(&c, o->fail_if, &breached, &n_breached, &err);
    if (r == 0 && c.rows.len == 0)
        r = error_set(&err, -ENODATA, "no data: no sample of either side passes the filters");
    bool is_picture = !o->json && !o->csv && flame_is_picture(o->output);
    if (r == 0 && is_picture)
        r = draw(&l, o, &out, &err);
    if (r < 0)
        return command_fail(r, &err);
    if (!is_picture)
        write_report(&c, o, &out);
    int code = command_write(o, buf_bytes(&out), false);
    if (code != VESTA_EXIT_OK || n_breached == 0)
        return code;
    terminal_say(buf_bytes(&breached));
    return VESTA_EXIT_BREACHED;
}
