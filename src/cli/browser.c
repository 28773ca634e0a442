#include "cli/browser.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

static int wait_child(pid_t child)
{
    int status;

    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Starts argv with standard input and output on these descriptors (-1: as they are). */
static int spawn(char *const *argv, int in, int out, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (in >= 0)
        posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (out >= 0)
        posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    int r = posix_spawnp(ret, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* A file without a name, holding `content`, at its beginning. */
static int temporary_with(struct bytes content, struct error *err)
{
    FILE *f = tmpfile();
    if (!f)
        return error_set(err, -errno, "could not make a temporary file: %m");
    int fd = dup(fileno(f));
    bool ok = fd >= 0 && fwrite(content.data, 1, content.len, f) == content.len && fflush(f) == 0;
    fclose(f);
    if (!ok || lseek(fd, 0, SEEK_SET) < 0) {
        int r = error_set(err, -errno, "could not write a temporary file: %m");
        if (fd >= 0)
            close(fd);
        return r;
    }
    return fd;
}

static int read_all(int fd, struct buf *ret)
{
    for (;;) {
        ssize_t n = read(fd, buf_reserve(ret, 64 << 10), 64 << 10);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return (int)n;
        ret->len += (size_t)n;
    }
}

int browser_draw_dot(struct bytes dot, struct buf *ret_svg, struct error *err)
{
    static char program[] = "dot", format[] = "-Tsvg";
    char *const argv[] = {program, format, NULL};
    CLEANUP(closep) int in = temporary_with(dot, err);
    if (in < 0)
        return in;
    CLEANUP(closep) int out = temporary_with((struct bytes){0}, err);
    if (out < 0)
        return out;
    pid_t child;
    int r = spawn(argv, in, out, &child);
    if (r < 0)
        return error_set(err, r,
                         "could not run Graphviz: %s (install the package graphviz, or use \"vesta "
                         "flame\")",
                         strerror(-r));
    r = wait_child(child);
    if (r != 0)
        return error_set(err, -EIO, "Graphviz failed with status %d", r);
    if (lseek(out, 0, SEEK_SET) < 0 || read_all(out, ret_svg) < 0)
        return error_set(err, -errno, "could not read what Graphviz drew: %m");
    return 0;
}

static int write_kept_file(struct bytes content, const char *extension, char *path, size_t size,
                           struct error *err)
{
    const char *folder = getenv("XDG_RUNTIME_DIR");
    if (!folder)
        folder = getenv("TMPDIR");
    snprintf(path, size, "%s/vesta-XXXXXX%s", folder ? folder : "/tmp", extension);
    CLEANUP(closep) int fd = mkstemps(path, (int)strlen(extension));
    if (fd < 0)
        return error_set(err, -errno, "could not make \"%s\": %m", path);
    while (content.len > 0) {
        ssize_t n = write(fd, content.data, content.len);
        if (n < 0 && errno != EINTR)
            return error_set(err, -errno, "could not write \"%s\": %m", path);
        content = bytes_from(content, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

static bool have_display(void)
{
    return getenv("BROWSER") || getenv("DISPLAY") || getenv("WAYLAND_DISPLAY");
}

int browser_show(struct bytes content, const char *extension, struct error *err)
{
    static char opener[] = "xdg-open";
    char path[512];
    int r = write_kept_file(content, extension, path, sizeof(path), err);
    if (r < 0)
        return r;
    char *browser = getenv("BROWSER");
    char *const argv[] = {browser ? browser : opener, path, NULL};
    pid_t child;
    if (have_display() && spawn(argv, -1, -1, &child) == 0 && wait_child(child) == 0)
        return 0;
    printf("%s\n", path);
    fputs("no browser was found here; open the file above in one (BROWSER names yours)\n", stderr);
    return 0;
}
