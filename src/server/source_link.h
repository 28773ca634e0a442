#pragma once

#include "base/buf.h"
#include "base/bytes.h"
#include "config/config.h"

/* Links to source files where they are hosted, made of what labels say: a repository and a commit.
 */
struct source_place {
    struct bytes repository; /* a URL, as git has it: https, ssh or git@host:owner/name */
    struct bytes commit;     /* or a version, for templates */
    struct bytes service, version;
    struct bytes path;    /* as the profile has it */
    struct bytes in_tree; /* the place in the repository, where it is known; else empty */
    uint64_t line;        /* 0: the whole file */
};

struct source_link_options {
    const char *template; /* with {repository} {commit} {service} {version} {path} {line}; empty:
                             by the host */
    const struct config_list *strip; /* folders that paths begin with and repositories do not */
};

/*
 * Appends the URL and sets *ret_anchor to what stands between it and a line's number ("#L"); empty
 * when the line is in it already, or it is not known how. False when there is none: a repository that is no http URL, no commit, or
 * a path of which it is not known where in the repository it lies. What labels say is hostile: the
 * link is always http or https, holds no credentials, and everything in it is escaped.
 */
bool source_link(const struct source_place *p, const struct source_link_options *o, struct buf *out,
                 const char **ret_anchor);

/* The web address of a repository. False when it has none. */
bool source_repository(struct bytes url, struct buf *out);
