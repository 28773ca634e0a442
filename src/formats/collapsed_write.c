/*
 * Writing collapsed stacks: one line per distinct stack of names, sorted, of the profile's default
 * sample type. Inline frames are frames like any other.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "formats/collapsed_names.h"

/* The stacks of the profile as stacks of frame texts: another trie, whose "locations" are strings
 * of a dictionary of its own. */
struct writer {
    const struct dict *dict;
    struct dict *names;
    VEC(uint32_t) node_of;    /* the name stack of a stack */
    VEC(uint32_t) first_text; /* by location: into texts, root first */
    VEC(uint32_t) texts;
    VEC(int64_t) totals; /* by name stack */
    bool replaced_characters;
};

static void writer_done(struct writer *w)
{
    struct budget *b = w->dict->budget;

    vec_done(b, &w->node_of);
    vec_done(b, &w->first_text);
    vec_done(b, &w->texts);
    vec_done(b, &w->totals);
    dict_free(w->names);
}

static struct bytes base_name(struct bytes path)
{
    for (size_t i = path.len; i > 0; i--) {
        if (path.data[i - 1] == '/')
            return bytes_from(path, i);
    }
    return path;
}

/* "binary+0x12" for what has no name. */
static void add_address(const struct dict *d, const struct location *l, struct buf *to)
{
    const struct mapping *m = &d->mappings.data[l->mapping];
    struct bytes file = base_name(dict_text(d, m->file));

    if (file.len == 0 && l->address == 0) {
        buf_add_str(to, "[unknown]");
        return;
    }
    buf_add_bytes(to, file);
    if (l->address)
        buf_addf(to, "%s0x%" PRIx64, file.len ? "+" : "", l->address);
}

static void add_suffix(const struct dict *d, const struct location *l, struct buf *to)
{
    uint32_t kind_key = dict_find_string(d, BYTES(COLLAPSED_KIND_KEY));
    uint32_t kind = kind_key ? dict_attrs_get(d, l->attrs, kind_key) : 0;
    const char *kind_text = dict_cstr(d, d->attributes.data[kind].text);
    const struct frame_suffix *s = frame_suffix_by_kind(dict_cstr(d, l->type), kind_text);

    if (s)
        buf_add_str(to, s->text);
}

/* What would end the frame or the line becomes something that does not. */
static void replace_separators(struct writer *w, struct buf *text)
{
    for (size_t i = 0; i < text->len; i++) {
        uint8_t c = text->data[i];
        if (c == ';')
            text->data[i] = ':';
        else if (c == '\n' || c == '\r' || c == '\0')
            text->data[i] = ' ';
        else
            continue;
        w->replaced_characters = true;
    }
}

static void add_frame(struct writer *w, const struct location *l, const struct line *line,
                      struct buf *text)
{
    const struct dict *d = w->dict;
    uint32_t name = line ? d->functions.data[line->function].name : 0;

    buf_clear(text);
    if (name)
        buf_add_bytes(text, dict_text(d, name));
    else
        add_address(d, l, text);
    replace_separators(w, text);
    add_suffix(d, l, text);
    vec_push(d->budget, &w->texts, dict_string(w->names, buf_bytes(text)));
}

/* The frame texts of every location, root first. */
static void name_locations(struct writer *w)
{
    const struct dict *d = w->dict;
    CLEANUP(buf_done) struct buf text = {0};

    for (size_t i = 0; i < d->locations.len; i++) {
        const struct location *l = &d->locations.data[i];
        vec_push(d->budget, &w->first_text, (uint32_t)w->texts.len);
        for (uint32_t n = l->n_lines; n > 0; n--)
            add_frame(w, l, &d->lines.data[l->first_line + n - 1], &text);
        if (l->n_lines == 0)
            add_frame(w, l, NULL, &text);
        if (budget_failed(d->budget))
            return;
    }
    vec_push(d->budget, &w->first_text, (uint32_t)w->texts.len);
}

static bool build_name_stacks(struct writer *w)
{
    const struct dict *d = w->dict;

    w->names = dict_new(d->budget);
    name_locations(w);
    for (size_t i = 0; i < dict_n_nodes(d) && !budget_failed(d->budget); i++) {
        uint32_t location = d->node_location.data[i];
        uint32_t node = i ? w->node_of.data[d->node_parent.data[i]] : 0;
        if (i) {
            for (uint32_t t = w->first_text.data[location]; t < w->first_text.data[location + 1];
                 t++)
                node = dict_node(w->names, node, w->texts.data[t]);
        }
        vec_push(d->budget, &w->node_of, node);
    }
    return !budget_failed(d->budget) && vec_resize(d->budget, &w->totals, dict_n_nodes(w->names));
}

static void add_count(int64_t v, bool is_fraction, struct buf *out)
{
    if (!is_fraction) {
        buf_add_i64(out, v);
        return;
    }
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    buf_addf(out, "%s%" PRIu64 ".%06" PRIu64, v < 0 ? "-" : "", u / COLLAPSED_FRACTION,
             u % COLLAPSED_FRACTION);
    if (buf_full(out))
        return;
    while (out->data[out->len - 1] == '0')
        out->len--;
    if (out->data[out->len - 1] == '.')
        out->len--;
}

/* Writes the stack of names, root first. */
static bool add_stack(struct writer *w, uint32_t node, struct buf *out)
{
    struct budget *b = w->dict->budget;

    if (node == 0)
        buf_add_str(out, "[no stack]");
    vec_clear(&w->texts); /* all names are in stacks by now */
    for (; node; node = w->names->node_parent.data[node]) {
        if (!vec_push(b, &w->texts, w->names->node_location.data[node]))
            return false;
    }
    for (size_t i = w->texts.len; i > 0 && !buf_full(out); i--) {
        buf_add_bytes(out, dict_text(w->names, w->texts.data[i - 1]));
        if (i > 1)
            buf_add_byte(out, ';');
    }
    return !buf_full(out);
}

