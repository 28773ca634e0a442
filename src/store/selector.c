#include "store/selector.h"

#include <errno.h>
#include <stdlib.h>

#include "base/vec.h"

/* Far more than SELECTOR_TEXT_MAX bytes of text can make. */
#define SELECTOR_MEMORY ((size_t)256 << 10)

struct parser {
    struct bytes text;
    size_t at;
    struct selector *out;
    struct error *err;
};

static int bad(struct parser *p, const char *what)
{
    return error_set(p->err, -EINVAL, "selector \"%.*s\" at character %zu: %s",
                     (int)(p->text.len < 200 ? p->text.len : 200), (const char *)p->text.data,
                     p->at + 1, what);
}

static int peek(struct parser *p)
{
    while (p->at < p->text.len && strchr(" \t\r\n", p->text.data[p->at]))
        p->at++;
    return p->at < p->text.len ? p->text.data[p->at] : -1;
}

static bool take(struct parser *p, char c)
{
    if (peek(p) != c)
        return false;
    p->at++;
    return true;
}

static bool is_name_byte(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && strchr("._-/", c)) || c >= 0x80;
}

static struct bytes take_name(struct parser *p)
{
    (void)peek(p);
    size_t from = p->at;
    while (p->at < p->text.len && is_name_byte(p->text.data[p->at]))
        p->at++;
    return (struct bytes){p->text.data + from, p->at - from};
}

/* The value that stands after a backslash: only quotes, backslashes and newlines have one. A
 * regular expression keeps the backslash of anything else, so \d and \. need no doubling. */
static void unescape(uint8_t c, uint8_t *to, size_t *len)
{
    if (c == 'n') {
        to[(*len)++] = '\n';
        return;
    }
    if (c != '"' && c != '\\')
        to[(*len)++] = '\\';
    to[(*len)++] = c;
}

/* "..." with backslash escapes, or '...' and `...` as they stand. */
static int take_quoted(struct parser *p, struct bytes *ret)
{
    int quote = peek(p);
    if (quote != '"' && quote != '\'' && quote != '`')
        return bad(p, "expected a value in quotes");

    size_t start = p->at++, len = 0;
    uint8_t *to = arena_new(&p->out->arena, uint8_t, p->text.len - p->at + 1);
    if (!to)
        return budget_error(&p->out->budget, p->err);
    for (; p->at < p->text.len && p->text.data[p->at] != quote; p->at++) {
        uint8_t c = p->text.data[p->at];
        if (c == '\\' && quote == '"' && p->at + 1 < p->text.len)
            unescape(p->text.data[++p->at], to, &len);
        else
            to[len++] = c;
    }
    if (p->at >= p->text.len) {
        p->at = start;
        return bad(p, "this quote is never closed");
    }
    p->at++;
    *ret = (struct bytes){to, len};
    return 0;
}

static int take_label_name(struct parser *p, struct bytes *ret)
{
    int c = peek(p);
    if (c == '"' || c == '\'' || c == '`')
        return take_quoted(p, ret);
    *ret = take_name(p);
    return ret->len > 0 ? 0 : bad(p, "expected a label name");
}

static int take_operator(struct parser *p, enum match_op *ret)
{
    int first = peek(p);
    int second = p->at + 1 < p->text.len ? p->text.data[p->at + 1] : -1;
    static const struct {
        char text[3];
        enum match_op op;
    } table[] = {{"=~", MATCH_REGEX}, {"!~", MATCH_NOT_REGEX}, {"!=", MATCH_NOT_EQUAL}};

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (first == table[i].text[0] && second == table[i].text[1]) {
            p->at += 2;
            *ret = table[i].op;
            return 0;
        }
    }
    if (first != '=')
        return bad(p, "expected one of = != =~ !~");
    p->at++;
    *ret = MATCH_EQUAL;
    return 0;
}

/* Compiles ^(?:...)$ so that a regular expression speaks of the whole value. */
static int compile(struct parser *p, struct matcher *m)
{
    const struct bytes before = BYTES("^(?:"), behind = BYTES(")\\z");
    size_t len = before.len + m->value.len + behind.len;
    uint8_t *whole = arena_new(&p->out->arena, uint8_t, len);
    if (!whole)
        return budget_error(&p->out->budget, p->err);
    memcpy(whole, before.data, before.len);
    vec_copy_(whole + before.len, m->value.data, m->value.len);
    memcpy(whole + before.len + m->value.len, behind.data, behind.len);
    /* Alone first, so that a mistake is shown as it was written. */
    int r = regex_new(m->value, &m->regex, p->err);
    if (r == 0) {
        regex_free(m->regex);
        m->regex = NULL;
        r = regex_new((struct bytes){whole, len}, &m->regex, p->err);
    }
    return r < 0 ? error_prefix(p->err, r, "selector \"%.*s\"",
                                (int)(p->text.len < 200 ? p->text.len : 200),
                                (const char *)p->text.data)
                 : 0;
}

