/* list: source code with what each line spends. */
#include <errno.h>
#include <stdlib.h>

#include "cli/report_internal.h"
#include "symbols/source.h"
#include "wire/json.h"

/* Lines shown before the first and after the last that counts. */
#define MARGIN 5

/* One line of one function that has samples. */
struct spent {
    const char *function, *file;
    int64_t start_line, line;
    int64_t flat, cum;
};

struct listing {
    struct report *r;
    VEC(struct spent) all; /* by function, file and line */
    struct json_writer json;
};

static int compare_spent(const void *a, const void *b)
{
    const struct spent *x = a, *y = b;
    int c = strcmp(x->function, y->function);

    if (c == 0)
        c = strcmp(x->file, y->file);
    return c ? c : (x->line > y->line) - (x->line < y->line);
}

static void add(int64_t *to, int64_t v)
{
    *to = (int64_t)((uint64_t)*to + (uint64_t)v);
}

/* The lines of all functions that match, each once. */
static int gather(struct listing *l, const struct graph *g)
{
    struct report *r = l->r;
    size_t n = 0;

    for (size_t i = 0; i < g->order.len; i++) {
        const struct graph_node *node = &g->nodes.data[g->order.data[i]];
        const struct frame *f = &g->frames->all.data[node->frame];
        if (!regex_matches(r->pattern, dict_text(r->dict, f->name)))
            continue;
        struct spent s = {.function = dict_cstr(r->dict, f->name),
                          .file = dict_cstr(r->dict, f->file),
                          .start_line = f->start_line,
                          .line = f->line,
                          .flat = node->flat,
                          .cum = node->cum};
        if (!vec_push(g->budget, &l->all, s))
            return budget_error(g->budget, r->err);
    }
    if (l->all.len == 0)
        return error_set(r->err, -ENODATA, "no matches found for regexp: %s", r->argument);
    qsort(l->all.data, l->all.len, sizeof(*l->all.data), compare_spent);
    for (size_t i = 1; i < l->all.len; i++) {
        struct spent *last = &l->all.data[n], *s = &l->all.data[i];
        if (compare_spent(last, s) != 0) {
            l->all.data[++n] = *s;
            continue;
        }
        add(&last->flat, s->flat);
        add(&last->cum, s->cum);
        if (last->start_line == 0 || (s->start_line != 0 && s->start_line < last->start_line))
            last->start_line = s->start_line;
    }
    l->all.len = n + 1;
    return 0;
}

static void value_or_dot(const struct report *r, int64_t v, char ret[MEASURE_TEXT_MAX])
{
    if (v == 0)
        snprintf(ret, MEASURE_TEXT_MAX, ".");
    else
        report_value(r, v, ret);
}

static void print_line(struct listing *l, const struct spent *s, struct bytes source)
{
    struct report *r = l->r;
    char flat[MEASURE_TEXT_MAX], cum[MEASURE_TEXT_MAX];
    struct buf text = {0};

    switch (r->o.output) {
    case REPORT_TEXT:
        value_or_dot(r, s->flat, flat);
        value_or_dot(r, s->cum, cum);
        buf_addf(r->out, "%10s %10s %6lld:", flat, cum, (long long)s->line);
        buf_add_bytes(r->out, source);
        buf_add_byte(r->out, '\n');
        break;
    case REPORT_CSV:
        report_csv_field(r->out, s->function, false);
        report_csv_field(r->out, s->file, false);
        buf_addf(r->out, "%lld,%lld,%lld,", (long long)s->line, (long long)s->flat,
                 (long long)s->cum);
        buf_add_bytes(&text, source);
        report_csv_field(r->out, buf_cstr(&text), true);
        buf_done(&text);
        break;
    case REPORT_JSON:
        json_begin_object(&l->json);
        json_key(&l->json, "line");
        json_i64(&l->json, s->line);
        json_key(&l->json, "flat");
        json_i64(&l->json, s->flat);
        json_key(&l->json, "cum");
        json_i64(&l->json, s->cum);
        json_key(&l->json, "source");
        json_string(&l->json, source);
        json_end_object(&l->json);
        break;
    }
}

