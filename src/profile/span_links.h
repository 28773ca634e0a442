#pragma once

#include "profile/profile.h"

/*
 * Profilers that write pprof or JFR name the span that a sample was taken in by labels: span_id (or
 * profile_id, of older agents) with 16 hexadecimal digits, trace_id with 32, or the number "span
 * id". Puts links in the place of such labels, in the profiles of the set from index `first` on.
 * What is written otherwise stays a label. Returns 0 or -ENOBUFS.
 */
int span_links_make(struct profile_set *set, size_t first, struct error *err);
