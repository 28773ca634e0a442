#include "config/config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/must.h"
#include "config/config_internal.h"

#define STRINGS_MAX ((size_t)16 << 20) /* of all values together */

/* ---- Names */

const struct config_key *config_find(const struct config_table *t, struct bytes name)
{
    for (size_t i = 0; i < t->n_keys; i++) {
        if (bytes_are(name, t->keys[i].name))
            return &t->keys[i];
    }
    return NULL;
}

const char *config_flag_name(const struct config_key *key, char text[CONFIG_NAME_MAX])
{
    size_t n = strlen(key->name);

    assert(n < CONFIG_NAME_MAX);
    for (size_t i = 0; i <= n; i++)
        text[i] = (char)(key->name[i] == '.' || key->name[i] == '_' ? '-' : key->name[i]);
    return text;
}

const char *config_variable_name(const struct config_table *t, const struct config_key *key,
                                 char text[CONFIG_NAME_MAX])
{
    int n = snprintf(text, CONFIG_NAME_MAX, "%s%s", t->prefix, key->name);

    assert(n > 0 && n < CONFIG_NAME_MAX);
    for (char *p = text; *p; p++) {
        if (*p >= 'a' && *p <= 'z')
            *p = (char)(*p - 'a' + 'A');
        else if (*p == '.')
            *p = '_';
    }
    return text;
}

/* Dashes and underscores are the same to people. */
static bool is_flag(const struct config_key *key, struct bytes word)
{
    char name[CONFIG_NAME_MAX];
    size_t n = strlen(config_flag_name(key, name));

    if (word.len != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if ((word.data[i] == '_' ? '-' : (char)word.data[i]) != name[i])
            return false;
    }
    return true;
}

static const struct config_key *find_flag(const struct config_table *t, struct bytes word)
{
    for (size_t i = 0; i < t->n_keys; i++) {
        if (is_flag(&t->keys[i], word))
            return &t->keys[i];
    }
    return NULL;
}

/* ---- Flags */

/* Sets a value of a source; a list is begun anew unless this source has already begun it. */
static int set_from(struct config *c, const struct config_key *key, struct bytes text,
                    const struct config_origin *from, struct error *err)
{
    struct config_origin *origin = &c->origins[key - c->table->keys];

    if (origin->source != from->source)
        config_clear_list(c, key);
    *origin = *from;
    return config_set_text(c, key, text, err);
}

static int unknown_flag(const struct config_table *t, struct bytes word, struct error *err)
{
    char name[CONFIG_NAME_MAX], best[CONFIG_NAME_MAX] = "";
    size_t best_distance = 4;
    const struct config_key *of_files = find_flag(t, word);

    if (of_files)
        return error_set(err, -EINVAL, "%s is set in a file only", of_files->name);
    for (size_t i = 0; i < t->n_keys; i++) {
        size_t d = bytes_distance(word, bytes_of(config_flag_name(&t->keys[i], name)));
        if (d < best_distance) {
            best_distance = d;
            memcpy(best, name, sizeof(best));
        }
    }
    return error_set(err, -EINVAL, "there is no flag \"--%.*s\"%s%s%s",
                     (int)(word.len < 60 ? word.len : 60), (const char *)word.data,
                     best[0] ? "; did you mean \"--" : "", best, best[0] ? "\"?" : "");
}

/* A flag of argv, cut up: its name, and its value where it has one behind "=". */
struct flag {
    struct bytes name, value;
    bool has_value;
};

static bool cut_flag(const char *word, struct flag *ret)
{
    if (word[0] != '-' || word[1] == '\0')
        return false;
    word += word[1] == '-' ? 2 : 1;
    size_t n = strcspn(word, "=");
    *ret = (struct flag){.name = {(const uint8_t *)word, n}, .has_value = word[n] == '='};
    ret->value = bytes_of(word + n + ret->has_value);
    return true;
}

