#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * Configuration from one table: each row is a YAML key, a flag, an environment variable, a default
 * and a paragraph of the reference page.
 *
 *     tls.cert_file    tls: {cert_file: X}    --tls-cert-file X    VESTA_TLS_CERT_FILE=X
 *
 * A flag wins over a variable, a variable over the file, the file over the default. Files are read
 * strictly: what is unknown, given twice or of another type is refused, naming file and line.
 */
#define CONFIG_LIST_MAX   64
#define CONFIG_FILE_MAX   ((size_t)256 << 10)
#define CONFIG_STRING_MAX 4096
#define CONFIG_KEYS_MAX   128

/* Strings are never NULL. They live as long as the config. */
struct config_list {
    const char *items[CONFIG_LIST_MAX];
    size_t n;
};

enum config_type {                  /* what the field is */
                   CONFIG_STRING,   /* const char * */
                   CONFIG_LIST,     /* struct config_list; "off" alone is an empty one */
                   CONFIG_BOOL,     /* bool */
                   CONFIG_U32,      /* uint32_t */
                   CONFIG_U64,      /* uint64_t */
                   CONFIG_BYTES,    /* uint64_t, "64MiB" */
                   CONFIG_DURATION, /* int64_t in ns, "30d" */
                   CONFIG_NODE,     /* const struct config_node *, NULL if empty: files only */
};

enum {
    CONFIG_SECRET = 1,  /* never shown */
    CONFIG_RELOADS = 2, /* may change while the server runs */
    CONFIG_WHOLE = 4,   /* list items may have commas: in flags and variables, one per line */
};

struct config_key {
    const char *name;
    enum config_type type;
    size_t offset;
    const char *standard; /* the default, as it would be written; lists with commas */
    const char *help;     /* sentences */
    unsigned flags;
    const char *choices; /* of a string or of list items: "auto|on|off"; NULL: any */
    uint64_t min, max;   /* of numbers, durations in ns; a max of 0 is none */
    const char *also;    /* another variable that is honoured, behind our own; NULL */
};

struct config_table {
    const struct config_key *keys;
    size_t n_keys;
    size_t size;          /* of the struct that the offsets are in */
    const char *prefix;   /* of its variables: "VESTA_"; PREFIXCONFIG names the file */
    const char *files[2]; /* where a file is looked for, the first first */
};

/* Where values come from. */
struct config_input {
    const char *const *args; /* flags, --config FILE among them; anything else is refused */
    size_t n_args;
    const char *const *env; /* "NAME=VALUE" up to NULL; NULL: no variables */
    bool looks_for_a_file;  /* where none is named: the two of the table */
    struct bytes text;      /* instead of any file, when it is not empty */
};

enum config_source { CONFIG_BY_DEFAULT, CONFIG_BY_FILE, CONFIG_BY_VARIABLE, CONFIG_BY_FLAG };

struct config;

/* -EINVAL with what is wrong and where; -ENOENT, -EACCES... when a file that was named cannot be
 * read. */
int config_load(const struct config_table *table, const struct config_input *in,
                struct config **ret, struct error *err);
void config_free(struct config *c); /* NULL is fine */
DEFINE_CLEANUP(struct config *, config_free)

/* The struct. Belongs to the config. */
void *config_values(struct config *c);

/* The file that was read, or NULL. */
const char *config_file(const struct config *c);

/* Where the value of this key comes from. */
enum config_source config_source_of(const struct config *c, const char *key);

/* Replaces a value that came by default, with the reason, for `print`; other values stay. `text`
 * and `why` are static and sound. */
void config_set_default(struct config *c, const char *key, const char *text, const char *why);

/* Steps through the keys whose values differ in two structs, from *at = 0 on; NULL at the end. */
const struct config_key *config_next_change(const struct config_table *table, const void *a,
                                            const void *b, size_t *at);

/* Variables that look like ours and are not: "VESTA_TLS_CERTFILE is not known; did you mean ...?",
 * a line each. */
void config_add_doubts(const struct config_table *table, const char *const *env, struct buf *out);

/* The whole as YAML, which reads as the same config, with the source of each value beside it.
 * Secrets, and passwords in URLs, are left out. */
void config_print(struct config *c, struct buf *out);

/* The reference page of a table, in Markdown; `head` is put in front of it. */
void config_doc(const struct config_table *table, const char *head, struct buf *out);

/* The flags, for --help; what only files have is left out. */
void config_help(const struct config_table *table, struct buf *out);
