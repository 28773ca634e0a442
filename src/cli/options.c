#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/bytes.h"
#include "base/cleanup.h"

enum option_kind {
    OPTION_BOOL,
    OPTION_NOT, /* a bool whose bare name means false */
    OPTION_STRING,
    OPTION_INT,
    OPTION_DOUBLE,
    OPTION_SIZE,
    OPTION_LIST,
    OPTION_COLOR,
    OPTION_GRANULARITY, /* granularity=NAME */
    OPTION_BY,          /* a granularity by its own name */
    OPTION_SAMPLE,      /* a sample type by its own name */
};

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset;
    unsigned groups;
    const char *argument;
    const char *help;
    int value; /* of OPTION_BY */
};

#define AT(field) offsetof(struct options, field)

/* In the order that --help shows them. A NULL help hides an alias. */
static const struct option table[] = {
    {"sample_index", OPTION_STRING, AT(report.sample_index), OPTIONS_FILTER, "TYPE",
     "the sample type to show, by name or number (default: the profile's own choice);\n"
     "                           also -inuse_space, -alloc_objects, -contentions, -total_delay...",
     0},
    {"focus", OPTION_STRING, AT(report.focus), OPTIONS_FILTER, "REGEX",
     "keep only samples with a matching frame", 0},
    {"ignore", OPTION_STRING, AT(report.ignore), OPTIONS_FILTER, "REGEX",
     "drop samples with a matching frame", 0},
    {"hide", OPTION_STRING, AT(report.hide), OPTIONS_FILTER, "REGEX",
     "take matching frames out of stacks", 0},
    {"show", OPTION_STRING, AT(report.show), OPTIONS_FILTER, "REGEX",
     "keep only matching frames in stacks", 0},
    {"show_from", OPTION_STRING, AT(report.show_from), OPTIONS_FILTER, "REGEX",
     "drop the frames above the first match", 0},
    {"prune_from", OPTION_STRING, AT(report.prune_from), OPTIONS_FILTER, "REGEX",
     "drop the frames below a match", 0},
    {"tagfocus", OPTION_STRING, AT(report.tagfocus), OPTIONS_FILTER, "TAGS",
     "keep only samples with matching tags: REGEX, key=REGEX, or key=100kb:1mb", 0},
    {"tagignore", OPTION_STRING, AT(report.tagignore), OPTIONS_FILTER, "TAGS",
     "drop samples with matching tags", 0},
    {"tagshow", OPTION_STRING, AT(report.tagshow), OPTIONS_FILTER, "REGEX",
     "show only matching tag keys", 0},
    {"taghide", OPTION_STRING, AT(report.taghide), OPTIONS_FILTER, "REGEX",
     "leave out matching tag keys", 0},
    {"tagroot", OPTION_STRING, AT(report.tagroot), OPTIONS_FILTER, "KEYS",
     "put the values of these tags at the root of stacks", 0},
    {"tagleaf", OPTION_STRING, AT(report.tagleaf), OPTIONS_FILTER, "KEYS",
     "put the values of these tags at the leaf of stacks", 0},
    {"noinlines", OPTION_BOOL, AT(report.noinlines), OPTIONS_FILTER, NULL,
     "count inlined functions with the function they are in", 0},
    {"base", OPTION_LIST, AT(base), OPTIONS_BASE, "PROFILE",
     "subtract this profile (may be repeated)", 0},
    {"diff_base", OPTION_LIST, AT(diff_base), OPTIONS_BASE, "PROFILE",
     "subtract this profile; percentages are of it", 0},
    {"normalize", OPTION_BOOL, AT(normalize), OPTIONS_BASE, NULL,
     "scale the base so that totals are equal", 0},
    {"mean", OPTION_BOOL, AT(report.mean), OPTIONS_FILTER, NULL,
     "average over the first sample type instead of summing", 0},
    {"drop_negative", OPTION_BOOL, AT(report.drop_negative), OPTIONS_FILTER, NULL,
     "leave out what got smaller", 0},

    {"cum", OPTION_BOOL, AT(report.cum), OPTIONS_REPORT, NULL, "sort by cum", 0},
    {"flat", OPTION_NOT, AT(report.cum), OPTIONS_REPORT, NULL, "sort by flat (the default)", 0},
    {"nodecount", OPTION_INT, AT(report.nodecount), OPTIONS_REPORT, "N", "show at most N entries",
     0},
    {"nodefraction", OPTION_DOUBLE, AT(report.nodefraction), OPTIONS_REPORT, "F",
     "leave out entries below this fraction of the total (0.005)", 0},
    {"edgefraction", OPTION_DOUBLE, AT(report.edgefraction), OPTIONS_REPORT, "F",
     "leave out calls below this fraction of the total (0.001)", 0},
    {"trim", OPTION_BOOL, AT(report.trim), OPTIONS_REPORT, NULL,
     "honour the three options above (true)", 0},
    {"granularity", OPTION_GRANULARITY, AT(report.granularity), OPTIONS_REPORT, "BY",
     "one entry per functions, filefunctions, files, lines, addresses, packages\n"
     "                           or binaries;"
     " their names are options too: -lines",
     0},
    {"functions", OPTION_BY, AT(report.granularity), OPTIONS_REPORT, NULL, NULL,
     GRANULARITY_FUNCTIONS},
    {"filefunctions", OPTION_BY, AT(report.granularity), OPTIONS_REPORT, NULL, NULL,
     GRANULARITY_FILEFUNCTIONS},
    {"files", OPTION_BY, AT(report.granularity), OPTIONS_REPORT, NULL, NULL, GRANULARITY_FILES},
    {"lines", OPTION_BY, AT(report.granularity), OPTIONS_REPORT, NULL, NULL, GRANULARITY_LINES},
    {"addresses", OPTION_BY, AT(report.granularity), OPTIONS_REPORT, NULL, NULL,
     GRANULARITY_ADDRESSES},
    {"packages", OPTION_BY, AT(report.granularity), OPTIONS_REPORT, NULL, NULL,
     GRANULARITY_PACKAGES},
    {"binaries", OPTION_BY, AT(report.granularity), OPTIONS_REPORT, NULL, NULL,
     GRANULARITY_BINARIES},
    {"unit", OPTION_STRING, AT(report.unit), OPTIONS_REPORT, "UNIT",
     "the unit to show values in: ms, MB... or minimum, auto", 0},
    {"divide_by", OPTION_DOUBLE, AT(report.divide_by), OPTIONS_REPORT, "F", "divide all values", 0},
    {"call_tree", OPTION_BOOL, AT(report.call_tree), OPTIONS_REPORT, NULL,
     "keep functions called from different places apart", 0},
    {"relative_percentages", OPTION_BOOL, AT(report.relative_percentages), OPTIONS_REPORT, NULL,
     "percentages of what is shown, not of the whole profile", 0},
    {"compact_labels", OPTION_BOOL, AT(report.compact_labels), OPTIONS_REPORT, NULL,
     "leave out the lines that describe the profile", 0},
    {"showcolumns", OPTION_BOOL, AT(report.showcolumns), OPTIONS_REPORT, NULL,
     "show column numbers with lines", 0},
    {"intel_syntax", OPTION_BOOL, AT(report.intel_syntax), OPTIONS_REPORT, NULL,
     "disassemble in Intel syntax", 0},
    {"trim_path", OPTION_STRING, AT(report.trim_path), OPTIONS_REPORT, "PATHS",
     "prefixes to take off file names, colon-separated", 0},
    {"source_path", OPTION_STRING, AT(report.source_path), OPTIONS_REPORT, "PATHS",
     "where to look for source files, colon-separated", 0},

    {"inuse_space", OPTION_SAMPLE, AT(report.sample_index), OPTIONS_FILTER, NULL, NULL, 0},
    {"inuse_objects", OPTION_SAMPLE, AT(report.sample_index), OPTIONS_FILTER, NULL, NULL, 0},
    {"alloc_space", OPTION_SAMPLE, AT(report.sample_index), OPTIONS_FILTER, NULL, NULL, 0},
    {"alloc_objects", OPTION_SAMPLE, AT(report.sample_index), OPTIONS_FILTER, NULL, NULL, 0},
    {"total_delay", OPTION_SAMPLE, AT(report.sample_index), OPTIONS_FILTER, NULL, NULL, 0},
    {"contentions", OPTION_SAMPLE, AT(report.sample_index), OPTIONS_FILTER, NULL, NULL, 0},

    {"output", OPTION_STRING, AT(output), OPTIONS_OUTPUT, "FILE", "write to FILE (also -o)", 0},
    {"o", OPTION_STRING, AT(output), OPTIONS_OUTPUT, "FILE", NULL, 0},
    {"output", OPTION_STRING, AT(output), OPTIONS_RUN, "DIR",
     "write files to DIR (also -o; default ./profiles, unless there is a server)", 0},
    {"o", OPTION_STRING, AT(output), OPTIONS_RUN, "DIR", NULL, 0},
    {"types", OPTION_STRING, AT(types), OPTIONS_RUN, "LIST",
     "what to sample: alloc, live, lock, threads, custom; with commas (default: all)", 0},
    {"interval", OPTION_SIZE, AT(interval), OPTIONS_RUN, "SIZE",
     "allocations: a sample for about so many bytes (default 512KiB)", 0},
    {"lock-interval", OPTION_STRING, AT(lock_interval), OPTIONS_RUN, "DURATION",
     "locks: a sample for about so long a wait (default 1ms)", 0},
    {"window", OPTION_STRING, AT(window), OPTIONS_RUN, "DURATION",
     "how long a profile is (default 10s)", 0},
    {"leak-windows", OPTION_INT, AT(leak_windows), OPTIONS_RUN, "N",
     "leak suspects are older than N windows, and grow (default 3)", 0},
    {"off", OPTION_BOOL, AT(is_off), OPTIONS_RUN, NULL,
     "begin with sampling off; SIGUSR2 to this program switches it on and off", 0},
    {"json", OPTION_BOOL, AT(json), OPTIONS_JSON, NULL, "write JSON, for scripts", 0},
    {"csv", OPTION_BOOL, AT(csv), OPTIONS_CSV, NULL, "write CSV, for spreadsheets", 0},
    {"color", OPTION_COLOR, AT(color), OPTIONS_OUTPUT, "WHEN",
     "colour: auto (on a terminal, unless NO_COLOR is set), always or never", 0},

    {"to", OPTION_STRING, AT(to), OPTIONS_CONVERT, "FORMAT",
     "the format to write (default: by the name of the output file)", 0},
    {"fail-if", OPTION_STRING, AT(fail_if), OPTIONS_DIFF, "RULES",
     "exit with 4 when a rule holds: 'total>+5%', 'flat(regex)>+10ms', 'cum(regex)>+2%'", 0},
    {"check", OPTION_BOOL, AT(check), OPTIONS_INFO, NULL,
     "check an OTLP file against the rules of the standard", 0},
    {"title", OPTION_STRING, AT(title), OPTIONS_FLAME, "TEXT", "the title of the picture", 0},
    {"format", OPTION_STRING, AT(to), OPTIONS_FLAME, "FORMAT",
     "svg or html (default: by the name of the output file, else svg)", 0},
    {"invert", OPTION_BOOL, AT(invert), OPTIONS_FLAME, NULL,
     "start stacks at the leaf: who calls the hot code", 0},

    {"input-format", OPTION_STRING, AT(input_format), OPTIONS_INPUT, "FORMAT",
     "read as this format instead of telling it by content", 0},
    {"symbolize", OPTION_STRING, AT(symbolize), OPTIONS_INPUT, "MODE",
     "local (default), none, force; demangle=full|templates|default|none", 0},
    {"binary-path", OPTION_STRING, AT(binary_path), OPTIONS_INPUT, "PATHS",
     "where to look for binaries and debug files, colon-separated", 0},
    {"seconds", OPTION_INT, AT(seconds), OPTIONS_INPUT, "N", "how long a profile to ask a URL for",
     0},
    {"timeout", OPTION_INT, AT(timeout), OPTIONS_INPUT, "N",
     "give up on a URL that is silent for N seconds (60 + what was asked for)", 0},
    {"max-memory", OPTION_SIZE, AT(max_memory), OPTIONS_INPUT, "SIZE",
     "stop rather than use more than this: 512MiB, 4GiB (default 1GiB)", 0},
    {"data", OPTION_STRING, AT(data), OPTIONS_DATA, "DIR",
     "the data directory (default: VESTA_DATA of the environment)", 0},
    {"url", OPTION_STRING, AT(url), OPTIONS_SERVER, "URL",
     "the server: http://host:4040, unix:/path (default: VESTA_URL of the environment)", 0},
    {"token", OPTION_STRING, AT(token), OPTIONS_SERVER, "TOKEN",
     "who asks (default: VESTA_TOKEN, which other users of the machine cannot see)", 0},
    {"ca-file", OPTION_STRING, AT(ca_file), OPTIONS_SERVER, "FILE",
     "trust the certificates in FILE instead of the system's", 0},
    {"cert", OPTION_STRING, AT(cert_file), OPTIONS_SERVER, "FILE",
     "the client's certificate, for servers that ask for one", 0},
    {"key", OPTION_STRING, AT(key_file), OPTIONS_SERVER, "FILE", "its key (default: in -cert)", 0},
    {"tenant", OPTION_STRING, AT(tenant), OPTIONS_DATA | OPTIONS_SERVER, "NAME",
     "whose data (default)", 0},
    {"store-memory", OPTION_SIZE, AT(store_memory), OPTIONS_DATA, "SIZE",
     "what the store may keep in memory (default 256MiB)", 0},
    {"quiet", OPTION_BOOL, AT(quiet), OPTIONS_DATA | OPTIONS_PUSH, NULL,
     "say nothing about recovery or progress", 0},
    {"quiet", OPTION_BOOL, AT(quiet), OPTIONS_RUN, NULL, "no summary at the end", 0},
    {"from", OPTION_STRING, AT(from), OPTIONS_RANGE | OPTIONS_SELECT | OPTIONS_PUSH, "TIME",
     "start of the range: now-1h (default), 2026-03-01T12:00:00Z, seconds since 1970", 0},
    {"until", OPTION_STRING, AT(until), OPTIONS_RANGE | OPTIONS_SELECT | OPTIONS_PUSH, "TIME",
     "end of the range, not included (default now)", 0},
    {"step", OPTION_STRING, AT(step), OPTIONS_RANGE, "DURATION",
     "length of a step over time: 10s, 5m (default: about 120 steps)", 0},
    {"by", OPTION_STRING, AT(by), OPTIONS_RANGE, "LABELS",
     "group a timeline by these labels, comma-separated", 0},
    {"instant", OPTION_STRING, AT(instant), OPTIONS_RANGE | OPTIONS_SELECT, "HOW",
     "what moments (live heap, goroutines) mean together: average (default), last, peak, sum", 0},
    {"limit", OPTION_INT, AT(limit), OPTIONS_RANGE, "N", "at most N profiles, rows or lines", 0},
    {"id", OPTION_STRING, AT(profile_id), OPTIONS_RANGE, "HEX", "the profile with this id", 0},
    {"trace", OPTION_STRING, AT(trace_id), OPTIONS_RANGE, "HEX", "profiles taken in this trace", 0},
    {"span", OPTION_STRING, AT(span_id), OPTIONS_RANGE, "HEX", "profiles taken in this span", 0},
    {"under", OPTION_LIST, AT(under), OPTIONS_RANGE, "FRAME",
     "show a tree below this frame; repeated from the outermost frame inwards", 0},
    {"service", OPTION_STRING, AT(service), OPTIONS_RUN, "NAME",
     "whose profiles these are (default: OTEL_SERVICE_NAME, service.name of "
     "OTEL_RESOURCE_ATTRIBUTES, else the command's name)",
     0},
    {"service", OPTION_STRING, AT(service), OPTIONS_PUSH, "NAME",
     "whose profiles these are: short for -label service.name=NAME", 0},
    {"label", OPTION_LIST, AT(labels), OPTIONS_RUN, "NAME=VALUE",
     "an attribute of the resource (may be repeated)", 0},
    {"label", OPTION_LIST, AT(labels), OPTIONS_IMPORT | OPTIONS_PUSH, "NAME=VALUE",
     "a label of what is brought in, over what the file says (may be repeated)", 0},
    {"format", OPTION_STRING, AT(input_format), OPTIONS_PUSH, "FORMAT",
     "what is pushed is of this format, whatever it looks like", 0},
    {"retry-for", OPTION_STRING, AT(retry_for), OPTIONS_RUN, "DURATION",
     "at the end, how long to try when nobody answers (default 10s; 0: once)", 0},
    {"retry-for", OPTION_STRING, AT(retry_for), OPTIONS_PUSH, "DURATION",
     "how long to try again when nobody answers (default 1m; 0s: not at all)", 0},
    {"watch", OPTION_STRING, AT(watch), OPTIONS_PUSH, "DIR",
     "push every file that is put into DIR, until SIGTERM", 0},
    {"done", OPTION_STRING, AT(done_dir), OPTIONS_PUSH, "DIR",
     "of -watch: move files there once they are stored", 0},
    {"sources", OPTION_STRING, AT(sources), OPTIONS_PUSH, "DIR",
     "push the source files of DIR instead, as those of the label version or commit", 0},
    {"write-svg", OPTION_BOOL, AT(write_svg), OPTIONS_PUSH, NULL,
     "write a flame graph beside each file, FILE.svg", 0},
    {"write-speedscope", OPTION_BOOL, AT(write_speedscope), OPTIONS_PUSH, NULL,
     "write FILE.speedscope.json beside each file", 0},
    {"s3-endpoint", OPTION_STRING, AT(s3_endpoint), OPTIONS_S3, "URL",
     "where s3://BUCKET/KEY is (default: AWS_ENDPOINT_URL, else Amazon's for the region)", 0},
    {"s3-region", OPTION_STRING, AT(s3_region), OPTIONS_S3, "NAME",
     "the bucket's region (default: AWS_REGION, else us-east-1)", 0},
    {"moment", OPTION_BOOL, AT(is_instant_profile), OPTIONS_IMPORT | OPTIONS_PUSH, NULL,
     "values were found at a moment (live heap), not counted over a window", 0},
    {"max-age", OPTION_STRING, AT(max_age), OPTIONS_IMPORT, "DURATION",
     "of a policy: keep profiles this long, 7d (default: the store's, 30d)", 0},
    {"max-span-age", OPTION_STRING, AT(max_span_age), OPTIONS_IMPORT, "DURATION",
     "of a policy: keep spans this long (default: the store's, 7d)", 0},
    {"max-size", OPTION_SIZE, AT(max_size), OPTIONS_IMPORT, "SIZE",
     "of a policy: at most this much on disk, oldest gone first", 0},
    {"name", OPTION_STRING, AT(name), OPTIONS_TOKEN, "NAME",
     "what the token is for; the audit log names it", 0},
    {"roles", OPTION_STRING, AT(roles), OPTIONS_TOKEN, "ROLES",
     "what it may do: ingest, read, admin (default ingest,read)", 0},
    {"expires", OPTION_STRING, AT(expires), OPTIONS_TOKEN, "DURATION",
     "how long it holds: 90d (default: until it is revoked)", 0},
    {"help", OPTION_BOOL, AT(help), OPTIONS_INPUT | OPTIONS_TOKEN | OPTIONS_RUN, NULL,
     "show this help (also -h)", 0},
    {"h", OPTION_BOOL, AT(help), OPTIONS_INPUT | OPTIONS_TOKEN | OPTIONS_RUN, NULL, NULL, 0},
};

