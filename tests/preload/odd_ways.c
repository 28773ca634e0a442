/* Programs that do what few do; run with the library in them. The argument says which. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void allocate(int times, size_t size)
{
    for (int i = 0; i < times; i++) {
        void *volatile p = malloc(size);
        free(p);
    }
}

/* The smallest stack that there may be; musl's is smaller than a walk. */
static void *allocates(void *arg)
{
    allocate(200, 1000000);
    return arg;
}

static int small_stack(void)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    if (pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN) != 0 ||
        pthread_create(&thread, &attr, allocates, NULL) != 0)
        return 1;
    return pthread_join(thread, NULL);
}

static int no_environment(void)
{
    clearenv();
    allocate(1000, 100000);
    return 0;
}

/* Operators are looked for, and are not there; nobody is to hear of it, or to find them here. */
static int no_error(void)
{
    return dlerror() == NULL && dlsym(RTLD_DEFAULT, "_Znwm") == NULL &&
                   dlsym(RTLD_DEFAULT, "_ZdlPv") == NULL
               ? 0
               : 1;
}

#ifdef __GLIBC__

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* A child that may call what allocators do, and dies of all else. */
#define ALLOWED(n)                                                                                 \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int confined(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOWED(SYS_brk),
        ALLOWED(SYS_mmap),
        ALLOWED(SYS_munmap),
        ALLOWED(SYS_mprotect),
        ALLOWED(SYS_getrandom),
        ALLOWED(SYS_madvise),
        ALLOWED(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 0; /* it is not allowed here */
    allocate(100, 1000000);
    return 0;
}

static int sandbox(void)
{
    int status = 1;
    pid_t child = fork();

    if (child == 0)
        _exit(confined());
    return child > 0 && waitpid(child, &status, 0) == child ? status != 0 : 1;
}

#endif

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } ways[] = {
        {"small-stack", small_stack},
        {"no-environment", no_environment},
        {"no-error", no_error},
#ifdef __GLIBC__
        {"sandbox", sandbox},
#endif
    };

    for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++)
        if (strcmp(ways[i].name, argv[1]) == 0)
            return ways[i].run();
    return 2;
}
