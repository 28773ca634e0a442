#pragma once

#include <stdbool.h>

#include "base/bytes.h"

/* Where a process runs, by its control group: /proc/PID/cgroup, v1 or v2. */
struct container_place {
    char id[72];      /* of the innermost container; "": none */
    char pod_uid[40]; /* of Kubernetes */
    char unit[256];   /* of systemd: "nginx.service", when it is in no container */
};
void container_place(struct bytes cgroup, struct container_place *ret);

/*
 * What people call a container, as far as files of the kubelet and of container runtimes tell:
 * names of log files, and the runtimes' own state. No API is asked.
 */
struct container_names {
    char name[256], image[256];
    char service[128]; /* that composed it */
    char pod[256], pod_namespace[128], pod_container[128];
};
/* `root` is "" but in tests. False when nothing was found. */
bool container_names(const struct container_place *p, const char *root,
                     struct container_names *ret);

/* The deployment whose pod this is, by how Kubernetes names its pods; empty: none. */
struct bytes container_deployment(struct bytes pod);
