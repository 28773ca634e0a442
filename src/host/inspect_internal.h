#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "host/inspect.h"

/*
 * Questions and answers are protocol buffers: fields of a question, of the answer about a process,
 * and of a file in it. Mappings are one field of varints, four each: pages from the end of the one
 * before, pages, page in the file, and which file (0: none).
 */
enum {
    ASK_KIND = 1,
    ASK_PID,
    ASK_START,
    ASK_FLAGS,
    ASK_VARIABLE,
    ASK_BEGIN,
    ASK_END,
    ASK_PATH,
    ASK_OWNER,
    ASK_ADDRESS
};
enum ask_kind { ASK_PROCESS = 1, ASK_FILE, ASK_BY_PATH, ASK_LIST, ASK_WORDS, ASK_HANDOVER };
enum {
    ASK_MAPS = 1,
    ASK_IDENTITY = 2,
    ASK_CMDLINE = 4,
    ASK_PORTS = 8,
    ASK_NO_LINK = 16,
    ASK_ANCESTORS = 32,
    ASK_CAREFULLY = 64
};
enum {
    TOLD_PID = 1,
    TOLD_PARENT,
    TOLD_UID,
    TOLD_START,
    TOLD_CODE,
    TOLD_STACK,
    TOLD_INNER_PID,
    TOLD_FLAGS,
    TOLD_COMM,
    TOLD_EXE,
    TOLD_CMDLINE,
    TOLD_CGROUP,
    TOLD_ENVIRON,
    TOLD_CONTEXT,
    TOLD_CONTEXT_TIME,
    TOLD_PORT,
    TOLD_FILE,
    TOLD_MAPPINGS,
    TOLD_ANCESTOR,
    TOLD_CONTAINER_NAME,
    TOLD_CONTAINER_IMAGE,
    TOLD_CONTAINER_SERVICE,
    TOLD_POD,
    TOLD_POD_NAMESPACE,
    TOLD_POD_CONTAINER,
    TOLD_HANDOVER,
    TOLD_HANDOVER_END,
    TOLD_HANDOVER_INODE,
};
enum { TOLD_KERNEL_THREAD = 1, TOLD_SAME_MOUNTS = 2, TOLD_LISTENS = 4, TOLD_CUT = 8 };
enum { FILE_MAJOR = 1, FILE_MINOR, FILE_INODE, FILE_PATH, FILE_DELETED };

#define INSPECT_PAGE_BITS 12
#define INSPECT_TICK_NS   10000000ULL /* of /proc: USER_HZ is 100 everywhere */

/* A question as it is read in the worker; texts are borrowed from it. */
struct question {
    enum ask_kind kind;
    uint32_t pid, owner;
    uint64_t start_ns, flags, begin, end;
    struct bytes path;
    struct bytes variables[128];
    size_t n_variables;
    uint64_t addresses[INSPECT_WORDS_MAX];
    size_t n_addresses;
};
int question_read(struct bytes data, struct question *ret, struct error *err);

/* A process that is held open by its folder in /proc: that folder never is another's. */
struct target {
    int fd;
    uint32_t pid;
};

int target_open(uint32_t pid, struct target *ret, struct error *err);
/* As it is before anything is read: -ESRCH when it is not the one of `start_ns` (0: any), or has
 * ended; -EACCES when we have no rights over it. `room` is used. */
struct stat_text;
int target_check(const struct target *t, uint64_t start_ns, struct buf *room, struct stat_text *ret,
                 struct error *err);
/* -ESRCH unless it still is, and runs the same program. */
int target_check_again(const struct target *t, const struct stat_text *before, struct error *err);

/* Adds at most `max` bytes of a file of /proc. */
int target_read(const struct target *t, const char *file, size_t max, struct buf *out);
/* A link of /proc, at most size - 1 bytes. */
int target_link(const struct target *t, const char *file, char *ret, size_t size);
/* How many bytes could be read from the start on. */
size_t target_memory(const struct target *t, uint64_t address, void *to, size_t n);

/* inspect_file.c: opening. */
int inspect_open_mapping(const struct target *t, const struct question *q, int *ret_fd,
                         struct inspect_file *ret, struct error *err);
int inspect_open_handover(const struct target *t, const struct question *q, int *ret_fd,
                          struct inspect_file *ret, struct error *err);
int inspect_open_path(const struct target *t, const struct question *q, int *ret_fd,
                      struct inspect_file *ret, struct error *err);

/*
 * inspect_mounts.c: whether a handle is of a file system that a process serves (FUSE), which may
 * keep whoever asks it anything for ever, kills or not; or whether a process sees any. Nobody is
 * asked to find out. Files of mounts that are not to be seen count as such.
 */
bool inspect_is_served(const struct target *t, int handle); /* t: may be NULL */
bool inspect_sees_served(const struct target *t);
bool inspect_shares_mounts(const struct target *t); /* with us */

/* What else mappings tell; 0 where there is none. */
struct map_marks {
    uint64_t context;                      /* a process context may be here */
    uint64_t handover_begin, handover_end; /* the memory of a preloaded library */
    uint64_t handover_inode;
};

/* inspect_map.c: the payload of a process context whose header is at `address`; false: none. */
bool inspect_context(const struct target *t, uint64_t address, struct buf *out, uint64_t *ret_time);
/* Adds TOLD_FILE and TOLD_MAPPINGS of what is executable, up to out->len `max`, if `out` is given.
 */
int inspect_maps(const struct target *t, size_t max, struct buf *out, bool *ret_cut,
                 struct map_marks *ret);
bool inspect_is_handover(struct bytes path);
/* The mapping that holds an address; its path is in `room`. */
struct map_line;
bool inspect_map_at(const struct target *t, uint64_t address, struct buf *room,
                    struct map_line *ret);

/* inspect_ports.c: sockets that listen in the network of a process, as an array. -E2BIG: there are
 * more of them. */
struct listener {
    uint64_t inode;
    uint16_t port;
    bool is_near, is_loopback, is_v6; /* as in struct tcp_line */
    uint8_t address[16];
};
int inspect_listeners(const struct target *t, struct buf *out);
/* Calls `fn` for each of them that the process has open, until it says false. -E2BIG: not all that
 * it has open was looked at. */
typedef bool inspect_owned(void *arg, const struct listener *l);
int inspect_owned_listeners(const struct target *t, const struct buf *listeners, inspect_owned *fn,
                            void *arg);
bool inspect_shares_network(const struct target *t); /* with us */
/* Adds TOLD_PORT for each; true when it listens at all. */
bool inspect_ports(const struct target *t, struct buf *out);
