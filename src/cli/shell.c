#include "cli/shell.h"

#include <ctype.h>
#include <editline/readline.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "cli/browser.h"
#include "cli/command.h"
#include "cli/flame.h"
#include "cli/terminal.h"

#define WORDS_MAX 64
#define SETTABLE  (OPTIONS_FILTER | OPTIONS_REPORT)

struct shell {
    struct loaded *l;
    struct options *o;
    struct arena text; /* values of options, kept as long as the prompt */
    bool is_terminal;
    bool done;
};

/* libedit's completion callbacks have no argument. */
static const struct shell *completing;

static const struct {
    const char *name;
    enum report_kind kind;
    bool takes_regex;
    const char *help;
} verbs[] = {
    {"top", REPORT_TOP, false, "the functions that cost most"},
    {"tree", REPORT_TREE, false, "functions with callers and callees"},
    {"peek", REPORT_PEEK, true, "callers and callees of matching functions"},
    {"list", REPORT_LIST, true, "source of matching functions, cost per line"},
    {"disasm", REPORT_DISASM, true, "instructions of matching functions"},
    {"traces", REPORT_TRACES, false, "every stack with its value"},
    {"tags", REPORT_TAGS, false, "labels and their values"},
    {"raw", REPORT_RAW, false, "the profile as text"},
    {"comments", REPORT_COMMENTS, false, "comments in the profile"},
    {"dot", REPORT_DOT, false, "the call graph for Graphviz"},
    {"web", REPORT_DOT, false, "the call graph in a browser"},
    {"flame", REPORT_DOT, false, "a flame graph in a browser, or >file.svg, >file.html"},
};

/* Other words the prompt knows; for completion and help. */
static const char *const extra_words[] = {"help", "options", "quit", "exit"};

static void help(void)
{
    puts("verbs (with [n] entries, [regex] to focus, [-regex] to ignore, [>file]):");
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        printf("  %-10s %s\n", verbs[i].name, verbs[i].help);
    puts("  options    all options and their values; set one with name=value\n"
         "  quit       leave (also q, exit, ctrl-D)\n\n"
         "A sample type is an option too: alloc_space, or sample_index=alloc_space.\n"
         "options:");
    options_help(stdout, SETTABLE);
}

/* Splits a line into words, in place; quotes keep spaces. */
static size_t split(char *line, char *words[WORDS_MAX])
{
    size_t n = 0;
    char *to = line;

    while (*line && n < WORDS_MAX) {
        while (isspace((unsigned char)*line))
            line++;
        if (!*line)
            break;
        words[n++] = to;
        char quote = '\0';
        for (; *line && (quote || !isspace((unsigned char)*line)); line++) {
            if (!quote && (*line == '"' || *line == '\''))
                quote = *line;
            else if (quote && *line == quote)
                quote = '\0';
            else
                *to++ = *line;
        }
        if (*line)
            line++;
        *to++ = '\0';
    }
    return n;
}

static int find_verb(char *word, int *ret_count)
{
    size_t len = strcspn(word, "0123456789");

    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        if (strlen(verbs[i].name) != len || strncmp(verbs[i].name, word, len) != 0)
            continue;
        /* top10 means top 10. */
        if (word[len] && !options_parse_count(word + len, ret_count))
            continue;
        return (int)i;
    }
    return -1;
}

/* Several regexes of one kind are alternatives. */
static const char *alternative(struct shell *s, const char *have, const char *more)
{
    char text[1024];

    if (!have)
        return arena_strdup(&s->text, bytes_of(more));
    snprintf(text, sizeof(text), "%s|%s", have, more);
    return arena_strdup(&s->text, bytes_of(text));
}

struct request {
    struct report_options options;
    const char *regex;
    const char *file;
};

/* -cum and -flat stand among the words, as with pprof. */
static bool set_order(struct report_options *o, const char *word)
{
    bool is_cum = strcmp(word, "-cum") == 0 || strcmp(word, "--cum") == 0;

    if (!is_cum && strcmp(word, "-flat") != 0 && strcmp(word, "--flat") != 0)
        return false;
    o->cum = is_cum;
    return true;
}

static int parse_words(struct shell *s, int verb, char **words, size_t n, struct request *q,
                       struct error *err)
{
    const char *focus = NULL, *ignore = NULL;

