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
 * Who a process is: the attributes of its resource (service.name, container.id...), whether it is
 * profiled at all, and which kinds of profiles are made of it beyond the usual ones. What a process
 * says of itself is a claim, and kept as text only.
 */
struct agent_config;

/* The configuration's include, exclude, type_rules, rules, env_attributes and resource, compiled.
 * -EINVAL names the key and what is wrong. `c` must outlive them. */
struct identity_rules;
int identity_rules_new(const struct agent_config *c, struct identity_rules **ret,
                       struct error *err);
void identity_rules_free(struct identity_rules *r); /* NULL is fine */

/* Variables of the environment that are looked at, ended by NULL. */
const char *const *identity_variables(const struct identity_rules *r);

/* All kinds that some rule of type_rules may ask for: bits 1 << enum agent_type. */
uint32_t identity_all_kinds(const struct identity_rules *r);

struct identity;

/* Of this machine: host.name, host.id, os.type, and `resource` of the configuration. */
struct identity *identity_of_host(const struct identity_rules *r);

struct identity *identity_new(const struct identity_rules *r, const struct inspect_process *p);
/* What its main program says, once that is known: versions, revisions, the runtime. NULL is fine.
 * Rules are applied again. */
void identity_add_facts(struct identity *i, const struct identity_rules *r,
                        const struct parse_facts *facts);
void identity_free(struct identity *i); /* NULL is fine */

bool identity_is_wanted(const struct identity *i);
uint32_t identity_kinds(const struct identity *i);

/* The n-th attribute; false past the end. Borrowed. */
bool identity_attribute(const struct identity *i, size_t n, struct bytes *ret_key,
                        struct bytes *ret_value);

/*
 * The attribute at *at of a sample's attributes (abi/event.h), which moves on; false at the end.
 * Keys that are numbers are looked up in what the process context says of them
 * (threadlocal.attribute_key_map); unknown ones are passed over.
 */
bool identity_sample_attribute(const struct identity *i, struct bytes attrs, uint32_t *at,
                               struct bytes *ret_key, struct bytes *ret_value);
