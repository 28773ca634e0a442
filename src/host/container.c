#include "host/container.h"

#include <stdio.h>

#include "base/hex.h"

static bool is_hex(struct bytes s, size_t n)
{
    if (s.len != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (hex_digit(s.data[i]) < 0)
            return false;
    }
    return true;
}

static void keep(struct bytes s, char *ret, size_t size)
{
    snprintf(ret, size, "%.*s", (int)(s.len < size ? s.len : size - 1), (const char *)s.data);
}

static bool ends_with(struct bytes s, struct bytes tail)
{
    return s.len >= tail.len && bytes_equal(bytes_from(s, s.len - tail.len), tail);
}

/* 8-4-4-4-12 digits, with '-' or, in names of slices, '_'. */
static bool is_uuid(struct bytes s)
{
    if (s.len != 36)
        return false;
    for (size_t i = 0; i < 36; i++) {
        bool is_gap = i == 8 || i == 13 || i == 18 || i == 23;
        if (is_gap ? s.data[i] != '-' && s.data[i] != '_' : hex_digit(s.data[i]) < 0)
            return false;
    }
    return true;
}

/*
 * The container's id in one part of a path: docker-ID.scope, cri-containerd-ID.scope,
 * crio-ID.scope, libpod-ID.scope, SLICE:cri-containerd:ID, or just ID.
 */
static struct bytes id_of(struct bytes part, struct bytes path)
{
    if (ends_with(part, BYTES(".scope")))
        part.len -= 6;
    if (bytes_find(part, BYTES("conmon"))) /* watches a container, and is not in it */
        return (struct bytes){0};
    struct bytes tail = part;
    for (size_t i = 0; i < part.len; i++) {
        if (part.data[i] == '-' || part.data[i] == ':')
            tail = bytes_from(part, i + 1);
    }
    if (is_hex(tail, 64))
        return tail;
    /* Fargate: TASK-NUMBER */
    if (bytes_find(path, BYTES("/ecs/")) && part.len > 33 && part.data[32] == '-' &&
        is_hex(bytes_head(part, 32), 32))
        return part;
    if (bytes_find(path, BYTES("/garden/")) && is_uuid(part))
        return part;
    return (struct bytes){0};
}

/* pod1234-...., kubepods-burstable-pod1234_....slice; static pods have a hash instead. */
static struct bytes pod_uid_of(struct bytes part)
{
    struct bytes uid = {0};
    const uint8_t *dot = bytes_find(part, BYTES(".slice"));

    if (dot)
        part.len = (size_t)(dot - part.data);
    if (bytes_start_with(part, BYTES("pod")))
        uid = bytes_from(part, 3);
    const uint8_t *pod = bytes_find(part, BYTES("-pod"));
    if (pod)
        uid = bytes_from(part, (size_t)(pod - part.data) + 4);
    return is_uuid(uid) || is_hex(uid, 32) ? uid : (struct bytes){0};
}

/* "a\x2db" as systemd writes "a-b". */
static void keep_unit(struct bytes part, char *ret, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < part.len && n + 1 < size; n++) {
        int high = -1, low = -1;
        if (part.len - i >= 4 && part.data[i] == '\\' && part.data[i + 1] == 'x') {
            high = hex_digit(part.data[i + 2]);
            low = hex_digit(part.data[i + 3]);
        }
        if (high >= 0 && low >= 0) {
            ret[n] = (char)(high << 4 | low);
            i += 4;
        } else {
            ret[n] = (char)part.data[i++];
        }
    }
    ret[n] = '\0';
}

static void look_at_path(struct bytes path, bool is_systemd, struct container_place *ret)
{
    struct bytes id = {0}, uid = {0}, unit = {0}, rest = path;

    while (rest.len > 0) {
        const uint8_t *slash = bytes_find_byte(rest, '/');
        size_t n = slash ? (size_t)(slash - rest.data) : rest.len;
        struct bytes part = bytes_head(rest, n);
        rest = bytes_from(rest, n + 1);
        struct bytes found = id_of(part, path);
        if (found.len > 0)
            id = found;
        found = pod_uid_of(part);
        if (found.len > 0)
            uid = found;
        if (ends_with(part, BYTES(".service")))
            unit = part;
    }
    if (id.len > 0 && ret->id[0] == '\0')
        keep(id, ret->id, sizeof(ret->id));
    if (uid.len > 0 && ret->pod_uid[0] == '\0') {
        keep(uid, ret->pod_uid, sizeof(ret->pod_uid));
        for (char *c = ret->pod_uid; *c; c++)
            *c = (char)(*c == '_' ? '-' : *c);
    }
    if (is_systemd && unit.len > 0 && id.len == 0 && !bytes_start_with(unit, BYTES("user@")))
        keep_unit(unit, ret->unit, sizeof(ret->unit));
}

void container_place(struct bytes cgroup, struct container_place *ret)
{
    *ret = (struct container_place){.id = ""};
    for (struct bytes line; bytes_next_line(&cgroup, &line);) {
        const uint8_t *first = bytes_find_byte(line, ':');
        struct bytes rest = first ? bytes_from(line, (size_t)(first - line.data) + 1) : line;
        const uint8_t *second = first ? bytes_find_byte(rest, ':') : NULL;
        if (!second)
            continue;
        struct bytes controllers = bytes_head(rest, (size_t)(second - rest.data));
        struct bytes path = bytes_from(rest, controllers.len + 1);
        look_at_path(path, controllers.len == 0 || bytes_are(controllers, "name=systemd"), ret);
    }
    if (ret->id[0] != '\0' || ret->pod_uid[0] != '\0')
        ret->unit[0] = '\0';
}

/* Letters that Kubernetes makes names of: none that could spell a word. */
static bool is_made_up(struct bytes s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!bytes_find_byte(BYTES("bcdfghjklmnpqrstvwxz2456789"), s.data[i]))
            return false;
    }
    return true;
}

struct bytes container_deployment(struct bytes pod)
{
    const uint8_t *last = bytes_find_last_byte(pod, '-');

    if (!last)
        return (struct bytes){0};
    struct bytes set = bytes_head(pod, (size_t)(last - pod.data));
    struct bytes tail = bytes_from(pod, set.len + 1);
    const uint8_t *before = bytes_find_last_byte(set, '-');
    if (!before || tail.len != 5 || !is_made_up(tail))
        return (struct bytes){0};
    struct bytes name = bytes_head(set, (size_t)(before - set.data));
    struct bytes hash = bytes_from(set, name.len + 1);
    if (hash.len < 8 || hash.len > 10 || !is_made_up(hash))
        return (struct bytes){0};
    return name;
}
