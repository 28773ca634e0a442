#include "base/mask_rules.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/must.h"
#include "base/regex.h"

#define HIDDEN MASK_HIDDEN

/* Longer ones cost too much to look at. */
#define MASK_TEXT_MAX ((size_t)32 << 10)

#define GROUPS_MAX 10

/*
 * The built-in rules. Each begins where no letter of a token stands before, so that no place is
 * looked at twice: patterns on hostile text stay linear.
 */
static const char *const built_in[] = {
    "labels|paths: /(?i)(?<![a-z])(bearer|basic)\\s++[a-z0-9._~+\\/=-]{8,}+/$1 " HIDDEN "/",
    "labels|paths: "
    "/(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\\.[A-Za-z0-9_-]{4,}+(?:\\.[A-Za-z0-9_-]*+)?/" HIDDEN
    "/",
    "labels|paths: /(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])/" HIDDEN "/",
    "labels|paths: /(?<![A-Za-z0-9_-])(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk-|sk_live_|"
    "AIza|npm_|dop_v1_)[A-Za-z0-9_-]{16,}+/" HIDDEN "/",
    "labels|paths: /(?i)(?<![a-z])((?:password|passwd|pwd|secret|client_secret|token|access_token|"
    "auth_token|api[_-]?key|access[_-]?key)=)[^&\\s\"';,]++/$1" HIDDEN "/",
    "labels|paths: #(://[^\\s/:@]*+:)[^\\s/@]++@#$1" HIDDEN "@#",
    "labels|paths: /(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY.*+/" HIDDEN "/",
    "labels|paths: #(?<![A-Za-z0-9_.-])(/(?:home|Users)/)[^/\\s]++(?=/)#$1*#",
    "labels|paths: #(?i)(?<![a-z])([a-z]:\\\\users\\\\)[^\\\\]++(?=\\\\)#$1*#",
};

#define RULES_MAX (MASK_RULES_MAX + ARRAY_SIZE(built_in))

struct rule {
    unsigned roles; /* 1 << enum mask_role */
    char *pattern, *replacement;
};

struct mask_rules {
    atomic_uint refs;
    struct rule all[RULES_MAX];
    size_t n;
};

/* ---- Reading rules */

struct mask_rules *mask_rules_ref(struct mask_rules *r)
{
    atomic_fetch_add(&r->refs, 1);
    return r;
}

void mask_rules_unref(struct mask_rules *r)
{
    if (!r || atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    for (size_t i = 0; i < r->n; i++) {
        free(r->all[i].pattern);
        free(r->all[i].replacement);
    }
    free(r);
}

static bool role_of(struct bytes name, unsigned *roles)
{
    static const char *const known[MASK_ROLES] = {"functions", "paths", "labels"};

    for (unsigned i = 0; i < MASK_ROLES; i++) {
        if (bytes_are(bytes_trim(name), known[i])) {
            *roles |= 1u << i;
            return true;
        }
    }
    return false;
}

static bool read_roles(struct bytes list, unsigned *ret)
{
    *ret = 0;
    for (;;) {
        const uint8_t *bar = bytes_find_byte(list, '|');
        struct bytes name = bar ? bytes_head(list, (size_t)(bar - list.data)) : list;
        if (!role_of(name, ret))
            return false;
        if (!bar)
            return true;
        list = bytes_from(list, (size_t)(bar - list.data) + 1);
    }
}

/* Takes the text up to the next divider off *rest, as a string; NULL when there is none. */
static char *next_part(struct bytes *rest, uint8_t divider)
{
    char *part = must_calloc(1, rest->len + 1);
    size_t n = 0;

    for (size_t i = 0; i < rest->len; i++) {
        uint8_t c = rest->data[i];
        if (c == divider) {
            *rest = bytes_from(*rest, i + 1);
            return part;
        }
        if (c == '\\' && i + 1 < rest->len) {
            uint8_t next = rest->data[++i];
            if (next != divider)
                part[n++] = '\\';
            c = next;
        }
        part[n++] = (char)c;
    }
    free(part);
    return NULL;
}

static int compile(const struct rule *rule, struct regex **ret, struct error *err)
{
    return regex_new(bytes_of(rule->pattern), ret, err);
}

static int add_rule(struct mask_rules *rules, const char *text, struct error *err)
{
    const char *colon = strchr(text, ':');
    struct rule *rule = &rules->all[rules->n];
    CLEANUP(regex_freep) struct regex *re = NULL;

    if (!colon ||
        !read_roles((struct bytes){(const uint8_t *)text, (size_t)(colon - text)}, &rule->roles))
        return error_set(err, -EINVAL,
                         "mask rule \"%s\" does not begin with \"paths\", \"functions\" or "
                         "\"labels\" (or several with '|' between them) and a colon",
                         text);
    struct bytes rest = bytes_trim(bytes_of(colon + 1));
    uint8_t divider = rest.len > 0 ? rest.data[0] : 0;
    rest = bytes_from(rest, 1);
    rules->n++;
    rule->pattern = next_part(&rest, divider);
    rule->replacement = rule->pattern ? next_part(&rest, divider) : NULL;
    if (!rule->replacement || rest.len > 0 || divider == '\\')
        return error_set(err, -EINVAL, "mask rule \"%s\" is not /PATTERN/REPLACEMENT/", text);
    if (!*rule->pattern)
        return error_set(err, -EINVAL, "mask rule \"%s\" has an empty pattern", text);
    int r = compile(rule, &re, err);
    return r < 0 ? error_prefix(err, r, "mask rule \"%s\"", text) : 0;
}

int mask_rules_new(bool with_built_in, const char *const *texts, size_t n, struct mask_rules **ret,
                   struct error *err)
{
    CLEANUP(mask_rules_unrefp) struct mask_rules *rules = must_calloc(1, sizeof(*rules));
    int r = n > MASK_RULES_MAX
                ? error_set(err, -E2BIG, "%zu mask rules are more than %d", n, MASK_RULES_MAX)
                : 0;

    rules->refs = 1;
    for (size_t i = 0; r == 0 && with_built_in && i < ARRAY_SIZE(built_in); i++)
        r = add_rule(rules, built_in[i], err);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = add_rule(rules, texts[i], err);
    if (r == 0)
        *ret = TAKE_PTR(rules);
    return r;
}

/* ---- Applying them */

struct mask_matcher {
    struct mask_rules *rules;
    struct regex *compiled[RULES_MAX];
    unsigned roles; /* that have a rule */
    struct buf text, spare;
};

struct mask_matcher *mask_matcher_new(struct mask_rules *rules)
{
    struct mask_matcher *m = must_calloc(1, sizeof(*m));

    m->rules = rules;
    for (size_t i = 0; i < rules->n; i++) {
        (void)compile(&rules->all[i], &m->compiled[i], NULL); /* it was tried when it was read */
        m->roles |= rules->all[i].roles;
    }
    return m;
}

void mask_matcher_free(struct mask_matcher *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->rules->n; i++)
        regex_free(m->compiled[i]);
    mask_rules_unref(m->rules);
    buf_done(&m->text);
    buf_done(&m->spare);
    free(m);
}