/* The flag args[*at]; *at is left on the last word used. */
static int read_flag(struct config *c, const struct config_input *in, size_t *at, struct error *err)
{
    static const struct config_origin by_flag = {.source = CONFIG_BY_FLAG};
    struct flag flag;

    if (!cut_flag(in->args[*at], &flag))
        return error_set(err, -EINVAL, "\"%.60s\" is not a flag; --help lists them", in->args[*at]);
    bool is_config = bytes_are(flag.name, "config");
    const struct config_key *key = find_flag(c->table, flag.name);
    if (!key && !is_config && !flag.has_value && bytes_start_with(flag.name, BYTES("no-"))) {
        key = find_flag(c->table, bytes_from(flag.name, 3));
        if (key && key->type == CONFIG_BOOL)
            return set_from(c, key, BYTES("false"), &by_flag, err);
        key = NULL;
    }
    if ((!key || key->type == CONFIG_NODE) && !is_config)
        return unknown_flag(c->table, flag.name, err);
    if (!flag.has_value && key && key->type == CONFIG_BOOL) {
        flag.value = BYTES("true");
    } else if (!flag.has_value) {
        if (*at + 1 == in->n_args)
            return error_set(err, -EINVAL, "--%.*s needs a value", (int)flag.name.len,
                             (const char *)flag.name.data);
        flag.value = bytes_of(in->args[++*at]);
    }
    if (is_config)
        return 0; /* was read before */
    int r = set_from(c, key, flag.value, &by_flag, err);
    return r < 0 ? error_prefix(err, r, "--%.*s", (int)flag.name.len, (const char *)flag.name.data)
                 : 0;
}

static int read_flags(struct config *c, const struct config_input *in, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < in->n_args && r == 0; i++)
        r = read_flag(c, in, &i, err);
    return r;
}

/* ---- Variables */

static const char *variable(const char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; env && env[i]; i++) {
        if (strncmp(env[i], name, n) == 0 && env[i][n] == '=')
            return env[i] + n + 1;
    }
    return NULL;
}

static int read_variable(struct config *c, const struct config_key *key, const char *const *env,
                         struct error *err)
{
    char name[CONFIG_NAME_MAX];
    struct config_origin from = {.source = CONFIG_BY_VARIABLE};
    const char *value = variable(env, config_variable_name(c->table, key, name));

    if (value && key->type == CONFIG_NODE)
        return error_set(err, -EINVAL, "%s: %s is set in a file only", name, key->name);
    if (value) {
        from.name = arena_strdup(&c->arena, bytes_of(name));
        int r = set_from(c, key, bytes_of(value), &from, err);
        return r < 0 ? error_prefix(err, r, "%s", name) : 0;
    }
    /* What was set for others as well is taken where it makes sense and else left alone. */
    value = key->also ? variable(env, key->also) : NULL;
    from.name = key->also;
    if (value && *value && key->type == CONFIG_STRING &&
        config_set_text(c, key, bytes_of(value), NULL) == 0)
        c->origins[key - c->table->keys] = from;
    return 0;
}

static int read_variables(struct config *c, const char *const *env, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < c->table->n_keys && r == 0; i++)
        r = read_variable(c, &c->table->keys[i], env, err);
    return r;
}

void config_add_doubts(const struct config_table *table, const char *const *env, struct buf *out)
{
    char name[CONFIG_NAME_MAX];

    for (size_t i = 0; env && env[i]; i++) {
        struct bytes given = {(const uint8_t *)env[i], strcspn(env[i], "=")};
        if (!bytes_start_with(given, bytes_of(table->prefix)))
            continue;
        size_t best_distance = 3;
        char best[CONFIG_NAME_MAX] = "";
        for (size_t k = 0; k < table->n_keys && best_distance > 0; k++) {
            size_t d =
                bytes_distance(given, bytes_of(config_variable_name(table, &table->keys[k], name)));
            if (d < best_distance) {
                best_distance = d;
                memcpy(best, name, sizeof(best));
            }
        }
        if (best_distance > 0 && best[0])
            buf_addf(out, "%.*s is not known; did you mean %s?\n", (int)given.len,
                     (const char *)given.data, best);
    }
}

/* ---- The file */

static int read_whole(const char *path, struct buf *to, struct error *err)
{
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, -errno, "could not open \"%s\": %m", path);
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
        return error_set(err, -EINVAL, "\"%s\" is not a file", path);
    fcntl(fd, F_SETFL, 0);
    do {
        uint8_t *at = buf_reserve(to, CONFIG_FILE_MAX + 1 - to->len);
        n = read(fd, at, CONFIG_FILE_MAX + 1 - to->len);
        if (n > 0)
            to->len += (size_t)n;
    } while ((n > 0 && to->len <= CONFIG_FILE_MAX) || (n < 0 && errno == EINTR));
    if (n < 0)
        return error_set(err, -errno, "could not read \"%s\": %m", path);
    if (to->len > CONFIG_FILE_MAX)
        return error_set(err, -EINVAL, "\"%s\" is larger than the limit of %zu KiB", path,
                         CONFIG_FILE_MAX >> 10);
    return 0;
}