static int take_matcher(struct parser *p)
{
    struct selector *s = p->out;
    if (s->n_matchers == SELECTOR_MATCHERS_MAX)
        return bad(p, "more than 64 matchers");

    struct matcher m = {0};
    int r = take_label_name(p, &m.name);
    if (r == 0)
        r = take_operator(p, &m.op);
    if (r == 0)
        r = take_quoted(p, &m.value);
    if (r == 0 && (m.op == MATCH_REGEX || m.op == MATCH_NOT_REGEX))
        r = compile(p, &m);
    if (r == 0)
        s->matchers[s->n_matchers++] = m;
    return r;
}

static int take_matchers(struct parser *p)
{
    p->out->matchers = arena_new(&p->out->arena, struct matcher, SELECTOR_MATCHERS_MAX);
    if (!p->out->matchers)
        return budget_error(&p->out->budget, p->err);
    while (!take(p, '}')) {
        int r = take_matcher(p);
        if (r < 0)
            return r;
        if (!take(p, ',') && peek(p) != '}')
            return bad(p, peek(p) < 0 ? "the brace is never closed" : "expected , or }");
    }
    return 0;
}

static int parse(struct parser *p)
{
    struct selector *s = p->out;
    s->type = take_name(p);
    /* What stands behind the last colon is the unit: events of perf are called "cycles:u". */
    while (take(p, ':')) {
        if (s->unit.len > 0)
            s->type.len = (size_t)(s->unit.data + s->unit.len - s->type.data);
        s->unit = take_name(p);
        if (s->type.len == 0 || s->unit.len == 0)
            return bad(p, "expected type:unit before the brace");
    }
    if (take(p, '{')) {
        int r = take_matchers(p);
        if (r < 0)
            return r;
    }
    return peek(p) < 0 ? 0 : bad(p, "expected { or the end");
}

int selector_parse(struct bytes text, struct selector **ret, struct error *err)
{
    if (text.len > SELECTOR_TEXT_MAX)
        return error_set(err, -EINVAL, "selector of %zu bytes: at most %d are allowed", text.len,
                         SELECTOR_TEXT_MAX);
    CLEANUP(selector_freep) struct selector *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, -ENOMEM, "no memory for a selector");
    budget_init(&s->budget, SELECTOR_MEMORY);
    arena_init(&s->arena, &s->budget);

    text = bytes_trim(text);
    char *own = arena_strdup(&s->arena, text);
    if (!own)
        return budget_error(&s->budget, err);
    s->text = (struct bytes){(const uint8_t *)own, text.len};

    struct parser p = {.text = s->text, .out = s, .err = err};
    int r = parse(&p);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(s);
    return 0;
}

void selector_free(struct selector *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_matchers; i++)
        regex_free(s->matchers[i].regex);
    arena_done(&s->arena);
    free(s);
}

struct bytes label_value(const struct label *labels, size_t n, struct bytes name)
{
    for (size_t i = 0; i < n; i++)
        if (bytes_equal(labels[i].name, name))
            return labels[i].value;
    return (struct bytes){0};
}

bool matcher_holds(const struct matcher *m, struct bytes value)
{
    switch (m->op) {
    case MATCH_EQUAL:
        return bytes_equal(value, m->value);
    case MATCH_NOT_EQUAL:
        return !bytes_equal(value, m->value);
    case MATCH_REGEX:
        return regex_matches(m->regex, value);
    default:
        return regex_misses(m->regex, value);
    }
}

bool selector_matches(const struct selector *s, const struct label *labels, size_t n)
{
    for (size_t i = 0; i < s->n_matchers; i++)
        if (!matcher_holds(&s->matchers[i], label_value(labels, n, s->matchers[i].name)))
            return false;
    return true;
}

/* Whether `text` is first:second. */
static bool is_pair(struct bytes text, struct bytes first, struct bytes second)
{
    return text.len == first.len + 1 + second.len && bytes_start_with(text, first) &&
           text.data[first.len] == ':' && bytes_equal(bytes_from(text, first.len + 1), second);
}

bool selector_takes(const struct selector *s, struct bytes type, struct bytes unit)
{
    if (s->type.len > 0 && s->unit.len > 0 && is_pair(type, s->type, s->unit))
        return true;
    return (s->type.len == 0 || bytes_equal(s->type, type)) &&
           (s->unit.len == 0 || bytes_equal(s->unit, unit));
}

bool selector_takes_period(const struct selector *s, struct bytes type, struct bytes unit)
{
    return !s->has_period ||
           (bytes_equal(s->period_type, type) && bytes_equal(s->period_unit, unit));
}

static int by_name(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    return bytes_compare(x->name, y->name);
}

/* Stable, so that of equal names the last one given is the last one here. */
static void sort_labels(struct label *labels, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct label moving = labels[i];
        size_t to = i;
        for (; to > 0 && by_name(&labels[to - 1], &moving) > 0; to--)
            labels[to] = labels[to - 1];
        labels[to] = moving;
    }
}

size_t labels_normalize(struct label *labels, size_t n)
{
    size_t kept = 0;
    sort_labels(labels, n);
    for (size_t i = 0; i < n; i++) {
        bool is_last = i + 1 == n || !bytes_equal(labels[i].name, labels[i + 1].name);
        if (is_last && labels[i].value.len > 0 && labels[i].name.len > 0)
            labels[kept++] = labels[i];
    }
    return kept;
}
