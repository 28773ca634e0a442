#include "symbols/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#undef ARRAY_SIZE /* libiberty has one too */
#include "base/cleanup.h"

/* libiberty's own guard refuses names over half its recursion limit; longer ones are common in
 * C++, and up to this length its stack use without the guard is bounded well below 8 MiB. */
#define GUARDED_NAME_MAX ((size_t)DEMANGLE_RECURSION_LIMIT / 2)
#define D_NAME_MAX       ((size_t)1 << 10)

static const struct {
    const char *name;
    enum demangle_mode mode;
} modes[] = {
    {"", DEMANGLE_DEFAULT},  {"default", DEMANGLE_DEFAULT},     {"simple", DEMANGLE_DEFAULT},
    {"none", DEMANGLE_NONE}, {"templates", DEMANGLE_TEMPLATES}, {"full", DEMANGLE_FULL},
};

bool demangle_mode_parse(const char *text, enum demangle_mode *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        if (strcmp(text, modes[i].name) == 0) {
            *ret = modes[i].mode;
            return true;
        }
    }
    return false;
}

/*
 * Substitutions let a short name unfold without end, and libiberty knows no limit of output. Its
 * callback interface keeps everything on the stack, so leaving it by a jump loses nothing.
 */
struct bounded_output {
    struct buf *out;
    jmp_buf too_long;
};

static void take_output(const char *text, size_t n, void *opaque)
{
    struct bounded_output *o = opaque;

    if (n > DEMANGLE_OUTPUT_MAX - o->out->len)
        longjmp(o->too_long, 1);
    buf_add(o->out, text, n);
}

typedef int demangler(const char *, int, demangle_callbackref, void *);

static bool run(demangler *fn, const char *name, int options, struct buf *out)
{
    struct bounded_output o = {.out = out};

    buf_clear(out);
    if (setjmp(o.too_long) != 0)
        return false;
    return fn(name, options, take_output, &o) != 0 && out->len > 0;
}

static bool is_word(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || c >= 0x80;
}

/* The index behind the bracket that closes the one at `i`, or the end. "->" closes nothing. */
static size_t skip_group(struct bytes s, size_t i, uint8_t open, uint8_t close)
{
    size_t depth = 0;

    for (; i < s.len; i++) {
        if (s.data[i] == open)
            depth++;
        else if (s.data[i] == close && !(close == '>' && i > 0 && s.data[i - 1] == '-') &&
                 --depth == 0)
            return i + 1;
    }
    return s.len;
}

/* How long the symbol of an operator is at `i`, behind the word "operator". */
static size_t operator_length(struct bytes s, size_t i)
{
    static const char *const symbols[] = {
        "()", "[]", "->*", "->", "<=>", "<<=", ">>=", "<<", ">>", "<=", ">=", "<", ">"};

    for (size_t k = 0; k < ARRAY_SIZE(symbols); k++) {
        if (bytes_start_with(bytes_from(s, i), bytes_of(symbols[k])))
            return strlen(symbols[k]);
    }
    return 0;
}

static bool at_operator(struct bytes s, size_t i)
{
    return bytes_start_with(bytes_from(s, i), BYTES("operator")) &&
           (i == 0 || !is_word(s.data[i - 1])) && i + 8 < s.len && !is_word(s.data[i + 8]);
}

/* What follows the parameters of an enclosing function: " const", " &", "[abi:x]"... */
static size_t skip_qualifiers(struct bytes s, size_t i)
{
    static const char *const words[] = {" const", " volatile", " &&", " &"};
    bool more = true;

    while (more) {
        more = false;
        for (size_t k = 0; k < ARRAY_SIZE(words); k++) {
            if (bytes_start_with(bytes_from(s, i), bytes_of(words[k]))) {
                i += strlen(words[k]);
                more = true;
            }
        }
    }
    return i;
}

/* Takes one piece that is copied whole: an operator, a lambda, "(anonymous namespace)". */
static size_t copy_piece(struct bytes s, size_t i, struct buf *out)
{
    static const char anonymous[] = "(anonymous namespace)";
    size_t to = i;

    if (at_operator(s, i))
        to = i + 8 + operator_length(s, i + 8);
    else if (bytes_start_with(bytes_from(s, i), BYTES(anonymous)))
        to = i + sizeof(anonymous) - 1;
    else if (s.data[i] == '{')
        to = skip_group(s, i, '{', '}');
    buf_add(out, s.data + i, to - i);
    return to;
}

