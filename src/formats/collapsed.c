/*
 * Collapsed (folded) stacks: one line per stack, root first, frames joined by ';', then a space and
 * a count. What FlameGraph, inferno and async-profiler exchange.
 *
 * - A frame may hold spaces: the count is what follows the last one.
 * - A suffix says what kind of frame it is: _[k] kernel; _[j] compiled, _[i] inlined, _[1] C1 and
 *   _[0] interpreted code of a JVM. It becomes the frame's type and an attribute, so that the names
 *   compare equal to those of other formats and writing puts the suffix back.
 * - Counts with a fraction (inferno) are kept in millionths, all of them from the first one on, and
 *   the unit says so.
 * - When every line of the beginning ends in two counts (difffolded), the first is "before" and the
 *   second "after".
 */
#include <errno.h>
#include <math.h>

#include "formats/collapsed_names.h"
#include "formats/folded_stack.h"
#include "formats/formats.h"
#include "wire/lines.h"

#define SNIFF_LINES_MAX 50

/* A line in two or three parts. */
struct folded {
    struct bytes stack;
    struct bytes count;
    struct bytes before; /* differential files only */
};

struct reader {
    struct profile *profile;
    struct dict *dict;
    struct lines lines;
    struct folded_stacks stacks;
    bool is_differential;
    bool has_fractions;
    bool is_rounded;
};

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* Digits with an optional sign, fraction and exponent: what may follow a stack. */
static bool looks_like_count(struct bytes s)
{
    size_t i = 0, digits = 0;

    if (i < s.len && (s.data[i] == '-' || s.data[i] == '+'))
        i++;
    for (; i < s.len && is_digit(s.data[i]); i++)
        digits++;
    if (i < s.len && s.data[i] == '.') {
        for (i++; i < s.len && is_digit(s.data[i]); i++)
            digits++;
    }
    if (digits > 0 && i < s.len && (s.data[i] | 32) == 'e') {
        i++;
        if (i < s.len && (s.data[i] == '-' || s.data[i] == '+'))
            i++;
        for (digits = 0; i < s.len && is_digit(s.data[i]); i++)
            digits++;
    }
    return digits > 0 && i == s.len;
}

static struct bytes without_end_blanks(struct bytes s)
{
    while (s.len > 0 && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* Takes the last word off *s when it is a count with something in front of it. */
static bool take_count(struct bytes *s, struct bytes *ret)
{
    struct bytes rest = without_end_blanks(*s);
    size_t at = rest.len;

    while (at > 0 && rest.data[at - 1] != ' ' && rest.data[at - 1] != '\t')
        at--;
    struct bytes count = bytes_from(rest, at);
    rest = without_end_blanks(bytes_head(rest, at));
    if (rest.len == 0 || !looks_like_count(count))
        return false;
    *s = rest;
    *ret = count;
    return true;
}

static bool split_line(struct bytes line, bool is_differential, struct folded *ret)
{
    struct folded f = {.stack = line};

    if (!take_count(&f.stack, &f.count))
        return false;
    if (is_differential && !take_count(&f.stack, &f.before))
        return false;
    *ret = f;
    return true;
}

/* A blank line, or a comment: "# ..." or a '#' line without a count. Frames may begin with '#'
 * ("#<Class:X>" of Ruby). */
static bool is_comment(struct bytes line)
{
    struct folded f;

    if (without_end_blanks(line).len == 0)
        return true;
    if (line.data[0] != '#')
        return false;
    return line.len == 1 || line.data[1] == ' ' || !split_line(line, false, &f);
}

/* What the lines at the beginning have in common. */
struct survey {
    size_t n_lines, n_double, n_deep;
    bool is_folded; /* every line is */
};

static bool has_controls(struct bytes s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < 0x20 && s.data[i] != '\t')
            return true;
    }
    return false;
}

static struct survey survey_head(struct bytes head)
{
    struct survey v = {.is_folded = true};
    bool is_cut = head.len >= INPUT_PEEK_BYTES;
    struct bytes rest = head, line;
    struct folded f;

    while (v.is_folded && v.n_lines < SNIFF_LINES_MAX && bytes_next_line(&rest, &line)) {
        if (rest.len == 0 && is_cut && head.data[head.len - 1] != '\n')
            break; /* the last line goes on behind the head */
        if (is_comment(line))
            continue;
        v.is_folded = split_line(line, false, &f) && !has_controls(line);
        v.n_lines++;
        v.n_deep += bytes_find_byte(line, ';') != NULL;
        v.n_double += split_line(line, true, &f);
    }
    return v;
}

static int collapsed_sniff(struct bytes head)
{
    struct survey v = survey_head(head);

    if (!v.is_folded)
        return 0;
    if (v.n_lines > 0)
        return v.n_deep > 0 ? 40 : 10;
    /* One line longer than the head. */
    bool is_long_line = head.len >= INPUT_PEEK_BYTES && bytes_find_byte(head, ';') &&
                        !bytes_find_byte(head, '\n') && !has_controls(head) &&
                        head.data[0] != '{' && head.data[0] != '[';
    return is_long_line ? 10 : 0;
}

static int line_error(const struct reader *r, struct error *err, const char *why)
{
    return lines_refuse(&r->lines, "collapsed", why, err);
}

/* From the first fraction on all counts are in millionths. */
static bool switch_to_fractions(struct reader *r)
{
    struct profile *p = r->profile;

    for (uint32_t t = 0; t < p->n_types; t++) {
        for (size_t i = 0; i < p->n_samples; i++) {
            if (__builtin_mul_overflow(p->values[t][i], COLLAPSED_FRACTION, &p->values[t][i]))
                return false;
        }
        p->types[t].unit = dict_cstring(r->dict, COLLAPSED_FRACTION_UNIT);
    }
    r->has_fractions = true;
    return true;
}

