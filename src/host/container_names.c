#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "host/container.h"
#include "wire/json.h"

#define ENTRIES_MAX 8192
#define FILE_MAX    ((size_t)4 << 20)

static void keep(struct bytes s, char *ret, size_t size)
{
    if (ret[0] == '\0' && s.len > 0 && s.len < size && !bytes_find_byte(s, '\0'))
        snprintf(ret, size, "%.*s", (int)s.len, (const char *)s.data);
}

/* What stands before `c`, taken off *rest. */
static bool take_until(struct bytes *rest, uint8_t c, struct bytes *ret)
{
    const uint8_t *at = bytes_find_byte(*rest, c);

    if (!at)
        return false;
    *ret = bytes_head(*rest, (size_t)(at - rest->data));
    *rest = bytes_from(*rest, ret->len + 1);
    return true;
}

/* Steps through a folder until `look` says that it has seen enough. */
typedef bool looks_at(const char *name, const struct container_place *p,
                      struct container_names *ret);

static bool look_into(const char *root, const char *folder, looks_at *look,
                      const struct container_place *p, struct container_names *ret)
{
    char path[PATH_MAX];
    bool is_found = false;

    snprintf(path, sizeof(path), "%s%s", root, folder);
    DIR *dir = opendir(path);
    for (size_t i = 0; dir && !is_found && i < ENTRIES_MAX; i++) {
        const struct dirent *e = readdir(dir);
        if (!e)
            break;
        is_found = e->d_name[0] != '.' && look(e->d_name, p, ret);
    }
    if (dir)
        closedir(dir);
    return is_found;
}

/* /var/log/containers: POD_NAMESPACE_CONTAINER-ID.log */
static bool look_at_log(const char *name, const struct container_place *p,
                        struct container_names *ret)
{
    char tail[96];
    struct bytes rest = bytes_of(name), pod, space;
    int n = snprintf(tail, sizeof(tail), "-%s.log", p->id);

    if (n <= 0 || rest.len <= (size_t)n ||
        !bytes_equal(bytes_from(rest, rest.len - (size_t)n), bytes_of(tail)))
        return false;
    rest.len -= (size_t)n;
    if (!take_until(&rest, '_', &pod) || !take_until(&rest, '_', &space))
        return false;
    keep(pod, ret->pod, sizeof(ret->pod));
    keep(space, ret->pod_namespace, sizeof(ret->pod_namespace));
    keep(rest, ret->pod_container, sizeof(ret->pod_container));
    return true;
}

/* /var/log/pods: NAMESPACE_POD_UID */
static bool look_at_pod(const char *name, const struct container_place *p,
                        struct container_names *ret)
{
    struct bytes rest = bytes_of(name), space, pod;

    if (!take_until(&rest, '_', &space) || !take_until(&rest, '_', &pod) ||
        !bytes_are(rest, p->pod_uid))
        return false;
    keep(space, ret->pod_namespace, sizeof(ret->pod_namespace));
    keep(pod, ret->pod, sizeof(ret->pod));
    return true;
}

/* The one container of a pod, if there is but one. */
static bool count_containers(const char *name, const struct container_place *p,
                             struct container_names *ret)
{
    (void)p;
    if (ret->pod_container[0] != '\0') {
        ret->pod_container[0] = '\0';
        return true;
    }
    keep(bytes_of(name), ret->pod_container, sizeof(ret->pod_container));
    return false;
}

static void look_at_logs(const struct container_place *p, const char *root,
                         struct container_names *ret)
{
    char folder[PATH_MAX];

    if (p->id[0] != '\0' && look_into(root, "/var/log/containers", look_at_log, p, ret))
        return;
    if (p->pod_uid[0] == '\0' || !look_into(root, "/var/log/pods", look_at_pod, p, ret))
        return;
    snprintf(folder, sizeof(folder), "/var/log/pods/%s_%s_%s", ret->pod_namespace, ret->pod,
             p->pod_uid);
    (void)look_into(root, folder, count_containers, p, ret);
}

static bool read_whole(const char *path, struct buf *out)
{
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return false;
    for (;;) {
        if (out->len > FILE_MAX)
            return false;
        ssize_t n = read(fd, buf_reserve(out, 65536), 65536);
        if (n <= 0)
            return n == 0;
        out->len += (size_t)n;
    }
}

/* Labels and annotations that runtimes put on containers. */
static void keep_label(struct bytes key, struct bytes value, struct container_names *ret)
{
    static const struct {
        const char *key;
        size_t offset, size;
    } known[] = {
#define AT(field)                                                                                  \
    offsetof(struct container_names, field), sizeof(((struct container_names *)0)->field)
        {"io.kubernetes.pod.name", AT(pod)},
        {"io.kubernetes.cri.sandbox-name", AT(pod)},
        {"io.kubernetes.pod.namespace", AT(pod_namespace)},
        {"io.kubernetes.cri.sandbox-namespace", AT(pod_namespace)},
        {"io.kubernetes.container.name", AT(pod_container)},
        {"io.kubernetes.cri.container-name", AT(pod_container)},
        {"io.kubernetes.cri.image-name", AT(image)},
        {"io.kubernetes.cri-o.ImageName", AT(image)},
        {"com.docker.compose.service", AT(service)},
        {"io.podman.compose.service", AT(service)},
        {"nerdctl/name", AT(name)},
#undef AT
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (bytes_are(key, known[i].key))
            keep(value, (char *)ret + known[i].offset, known[i].size);
    }
}

