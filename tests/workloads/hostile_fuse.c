/*
 * A library in a file system that stops answering: hostile_fuse FOLDER FILE OFFSET mounts one with
 * one file over FOLDER (in a mount namespace of its own), maps that file's code, and from then on
 * answers nobody. Then it calls the code at OFFSET. Exit code 77: not possible here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

static unsigned char content[1 << 20];
static size_t size;

static void reply(int fd, unsigned long unique, int error, const void *data, size_t len)
{
    struct fuse_out_header head = {(unsigned)(sizeof(head) + len), error, unique};
    struct iovec iov[] = {{&head, sizeof(head)}, {(void *)data, len}};

    if (writev(fd, iov, 2) < 0)
        perror("reply");
}

static struct fuse_attr attr_of(unsigned long node)
{
    return (struct fuse_attr){.ino = node,
                              .size = node == 1 ? 0 : size,
                              .mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0755,
                              .nlink = 1};
}

static void answer(int fd, const struct fuse_in_header *in)
{
    const void *body = in + 1;

    if (in->opcode == FUSE_INIT) {
        struct fuse_init_out out = {.major = 7, .minor = 31, .max_write = 65536};
        reply(fd, in->unique, 0, &out, sizeof(out));
    } else if (in->opcode == FUSE_LOOKUP) {
        struct fuse_entry_out out = {.nodeid = 2, .attr = attr_of(2)};
        reply(fd, in->unique, 0, &out, sizeof(out));
    } else if (in->opcode == FUSE_GETATTR) {
        struct fuse_attr_out out = {.attr = attr_of(in->nodeid)};
        reply(fd, in->unique, 0, &out, sizeof(out));
    } else if (in->opcode == FUSE_OPEN) {
        struct fuse_open_out out = {.fh = 1};
        reply(fd, in->unique, 0, &out, sizeof(out));
    } else if (in->opcode == FUSE_READ) {
        const struct fuse_read_in *r = body;
        size_t at = r->offset < size ? r->offset : size;
        reply(fd, in->unique, 0, content + at, r->size < size - at ? r->size : size - at);
    } else if (in->opcode != FUSE_FORGET && in->opcode != FUSE_BATCH_FORGET) {
        reply(fd, in->unique, -ENOSYS, NULL, 0);
    }
}

/* Until told by a byte; then takes questions and forgets them. */
static void serve(int fd, int quiet)
{
    static char room[1 << 18] __attribute__((aligned(8)));
    int is_quiet = 0;
    char byte;

    fcntl(quiet, F_SETFL, O_NONBLOCK);
    while (read(fd, room, sizeof(room)) > 0) {
        is_quiet = is_quiet || read(quiet, &byte, 1) == 1;
        if (!is_quiet)
            answer(fd, (const struct fuse_in_header *)(const void *)room);
    }
    pause();
}

static int mount_at(const char *folder)
{
    char options[128];
    int fd = open("/dev/fuse", O_RDWR);

    snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", fd);
    if (fd < 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("hostile", folder, "fuse.hostile", 0, options) < 0) {
        perror("mount");
        exit(77);
    }
    return fd;
}

/* Maps the file, makes the server fall silent, and works. */
static int map_and_work(const char *path, unsigned long at, int quiet)
{
    int lib = open(path, O_RDONLY);
    unsigned char *base = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, lib, 0);

    if (base == MAP_FAILED)
        return 2;
    void *code = base + at;
    void (*call)(void);
    memcpy(&call, &code, sizeof(code));
    call();
    if (write(quiet, "q", 1) != 1)
        return 2;
    puts("ready");
    fflush(stdout);
    for (double until = seconds_now() + 300; seconds_now() < until;)
        call();
    return 0;
}

int main(int argc, char **argv)
{
    char path[4096];
    int quiet[2];

    if (argc < 4)
        return 2;
    int file = open(argv[2], O_RDONLY);
    size = (size_t)read(file, content, sizeof(content));
    int fd = mount_at(argv[1]);
    if (pipe(quiet) < 0)
        return 2;
    snprintf(path, sizeof(path), "%s/lib.so", argv[1]);
    /* Whoever ends this process ends the file system, and so all waiting for it. */
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, 9);
        close(fd);
        _exit(map_and_work(path, strtoul(argv[3], NULL, 0), quiet[1]));
    }
    serve(fd, quiet[0]);
    return 0;
}
