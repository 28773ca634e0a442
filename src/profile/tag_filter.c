#include "profile/tag_filter.h"

#include <errno.h>
#include <stdlib.h>

#include "base/regex.h"
#include "profile/measure.h"

#define PATTERNS_MAX 64

struct tag_filter {
    const struct label_units *units;
    char *key; /* NULL: any */

    bool is_range;
    double from, to;
    bool has_from, has_to;
    char unit[MEASURE_TEXT_MAX];

    struct regex *patterns[PATTERNS_MAX];
    size_t n_patterns;
};

void tag_filter_free(struct tag_filter *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->n_patterns; i++)
        regex_free(f->patterns[i]);
    free(f->key);
    free(f);
}

/* A number with its unit, as it stands in a range. */
struct quantity {
    struct bytes text;
    int64_t value;
    char unit[32];
};

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Finds the next quantity in *rest and moves behind it. 0 when there is none. */
static int next_quantity(struct bytes *rest, struct quantity *ret, struct error *err)
{
    size_t i = 0, n = rest->len;
    const uint8_t *s = rest->data;

    while (i < n && !is_digit(s[i]) &&
           !((s[i] == '+' || s[i] == '-') && i + 1 < n && is_digit(s[i + 1])))
        i++;
    if (i == n)
        return 0;
    size_t digits = is_digit(s[i]) ? i : i + 1, end = digits;
    while (end < n && is_digit(s[end]))
        end++;
    size_t letters = end;
    while (end < n && is_letter(s[end]))
        end++;
    struct bytes number = {s + (s[i] == '+' ? digits : i), letters - (s[i] == '+' ? digits : i)};
    if (!bytes_to_i64(number, &ret->value))
        return error_set(err, -EINVAL, "the number %.*s is too large", (int)(number.len & 0xff),
                         (const char *)number.data);
    size_t len = end - letters < sizeof(ret->unit) - 1 ? end - letters : sizeof(ret->unit) - 1;
    memcpy(ret->unit, s + letters, len);
    ret->unit[len] = '\0';
    ret->text = (struct bytes){s + i, end - i};
    *rest = bytes_from(*rest, end);
    return 1;
}

/* Sets the range that `text` is; 1 when it is one, 0 when it must be a pattern. */
static int parse_range(struct tag_filter *f, struct bytes text, struct error *err)
{
    struct quantity a, b;
    struct bytes rest = text;
    const char *unit;

    /* Of a pattern that merely has digits in it, they may be more than fit a number. */
    if (text.len == 0 || !(is_digit(text.data[0]) || strchr(":+-", text.data[0])))
        return 0;
    int first = next_quantity(&rest, &a, err);
    if (first <= 0)
        return first;
    double value = measure_scale(a.value, a.unit, a.unit, &unit);
    snprintf(f->unit, sizeof(f->unit), "%s", unit);

    bool starts = a.text.data == text.data, ends = rest.len == 0;
    bool colon_before = text.data[0] == ':' && a.text.data == text.data + 1;
    bool colon_after = rest.len >= 1 && rest.data[0] == ':';
    int second = next_quantity(&rest, &b, err);
    if (second < 0)
        return second;
    f->from = f->to = value;
    if (second == 0) {
        f->has_from = starts;
        f->has_to = ends && (starts || colon_before);
        return (starts && ends) || (starts && colon_after && rest.len == 1) ||
               (colon_before && ends);
    }
    if (!starts || !colon_after || b.text.data != a.text.data + a.text.len + 1 || rest.len > 0)
        return 0;
    f->to = measure_scale(b.value, b.unit, f->unit, &unit);
    f->has_from = f->has_to = true;
    return strcmp(unit, f->unit) == 0;
}

static int parse_patterns(struct tag_filter *f, struct bytes text, struct error *err)
{
    for (size_t from = 0; from <= text.len;) {
        struct bytes rest = bytes_from(text, from);
        const uint8_t *comma = bytes_find_byte(rest, ',');
        struct bytes one = comma ? bytes_head(rest, (size_t)(comma - rest.data)) : rest;
        if (f->n_patterns == PATTERNS_MAX)
            return error_set(err, -EINVAL, "more than %d patterns in one tag filter", PATTERNS_MAX);
        int r = regex_new(one, &f->patterns[f->n_patterns], err);
        if (r < 0)
            return r;
        f->n_patterns++;
        from += one.len + 1;
    }
    return 0;
}