/* What a function spends in a file, before its lines. */
static void print_head(struct listing *l, const struct spent *s, size_t n)
{
    struct report *r = l->r;
    char flat_text[MEASURE_TEXT_MAX], cum_text[MEASURE_TEXT_MAX], percent[MEASURE_TEXT_MAX];
    int64_t flat = 0, cum = 0;

    for (size_t i = 0; i < n; i++) {
        add(&flat, s[i].flat);
        add(&cum, s[i].cum);
    }
    if (r->o.output == REPORT_JSON) {
        json_begin_object(&l->json);
        json_key(&l->json, "function");
        json_cstring(&l->json, s->function);
        json_key(&l->json, "file");
        json_cstring(&l->json, s->file);
        json_key(&l->json, "flat");
        json_i64(&l->json, flat);
        json_key(&l->json, "cum");
        json_i64(&l->json, cum);
        json_key(&l->json, "lines");
        json_begin_array(&l->json);
    }
    if (r->o.output != REPORT_TEXT)
        return;
    report_value(r, flat, flat_text);
    report_value(r, cum, cum_text);
    report_percent(r, cum, percent);
    buf_addf(r->out, "ROUTINE ======================== %s in %s\n", s->function, s->file);
    buf_addf(r->out, "%10s %10s (flat, cum) %s of Total\n", flat_text, cum_text, percent);
}

/* The lines around s[0..n), which are all of one function in one file. */
static void print_source(struct listing *l, const struct spent *s, size_t n,
                         const struct source_file *file)
{
    int64_t start = INT64_MAX, end = 0, count = (int64_t)source_line_count(file);
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t from = s[i].start_line ? s[i].start_line : s[i].line - MARGIN;
        start = from < start ? from : start;
        end = s[i].line < INT64_MAX - MARGIN && s[i].line + MARGIN > end ? s[i].line + MARGIN : end;
    }
    if (start < 1)
        start = 1;
    for (int64_t line = start; line <= end && line <= count; line++) {
        while (at < n && s[at].line < line)
            at++;
        struct spent none = {.function = s->function, .file = s->file, .line = line};
        print_line(l, at < n && s[at].line == line ? &s[at] : &none,
                   source_line(file, (size_t)line));
    }
}

static void print_file(struct listing *l, const struct spent *s, size_t n)
{
    struct report *r = l->r;
    CLEANUP(source_closep) struct source_file *file = NULL;
    struct error why;

    if (*s->file == '\0' && r->o.output == REPORT_TEXT) {
        buf_addf(r->out, "No source information for %s\n", s->function);
        return;
    }
    print_head(l, s, n);
    if (source_open(s->file, r->o.trim_path, r->o.source_path, &file, &why) == 0) {
        print_source(l, s, n, file);
    } else {
        /* Without the text the numbers are still worth having. */
        if (r->o.output == REPORT_TEXT)
            buf_addf(r->out, " Error: %s\n", why.text);
        for (size_t i = 0; i < n; i++)
            print_line(l, &s[i], (struct bytes){0});
    }
    if (r->o.output == REPORT_JSON) {
        json_end_array(&l->json);
        json_end_object(&l->json);
    }
}

static void print_all(struct listing *l)
{
    struct report *r = l->r;
    char total[MEASURE_TEXT_MAX];

    report_value(r, r->total, total);
    if (r->o.output == REPORT_TEXT)
        buf_addf(r->out, "Total: %s\n", total);
    else if (r->o.output == REPORT_CSV)
        buf_add_str(r->out, "function,file,line,flat,cum,source\n");
    else
        json_begin_array(&l->json);
    for (size_t i = 0, n; i < l->all.len; i += n) {
        const struct spent *s = &l->all.data[i];
        for (n = 1; i + n < l->all.len && strcmp(s[n].function, s->function) == 0 &&
                    strcmp(s[n].file, s->file) == 0;)
            n++;
        print_file(l, s, n);
    }
    if (r->o.output == REPORT_JSON) {
        json_end_array(&l->json);
        buf_add_byte(r->out, '\n');
    }
}

int report_list(struct report *r)
{
    struct listing l = {.r = r, .json = {.out = r->out}};
    struct frames frames;
    struct graph g;
    struct graph_options o = {.type = r->type, .mean = r->o.mean, .edges = GRAPH_EDGES_NONE};

    if (!r->pattern)
        return error_set(r->err, -EINVAL, "list needs a regular expression of functions");
    frames_init(&frames, r->dict, report_frame_options(r));
    int rc = graph_build(r->p, &frames, &o, &g, r->err);
    if (rc == 0)
        rc = gather(&l, &g);
    if (rc == 0)
        print_all(&l);
    vec_done(r->dict->budget, &l.all);
    graph_done(&g);
    frames_done(&frames);
    return rc;
}
