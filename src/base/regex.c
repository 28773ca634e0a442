#include "base/regex.h"

#include <errno.h>
#include <string.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/must.h"

struct regex {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *context;
    const atomic_bool *cancelled; /* may be NULL */
};

/* Steps one match may take; a name is short, so an honest pattern needs far fewer. */
#define MATCH_LIMIT 1000000

/* The machine code that PCRE2 10.42 makes for these finds no character past ASCII when a text may
 * be invalid UTF-8. */
static bool has_misread_escape(struct bytes pattern)
{
    for (size_t i = 0; i + 1 < pattern.len; i++) {
        if (pattern.data[i] == '\\' && memchr("DSW", pattern.data[++i], 3))
            return true;
    }
    return false;
}

int regex_new(struct bytes pattern, struct regex **ret, struct error *err)
{
    int code;
    PCRE2_SIZE at;
    pcre2_code *compiled = pcre2_compile(
        pattern.len ? pattern.data : (const uint8_t *)"", pattern.len,
        PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY, &code,
        &at, NULL);
    if (!compiled) {
        char why[128];
        pcre2_get_error_message(code, (uint8_t *)why, sizeof(why));
        return error_set(err, -EINVAL, "bad regular expression \"%.*s\" at character %zu: %s",
                         (int)(pattern.len < 200 ? pattern.len : 200), (const char *)pattern.data,
                         (size_t)at + 1, why);
    }
    /* Without a JIT the interpreter does the same work more slowly. */
    if (!has_misread_escape(pattern))
        (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);

    struct regex *re = must_calloc(1, sizeof(*re));
    re->code = compiled;
    re->match = pcre2_match_data_create_from_pattern(compiled, NULL);
    re->context = pcre2_match_context_create(NULL);
    if (!re->match || !re->context)
        abort();
    pcre2_set_match_limit(re->context, MATCH_LIMIT);
    *ret = re;
    return 0;
}

void regex_free(struct regex *re)
{
    if (!re)
        return;
    pcre2_match_context_free(re->context);
    pcre2_match_data_free(re->match);
    pcre2_code_free(re->code);
    free(re);
}

void regex_set_cancel(struct regex *re, const atomic_bool *cancelled)
{
    re->cancelled = cancelled;
}

static struct bytes group(const struct regex *re, struct bytes text, size_t n)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(re->match);
    if (n >= pcre2_get_ovector_count(re->match) || span[2 * n] == PCRE2_UNSET ||
        span[2 * n + 1] < span[2 * n])
        return (struct bytes){0};
    return (struct bytes){text.data + span[2 * n], span[2 * n + 1] - span[2 * n]};
}

/* What pcre2_match() says; a text without bytes gets an address. */
static int search(const struct regex *re, struct bytes *text, size_t from)
{
    static const uint8_t nothing[1];
    if (re->cancelled && atomic_load_explicit(re->cancelled, memory_order_relaxed))
        return PCRE2_ERROR_MATCHLIMIT;
    if (!text->data)
        text->data = nothing;
    return pcre2_match(re->code, text->data, text->len, from, 0, re->match, re->context);
}

int regex_search(const struct regex *re, struct bytes text, size_t from, struct bytes *groups,
                 size_t n)
{
    int found = search(re, &text, from);
    if (found < 0)
        return found == PCRE2_ERROR_NOMATCH ? 0 : -EOVERFLOW;
    for (size_t i = 0; i < n; i++)
        groups[i] = i < (size_t)found ? group(re, text, i) : (struct bytes){0};
    return 1;
}

bool regex_capture(const struct regex *re, struct bytes text, struct bytes *ret_match,
                   struct bytes *ret_group)
{
    struct bytes groups[2];
    if (regex_search(re, text, 0, groups, 2) <= 0)
        return false;
    if (ret_match)
        *ret_match = groups[0];
    if (ret_group)
        *ret_group = groups[1];
    return true;
}

bool regex_matches(const struct regex *re, struct bytes text)
{
    return regex_capture(re, text, NULL, NULL);
}

bool regex_misses(const struct regex *re, struct bytes text)
{
    return search(re, &text, 0) == PCRE2_ERROR_NOMATCH;
}
