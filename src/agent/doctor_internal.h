#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/vec.h"
#include "config/agent_config.h"

/* What the doctor's parts share. */

enum finding_state {
    FINDING_WORKS,
    FINDING_NOTE,    /* works, and something is worth knowing */
    FINDING_LOST,    /* something is lost, the rest works */
    FINDING_MISSING, /* essential, and not there */
};

struct finding {
    const char *area; /* "Kernel" */
    enum finding_state state;
    char name[48];
    char found[256];        /* what was seen */
    const char *lost, *fix; /* NULL where nothing is */
};

struct doctor {
    const struct agent_config *config;
    const char *root; /* in front of /proc and /sys, for tests; "" */
    const char *area; /* of what is added next */
    struct finding list[96];
    size_t n;
};

/* Adds one; `found` is formatted. Past the last place it is dropped. */
struct finding *doctor_add(struct doctor *d, enum finding_state state, const char *name,
                           const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Adds one that either works, or is `state` with what is lost and how to mend it. */
void doctor_judge(struct doctor *d, bool works, enum finding_state state, const char *name,
                  const char *found, const char *lost, const char *fix);

/* The first line of a file below the root, without its newline; false when it cannot be read. */
bool doctor_line(const struct doctor *d, const char *path, char *ret, size_t size);

/* doctor_host.c */
void doctor_kernel(struct doctor *d);
void doctor_probe(struct doctor *d);
void doctor_rights(struct doctor *d);
void doctor_host(struct doctor *d);

/* doctor_reach.c */
void doctor_folders(struct doctor *d);
void doctor_exporters(struct doctor *d);

/* doctor.c */
bool doctor_essentials(const struct doctor *d);
void doctor_text(const struct doctor *d, bool is_colored, struct buf *out);
void doctor_json(const struct doctor *d, struct buf *out);

/* doctor_status.c: the table of a /status answer. -EBADMSG. */
int doctor_show_status(struct bytes json, bool is_colored, struct buf *out, struct error *err);

/* Options of both commands: takes --json out of argv, reads the configuration from the rest.
 * Returns 0, or the exit status, having said why. */
int doctor_options(int argc, char **argv, bool *ret_json, struct config **ret);
bool doctor_wants_color(void);
