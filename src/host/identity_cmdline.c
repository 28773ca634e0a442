#include "base/cleanup.h"
#include "host/identity_internal.h"

struct bytes identity_base_name(struct bytes path)
{
    const uint8_t *slash = bytes_find_last_byte(path, '/');

    return slash ? bytes_from(path, (size_t)(slash - path.data) + 1) : path;
}

static bool ends_with(struct bytes s, const char *tail)
{
    struct bytes t = bytes_of(tail);

    return s.len >= t.len && bytes_equal(bytes_from(s, s.len - t.len), t);
}

/* Options that take the next argument, separated by blanks. */
struct language {
    const char *program; /* digits and dots may follow */
    const char *runtime, *variable;
    const char *takes_next;
    const char *names;   /* the next argument is what runs: a module, a jar */
    const char *inlined; /* no file runs: a program on the command line */
    const char *suffixes;
};

static const struct language languages[] = {
    {"python", "cpython", "PYTHON_VERSION", "-W -X --check-hash-based-pycs", "-m", "-c -",
     ".py .pyc"},
    {"pypy", "pypy", NULL, "-W -X", "-m", "-c -", ".py"},
    {"node", "nodejs", "NODE_VERSION",
     "-r --require --import --loader --experimental-loader -C --conditions --env-file --title "
     "--icu-data-dir --openssl-config --diagnostic-dir",
     "", "-e --eval -p --print -i -", ".js .mjs .cjs .ts"},
    {"nodejs", "nodejs", "NODE_VERSION", "-r --require --import --loader", "", "-e -p -i",
     ".js .mjs .cjs"},
    {"bun", "bun", "BUN_VERSION", "-r --preload", "run", "-e", ".js .mjs .ts"},
    {"deno", "deno", "DENO_VERSION", "", "run", "eval", ".js .mjs .ts"},
    {"java", "jvm", "JAVA_VERSION",
     "-cp -classpath --class-path -p --module-path --add-modules --add-opens --add-exports "
     "--add-reads --upgrade-module-path",
     "-jar -m --module", "", ".jar .war"},
    {"ruby", "ruby", "RUBY_VERSION", "-r -I -C -E", "", "-e", ".rb"},
    {"perl", "perl", NULL, "-I", "", "-e -E", ".pl"},
    {"php", "php", "PHP_VERSION", "-d -c", "-f", "-r", ".php"},
    {"dotnet", "dotnet", "DOTNET_VERSION", "--additionalprobingpath --depsfile --runtimeconfig",
     "exec", "", ".dll"},
    {"sh", NULL, NULL, "-o", "", "-c -s", ".sh"},
    {"bash", NULL, NULL, "-o -O --rcfile --init-file", "", "-c -s -i", ".sh"},
    {"dash", NULL, NULL, "-o", "", "-c -s", ".sh"},
};

/* Whether a word is one of a list. */
static bool is_among(struct bytes word, const char *list)
{
    struct bytes rest = bytes_of(list);

    while (rest.len > 0) {
        const uint8_t *blank = bytes_find_byte(rest, ' ');
        size_t n = blank ? (size_t)(blank - rest.data) : rest.len;
        if (n == word.len && memcmp(rest.data, word.data, n) == 0)
            return true;
        rest = bytes_from(rest, n + 1);
    }
    return false;
}

/* What follows the language's name in that of a program: "3.11"; false: another program. */
static bool version_of(struct bytes base, const char *program, struct bytes *ret)
{
    struct bytes name = bytes_of(program);

    if (!bytes_start_with(base, name))
        return false;
    struct bytes version = bytes_from(base, name.len);
    for (size_t i = 0; i < version.len; i++) {
        if ((version.data[i] < '0' || version.data[i] > '9') && version.data[i] != '.')
            return false;
    }
    *ret = version;
    return true;
}

static const struct language *language_of(struct bytes base, struct bytes *ret_version)
{
    for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
        if (version_of(base, languages[i].program, ret_version))
            return &languages[i];
    }
    return NULL;
}

bool identity_runtime_of(struct bytes base, struct identity_runtime *ret)
{
    struct bytes version;
    const struct language *l = language_of(base, &version);

    if (!l)
        return false;
    /* python3 is no version of anything. */
    bool is_whole = bytes_find_byte(version, '.') != NULL;
    *ret =
        (struct identity_runtime){l->runtime, is_whole ? version : (struct bytes){0}, l->variable};
    return true;
}

static bool next_argument(struct bytes *rest, struct bytes *ret)
{
    if (rest->len == 0)
        return false;
    const uint8_t *nul = bytes_find_byte(*rest, '\0');
    size_t n = nul ? (size_t)(nul - rest->data) : rest->len;
    *ret = bytes_head(*rest, n);
    *rest = bytes_from(*rest, n + 1);
    return true;
}

static struct bytes without_suffix(struct bytes name, const char *suffixes)
{
    const uint8_t *dot = bytes_find_last_byte(name, '.');

    if (!dot || dot == name.data)
        return name;
    size_t n = (size_t)(dot - name.data);
    return is_among(bytes_from(name, n), suffixes) ? bytes_head(name, n) : name;
}

