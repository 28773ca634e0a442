#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/inspect_internal.h"

#define MOUNTS_MAX ((size_t)4 << 20)

/* "fuse", "fuse.sshfs", "fuseblk". */
static bool is_served_type(struct bytes type)
{
    static const char fuse[] = "fuse";

    return type.len >= 4 && memcmp(type.data, fuse, 4) == 0 &&
           (type.len == 4 || type.data[4] == '.' || bytes_are(type, "fuseblk"));
}

/* The type in a line of mountinfo: behind " - ". What is before it has its blanks escaped. */
static struct bytes type_of(struct bytes line)
{
    for (size_t i = 0; i + 3 <= line.len; i++) {
        if (memcmp(line.data + i, " - ", 3) != 0)
            continue;
        struct bytes rest = bytes_from(line, i + 3);
        const uint8_t *blank = bytes_find_byte(rest, ' ');
        return bytes_head(rest, blank ? (size_t)(blank - rest.data) : rest.len);
    }
    return (struct bytes){0};
}

/* The line that begins with a number (0: the first of a file system that a process serves). */
static bool find_mount(struct bytes text, uint64_t id, struct bytes *ret_type)
{
    while (text.len > 0) {
        const uint8_t *newline = bytes_find_byte(text, '\n');
        struct bytes line = bytes_head(text, newline ? (size_t)(newline - text.data) : text.len);
        const uint8_t *blank = bytes_find_byte(line, ' ');
        uint64_t number;
        text = bytes_from(text, line.len + (newline ? 1 : 0));
        if (!blank || !bytes_to_u64(bytes_head(line, (size_t)(blank - line.data)), &number))
            continue;
        *ret_type = type_of(line);
        if (id == 0 ? is_served_type(*ret_type) : number == id)
            return true;
    }
    return false;
}

static uint64_t mount_of(int handle)
{
    char path[48], line[128];
    unsigned long long id = 0;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", handle);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    while (f && id == 0 && fgets(line, sizeof(line), f))
        (void)sscanf(line, "mnt_id: %llu", &id);
    return id;
}

/* Memory that has a file's clothes (memfd, shared memory) is in a mount that nobody sees. */
static bool is_memory(int handle)
{
    CLEANUP(closep) int own = memfd_create("vesta", MFD_CLOEXEC);
    struct statx theirs;
    struct stat ours;

    return own >= 0 && fstat(own, &ours) == 0 &&
           statx(handle, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &theirs) == 0 &&
           makedev(theirs.stx_dev_major, theirs.stx_dev_minor) == ours.st_dev;
}

bool inspect_is_served(const struct target *t, int handle)
{
    struct target self = {.fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    uint64_t id = mount_of(handle);
    struct buf text = {0};
    struct bytes type = {0};
    bool is_found = false;

    if (id != 0 && t && target_read(t, "mountinfo", MOUNTS_MAX, &text) == 0)
        is_found = find_mount(buf_bytes(&text), id, &type);
    if (id != 0 && !is_found) {
        buf_clear(&text);
        is_found = target_read(&self, "mountinfo", MOUNTS_MAX, &text) == 0 &&
                   find_mount(buf_bytes(&text), id, &type);
    }
    bool is_served = is_found ? is_served_type(type) : !is_memory(handle);
    buf_done(&text);
    closep(&self.fd);
    return is_served;
}

bool inspect_sees_served(const struct target *t)
{
    struct buf text = {0};
    struct bytes type;
    bool is_seen = target_read(t, "mountinfo", MOUNTS_MAX, &text) < 0 ||
                   find_mount(buf_bytes(&text), 0, &type);

    buf_done(&text);
    return is_seen;
}