static void read_labels(struct json_reader *r, struct container_names *ret)
{
    char name[128];

    if (json_peek(r) != JSON_OBJECT) {
        json_skip(r);
        return;
    }
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        name[0] = '\0';
        keep(key, name, sizeof(name));
        struct bytes value = json_get_string_or_empty(r);
        keep_label(bytes_of(name), value, ret);
    }
}

/* Docker's "Config": {"Image": ..., "Labels": {...}}. */
static void read_config(struct json_reader *r, struct container_names *ret)
{
    if (json_peek(r) != JSON_OBJECT) {
        json_skip(r);
        return;
    }
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "Labels"))
            read_labels(r, ret);
        else if (bytes_are(key, "Image"))
            keep(json_get_string_or_empty(r), ret->image, sizeof(ret->image));
        else
            json_skip(r);
    }
}

/* A runtime's file about one container: Docker's own, or that of the OCI. */
static void read_state(struct bytes text, struct container_names *ret)
{
    struct budget b;

    budget_init(&b, 2 * FILE_MAX);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &b);
    json_reader_set_text(r, text, 0);
    if (json_peek(r) != JSON_OBJECT)
        return;
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "annotations")) {
            read_labels(r, ret);
        } else if (bytes_are(key, "Config")) {
            read_config(r, ret);
        } else if (bytes_are(key, "Name")) {
            struct bytes name = json_get_string_or_empty(r);
            keep(bytes_from(name, name.len > 0 && name.data[0] == '/'), ret->name,
                 sizeof(ret->name));
        } else {
            json_skip(r);
        }
    }
}

/* One of Podman's containers: {"id": ..., "names": [...]}. */
static void read_listed(struct json_reader *r, const char *id, struct container_names *ret)
{
    char name[256] = "";
    bool is_it = false;

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "id")) {
            is_it = bytes_are(json_get_string_or_empty(r), id);
        } else if (bytes_are(key, "names") && json_peek(r) == JSON_ARRAY) {
            json_enter_array(r);
            while (json_next_element(r))
                keep(json_get_string_or_empty(r), name, sizeof(name));
        } else {
            json_skip(r);
        }
    }
    if (is_it)
        keep(bytes_of(name), ret->name, sizeof(ret->name));
}

static void read_list(struct bytes text, const char *id, struct container_names *ret)
{
    struct budget b;

    budget_init(&b, 2 * FILE_MAX);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &b);
    json_reader_set_text(r, text, 0);
    if (json_peek(r) != JSON_ARRAY)
        return;
    json_enter_array(r);
    while (json_next_element(r) && ret->name[0] == '\0') {
        if (json_peek(r) != JSON_OBJECT)
            json_skip(r);
        else
            read_listed(r, id, ret);
    }
}

static void look_at_states(const struct container_place *p, const char *root,
                           struct container_names *ret)
{
    static const struct {
        const char *before, *behind; /* the id */
    } places[] = {
        {"/var/lib/docker/containers/", "/config.v2.json"},
        {"/run/containerd/io.containerd.runtime.v2.task/k8s.io/", "/config.json"},
        {"/run/containerd/io.containerd.runtime.v2.task/default/", "/config.json"},
        {"/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/", "/config.json"},
        {"/run/containers/storage/overlay-containers/", "/userdata/config.json"},
        {"/var/lib/containers/storage/overlay-containers/", "/userdata/config.json"},
    };
    char path[PATH_MAX];
    struct buf text = {0};

    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        snprintf(path, sizeof(path), "%s%s%s%s", root, places[i].before, p->id, places[i].behind);
        buf_clear(&text);
        if (read_whole(path, &text))
            read_state(buf_bytes(&text), ret);
    }
    snprintf(path, sizeof(path), "%s/var/lib/containers/storage/overlay-containers/containers.json",
             root);
    buf_clear(&text);
    if (ret->name[0] == '\0' && read_whole(path, &text))
        read_list(buf_bytes(&text), p->id, ret);
    buf_done(&text);
}

bool container_names(const struct container_place *p, const char *root, struct container_names *ret)
{
    *ret = (struct container_names){.name = ""};
    if (p->id[0] == '\0' && p->pod_uid[0] == '\0')
        return false;
    if (p->pod_uid[0] != '\0')
        look_at_logs(p, root, ret);
    if (p->id[0] != '\0')
        look_at_states(p, root, ret);
    return ret->name[0] || ret->image[0] || ret->pod[0] || ret->pod_container[0];
}
