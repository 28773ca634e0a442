#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/report.h"

/*
 * The options of the command line and of the prompt, from one table: parsing, the prompt's
 * `name=value` and the help texts all come from it. pprof's names, with one dash or two.
 */
#define OPTION_LIST_MAX 32

enum color_mode { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct option_list {
    const char *items[OPTION_LIST_MAX];
    size_t n;
};

struct options {
    struct report_options report;

    struct option_list base, diff_base; /* profiles to subtract */
    bool normalize;
    const char *output;       /* -o: where to write; NULL is standard output */
    const char *to;           /* the format to write */
    const char *input_format; /* the format to read, when detection must be overruled */
    const char *symbolize;    /* none, local, force, demangle=MODE; comma or colon separated */
    const char *binary_path;  /* where to look for binaries */
    const char *fail_if;
    const char *title;
    size_t max_memory;
    int seconds;
    int timeout;
    bool json, csv;
    bool check;
    bool invert;
    enum color_mode color;
    bool help;

    /* Of the store. */
    const char *data; /* the data directory */
    const char *tenant;
    const char *from, *until; /* the range */
    const char *step, *by, *instant;
    const char *profile_id, *trace_id, *span_id; /* in hex */
    struct option_list under;                    /* names from the outermost frame inwards */
    struct option_list labels;                   /* NAME=VALUE of what is imported */
    int limit;
    size_t store_memory;
    const char *max_age, *max_span_age; /* of a tenant's policy */
    const char *name, *roles, *expires; /* of a token */
    size_t max_size;
    bool quiet;
    bool is_query;           /* sources are selections */
    bool is_labelled;        /* of whole profiles, for the labels of their samples */
    bool is_instant_profile; /* what is imported was found at a moment */

    /* Of a server. */
    const char *url; /* NULL when --data was said, or neither */
    const char *token;
    const char *ca_file, *cert_file, *key_file;

    /* Of what is pushed. */
    const char *service;
    const char *watch, *done_dir; /* folders */
    const char *sources;          /* a folder with source files, instead of profiles */
    const char *retry_for;
    bool write_svg, write_speedscope;
    const char *s3_endpoint, *s3_region;

    /* Of what is run. */
    const char *types;         /* what is sampled, with commas */
    size_t interval;           /* bytes; 0: the default */
    const char *lock_interval; /* a duration */
    const char *window;
    int leak_windows;
    bool is_off; /* sampling begins when it is switched on */

    /* What is not an option: sources, a regex, a count. Borrowed from argv. */
    const char **args;
    size_t n_args;
};

void options_init(struct options *o);
void options_done(struct options *o);

/* Which options a command takes; ORed. */
enum option_group {
    OPTIONS_INPUT = 1,    /* reading, memory, symbols: every command */
    OPTIONS_FILTER = 2,   /* focus, tags, sample_index... */
    OPTIONS_REPORT = 4,   /* sorting, cutting, units */
    OPTIONS_OUTPUT = 8,   /* -o, colour */
    OPTIONS_CONVERT = 16, /* the format to write */
    OPTIONS_DIFF = 32,
    OPTIONS_INFO = 64,
    OPTIONS_FLAME = 128,
    OPTIONS_JSON = 256,
    OPTIONS_CSV = 512,
    OPTIONS_BASE = 1024, /* what to subtract */
    OPTIONS_DATA = 2048, /* the data directory */
    OPTIONS_RANGE = 4096,
    OPTIONS_IMPORT = 8192,
    OPTIONS_CONFIG = 16384, /* of a server's config: all words are left in args, but for --help */
    OPTIONS_SERVER = 32768, /* which server, and who asks */
    OPTIONS_SELECT = 65536, /* the range, for what takes selections as well as files */
    OPTIONS_PUSH = 131072,
    OPTIONS_S3 = 262144,
    OPTIONS_TOKEN = 524288,
    OPTIONS_RUN = 1048576, /* the first word that is no option begins a command */
};

/* Parses argv[1..]; -EINVAL with the option and what it takes, or the closest name there is. */
int options_parse(struct options *o, int argc, char **argv, unsigned groups, struct error *err);

/* Sets one option by name, as the prompt's `name=value` does; value NULL is a bare name. -ENOENT
 * when there is no such option. `value` is borrowed. */
int options_set(struct options *o, const char *name, const char *value, struct error *err);

/* Whether there is an option of this name in one of the groups. */
bool options_is_one_of(const char *name, unsigned groups);

/* How many entries to show: digits only. What is past an int is as good as no limit. */
bool options_parse_count(const char *text, int *ret);

/* The options of these groups, with their help. */
void options_help(FILE *out, unsigned groups);

/* Names of all options, for completion: the n-th, or NULL past the end. */
const char *options_name(size_t n);

/* "name = value" of everything the prompt can set, as `options` shows it. */
void options_show(const struct options *o, FILE *out);