/* "shop-1.2.3-SNAPSHOT" without what begins with "-" and a digit. */
static struct bytes without_version(struct bytes name)
{
    for (size_t i = 1; i + 1 < name.len; i++) {
        if (name.data[i] == '-' && name.data[i + 1] >= '0' && name.data[i + 1] <= '9')
            return bytes_head(name, i);
    }
    return name;
}

/* Names that every program has: the folder tells more. */
#define COMMON_NAMES                                                                               \
    "index main app server run manage wsgi asgi __main__ start cli program bootstrap worker web"
#define COMMON_FOLDERS "dist build src lib bin out app server target . .."

static struct bytes name_of_script(struct bytes path, const struct language *l)
{
    /* A descriptor's number is no name. */
    if (bytes_start_with(path, BYTES("/dev/")) || bytes_start_with(path, BYTES("/proc/")))
        return (struct bytes){0};
    struct bytes name = without_suffix(identity_base_name(path), l->suffixes);

    if (bytes_are(bytes_of(l->program), "java"))
        name = without_version(name);
    struct bytes folder = path;
    for (int i = 0; i < 4 && is_among(name, i == 0 ? COMMON_NAMES : COMMON_FOLDERS); i++) {
        const uint8_t *slash = bytes_find_last_byte(folder, '/');
        if (!slash || slash == folder.data)
            break;
        folder = bytes_head(folder, (size_t)(slash - folder.data));
        struct bytes above = identity_base_name(folder);
        if (above.len == 0)
            break;
        name = above;
    }
    /* All the way up were names that say nothing. */
    if (is_among(name, COMMON_FOLDERS))
        name = without_suffix(identity_base_name(path), l->suffixes);
    return name;
}

/* com.acme.shop.Main, acme.shop/com.acme.Main: the class, or its package when it is a Main. */
static struct bytes name_of_class(struct bytes name)
{
    name = identity_base_name(name);
    const uint8_t *dot = bytes_find_last_byte(name, '.');
    if (!dot)
        return name;
    struct bytes package = bytes_head(name, (size_t)(dot - name.data));
    struct bytes class = bytes_from(name, package.len + 1);
    if (!bytes_are(class, "Main") && !bytes_are(class, "Application") && !bytes_are(class, "App"))
        return class;
    dot = bytes_find_last_byte(package, '.');
    return dot ? bytes_from(package, (size_t)(dot - package.data) + 1) : package;
}

/* python -m acme.shop.server: as it is, without "__main__". */
static struct bytes name_of_module(struct bytes name, const struct language *l)
{
    if (bytes_find_byte(name, '/') || ends_with(name, ".jar"))
        return name_of_script(name, l);
    if (ends_with(name, ".__main__"))
        name.len -= 9;
    return name;
}

/* "puma 5.6.4 (tcp://0.0.0.0:3000) [shop]": what servers of Ruby write over their arguments. */
static struct bytes name_in_brackets(struct bytes title)
{
    const uint8_t *open = bytes_find_last_byte(title, '[');

    if (!open || !ends_with(title, "]"))
        return (struct bytes){0};
    struct bytes name = bytes_from(title, (size_t)(open - title.data) + 1);
    return bytes_head(name, name.len - 1);
}

struct bytes identity_script(struct bytes base, struct bytes cmdline)
{
    struct bytes version, argument, rest = cmdline;
    const struct language *l = language_of(base, &version);

    if (!l || !next_argument(&rest, &argument))
        return (struct bytes){0};
    if (bytes_find(argument, BYTES(" ["))) {
        struct bytes name = name_in_brackets(bytes_trim(argument));
        if (name.len > 0)
            return name;
    }
    bool is_java = bytes_are(bytes_of(l->program), "java");
    while (next_argument(&rest, &argument)) {
        if (argument.len == 0)
            continue;
        if (is_among(argument, l->inlined))
            break;
        if (is_among(argument, l->names)) {
            if (!next_argument(&rest, &argument))
                break;
            return is_java && !ends_with(argument, ".jar") && !ends_with(argument, ".war")
                       ? name_of_class(argument)
                       : name_of_module(argument, l);
        }
        if (is_among(argument, l->takes_next)) {
            (void)next_argument(&rest, &argument);
            continue;
        }
        if (argument.data[0] == '-' || (is_java && argument.data[0] == '@'))
            continue;
        return is_java ? name_of_class(argument) : name_of_script(argument, l);
    }
    return (struct bytes){0};
}

struct bytes identity_java_property(struct bytes cmdline, const char *name)
{
    struct bytes argument, wanted = bytes_of(name);

    while (next_argument(&cmdline, &argument)) {
        if (!bytes_start_with(argument, BYTES("-D")))
            continue;
        struct bytes property = bytes_from(argument, 2);
        if (bytes_start_with(property, wanted) && property.len > wanted.len &&
            property.data[wanted.len] == '=')
            return bytes_from(property, wanted.len + 1);
    }
    return (struct bytes){0};
}
