#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "host/inspect.h"
#include "host/parse.h"

/*
 * Who a process is: the attributes of its resource, its service's name before all, whether it is
 * profiled, and which kinds of profiles are made of it beyond the usual ones. Of several sources
 * for one attribute the first counts:
 *
 *     rules of the configuration
 *     what we see ourselves: program, container, pod, host
 *     OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES (and -Dotel.... of Java)
 *     the process context (OTEP 4719)
 *     `resource` of the configuration
 *     variables that platforms and build systems set; what programs say about their build
 *     names of container, pod, unit, script, program
 *
 * Texts of a process are its own claims: they are cut, and made UTF-8 without control characters.
 * Neither its command line nor its environment is among the attributes unless that was allowed.
 */
struct agent_config;

/* The configuration's include, exclude, node.attach, type_rules, rules, env_attributes and
 * resource, compiled. -EINVAL names the key and what is wrong. `c` must outlive them. */
struct identity_rules;
int identity_rules_new(const struct agent_config *c, struct identity_rules **ret,
                       struct error *err);
void identity_rules_free(struct identity_rules *r); /* NULL is fine */
DEFINE_CLEANUP(struct identity_rules *, identity_rules_free)

/* Variables of the environment that are looked at, ended by NULL. */
const char *const *identity_variables(const struct identity_rules *r);

/* All kinds that some rule of type_rules may ask for: bits 1 << enum agent_type. */
uint32_t identity_all_kinds(const struct identity_rules *r);

struct identity;

#define IDENTITY_ATTRIBUTES_MAX 60
#define IDENTITY_CLAIMS_MAX     40  /* of which a process may claim as many as make this */
#define IDENTITY_VALUE_MAX      512 /* bytes; longer ones are cut */
#define IDENTITY_KEY_MAX        128 /* longer ones are left out */

/* Of this machine: host.name, host.id, os.type, and `resource` of the configuration. Those of a
 * process have them as well. */
struct identity *identity_of_host(const struct identity_rules *r);

struct identity *identity_new(const struct identity_rules *r, const struct inspect_process *p);
/* What its main program says, once that is known: versions, revisions, the runtime. NULL is fine.
 */
void identity_add_facts(struct identity *i, const struct identity_rules *r,
                        const struct parse_facts *facts);
/* What a library of it says, if it is the runtime: Debian's node is but a call into libnode.so. */
void identity_add_library(struct identity *i, const struct identity_rules *r,
                          const struct parse_facts *facts);
void identity_free(struct identity *i); /* NULL is fine */
DEFINE_CLEANUP(struct identity *, identity_free)

bool identity_is_wanted(const struct identity *i);
const char *identity_why_not(const struct identity *i); /* static; NULL when it is wanted */
uint32_t identity_kinds(const struct identity *i);
/* Whether node.attach means it. That it is Node is not looked at. */
bool identity_may_attach(const struct identity *i);

/* The n-th attribute; false past the end. No key comes twice; service.name always comes. Borrowed
 * until facts are added. */
bool identity_attribute(const struct identity *i, size_t n, struct bytes *ret_key,
                        struct bytes *ret_value);
/* One by its key; {0} when there is none. */
struct bytes identity_value(const struct identity *i, const char *key);

/*
 * The attribute at *at of a sample's attributes (abi/event.h), which moves on; false at the end.
 * Keys that are numbers are looked up in what the process context says of them
 * (threadlocal.attribute_key_map); unknown ones are passed over.
 */
bool identity_sample_attribute(const struct identity *i, struct bytes attrs, uint32_t *at,
                               struct bytes *ret_key, struct bytes *ret_value);

/* Whether an attribute has a number for a key that the process context did not have when it was
 * read: it may have it by now. */
bool identity_misses_key(const struct identity *i, struct bytes attrs);

/* How the process context says that threads tell their spans (threadlocal.schema_version). */
enum identity_threads {
    IDENTITY_THREADS_UNSAID,
    IDENTITY_THREADS_TLS, /* "tls_v1", "tlsdesc_v1_dev": otel_thread_ctx_v1 */
    IDENTITY_THREADS_GO,  /* "go_pprof_labels_v1" */
    IDENTITY_THREADS_OTHER,
};
enum identity_threads identity_threads(const struct identity *i);

/*
 * Whether a process is meant by a pattern of include, exclude or type_rules: "uid:N", "pid:N",
 * "service:GLOB", "cgroup:GLOB", or a glob on its program (on the base name when it has no slash).
 * In globs * is any text and ? any letter.
 */
bool identity_matches(const char *pattern, const struct inspect_process *p, struct bytes service);
