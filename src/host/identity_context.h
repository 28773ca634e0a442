#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* The payload of a process context (OTEP 4719): a protobuf ProcessContext. Its bytes are the
 * process's own; what is damaged ends the reading. */

/* Calls for each attribute of its resource that is a text, a number or a bool, until it says no. */
typedef bool identity_context_attribute(void *arg, struct bytes key, struct bytes value);
void identity_context_each(struct bytes payload, identity_context_attribute *each, void *arg);

/* What it says about contexts of threads (OTEP 4947). Texts are borrowed from the payload. */
struct identity_thread_schema {
    struct bytes version; /* "tlsdesc_v1_dev", "go_pprof_labels_v1"...; empty: says nothing */
    struct bytes keys[256];
    uint32_t n_keys;
};
void identity_context_threads(struct bytes payload, struct identity_thread_schema *ret);
