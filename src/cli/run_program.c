#include "cli/run_program.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "cli/run_signals.h"

#define LIBRARY        "libvesta-preload.so"
#define LIBRARY_MUSL   "libvesta-preload-musl.so"
#define FOR_ALL        "/$LIB/" LIBRARY
#define INTERPRETERS   4 /* a script may be interpreted by a script */
#define SEGMENTS_MAX   256
#define FIRST_LINE_MAX 256
#define FILES_MAX      10000 /* two for a process */

/* ---- Which command ---- */

static bool find_in_path(const char *name, char path[RUN_PATH_MAX])
{
    const char *list = getenv("PATH");

    for (const char *at = list ? list : "/usr/local/bin:/usr/bin:/bin"; *at;) {
        size_t n = strcspn(at, ":");
        int len = snprintf(path, RUN_PATH_MAX, "%.*s%s%s", (int)n, at, n > 0 ? "/" : "", name);
        struct stat st;
        if (len < RUN_PATH_MAX && access(path, X_OK) == 0 && stat(path, &st) == 0 &&
            S_ISREG(st.st_mode))
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

static int find_command(const char *name, char path[RUN_PATH_MAX], struct error *err)
{
    if (!strchr(name, '/')) {
        if (find_in_path(name, path))
            return 0;
        return error_set(err, -ENOENT, "there is no command \"%s\" in PATH", name);
    }
    if (access(name, X_OK) < 0)
        return error_set(err, -errno, "could not run \"%s\": %s", name, strerror(errno));
    snprintf(path, RUN_PATH_MAX, "%s", name);
    return 0;
}

/* The libc that a program's loader is of. */
static enum run_libc libc_of_elf(int fd, const Elf64_Ehdr *h)
{
    char loader[RUN_PATH_MAX] = "";

    for (unsigned i = 0; i < h->e_phnum && i < SEGMENTS_MAX; i++) {
        Elf64_Phdr p;
        off_t at = (off_t)(h->e_phoff + i * sizeof(p));
        if (pread(fd, &p, sizeof(p), at) != sizeof(p))
            break;
        if (p.p_type != PT_INTERP)
            continue;
        size_t n = p.p_filesz < sizeof(loader) - 1 ? (size_t)p.p_filesz : sizeof(loader) - 1;
        if (pread(fd, loader, n, (off_t)p.p_offset) != (ssize_t)n)
            loader[0] = '\0';
        return strstr(loader, "musl") ? RUN_LIBC_MUSL : RUN_LIBC_GLIBC;
    }
    return RUN_LIBC_NONE;
}

/* "#!/usr/bin/env -S node --x" is run by node. */
static bool interpreter_of(const char *line, char path[RUN_PATH_MAX])
{
    char words[FIRST_LINE_MAX], *rest = NULL;

    snprintf(words, sizeof(words), "%s", line);
    words[strcspn(words, "\n")] = '\0';
    char *first = strtok_r(words, " \t", &rest), *word = first;
    if (!first)
        return false;
    const char *slash = strrchr(first, '/');
    if (strcmp(slash ? slash + 1 : first, "env") == 0) {
        do
            word = strtok_r(NULL, " \t", &rest);
        while (word && (word[0] == '-' || strchr(word, '=')));
        return word && find_in_path(word, path);
    }
    snprintf(path, RUN_PATH_MAX, "%s", first);
    return true;
}

/* True when `path` is a script, and has become that of its interpreter. */
static bool look_inside(struct run_program *p)
{
    char head[FIRST_LINE_MAX] = "";
    Elf64_Ehdr h;
    struct stat st;
    CLEANUP(closep) int fd = open(p->path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false; /* what may be run need not be readable */
    if (fstat(fd, &st) == 0 && st.st_mode & (S_ISUID | S_ISGID))
        p->is_setuid = true;
    ssize_t n = pread(fd, head, sizeof(head) - 1, 0);
    if (n > 2 && head[0] == '#' && head[1] == '!')
        return interpreter_of(head + 2, p->path);
    if (pread(fd, &h, sizeof(h), 0) == sizeof(h) && memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 &&
        h.e_ident[EI_CLASS] == ELFCLASS64 && h.e_phentsize == sizeof(Elf64_Phdr))
        p->libc = libc_of_elf(fd, &h);
    return false;
}

int run_program_look(const char *command, struct run_program *ret, struct error *err)
{
    *ret = (struct run_program){.libc = RUN_LIBC_GLIBC};
    int r = find_command(command, ret->path, err);

    for (size_t i = 0; r == 0 && i < INTERPRETERS && look_inside(ret); i++)
        ;
    return r;
}

/* ---- Which library ---- */

/*
 * Loaders of glibc put the name of their system's folder of libraries in place of "$LIB", and that
 * of musl takes it as it is: so one text means the right library to each of them (meson.build makes
 * the folders). Whether it does so here is asked of the loader that this program has itself.
 */
static bool is_for_all(enum run_libc libc, const char *place)
{
    CLEANUP(buf_done) struct buf path = {0};

    buf_addf(&path, "%s" FOR_ALL, place);
    if (libc == RUN_LIBC_MUSL && access(buf_cstr(&path), R_OK) < 0)
        return false;
    (void)dlerror();
    void *loaded = dlopen(buf_cstr(&path), RTLD_LAZY | RTLD_NOLOAD);
    if (!loaded)
        return dlerror() == NULL; /* it is there, and is not loaded for being asked for */
    dlclose(loaded);
    return true;
}

static bool find_beside(const char *beside, enum run_libc libc, struct run_library *ret)
{
    CLEANUP(buf_done) struct buf path = {0};

    buf_addf(&path, "%s/%s", beside, libc == RUN_LIBC_MUSL ? LIBRARY_MUSL : LIBRARY);
    if (access(buf_cstr(&path), R_OK) < 0 || !realpath(buf_cstr(&path), ret->place))
        return false;
    buf_clear(&path);
    buf_addf(&path, "%s/preload", beside);
    char folder[RUN_PATH_MAX];
    if (realpath(buf_cstr(&path), folder) && is_for_all(libc, folder)) {
        memcpy(ret->place, folder, strlen(folder) + 1);
        ret->inside = FOR_ALL;
    }
    return true;
}

int run_library_find(enum run_libc libc, struct run_library *ret, struct error *err)
{
    static const char *const folders[] = {"src/preload",
                                          ".",
                                          "../lib/vesta",
                                          "../lib/x86_64-linux-gnu/vesta",
                                          "../lib/aarch64-linux-gnu/vesta",
                                          "../lib64/vesta"};
    const char *said = getenv("VESTA_PRELOAD_LIBRARY");
    char self[RUN_PATH_MAX / 2], beside[RUN_PATH_MAX];

    ret->inside = "";
    if (said && *said) {
        if (!realpath(said, ret->place))
            return error_set(err, -ENOENT, "VESTA_PRELOAD_LIBRARY: could not find \"%s\": %s", said,
                             strerror(errno));
        if (*said == '/' &&
            strlen(said) < sizeof(ret->place)) /* a link may be there for its path */
            memcpy(ret->place, said, strlen(said) + 1);
        return 0;
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        snprintf(beside, sizeof(beside), "%s/%s", self, folders[i]);
        if (find_beside(beside, libc, ret))
            return 0;
    }
    return error_set(err, -ENOENT,
                     "there is no %s beside this program or in its lib/vesta; "
                     "VESTA_PRELOAD_LIBRARY may say where it is",
                     libc == RUN_LIBC_MUSL ? LIBRARY_MUSL : LIBRARY);
}

/* ---- Starting ---- */

static struct rlimit inherited_files;

void run_program_raise_files(void)
{
    struct rlimit more;

    if (getrlimit(RLIMIT_NOFILE, &inherited_files) < 0)
        return;
    more = inherited_files;
    more.rlim_cur = more.rlim_max < FILES_MAX ? more.rlim_max : FILES_MAX;
    if (more.rlim_cur > inherited_files.rlim_cur)
        (void)setrlimit(RLIMIT_NOFILE, &more);
}

static void set_number(const char *name, uint32_t n)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", n);
    setenv(name, text, 1);
}

/* In the child. What is preloaded already stays, behind ours. */
static void set_environment(const struct run_environment *e)
{
    const char *others = getenv("LD_PRELOAD");
    CLEANUP(buf_done) struct buf preload = {0};

    if (!e->library)
        return;
    buf_add_str(&preload, e->library);
    if (others && *others)
        buf_addf(&preload, ":%s", others);
    setenv("LD_PRELOAD", buf_cstr(&preload), 1);
    setenv("VESTA_PRELOAD_DIR", e->folder, 1);
    if (e->types)
        setenv("VESTA_PRELOAD_TYPES", e->types, 1);
    else
        unsetenv("VESTA_PRELOAD_TYPES");
    set_number("VESTA_PRELOAD_INTERVAL", e->interval);
    set_number("VESTA_PRELOAD_LOCK_INTERVAL", e->lock_interval);
    setenv("VESTA_PRELOAD_OFF", e->is_off ? "1" : "0", 1);
}

/* In the child. An alarm outlives exec, but not fork. */
static _Noreturn void become(char *const *argv, const struct run_environment *e,
                             const struct itimerval *alarm, int tell)
{
    set_environment(e);
    setitimer(ITIMER_REAL, alarm, NULL);
    if (inherited_files.rlim_max > 0)
        (void)setrlimit(RLIMIT_NOFILE, &inherited_files);
    run_signals_restore();
    execvp(argv[0], argv);
    int why = errno;
    ssize_t n = write(tell, &why, sizeof(why));
    _exit(n == sizeof(why) ? 127 : 126);
}

pid_t run_program_start(char *const *argv, const struct run_environment *e, struct error *err)
{
    struct itimerval alarm = {0};
    int pipes[2], why = 0;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return error_set(err, -errno, "could not start \"%s\": %s", argv[0], strerror(errno));
    setitimer(ITIMER_REAL, &(struct itimerval){0}, &alarm);
    pid_t pid = fork();
    if (pid == 0)
        become(argv, e, &alarm, pipes[1]);
    int failed = errno;
    close(pipes[1]);
    ssize_t n = pid > 0 ? read(pipes[0], &why, sizeof(why)) : 0;
    close(pipes[0]);
    if (pid < 0)
        return error_set(err, -failed, "could not start \"%s\": %s", argv[0], strerror(failed));
    if (n != (ssize_t)sizeof(why))
        return pid;
    (void)waitpid(pid, NULL, 0);
    return error_set(err, -why, "could not run \"%s\": %s", argv[0], strerror(why));
}

int run_program_exit_code(int r)
{
    return r == -ENOENT ? 127 : 126;
}