    for (size_t i = 0; i < n; i++) {
        const char *w = words[i];
        if (w[0] == '>') {
            q->file = w[1] ? w + 1 : i + 1 < n ? words[++i] : NULL;
            if (!q->file)
                return error_set(err, -EINVAL, "\">\" needs a file name");
        } else if (set_order(&q->options, w) || options_parse_count(w, &q->options.nodecount)) {
            continue;
        } else if (w[0] == '-' && w[1]) {
            ignore = alternative(s, ignore, w + 1);
        } else if (verbs[verb].takes_regex) {
            q->regex = alternative(s, q->regex, w);
        } else {
            focus = alternative(s, focus, w);
        }
    }
    if (verbs[verb].takes_regex && !q->regex)
        return error_set(err, -EINVAL, "%s needs a regular expression: %s main", verbs[verb].name,
                         verbs[verb].name);
    if (focus)
        q->options.focus = focus;
    if (ignore)
        q->options.ignore = ignore;
    return 0;
}

static int write_to(const struct options *to, struct bytes content, struct error *err)
{
    return command_write(to, content, false) == VESTA_EXIT_OK
               ? 0
               : error_set(err, -EIO, "nothing was written");
}

static int show(int verb, const struct request *q, struct bytes content, struct error *err)
{
    struct options to = {.output = q->file};

    if (strcmp(verbs[verb].name, "flame") == 0 && !q->file)
        return browser_show(content, ".svg", err);
    if (strcmp(verbs[verb].name, "web") == 0) {
        CLEANUP(buf_done) struct buf svg = {0};
        int r = browser_draw_dot(content, &svg, err);
        if (r < 0 || !q->file)
            return r < 0 ? r : browser_show(buf_bytes(&svg), ".svg", err);
        return write_to(&to, buf_bytes(&svg), err);
    }
    return write_to(&to, content, err);
}

static int run_verb(struct shell *s, int verb, int count, char **words, size_t n, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &s->l->budget};
    CLEANUP(buf_done) struct buf warnings = {0};
    struct request q = {.options = s->o->report};

    q.options.warnings = &warnings;
    q.options.binary_path = s->o->binary_path;
    q.options.program = s->l->program;
    if (verbs[verb].kind == REPORT_TOP && q.options.nodecount < 0)
        q.options.nodecount = 10; /* what a screen shows */
    if (count >= 0)
        q.options.nodecount = count;
    int r = parse_words(s, verb, words, n, &q, err);
    if (r < 0)
        return r;
    if (q.file)
        q.options.color = false;
    if (strcmp(verbs[verb].name, "flame") == 0) {
        struct options o = *s->o;
        o.report = q.options;
        o.output = q.file;
        r = flame_draw(s->l, &o, "Flame graph", &out, err);
        if (r == -ENODATA)
            buf_clear(&out); /* not worth a browser */
        if (r == 0 && buf_full(&out))
            r = buf_error(&out, err);
    } else {
        r = report_run(verbs[verb].kind, s->l->profile, &q.options, q.regex, &out, err);
    }
    if (warnings.len > 0)
        terminal_say(buf_bytes(&warnings));
    if (r < 0 && (r != -ENODATA || out.len == 0))
        return r;
    int shown = show(verb, &q, buf_bytes(&out), err);
    return r < 0 ? r : shown;
}

/* The sample type of this name becomes the one shown. */
static bool set_sample_type(struct shell *s, const char *word)
{
    const struct profile *p = s->l->profile;

    for (uint32_t t = 0; t < p->n_types; t++) {
        if (strcmp(dict_cstr(p->dict, p->types[t].type), word) == 0) {
            s->o->report.sample_index = dict_cstr(p->dict, p->types[t].type);
            return true;
        }
    }
    return false;
}

/*
 * Sets an option, or shows another sample type. Blanks may stand around the "=" (completion puts
 * one there): focus=main, focus =main, focus = main, focus main.
 */
static int set_option(struct shell *s, char **words, size_t n, struct error *err)
{
    char *equals = strchr(words[0], '='), *value = equals ? equals + 1 : NULL;
    size_t used = 1;

    if (equals)
        *equals = '\0';
    if (n == 1 && !equals && set_sample_type(s, words[0]))
        return 0;
    if (!options_is_one_of(words[0], SETTABLE))
        return error_set(err, -EINVAL, "\"%s\" is neither a verb nor an option; try \"help\"",
                         words[0]);
    if (n > 1 && (!value || !*value)) {
        value = words[used++];
        if (!equals && *value == '=' && !*++value && n > 2)
            value = words[used++];
    }
    if (used < n)
        return error_set(err, -EINVAL, "a value with blanks needs quotes: %s=\"%s %s\"", words[0],
                         value, words[used]);
    return options_set(s->o, words[0], value ? arena_strdup(&s->text, bytes_of(value)) : NULL, err);
}

