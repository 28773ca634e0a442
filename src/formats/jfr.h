#pragma once

#include <stddef.h>

#include "base/bytes.h"
#include "base/error.h"
#include "profile/profile.h"

/*
 * Java Flight Recorder files are read through format_jfr; this is what else there is to know.
 *
 * Agents that label samples (pyroscope-java) write only numbers into the recording and send what
 * they stand for beside it: a LabelsSnapshot, protobuf with two maps, contexts (context id -> key
 * string id -> value string id) and strings (id -> text). The reader keeps the numbers as integer
 * attributes of samples, under these keys, and jfr_apply_labels() puts the labels in their place.
 */
#define JFR_CONTEXT_KEY   "jfr.context_id"
#define JFR_SPAN_NAME_KEY "jfr.span_name_id"

/*
 * Replaces context ids by their labels and span name ids by a label `span_name`, in the profiles of
 * the set from index `first` on. A context that the snapshot does not know loses its number: it
 * means nothing outside of the process. `snapshot` is the plain protobuf, hostile like everything.
 *
 * Returns 0, -EBADMSG ("jfr labels at byte N: ...") or -ENOBUFS; the profiles are untouched on
 * failure.
 */
int jfr_apply_labels(struct profile_set *set, size_t first, struct bytes snapshot,
                     struct error *err);