struct text_line {
    size_t at, len;
    const struct buf *text;
};

static int compare_lines(const void *pa, const void *pb)
{
    const struct text_line *a = pa, *b = pb;
    size_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->text->data + a->at, b->text->data + b->at, n);

    if (c != 0)
        return c;
    return a->len < b->len ? -1 : a->len > b->len;
}

static int write_lines(struct writer *w, bool is_fraction, struct buf *out, struct error *err)
{
    struct budget *b = w->dict->budget;
    CLEANUP(buf_done) struct buf text = {.budget = b};
    VEC(struct text_line) lines = {0};
    bool ok = true;

    for (uint32_t i = 0; ok && i < w->totals.len; i++) {
        if (w->totals.data[i] == 0)
            continue;
        size_t at = text.len;
        ok = add_stack(w, i, &text);
        buf_add_byte(&text, ' ');
        add_count(w->totals.data[i], is_fraction, &text);
        buf_add_byte(&text, '\n');
        ok = ok && vec_push(b, &lines, (struct text_line){at, text.len - at, &text});
    }
    if (ok && lines.len > 0)
        qsort(lines.data, lines.len, sizeof(*lines.data), compare_lines);
    for (size_t i = 0; ok && i < lines.len; i++)
        buf_add(out, text.data + lines.data[i].at, lines.data[i].len);
    vec_done(b, &lines);
    if (buf_full(&text))
        return buf_error(&text, err);
    return ok ? 0 : budget_error(b, err);
}

static void state_other_types(const struct profile *p, uint32_t kept, struct buf *losses)
{
    const struct dict *d = p->dict;

    if (p->n_types < 2)
        return;
    buf_addf(losses, "sample types other than %s/%s:", dict_cstr(d, p->types[kept].type),
             dict_cstr(d, p->types[kept].unit));
    for (uint32_t t = 0; t < p->n_types; t++) {
        if (t != kept)
            buf_addf(losses, " %s/%s", dict_cstr(d, p->types[t].type),
                     dict_cstr(d, p->types[t].unit));
    }
    buf_add_byte(losses, '\n');
}

static bool any_u32(const uint32_t *column, size_t n)
{
    for (size_t i = 0; column && i < n; i++) {
        if (column[i])
            return true;
    }
    return false;
}

static void state_location_losses(const struct dict *d, struct buf *losses)
{
    bool addresses = false, lines = false, files = false;

    for (size_t i = 0; i < d->locations.len; i++)
        addresses = addresses || d->locations.data[i].address || d->locations.data[i].mapping;
    for (size_t i = 0; i < d->lines.len; i++)
        lines = lines || d->lines.data[i].line;
    for (size_t i = 0; i < d->functions.len; i++)
        files = files || d->functions.data[i].file;
    if (addresses)
        buf_add_str(losses, "addresses and mappings of frames\n");
    if (lines)
        buf_add_str(losses, "line numbers\n");
    if (files)
        buf_add_str(losses, "source file names\n");
}

static void state_losses(const struct writer *w, const struct profile *p, uint32_t type,
                         struct buf *losses)
{
    const struct dict *d = p->dict;
    const char *unit = dict_cstr(d, p->types[type].unit);
    size_t zeros = 0;

    state_other_types(p, type, losses);
    if (*unit && strcmp(unit, "count") != 0 && strcmp(unit, COLLAPSED_FRACTION_UNIT) != 0)
        buf_addf(losses, "the unit of the counts (%s)\n", unit);
    if (any_u32(p->attrs, p->n_samples))
        buf_add_str(losses, "labels of samples\n");
    if (any_u32(p->link, p->n_samples))
        buf_add_str(losses, "links to spans\n");
    if (p->time_ns)
        buf_add_str(losses, "times of samples\n");
    state_location_losses(d, losses);
    if (p->time_unix_ns || p->duration_ns || p->period || p->comments.len)
        buf_add_str(losses, "time, duration, period and comments of the profile\n");
    if (w->replaced_characters)
        buf_add_str(losses, "semicolons and line ends in names (written as ':' and ' ')\n");
    for (size_t i = 0; i < p->n_samples; i++)
        zeros += w->totals.data[w->node_of.data[p->node[i]]] == 0;
    if (zeros > 0)
        buf_addf(losses, "%zu samples of stacks whose total is 0\n", zeros);
}

int collapsed_encode(const struct profile_set *set, struct buf *out, struct buf *losses,
                     struct error *err)
{
    if (set->profiles.len != 1)
        return error_set(err, -EOPNOTSUPP, "collapsed stacks hold one profile, not %zu",
                         set->profiles.len);
    const struct profile *p = set->profiles.data[0];
    if (p->n_types == 0)
        return 0;

    CLEANUP(writer_done) struct writer w = {.dict = p->dict};
    uint32_t type = profile_default_index(p);
    if (!build_name_stacks(&w))
        return budget_error(p->dict->budget, err);
    for (size_t i = 0; i < p->n_samples; i++) {
        int64_t *total = &w.totals.data[w.node_of.data[p->node[i]]];
        *total = (int64_t)((uint64_t)*total + (uint64_t)p->values[type][i]);
    }
    bool is_fraction =
        strcmp(dict_cstr(p->dict, p->types[type].unit), COLLAPSED_FRACTION_UNIT) == 0;
    int r = write_lines(&w, is_fraction, out, err);
    if (r == 0)
        state_losses(&w, p, type, losses);
    return r;
}