bool mask_matcher_has(const struct mask_matcher *m, enum mask_role role)
{
    return m->roles & 1u << role;
}

static void add_replacement(const char *replacement, const struct bytes *groups, struct buf *out)
{
    for (const char *c = replacement; *c; c++) {
        if (*c == '$' && c[1] == '$') {
            buf_add_byte(out, '$');
            c++;
        } else if (*c == '$' && c[1] >= '0' && c[1] <= '9') {
            buf_add_bytes(out, groups[c[1] - '0']);
            c++;
        } else {
            buf_add_byte(out, (uint8_t)*c);
        }
    }
}

/* One rule wherever it matches: 1 with all of the text in `out`, 0, or a negative errno. */
static int apply(const struct regex *re, const char *replacement, struct bytes text,
                 struct buf *out)
{
    struct bytes groups[GROUPS_MAX];
    size_t at = 0, from = 0;
    int r;

    buf_clear(out);
    while (from <= text.len && (r = regex_search(re, text, from, groups, GROUPS_MAX)) != 0) {
        if (r < 0 || out->len > MASK_TEXT_MAX)
            return -EOVERFLOW;
        size_t start = (size_t)(groups[0].data - text.data), end = start + groups[0].len;
        buf_add(out, text.data + at, start - at);
        add_replacement(replacement, groups, out);
        at = end;
        from = end > start ? end : end + 1;
        while (from > end && from < text.len && (text.data[from] & 0xc0) == 0x80)
            from++;
    }
    if (from == 0)
        return 0;
    buf_add(out, text.data + at, text.len - at);
    return 1;
}

bool mask_matcher_apply(struct mask_matcher *m, enum mask_role role, struct bytes text,
                        struct bytes *ret)
{
    bool changed = false;

    if (!(m->roles & 1u << role) || text.len == 0)
        return false;
    int r = text.len > MASK_TEXT_MAX ? -EOVERFLOW : 0;
    for (size_t i = 0; r >= 0 && i < m->rules->n; i++) {
        const struct rule *rule = &m->rules->all[i];
        if (!(rule->roles & 1u << role))
            continue;
        r = apply(m->compiled[i], rule->replacement, text, &m->spare);
        if (r > 0) {
            struct buf old = m->text;
            m->text = m->spare;
            m->spare = old;
            text = buf_bytes(&m->text);
            changed = true;
        }
    }
    if (r < 0) {
        buf_clear(&m->text);
        buf_add_str(&m->text, HIDDEN);
        changed = true;
    }
    if (changed)
        *ret = buf_bytes(&m->text);
    return changed;
}