/* Drops parameters and template arguments of a C++ name, unless they are to be kept. */
static void simplify_cpp(struct bytes s, bool keep_params, bool keep_templates, struct buf *out)
{
    for (size_t i = 0; i < s.len;) {
        size_t to = copy_piece(s, i, out);
        if (to > i) {
            i = to;
        } else if (s.data[i] == '<') {
            to = skip_group(s, i, '<', '>');
            if (keep_templates)
                buf_add(out, s.data + i, to - i);
            else if (out->len > 0 && out->data[out->len - 1] == ' ')
                out->len--; /* "operator<< <char>" */
            i = to;
        } else if (s.data[i] == '(' && !keep_params) {
            i = skip_qualifiers(s, skip_group(s, i, '(', ')'));
        } else {
            buf_add_byte(out, s.data[i++]);
        }
    }
}

/* Empties the generic arguments of a Rust v0 name: Vec<u8> becomes Vec<>. A path that starts with
 * "<" (<T as Trait>::f) is no such list. */
static void simplify_rust(struct bytes s, struct buf *out)
{
    for (size_t i = 0; i < s.len;) {
        bool is_list =
            s.data[i] == '<' && i > 0 && (is_word(s.data[i - 1]) || s.data[i - 1] == ':');
        if (is_list) {
            buf_add_str(out, "<>");
            i = skip_group(s, i, '<', '>');
        } else {
            buf_add_byte(out, s.data[i++]);
        }
    }
}

/* Replaces `out` by what `simplified` holds. */
static void swap_in(struct buf *out, struct buf *simplified)
{
    struct buf old = *out;
    *out = *simplified;
    *simplified = old;
    buf_done(simplified);
}

static bool is_hex(struct bytes s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!strchr("0123456789abcdef", s.data[i]) || s.data[i] == '\0')
            return false;
    }
    return true;
}

/* Legacy Rust names are C++ names whose last part is a hash: "17h" and 16 digits. */
static bool is_rust_legacy(struct bytes name)
{
    return name.len > 23 && bytes_start_with(name, BYTES("_ZN")) &&
           name.data[name.len - 1] == 'E' && memcmp(name.data + name.len - 20, "17h", 3) == 0 &&
           is_hex((struct bytes){name.data + name.len - 17, 16});
}

static bool demangle_rust(struct bytes name, enum demangle_mode mode, struct buf *out)
{
    bool is_v0 = bytes_start_with(name, BYTES("_R"));
    const uint8_t *dot = is_v0 ? bytes_find_byte(name, '.') : bytes_find(name, BYTES("E."));
    char plain[DEMANGLE_NAME_MAX + 1];

    /* What compilers append (.llvm.123) is no part of the name. */
    if (dot)
        name.len = (size_t)(dot - name.data) + (is_v0 ? 0 : 1);
    if (!is_v0 && !is_rust_legacy(name))
        return false;
    memcpy(plain, name.data, name.len);
    plain[name.len] = '\0';
    if (!run(rust_demangle_callback, plain, 0, out))
        return false;
    if (is_v0 && mode == DEMANGLE_DEFAULT) {
        struct buf simple = {0};
        simplify_rust(buf_bytes(out), &simple);
        swap_in(out, &simple);
    }
    return true;
}

static void drop_clones(struct buf *out)
{
    const uint8_t *clone = bytes_find(buf_bytes(out), BYTES(" [clone "));
    if (clone)
        out->len = (size_t)(clone - out->data);
}

/* Thunks, guard variables, transaction clones: what they are for is shown with parameters. */
static bool is_special(struct bytes name)
{
    static const char *const prefixes[] = {"_ZTh", "_ZTv", "_ZTc", "_ZGV", "_ZGT"};

    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
        if (bytes_start_with(name, bytes_of(prefixes[i])))
            return true;
    }
    return false;
}

