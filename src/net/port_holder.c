#include "net/port_holder.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* The inode of the socket that listens there; 0: none. */
static unsigned long find_inode(const char *table, const struct sockaddr *address)
{
    char line[512], wanted[33] = "", local[33];
    unsigned port, state;
    unsigned long inode;
    CLEANUP(fclosep) FILE *f = fopen(table, "re");

    hex_address(address, wanted);
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, " %*u: %32[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*u %*u %lu", local,
                   &port, &state, &inode) != 4)
            continue;
        bool is_listening = state == 0x0a;
        if (is_listening && port == port_of(address) &&
            (strcmp(local, wanted) == 0 || is_every(local) || is_every(wanted)))
            return inode;
    }
    return 0;
}

static bool has_socket(const char *pid, const char *target)
{
    char path[300], link[64];

    snprintf(path, sizeof(path), "/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    bool has_it = false;
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
    unsigned long inode = find_inode("/proc/net/tcp", address);
    char target[64];

    if (inode == 0)
        inode = find_inode("/proc/net/tcp6", address);
    DIR *dir = inode ? opendir("/proc") : NULL;
    snprintf(target, sizeof(target), "socket:[%lu]", inode);
    bool is_found = false;
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