static int parse_filter(struct tag_filter *f, const char *text, struct error *err)
{
    const char *equals = strchr(text, '=');

    if (equals && equals != text) {
        f->key = strndup(text, (size_t)(equals - text));
        if (!f->key)
            abort();
    }
    struct bytes value = bytes_of(equals ? equals + 1 : text);
    int r = parse_range(f, value, err);
    if (r < 0)
        return r;
    f->is_range = r > 0;
    return f->is_range ? 0 : parse_patterns(f, value, err);
}

int tag_filter_new(const char *text, const struct label_units *units, struct tag_filter **ret,
                   bool *ret_is_range, struct error *err)
{
    struct tag_filter *f = calloc(1, sizeof(*f));
    if (!f)
        abort();
    f->units = units;
    int r = parse_filter(f, text, err);
    if (r < 0) {
        tag_filter_free(f);
        return r;
    }
    if (ret_is_range)
        *ret_is_range = f->is_range;
    *ret = f;
    return 0;
}

/* A pattern that means this text. Commas would end it, and "=" a key. */
static void add_escaped(struct bytes text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c == ',' || c == '=' || c < ' ')
            buf_addf(out, "\\x%02x", c);
        else if (strchr("\\^$.|?*+()[]{}", c))
            buf_addf(out, "\\%c", c);
        else
            buf_add_byte(out, c);
    }
}

static bool can_be_key(struct bytes key)
{
    return key.len > 0 && !bytes_find_byte(key, '=') && !bytes_find_byte(key, 0);
}

void tag_filter_for_text(struct bytes key, struct bytes value, struct buf *out)
{
    if (can_be_key(key)) {
        buf_add_bytes(out, key);
        buf_add_str(out, "=^");
    } else {
        buf_add_byte(out, '^');
        add_escaped(key, out);
        buf_add_byte(out, ':');
    }
    add_escaped(value, out);
    buf_add_byte(out, '$');
}

bool tag_filter_for_numbers(struct bytes key, int64_t least, int64_t most, const char *unit,
                            struct buf *out)
{
    const char *shown;

    (void)measure_scale(1, unit, "auto", &shown);
    if (!*shown)
        unit = ""; /* of no family: counted as it is */
    for (const char *c = unit; *c; c++)
        if (!is_letter((uint8_t)*c))
            return false;
    if (!can_be_key(key))
        return false;
    buf_add_bytes(out, key);
    buf_addf(out, "=%lld%s", (long long)least, unit);
    if (most > least)
        buf_addf(out, ":%lld%s", (long long)most, unit);
    return true;
}

bool tag_filter_for_any_text(struct bytes key, struct buf *out)
{
    if (!can_be_key(key))
        return false;
    buf_add_bytes(out, key);
    buf_add_str(out, "=.*");
    return true;
}

static bool in_range(const struct tag_filter *f, const struct dict *d, const struct attribute *a)
{
    const char *unit;
    double v = measure_scale(a->number, dict_cstr(d, label_unit(f->units, a->key)), f->unit, &unit);

    if (strcmp(unit, f->unit) != 0)
        return false;
    return (!f->has_from || v >= f->from) && (!f->has_to || v <= f->to);
}

/* Whether the text of a label matches; with a key the value alone, else "key:value". */
static bool text_matches(const struct tag_filter *f, const struct regex *re, const struct dict *d,
                         const struct attribute *a)
{
    struct buf text = {0};

    if (!f->key) {
        buf_add_bytes(&text, dict_text(d, a->key));
        buf_add_byte(&text, ':');
    }
    label_add_text(d, a, &text);
    bool ret = regex_matches(re, buf_bytes(&text));
    buf_done(&text);
    return ret;
}

