#pragma once

#include "base/regex.h"
#include "profile/profile.h"

/*
 * Choosing samples and frames by name, with pprof's rules: a pattern is searched in the function
 * name, the source file and the binary of each frame; inlined frames are looked at one by one.
 *
 * All of these change the rows of p in place; dropped rows are gone, and locations of which only
 * some inlined frames stay are replaced. False when the budget is spent: p is then not of use.
 */
struct name_filter {
    const struct regex *focus;  /* keep samples with a frame that matches */
    const struct regex *ignore; /* drop samples with a frame that matches */
    const struct regex *hide;   /* take out frames that match */
    const struct regex *show;   /* take out frames that do not match */
};

/* Which of the patterns matched anything. */
struct name_matches {
    bool focus, ignore, hide, show;
};

/* Samples of which no frame is left are dropped; so are, once there is any pattern, those that had
 * none. */
bool profile_filter_names(struct profile *p, const struct name_filter *f, struct name_matches *ret);

/* Takes off the callers above the outermost frame that matches; samples without one are dropped. */
bool profile_show_from(struct profile *p, const struct regex *re, bool *ret_matched);

/* Takes off what the innermost function that matches called. */
bool profile_prune_from(struct profile *p, const struct regex *re);

/*
 * Takes off the frames that the profile itself calls uninteresting (drop_frames without
 * keep_frames) with everything they called, but never a whole stack. Returns 0, -EINVAL when the
 * profile's patterns make no sense, or -ENOBUFS. `cancelled` may be NULL; once it is true no more is
 * taken off.
 */
int profile_drop_frames(struct profile *p, const atomic_bool *cancelled, struct error *err);
