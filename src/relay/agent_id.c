#include "relay/agent_id.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/random.h"
#include "base/sha256.h"

/* What a file holds, in one line; 0 bytes when it cannot be read. */
static size_t read_line(const char *path, char *to, size_t size)
{
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);

    to[n > 0 ? n : 0] = '\0';
    to[strcspn(to, "\r\n")] = '\0';
    return strlen(to);
}

static bool is_fit(const char *id)
{
    size_t n = strlen(id);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)id[i] <= 0x20 || (unsigned char)id[i] >= 0x7f)
            return false;
    return n > 0;
}

static void host_name(char *to, size_t size)
{
    if (gethostname(to, size) < 0)
        to[0] = '\0';
    to[size - 1] = '\0';
    if (!is_fit(to))
        snprintf(to, size, "host");
}

static void name_after(uint64_t number, char ret[AGENT_ID_MAX])
{
    char host[65];
    host_name(host, sizeof(host));
    snprintf(ret, AGENT_ID_MAX, "%s-%016" PRIx64, host, number);
}

/* Of two agents that start at once in one folder one makes the file, and both read it. */
static int keep(const char *path, const char *id, struct error *err)
{
    char temporary[PATH_MAX + 16];
    snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());

    CLEANUP(closep)
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_set(err, -errno, "could not write \"%s\": %m", path);
    int r = 0;
    if (dprintf(fd, "%s\n", id) < 0 || fsync(fd) < 0)
        r = error_set(err, -errno, "could not write \"%s\": %m", path);
    else if (link(temporary, path) < 0 && errno != EEXIST)
        r = error_set(err, -errno, "could not make \"%s\": %m", path);
    (void)unlink(temporary);
    return r;
}

static bool of_machine(char ret[AGENT_ID_MAX])
{
    char text[128];
    uint8_t digest[SHA256_BYTES];
    uint64_t number = 0;

    if (read_line("/etc/machine-id", text, sizeof(text)) < 32)
        return false;
    /* Not the machine's id itself, which is meant to stay on the machine. */
    hmac_sha256(bytes_of(text), BYTES("vesta-agent"), digest);
    memcpy(&number, digest, sizeof(number));
    name_after(number, ret);
    return true;
}

int agent_id_find(const char *configured, const char *state_dir, char ret[AGENT_ID_MAX],
                  struct error *err)
{
    char path[PATH_MAX];
    int r;

    if (configured[0] != '\0') {
        snprintf(ret, AGENT_ID_MAX, "%s", configured);
        return 0;
    }
    if (state_dir[0] == '\0' || strlen(state_dir) > sizeof(path) - 64) {
        r = error_set(err, -ENOENT, "there is no state folder to keep the agent's id in");
    } else {
        snprintf(path, sizeof(path), "%s/agent-id", state_dir);
        if (read_line(path, ret, AGENT_ID_MAX) > 0 && is_fit(ret))
            return 0;
        name_after(random_seed_os(), ret);
        r = keep(path, ret, err);
        if (r == 0 && read_line(path, ret, AGENT_ID_MAX) > 0 && is_fit(ret))
            return 0;
        if (r == 0)
            r = error_set(err, -EBADMSG, "\"%s\" holds no id", path);
    }
    if (of_machine(ret))
        return 0;
    name_after(random_seed_os(), ret);
    return r;
}