/* A count with an exponent: rare (perl prints large sums so), and exact enough as a double. */
static const char *exponent_count(struct reader *r, struct bytes s, int64_t *ret)
{
    double v;

    if (!bytes_to_double(s, &v))
        return "the count is not a number";
    if (v != floor(v) && !r->has_fractions && !switch_to_fractions(r))
        return "the counts are too large to be kept in millionths";
    if (r->has_fractions) {
        v *= COLLAPSED_FRACTION;
        r->is_rounded = r->is_rounded || v != floor(v);
    }
    v = round(v);
    if (!(v >= -0x1p63 && v < 0x1p63))
        return "the count is too large";
    *ret = (int64_t)v;
    return NULL;
}

/* The digits behind the point, in millionths, rounded. */
static int64_t fraction_of(struct bytes digits, bool *is_rounded)
{
    int64_t v = 0;

    for (size_t i = 0; i < 6; i++)
        v = v * 10 + (i < digits.len ? digits.data[i] - '0' : 0);
    for (size_t i = 6; i < digits.len; i++)
        *is_rounded = *is_rounded || digits.data[i] != '0';
    return digits.len > 6 && digits.data[6] >= '5' ? v + 1 : v;
}

/* NULL and *ret, or why not. */
static const char *parse_count(struct reader *r, struct bytes s, int64_t *ret)
{
    const uint8_t *point = bytes_find_byte(s, '.');
    struct bytes whole = point ? bytes_head(s, (size_t)(point - s.data)) : s;
    bool is_negative = s.data[0] == '-', is_rounded = false;
    int64_t v = 0, fraction = 0;

    if (bytes_find_byte(s, 'e') || bytes_find_byte(s, 'E'))
        return exponent_count(r, s, ret);
    if (whole.len > 0 && !is_digit(whole.data[0]))
        whole = bytes_from(whole, 1);
    if (whole.len > 0 && !bytes_to_i64(whole, &v))
        return "the count is too large";
    if (point)
        fraction = fraction_of(bytes_from(s, (size_t)(point - s.data) + 1), &is_rounded);
    if ((fraction != 0 || is_rounded) && !r->has_fractions && !switch_to_fractions(r))
        return "the counts are too large to be kept in millionths";
    if (r->has_fractions && (__builtin_mul_overflow(v, COLLAPSED_FRACTION, &v) ||
                             __builtin_add_overflow(v, fraction, &v)))
        return "the count is too large to be kept in millionths";
    r->is_rounded = r->is_rounded || is_rounded;
    *ret = is_negative ? -v : v;
    return NULL;
}

static int read_line(struct reader *r, struct bytes line, struct error *err)
{
    struct folded f;
    int64_t values[2];
    size_t n = 0;

    if (bytes_find_byte(line, '\0'))
        return line_error(r, err, "a NUL byte; this is not text");
    if (line.len >= UINT32_MAX)
        return line_error(r, err, "the line is longer than 4 GiB");
    if (!split_line(line, r->is_differential, &f))
        return line_error(r, err,
                          r->is_differential ? "not \"frame;frame count count\" as the lines above"
                                             : "not \"frame;frame count\"");
    const char *why = r->is_differential ? parse_count(r, f.before, &values[n++]) : NULL;
    if (!why)
        why = parse_count(r, f.count, &values[n++]);
    if (why)
        return line_error(r, err, why);
    uint32_t node = folded_stack_node(&r->stacks, f.stack, SIZE_MAX);
    profile_add(r->profile, &(struct sample){.node = node, .values = values});
    return 0;
}

static void add_types(struct reader *r, struct bytes head)
{
    struct survey v = survey_head(head);

    r->is_differential = v.n_lines > 0 && v.n_double == v.n_lines;
    if (r->is_differential) {
        profile_add_ctype(r->profile, "before", "count");
        profile_add_ctype(r->profile, "after", "count");
    } else {
        profile_add_ctype(r->profile, "samples", "count");
    }
}

static void add_notes(const struct reader *r, struct profile_set *out)
{
    if (r->is_differential)
        profile_set_note(out, "every line has two counts: they are the sample types before and "
                              "after");
    if (r->has_fractions)
        profile_set_note(out, "counts have fractions: all are kept in millionths%s",
                         r->is_rounded ? ", rounded" : "");
}

static int read_lines(struct reader *r, struct error *err)
{
    for (struct bytes line; lines_next(&r->lines, &line);) {
        if (is_comment(line))
            continue;
        int result = read_line(r, line, err);
        if (result < 0)
            return result;
    }
    return lines_result(&r->lines, err);
}

static void reader_done(struct reader *r)
{
    lines_done(&r->lines);
    folded_stacks_done(&r->stacks);
}

static int collapsed_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct bytes head;
    int result = input_peek(in, &head, err);
    if (result < 0)
        return result;
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);

    CLEANUP(reader_done) struct reader r = {.profile = p, .dict = out->dict};
    folded_stacks_init(&r.stacks, out->dict);
    lines_init(&r.lines, in, out->budget);
    add_types(&r, head);
    if (budget_failed(out->budget))
        return budget_error(out->budget, err);
    result = read_lines(&r, err);
    if (result == 0)
        add_notes(&r, out);
    return result;
}

const struct format format_collapsed = {
    .name = "collapsed",
    .title = "collapsed stacks",
    .extension = ".collapsed",
    .sniff = collapsed_sniff,
    .decode = collapsed_decode,
    .encode = collapsed_encode,
};