void options_init(struct options *o)
{
    *o = (struct options){.max_memory = BUDGET_DEFAULT_BYTES};
    report_options_init(&o->report);
}

void options_done(struct options *o)
{
    free(o->args);
    o->args = NULL;
}

const char *options_name(size_t n)
{
    return n < ARRAY_SIZE(table) ? table[n].name : NULL;
}

/* Dashes and underscores are the same to people. */
static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        bool both_dash = (*a == '-' || *a == '_') && (*b == '-' || *b == '_');
        if (*a != *b && !both_dash)
            return false;
    }
    return *a == *b;
}

static const struct option *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (same_name(table[i].name, name))
            return &table[i];
    }
    return NULL;
}

/* A name may mean something else to other commands. */
static const struct option *find_in(const char *name, unsigned groups)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if ((table[i].groups & groups) && same_name(table[i].name, name))
            return &table[i];
    }
    return NULL;
}

static bool takes_value(const struct option *option)
{
    switch (option->kind) {
    case OPTION_BOOL:
    case OPTION_NOT:
    case OPTION_BY:
    case OPTION_SAMPLE:
        return false;
    default:
        return true;
    }
}

static bool parse_bool(const char *value, bool *ret)
{
    static const char *const yes[] = {"true", "t", "yes", "y", "1", "on"};
    static const char *const no[] = {"false", "f", "no", "n", "0", "off"};

    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        if (strcasecmp(value, yes[i]) == 0 || strcasecmp(value, no[i]) == 0) {
            *ret = strcasecmp(value, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

static bool parse_size(const char *value, size_t *ret)
{
    uint64_t n;

    if (!bytes_to_size(bytes_of(value), &n))
        return false;
    *ret = (size_t)n;
    return true;
}

static bool parse_color(const char *value, enum color_mode *ret)
{
    static const char *const names[] = {"auto", "always", "never"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(value, names[i]) == 0) {
            *ret = (enum color_mode)i;
            return true;
        }
    }
    return false;
}

static bool parse_granularity(const char *value, enum granularity *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (table[i].kind == OPTION_BY && strcmp(table[i].name, value) == 0) {
            *ret = (enum granularity)table[i].value;
            return true;
        }
    }
    return false;
}

bool options_parse_count(const char *text, int *ret)
{
    size_t digits = strspn(text, "0123456789");
    uint64_t v;

    if (digits == 0 || text[digits])
        return false;
    /* A number that is too large for us is one that limits nothing. */
    bool fits = bytes_to_u64(bytes_of(text), &v) && v <= INT32_MAX;
    *ret = fits ? (int)v : INT32_MAX;
    return true;
}

static bool parse_int(const char *value, int *ret)
{
    if (strcmp(value, "-1") != 0)
        return options_parse_count(value, ret);
    *ret = -1;
    return true;
}

static bool list_add(struct option_list *list, const char *value)
{
    if (list->n == OPTION_LIST_MAX)
        return false;
    list->items[list->n++] = value;
    return true;
}

/* Stores a value in its field; false when it cannot be understood. */
static bool store(struct options *o, const struct option *option, const char *value)
{
    void *field = (char *)o + option->offset;
    double number;
    bool yes;

    switch (option->kind) {
    case OPTION_BOOL:
        return parse_bool(value, field);
    case OPTION_NOT:
        if (!parse_bool(value, field))
            return false;
        *(bool *)field = !*(bool *)field;
        return true;
    case OPTION_STRING:
        *(const char **)field = *value ? value : NULL;
        return true;
    case OPTION_INT:
        return parse_int(value, field);
    case OPTION_DOUBLE:
        return bytes_to_double(bytes_of(value), &number) && isfinite(number) &&
               (*(double *)field = number, true);
    case OPTION_SIZE:
        return parse_size(value, field);
    case OPTION_LIST:
        return list_add(field, value);
    case OPTION_COLOR:
        return parse_color(value, field);
    case OPTION_GRANULARITY:
        return parse_granularity(value, field);
    case OPTION_BY:
        if (!parse_bool(value, &yes))
            return false;
        if (yes)
            *(enum granularity *)field = (enum granularity)option->value;
        return true;
    case OPTION_SAMPLE:
        if (!parse_bool(value, &yes))
            return false;
        if (yes)
            *(const char **)field =
                strcmp(option->name, "total_delay") == 0 ? "delay" : option->name;
        return true;
    }
    return false;
}

/* What a value must look like, for people who typed another. */
static const char *wanted(const struct option *option)
{
    switch (option->kind) {
    case OPTION_INT:
        return "a whole number";
    case OPTION_DOUBLE:
        return "a number";
    case OPTION_SIZE:
        return "a size such as 512MiB or 4GiB";
    case OPTION_COLOR:
        return "auto, always or never";
    case OPTION_GRANULARITY:
        return "functions, filefunctions, files, lines, addresses, packages or binaries";
    case OPTION_LIST:
        return "at most 32 profiles";
    default:
        return "true or false";
    }
}

static int set(struct options *o, const struct option *option, const char *value, struct error *err)
{
    if (!value && takes_value(option))
        return error_set(err, -EINVAL, "%s needs a value: %s=%s", option->name, option->name,
                         option->argument);
    if (!store(o, option, value ? value : "true"))
        return error_set(err, -EINVAL, "\"%s\" is not a value that %s can have: it takes %s", value,
                         option->name, wanted(option));
    return 0;
}

int options_set(struct options *o, const char *name, const char *value, struct error *err)
{
    const struct option *option = find(name);

    if (!option)
        return error_set(err, -ENOENT, "there is no option \"%s\"", name);
    return set(o, option, value, err);
}

bool options_is_one_of(const char *name, unsigned groups)
{
    return find_in(name, groups) != NULL;
}

static const char *closest(const char *name, unsigned groups)
{
    const char *best = NULL;
    size_t best_distance = 3;

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        size_t d = bytes_distance(bytes_of(name), bytes_of(table[i].name));
        if (d < best_distance && d < strlen(table[i].name) && (table[i].groups & groups)) {
            best_distance = d;
            best = table[i].name;
        }
    }
    return best;
}

