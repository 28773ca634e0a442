#pragma once

#include <sys/utsname.h>

#include "base/regex.h"
#include "config/agent_config.h"
#include "host/identity.h"

/* One line of `rules`: when all patterns match, its attributes are set. */
struct rule;
struct rule_list {
    struct rule *first;
};

int rule_list_read(const struct config_node *node, struct rule_list *ret, struct error *err);
void rule_list_done(struct rule_list *l);

/* Steps through the variables that patterns name. */
typedef void rule_variable(void *arg, const char *name);
void rule_list_variables(const struct rule_list *l, rule_variable *each, void *arg);

/* Calls `set` for each attribute of each rule that matches, in their order. */
typedef void rule_set(void *arg, const char *key, struct bytes value);
void rule_list_apply(const struct rule_list *l, const struct inspect_process *p, rule_set *set,
                     void *arg);

/* -EINVAL when it is no pattern of identity_matches(). */
int identity_check_pattern(const char *pattern, struct error *err);

/* "wall,offcpu: PATTERN": the kinds as bits, and the pattern. -EINVAL. */
int identity_type_rule(const char *rule, uint32_t *ret_kinds, const char **ret_pattern,
                       struct error *err);

/* Whether a text is as a glob says. */
bool glob_matches(const char *glob, struct bytes text);

/* The part of a path behind its last slash. */
struct bytes identity_base_name(struct bytes path);

/* Variables that platforms, build systems and other agents set; the earlier of two counts. Ended by
 * NULLs. */
struct identity_variable {
    const char *variable, *key;
};
extern const struct identity_variable identity_known[];

#define VARIABLES_MAX 127 /* that one question may have, and the NULL behind them */

struct identity_rules {
    const struct agent_config *config;
    struct rule_list rules;
    struct {
        uint32_t kinds;
        const char *pattern;
    } type_rules[CONFIG_LIST_MAX];
    const char *variables[VARIABLES_MAX + 1];
    size_t n_variables;
    bool has_too_many;
    char *names[CONFIG_LIST_MAX]; /* copies of those of env_attributes */
    char host_name[256], host_id[64], node_name[256];
    struct utsname system;
};

/* Interpreters and their like. */
struct identity_runtime {
    const char *name;     /* process.runtime.name; NULL: a shell and so on */
    struct bytes version; /* as the program's name says: "3.11" */
    const char *variable; /* that images of it set to its version; NULL */
};
/* Of a program by its base name; false: no interpreter. */
bool identity_runtime_of(struct bytes base, struct identity_runtime *ret);

/*
 * What an interpreter runs, from its command line (NULs between arguments): a script, module, jar
 * or class, without its suffix and version, or its folder when it has a name that all have.
 * Borrowed from the command line; empty: cannot be told.
 */
struct bytes identity_script(struct bytes base, struct bytes cmdline);

/* The value of "-DNAME=" among the arguments. */
struct bytes identity_java_property(struct bytes cmdline, const char *name);