static bool demangle_cpp(struct bytes name, enum demangle_mode mode, struct buf *out)
{
    bool keep_params = mode == DEMANGLE_FULL || is_special(name);
    int options = DMGL_ANSI | (keep_params ? DMGL_PARAMS : 0);

    if (!bytes_start_with(name, BYTES("_Z")) && !bytes_start_with(name, BYTES("_GLOBAL_")))
        return false;
    if (name.len > GUARDED_NAME_MAX)
        options |= DMGL_NO_RECURSE_LIMIT;
    if (!run(cplus_demangle_v3_callback, (const char *)name.data, options, out))
        return false;
    drop_clones(out);
    if (mode != DEMANGLE_FULL) {
        struct buf simple = {0};
        simplify_cpp(buf_bytes(out), keep_params, mode == DEMANGLE_TEMPLATES, &simple);
        swap_in(out, &simple);
    }
    return true;
}

static bool demangle_d(struct bytes name, struct buf *out)
{
    if (!bytes_start_with(name, BYTES("_D")) || name.len < 4 || name.len > D_NAME_MAX ||
        name.data[2] < '0' || name.data[2] > '9')
        return false;
    CLEANUP(freep) char *text = dlang_demangle((const char *)name.data, DMGL_PARAMS);
    if (!text || strlen(text) > DEMANGLE_OUTPUT_MAX)
        return false;
    buf_clear(out);
    buf_add_str(out, text);
    return true;
}

static bool contains(struct bytes s, const char *what)
{
    return bytes_find(s, bytes_of(what)) != NULL;
}

/* Go: main.Map[go.shape.int,string].func1 is shown as main.Map[...].func1. */
static bool shorten_go(struct bytes name, struct buf *out)
{
    const uint8_t *open = bytes_find_byte(name, '[');
    const uint8_t *close = open ? memrchr(name.data, ']', name.len) : NULL;

    if (!open || !close || close < open ||
        !contains(bytes_head(bytes_from(name, (size_t)(open - name.data)), (size_t)(close - open)),
                  "go.shape."))
        return false;
    buf_add(out, name.data, (size_t)(open - name.data));
    buf_add_str(out, "[...]");
    buf_add_bytes(out, bytes_from(name, (size_t)(close - name.data) + 1));
    return true;
}

/* Removes what stands between matching brackets; leaves a name with stray ones alone. */
static void remove_matching(struct buf *b, uint8_t open, uint8_t close)
{
    size_t depth = 0, n = 0;
    CLEANUP(freep) uint8_t *kept = malloc(b->len + 1);

    for (size_t i = 0; kept && i < b->len; i++) {
        uint8_t c = b->data[i];
        if (c == close && depth == 0)
            return;
        if (c == open)
            depth++;
        else if (c == close)
            depth--;
        else if (depth == 0)
            kept[n++] = c;
    }
    if (!kept || depth != 0)
        return;
    memcpy(b->data, kept, n);
    b->len = n;
}

/* A name that may be readable C++ already. Java's class.<init> and Go's methods are not. */
static void simplify_readable(struct bytes name, enum demangle_mode mode, struct buf *out)
{
    bool is_cpp = !contains(name, ".<") && !contains(name, "]).") &&
                  (contains(name, "::") || strpbrk((const char *)name.data, "<>[]"));

    buf_add_bytes(out, name);
    if (!is_cpp || mode == DEMANGLE_FULL)
        return;
    remove_matching(out, '(', ')');
    if (mode == DEMANGLE_DEFAULT)
        remove_matching(out, '<', '>');
}

void demangle(const char *name, enum demangle_mode mode, struct buf *out)
{
    struct bytes s = {(const uint8_t *)name, strnlen(name, DEMANGLE_NAME_MAX + 1)};

    buf_clear(out);
    if (mode == DEMANGLE_NONE || s.len > DEMANGLE_NAME_MAX) {
        buf_add_str(out, name);
        return;
    }
    if (name[0] == '_' &&
        (demangle_rust(s, mode, out) || demangle_cpp(s, mode, out) || demangle_d(s, out)))
        return;
    buf_clear(out);
    if (mode == DEMANGLE_DEFAULT && shorten_go(s, out))
        return;
    simplify_readable(s, mode, out);
}