static int run_line(struct shell *s, char *line, struct error *err)
{
    char *words[WORDS_MAX];
    size_t n = split(line, words);
    int count = -1;

    if (n == 0)
        return 0;
    if (strcmp(words[0], "q") == 0 || strcmp(words[0], "quit") == 0 ||
        strcmp(words[0], "exit") == 0) {
        s->done = true;
        return 0;
    }
    if (strcmp(words[0], "help") == 0 || strcmp(words[0], "?") == 0) {
        help();
        return 0;
    }
    if (strcmp(words[0], "options") == 0 || strcmp(words[0], "o") == 0) {
        options_show(s->o, stdout);
        return 0;
    }
    int verb = find_verb(words[0], &count);
    if (verb >= 0)
        return run_verb(s, verb, count, words + 1, n - 1, err);
    return set_option(s, words, n, err);
}

static char *copy_match(const char *candidate, const char *prefix)
{
    return strncmp(candidate, prefix, strlen(prefix)) == 0 ? strdup(candidate) : NULL;
}

/* The first word: verbs, options, sample types. One candidate per call, as libedit wants it. */
static char *next_word(const char *prefix, int state)
{
    static size_t at;
    char *match = NULL;
    const struct profile *p = completing->l->profile;

    if (state == 0)
        at = 0;
    for (; !match; at++) {
        size_t i = at;
        if (i < ARRAY_SIZE(verbs)) {
            match = copy_match(verbs[i].name, prefix);
            continue;
        }
        i -= ARRAY_SIZE(verbs);
        if (i < ARRAY_SIZE(extra_words)) {
            match = copy_match(extra_words[i], prefix);
            continue;
        }
        i -= ARRAY_SIZE(extra_words);
        if (i < p->n_types) {
            match = copy_match(dict_cstr(p->dict, p->types[i].type), prefix);
            continue;
        }
        const char *name = options_name(i - p->n_types);
        if (!name)
            return NULL;
        if (options_is_one_of(name, SETTABLE))
            match = copy_match(name, prefix);
    }
    return match;
}

/* Later words: names of functions. */
static char *next_function(const char *prefix, int state)
{
    static size_t at;
    const struct dict *d = completing->l->profile->dict;

    if (state == 0)
        at = 1;
    for (; at < d->functions.len; at++) {
        char *match = copy_match(dict_cstr(d, d->functions.data[at].name), prefix);
        if (match) {
            at++;
            return match;
        }
    }
    return NULL;
}

static char **complete(const char *text, int start, int end)
{
    (void)end;
    rl_attempted_completion_over = 1;
    return rl_completion_matches(text, start == 0 ? next_word : next_function);
}

static void history_path(char *path, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (state)
        snprintf(path, size, "%s/vesta", state);
    else
        snprintf(path, size, "%s/.local/state/vesta", home ? home : "/tmp");
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    (void)mkdir(path, 0700);
    strncat(path, "/history", size - strlen(path) - 1);
}

static char *read_line(const struct shell *s)
{
    if (s->is_terminal)
        return readline("(vesta) ");
    char *line = NULL;
    size_t size = 0;
    ssize_t n = getline(&line, &size, stdin);
    if (n < 0) {
        free(line);
        return NULL;
    }
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static void greet(const struct shell *s)
{
    const struct profile *p = s->l->profile;
    CLEANUP(buf_done) struct buf lines = {0};
    struct error err;

    if (report_describe(p, &s->o->report, &lines, &err) == 0)
        fputs(buf_cstr(&lines), stdout);
    CLEANUP(buf_done) struct buf types = {0};

    printf("%s, %zu samples; types:", s->l->format->title, p->n_samples);
    for (uint32_t t = 0; t < p->n_types; t++) {
        buf_add_byte(&types, ' ');
        terminal_clean(dict_text(p->dict, p->types[t].type), &types);
        buf_add_str(&types, t == profile_default_index(p) ? "*" : "");
    }
    fputs(buf_cstr(&types), stdout);
    puts("\nType \"help\" for what can be asked, \"top\" to start.");
}

int shell_run(struct loaded *l, struct options *o)
{
    struct shell s = {.l = l, .o = o, .is_terminal = isatty(STDIN_FILENO)};
    char history[512];
    int code = VESTA_EXIT_OK;

    arena_init(&s.text, &l->budget);
    if (s.is_terminal) {
        completing = &s;
        rl_attempted_completion_function = complete;
        using_history();
        history_path(history, sizeof(history));
        read_history(history);
        greet(&s);
    }
    while (!s.done) {
        CLEANUP(freep) char *line = read_line(&s);
        struct error err = {""};
        if (!line)
            break;
        if (s.is_terminal && *line)
            add_history(line);
        int r = run_line(&s, line, &err);
        if (r < 0)
            code = command_fail(r, &err);
    }
    if (s.is_terminal)
        write_history(history);
    arena_done(&s.text);
    return s.is_terminal ? VESTA_EXIT_OK : code;
}