static bool any_label_matches(const struct tag_filter *f, const struct regex *re,
                              const struct dict *d, struct attrs s)
{
    for (uint32_t i = 0; i < s.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[s.first + i]];
        if (f->key && strcmp(f->key, dict_cstr(d, a->key)) != 0)
            continue;
        if (f->is_range ? label_is_number(a) && in_range(f, d, a)
                        : !label_is_number(a) && text_matches(f, re, d, a))
            return true;
    }
    return false;
}

static bool tag_filter_matches(const struct tag_filter *f, const struct dict *d, uint32_t attrs)
{
    struct attrs s = d->attr_sets.data[attrs];

    if (f->is_range)
        return any_label_matches(f, NULL, d, s);
    /* With a key any pattern will do; without, all must be found. */
    for (size_t i = 0; i < f->n_patterns; i++) {
        if (any_label_matches(f, f->patterns[i], d, s) == (f->key != NULL))
            return f->key != NULL;
    }
    return f->key == NULL;
}

bool profile_filter_tags(struct profile *p, const struct tag_filter *focus,
                         const struct tag_filter *ignore, bool *ret_focused, bool *ret_ignored)
{
    struct dict *d = p->dict;
    enum { KNOWN = 1, FOCUSED = 2, IGNORED = 4 };
    VEC(uint8_t) memo = {0}; /* per set */
    size_t kept = 0;

    *ret_focused = *ret_ignored = false;
    if (!vec_resize(d->budget, &memo, d->attr_sets.len))
        return false;
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t set = profile_attrs(p, i);
        uint8_t *m = &memo.data[set];
        if (*m == 0) {
            bool is_focused = !focus || tag_filter_matches(focus, d, set);
            bool is_ignored = ignore && tag_filter_matches(ignore, d, set);
            *m = (uint8_t)(KNOWN | (is_focused ? FOCUSED : 0) | (is_ignored ? IGNORED : 0));
        }
        *ret_focused |= (*m & FOCUSED) != 0;
        *ret_ignored |= (*m & IGNORED) != 0;
        if (*m == (KNOWN | FOCUSED))
            profile_move_row(p, i, kept++);
    }
    p->n_samples = kept;
    vec_done(d->budget, &memo);
    return true;
}

struct key_filter {
    const struct regex *show, *hide;
    bool shown, hidden;
};

/* The set without the labels that the filter takes off. */
static uint32_t filter_set(struct dict *d, struct key_filter *f, uint32_t set)
{
    struct attrs s = d->attr_sets.data[set];
    VEC(uint32_t) ids = {0};

    for (uint32_t i = 0; i < s.n; i++) {
        uint32_t id = d->attr_ids.data[s.first + i];
        struct bytes key = dict_text(d, d->attributes.data[id].key);
        bool is_shown = !f->show || regex_matches(f->show, key);
        bool is_hidden = f->hide && regex_matches(f->hide, key);
        f->shown |= is_shown;
        f->hidden |= is_hidden;
        if (is_shown && !is_hidden)
            (void)vec_push(d->budget, &ids, id);
    }
    uint32_t ret = dict_attrs(d, ids.data, ids.len);
    vec_done(d->budget, &ids);
    return ret;
}

bool profile_filter_tag_keys(struct profile *p, const struct regex *show, const struct regex *hide,
                             bool *ret_shown, bool *ret_hidden)
{
    struct dict *d = p->dict;
    struct key_filter f = {.show = show, .hide = hide};
    VEC(uint32_t) memo = {0}; /* per set: the new one, + 1 */
    bool ok = vec_resize(d->budget, &memo, d->attr_sets.len);

    for (size_t i = 0; ok && p->attrs && i < p->n_samples; i++) {
        uint32_t set = p->attrs[i];
        if (memo.data[set] == 0)
            memo.data[set] = filter_set(d, &f, set) + 1;
        p->attrs[i] = memo.data[set] - 1;
    }
    vec_done(d->budget, &memo);
    *ret_shown = f.shown;
    *ret_hidden = f.hidden;
    return ok && !budget_failed(d->budget);
}
