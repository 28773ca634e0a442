#include "net/port_holder.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"

/* As /proc/net/tcp writes addresses: words of memory, in hexadecimal. */
static void hex_address(const struct sockaddr *a, char to[33])
{
    uint32_t words[4];
    int n = a->sa_family == AF_INET6 ? 4 : 1;

    if (a->sa_family == AF_INET6)
        memcpy(words, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, sizeof(words));
    else
        memcpy(words, &((const struct sockaddr_in *)(const void *)a)->sin_addr, sizeof(words[0]));
    for (int i = 0; i < n; i++)
        snprintf(to + (size_t)i * 8, 9, "%08" PRIX32, words[i]);
}

static unsigned port_of(const struct sockaddr *a)
{
    return ntohs(a->sa_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)(const void *)a)->sin6_port
                     : ((const struct sockaddr_in *)(const void *)a)->sin_port);
}

static bool is_every(const char *hex)
{
    return hex[strspn(hex, "0")] == '\0';
}

/* The next word of a line. */
static struct bytes next_word(struct bytes *rest)
{
    while (rest->len > 0 && rest->data[0] == ' ')
        *rest = bytes_from(*rest, 1);
    const uint8_t *end = bytes_find_byte(*rest, ' ');
    struct bytes word = bytes_head(*rest, end ? (size_t)(end - rest->data) : rest->len);
    *rest = bytes_from(*rest, word.len);
    return word;
}

/* The inode in a line "0: 0100007F:0FC8 00000000:0000 0A ..." whose socket listens there; else 0.
 */
static uint64_t inode_of(struct bytes line, const struct sockaddr *address)
{
    struct bytes words[10];
    uint64_t port, state, inode;
    char wanted[33] = "", local[33] = "";

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        words[i] = next_word(&line);
    const uint8_t *colon = bytes_find_byte(words[1], ':');
    size_t n = colon ? (size_t)(colon - words[1].data) : 0;
    if (n == 0 || n >= sizeof(local) || !bytes_to_hex(bytes_from(words[1], n + 1), &port) ||
        !bytes_to_hex(words[3], &state) || !bytes_to_u64(words[9], &inode))
        return 0;
    memcpy(local, words[1].data, n);
    hex_address(address, wanted);
    bool is_there = strcmp(local, wanted) == 0 || is_every(local) || is_every(wanted);
    return state == 0x0a && port == port_of(address) && is_there ? inode : 0;
}

static uint64_t find_inode(const char *table, const struct sockaddr *address)
{
    char line[512];
    uint64_t inode = 0;
    CLEANUP(fclosep) FILE *f = fopen(table, "re");

    while (f && inode == 0 && fgets(line, sizeof(line), f))
        inode = inode_of(bytes_of(line), address);
    return inode;
}

static bool has_socket(const char *pid, const char *target)
{
    char path[300], link[64];

    snprintf(path, sizeof(path), "/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    bool has_it = false;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): only this thread has dir */
    for (const struct dirent *e; dir && !has_it && (e = readdir(dir));) {
        ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
        if (n <= 0)
            continue;
        link[n] = '\0';
        has_it = strcmp(link, target) == 0;
    }
    if (dir)
        closedir(dir);
    return has_it;
}

static void name_process(const char *pid, char *to, size_t size)
{
    char path[300], name[64] = "a process";

    snprintf(path, sizeof(path), "/proc/%s/comm", pid);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    if (f && fgets(name, sizeof(name), f))
        name[strcspn(name, "\n")] = '\0';
    snprintf(to, size, "%s (pid %s)", name, pid);
}

bool port_holder(const struct sockaddr *address, char *to, size_t size)
{
    uint64_t inode = find_inode("/proc/net/tcp", address);
    char target[64];

    if (inode == 0)
        inode = find_inode("/proc/net/tcp6", address);
    DIR *dir = inode ? opendir("/proc") : NULL;
    snprintf(target, sizeof(target), "socket:[%" PRIu64 "]", inode);
    bool is_found = false;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): only this thread has dir */
    for (const struct dirent *e; dir && !is_found && (e = readdir(dir));) {
        if (e->d_name[0] < '0' || e->d_name[0] > '9' || !has_socket(e->d_name, target))
            continue;
        name_process(e->d_name, to, size);
        is_found = true;
    }
    if (dir)
        closedir(dir);
    return is_found;
}