static int read_file(struct config *c, const char *path, struct error *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    int r = read_whole(path, &text, err);

    if (r < 0)
        return r;
    r = config_read_yaml(c, buf_bytes(&text), err);
    if (r < 0)
        return error_prefix(err, r, "%s", path);
    c->file = must_copy(bytes_of(path));
    return 0;
}

/* The value of --config, the last one; NULL when there is none. */
static const char *named_file(const struct config *c, const struct config_input *in)
{
    const char *found = NULL;
    struct flag flag;
    char name[CONFIG_NAME_MAX];

    for (size_t i = 0; i < in->n_args; i++) {
        if (!cut_flag(in->args[i], &flag) || !bytes_are(flag.name, "config"))
            continue;
        if (flag.has_value)
            found = (const char *)flag.value.data;
        else if (i + 1 < in->n_args)
            found = in->args[++i];
    }
    snprintf(name, sizeof(name), "%sCONFIG", c->table->prefix);
    return found ? found : variable(in->env, name);
}

static int find_file(struct config *c, const struct config_input *in, struct error *err)
{
    const char *const *places = c->table->files;
    const char *named = named_file(c, in);

    if (in->text.len > 0)
        return config_read_yaml(c, in->text, err);
    if (named && *named)
        return read_file(c, named, err);
    for (size_t i = 0; in->looks_for_a_file && i < ARRAY_SIZE(c->table->files); i++) {
        if (access(places[i], F_OK) == 0)
            return read_file(c, places[i], err);
    }
    return 0;
}

/* ---- The whole */

/* Defaults are part of the program: one that cannot be read is a mistake in the table. */
static void set_standard(struct config *c, const struct config_key *key, const char *text)
{
    struct error err = {""};

    config_clear_list(c, key);
    int r = config_set_text(c, key, bytes_of(text), &err);
    assert(r == 0);
    (void)r;
    config_end_list(c, key);
}

int config_load(const struct config_table *table, const struct config_input *in,
                struct config **ret, struct error *err)
{
    CLEANUP(config_freep) struct config *c = must_calloc(1, sizeof(*c));

    assert(table->n_keys <= CONFIG_KEYS_MAX);
    c->table = table;
    c->values = must_calloc(1, table->size);
    budget_init(&c->budget, STRINGS_MAX);
    arena_init(&c->arena, &c->budget);
    for (size_t i = 0; i < table->n_keys; i++)
        set_standard(c, &table->keys[i], table->keys[i].standard);
    int r = find_file(c, in, err);
    if (r == 0)
        r = read_variables(c, in->env, err);
    if (r == 0)
        r = read_flags(c, in, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < table->n_keys; i++)
        config_end_list(c, &table->keys[i]);
    *ret = TAKE_PTR(c);
    return 0;
}

void config_free(struct config *c)
{
    if (!c)
        return;
    arena_done(&c->arena);
    free(c->values);
    free(c->file);
    free(c);
}

void *config_values(struct config *c)
{
    return c->values;
}

const char *config_file(const struct config *c)
{
    return c->file;
}

static const struct config_key *known(const struct config *c, const char *name)
{
    const struct config_key *key = config_find(c->table, bytes_of(name));

    assert(key);
    return key;
}

enum config_source config_source_of(const struct config *c, const char *key)
{
    return c->origins[known(c, key) - c->table->keys].source;
}

void config_set_default(struct config *c, const char *key, const char *text, const char *why)
{
    const struct config_key *k = known(c, key);
    struct config_origin *origin = &c->origins[k - c->table->keys];

    if (origin->source != CONFIG_BY_DEFAULT)
        return;
    set_standard(c, k, text);
    origin->name = why;
}

const struct config_key *config_next_change(const struct config_table *table, const void *a,
                                            const void *b, size_t *at)
{
    while (*at < table->n_keys) {
        const struct config_key *key = &table->keys[(*at)++];
        if (!config_values_equal(key, a, b))
            return key;
    }
    return NULL;
}
