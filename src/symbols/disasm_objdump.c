#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "symbols/disasm_internal.h"

/* For machines that capstone does not know (RISC-V, LoongArch...): `objdump -d`, line by line. */

#define CODE_BYTES_MAX 32

/* Hex digits at the front, in groups of one or more bytes: "0c 41" or "00c41". */
static size_t parse_code(char **text, uint8_t code[CODE_BYTES_MAX])
{
    size_t n = 0;
    char *p = *text;

    while (n < CODE_BYTES_MAX) {
        char pair[3] = "";
        memcpy(pair, p, p[0] ? 2 : 1);
        char *end;
        long v = strtol(pair, &end, 16);
        if (end != pair + 2 || pair[0] == ' ')
            break;
        code[n++] = (uint8_t)v;
        p += 2;
        if (*p == ' ')
            p++;
    }
    *text = p;
    return n;
}

bool disasm_parse_objdump(char *line, uint8_t code[CODE_BYTES_MAX], struct disasm_row *ret)
{
    char *at = line, *end;

    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] != ' ')
        return false;
    uint64_t address = strtoull(at, &end, 16);
    if (end == at || end[0] != ':')
        return false;
    at = end + 1;
    at += strspn(at, " \t");
    size_t n = parse_code(&at, code);
    at += strspn(at, " \t");
    if (n == 0 || at[0] == '\0')
        return false;
    for (char *tab = at; (tab = strchr(tab, '\t'));)
        *tab = ' ';
    *ret = (struct disasm_row){.address = address, .code = {code, n}, .text = at};
    return true;
}

static int start_objdump(const char *path, uint64_t start, uint64_t end, pid_t *ret_pid,
                         int *ret_fd)
{
    char from[48], to[48];
    const char *args[] = {"objdump", "-d", "-w", "-C", from, to, "--", path, NULL};
    const char *env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", NULL};
    posix_spawn_file_actions_t actions;
    int pipe_fds[2];

    snprintf(from, sizeof(from), "--start-address=0x%" PRIx64, start);
    snprintf(to, sizeof(to), "--stop-address=0x%" PRIx64, end);
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return -errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int r = posix_spawnp(ret_pid, args[0], &actions, NULL, (char *const *)(uintptr_t)args,
                         (char *const *)(uintptr_t)env);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);
    if (r != 0) {
        close(pipe_fds[0]);
        return -r;
    }
    *ret_fd = pipe_fds[0];
    return 0;
}

int disasm_by_objdump(struct binary *b, uint64_t start, uint64_t end, struct disasm_row_out *out,
                      struct error *err)
{
    char line[1024];
    uint8_t code[CODE_BYTES_MAX];
    struct disasm_row row;
    pid_t pid = -1;
    int fd = -1, status;
    size_t rows = 0;

    if (binary_elf(b)->fd < 0)
        return error_set(err, -EOPNOTSUPP, "capstone does not know this machine");
    int r = start_objdump(binary_elf(b)->path, start, end, &pid, &fd);
    errno = -r;
    if (r < 0)
        return error_set(err, -EOPNOTSUPP,
                         "capstone does not know this machine and objdump could not be run: %m");
    CLEANUP(fclosep) FILE *f = fdopen(fd, "re");
    while (f && r == 0 && fgets(line, sizeof(line), f)) {
        if (!disasm_parse_objdump(line, code, &row))
            continue;
        struct lookup l = {.va = row.address};
        binary_lookup(b, &l, 1);
        r = disasm_emit(out, &row, l.innermost);
        rows++;
    }
    while (f && fgets(line, sizeof(line), f))
        ; /* to its end, so that objdump is not cut off */
    waitpid(pid, &status, 0);
    if (r == 0 && rows == 0)
        return error_set(err, -EOPNOTSUPP,
                         "capstone does not know this machine, and objdump printed no code");
    return r;
}