static int unknown(const char *name, unsigned groups, struct error *err)
{
    const char *near = closest(name, groups);
    return error_set(err, -EINVAL, "there is no option \"-%s\"%s%s%s", name,
                     near ? "; did you mean \"-" : "", near ? near : "", near ? "\"?" : "");
}

/* One option of argv; *at is left on the last word used. */
static int parse_one(struct options *o, int argc, char **argv, int *at, unsigned groups,
                     struct error *err)
{
    const char *word = argv[*at] + (argv[*at][1] == '-' ? 2 : 1);
    size_t len = strcspn(word, "=");
    char name[64];

    snprintf(name, sizeof(name), "%.*s", (int)(len < 63 ? len : 63), word);
    const struct option *option = find_in(name, groups);
    if (!option && find(name))
        return error_set(err, -EINVAL, "this command has no option \"-%s\"", name);
    if (!option)
        return unknown(name, groups, err);
    const char *value = word[len] == '=' ? word + len + 1 : NULL;
    if (!value && takes_value(option)) {
        if (*at + 1 >= argc)
            return error_set(err, -EINVAL, "-%s needs a value: -%s=%s", option->name, option->name,
                             option->argument);
        value = argv[++*at];
    }
    return set(o, option, value, err);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-help") == 0 || strcmp(word, "-h") == 0;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* What is said counts more than what is set; a server that is set more than a directory. */
static void take_environment(struct options *o)
{
    if (!o->url && !o->data)
        o->url = variable("VESTA_URL");
    if (!o->data)
        o->data = variable("VESTA_DATA");
    if (!o->token)
        o->token = variable("VESTA_TOKEN");
}

int options_parse(struct options *o, int argc, char **argv, unsigned groups, struct error *err)
{
    bool only_args = groups & OPTIONS_CONFIG, is_command = false;

    o->args = calloc((size_t)argc + 1, sizeof(*o->args));
    if (!o->args)
        abort();
    for (int i = 1; i < argc; i++) {
        is_command = is_command || strcmp(argv[i], "--") == 0; /* whose words are its own */
        if ((groups & OPTIONS_CONFIG) && !is_command && is_help(argv[i]))
            o->help = true;
        else if (only_args || argv[i][0] != '-' || argv[i][1] == '\0') {
            o->args[o->n_args++] = argv[i];
            only_args = only_args || (groups & OPTIONS_RUN);
        } else if (strcmp(argv[i], "--") == 0)
            only_args = true;
        else {
            int r = parse_one(o, argc, argv, &i, groups, err);
            if (r < 0)
                return r;
        }
    }
    if (o->json && o->csv)
        return error_set(err, -EINVAL, "--json and --csv exclude each other");
    if (o->data && o->url)
        return error_set(err, -EINVAL, "--data and --url exclude each other");
    take_environment(o);
    o->report.output = o->json ? REPORT_JSON : o->csv ? REPORT_CSV : REPORT_TEXT;
    return 0;
}

void options_help(FILE *out, unsigned groups)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        const struct option *option = &table[i];
        char left[64];
        if (!option->help || !(option->groups & groups))
            continue;
        snprintf(left, sizeof(left), "-%s%s%s", option->name, option->argument ? "=" : "",
                 option->argument ? option->argument : "");
        fprintf(out, "  %-24s %s\n", left, option->help);
    }
}

static void show_value(const struct options *o, const struct option *option, FILE *out)
{
    const void *field = (const char *)o + option->offset;
    const char *text;

    switch (option->kind) {
    case OPTION_BOOL:
        fputs(*(const bool *)field ? "true" : "false", out);
        break;
    case OPTION_STRING:
        text = *(const char *const *)field;
        fprintf(out, "\"%s\"", text ? text : "");
        break;
    case OPTION_INT:
        fprintf(out, "%d", *(const int *)field);
        break;
    case OPTION_DOUBLE:
        fprintf(out, "%g", *(const double *)field);
        break;
    case OPTION_GRANULARITY:
        text = "default";
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
            if (table[i].kind == OPTION_BY &&
                table[i].value == (int)*(const enum granularity *)field)
                text = table[i].name;
        }
        fputs(text, out);
        break;
    default:
        break;
    }
}

void options_show(const struct options *o, FILE *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        const struct option *option = &table[i];
        if (!option->help || !(option->groups & (OPTIONS_FILTER | OPTIONS_REPORT)) ||
            option->kind == OPTION_LIST || option->kind == OPTION_NOT)
            continue;
        fprintf(out, "  %-24s = ", option->name);
        show_value(o, option, out);
        fputc('\n', out);
    }
}
