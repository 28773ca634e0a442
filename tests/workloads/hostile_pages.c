/*
 * Memory that whoever reads it waits for, for ever (userfaultfd): "environ" withholds the page of
 * its environment, "context" an OpenTelemetry context, "stack" the stack of a thread that sleeps.
 * Then it works. Exit code 77: not possible here. x86-64 only.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "work.h"

extern char **environ;

NOINLINE void hostile_work(void)
{
    spin(50);
    sink++;
}

static void withhold(void *start, size_t len)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register what = {.range = {(unsigned long)start, len},
                                   .mode = UFFDIO_REGISTER_MODE_MISSING};

    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0 || ioctl(fd, UFFDIO_REGISTER, &what) < 0) {
        perror("userfaultfd");
        _exit(77);
    }
    madvise(start, len, MADV_DONTNEED);
}

/* The environment's strings lie in the last pages of the stack. The test makes them so large that
 * whole pages hold nothing else. */
static void withhold_environ(void)
{
    char *first = environ[0], *last = first;

    for (char **e = environ; *e; e++)
        last = *e > last ? *e + strlen(*e) : last;
    char *begin = (char *)(((unsigned long)first + 4095) & ~4095ul);
    char *end = (char *)((unsigned long)last & ~4095ul);
    if (end <= begin)
        _exit(78);
    withhold(begin, (size_t)(end - begin));
}

static void withhold_context(void)
{
    int fd = memfd_create("OTEL_CTX", 0);

    if (ftruncate(fd, 8192) < 0)
        _exit(78);
    withhold(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), 8192);
}

static char *stack;
#define STACK ((size_t)256 << 10)

static void *sleep_there(void *arg)
{
    unsigned long top = (unsigned long)stack + STACK / 2;

    (void)arg;
    for (;;)
        __asm__ volatile("mov %%rsp, %%rbx\n\tmov %0, %%rsp\n\tsyscall\n\tmov %%rbx, %%rsp"
                         :
                         : "r"(top), "a"(SYS_pause)
                         : "rbx", "rcx", "r11", "memory");
    return NULL;
}

static void withhold_stack(void)
{
    pthread_t thread;

    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_create(&thread, NULL, sleep_there, NULL);
    usleep(50000);
    withhold(stack, STACK);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "environ") == 0)
        withhold_environ();
    else if (strcmp(what, "context") == 0)
        withhold_context();
    else
        withhold_stack();
    puts("ready");
    fflush(stdout);
    for (double until = seconds_now() + 300; seconds_now() < until;)
        hostile_work();
    return 0;
}
