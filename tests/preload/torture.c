/*
 * Does, all at the same time, what is hard for a library inside: threads that come and go, every
 * function of allocation with its corner cases, locks, signals, fork of all kinds, exec, dlopen,
 * descriptors closed. Run with the library and tiny intervals; prints "torture: fine", or what was
 * wrong. `torture child` is what it executes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define MUST(x)                                                                                    \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "torture: %s:%d: %s (errno %d)\n", __FILE__, __LINE__, #x, errno);     \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Some allocators leave errno as it was, or do not align some sizes, also without us: the
 * environment says when there is one. */
#define IS_ALIGNED(p, to) (is_lax || (uintptr_t)(p) % (to) == 0)
#define ERRNO_IS(number)  (is_lax || errno == (number))
static int is_lax;

static volatile size_t too_much = SIZE_MAX / 2; /* volatile: the compiler knows malloc too well */

static void fill(void *p, size_t n, unsigned char with)
{
    memset(p, with, n);
}

static void has_only(const unsigned char *p, size_t n, unsigned char what)
{
    for (size_t i = 0; i < n; i++)
        MUST(p[i] == what);
}

static void aligned_corners(size_t n)
{
    for (size_t a = 8; a <= 65536; a *= 2) {
        void *p = NULL;
        MUST(posix_memalign(&p, a, n) == 0 && IS_ALIGNED(p, a));
        fill(p, n, 1);
        free(p);
        p = aligned_alloc(a < 16 ? 16 : a, n);
        MUST(p && IS_ALIGNED(p, a));
        fill(p, n, 2);
        p = realloc(p, n * 2 + 1);
        MUST(p);
        has_only(p, n, 2);
        free(p);
    }
    void *untouched = &untouched, *p = untouched;
    errno = 99;
    MUST(posix_memalign(&p, 3, n) == EINVAL && p == untouched);
    MUST(posix_memalign(&p, 24, n) == EINVAL && p == untouched);
    MUST(posix_memalign(&p, 64, too_much) == ENOMEM && p == untouched);
    p = memalign(64, n);
    MUST(p && IS_ALIGNED(p, 64));
    free(p);
    p = valloc(n);
    MUST(p && IS_ALIGNED(p, 4096));
    free(p);
}

static void alloc_corners(size_t n)
{
    errno = 99;
    void *p = malloc(n);
    MUST(p && ERRNO_IS(99) && malloc_usable_size(p) >= n);
    fill(p, n, 3);
    p = realloc(p, n + 5000);
    MUST(p && ERRNO_IS(99));
    has_only(p, n, 3);
    errno = 0;
    MUST(realloc(p, too_much) == NULL && ERRNO_IS(ENOMEM));
    has_only(p, n, 3); /* it is still there */
    errno = 0;
    MUST(reallocarray(p, too_much, 16) == NULL && ERRNO_IS(ENOMEM));
    p = reallocarray(p, n + 1, 2);
    MUST(p);
    has_only(p, n < 2 * n + 2 ? n : 2 * n + 2, 3);
    errno = 99;
    free(p);
    free(NULL);
    MUST(ERRNO_IS(99));
    p = realloc(NULL, n);
    MUST(p);
    free(realloc(p, 0)); /* NULL in glibc, which has freed it; an object elsewhere */
    unsigned char *zeros = calloc(n + 1, 7);
    MUST(zeros);
    has_only(zeros, (n + 1) * 7, 0);
    fill(zeros, (n + 1) * 7, 9);
    free(zeros);
    errno = 0;
    MUST(calloc(too_much, 4) == NULL && ERRNO_IS(ENOMEM));
    errno = 0;
    MUST(malloc(too_much) == NULL && ERRNO_IS(ENOMEM));
    zeros = calloc(1, (300 << 10) + n);
    MUST(zeros);
    has_only(zeros, (300 << 10) + n, 0);
    free(zeros);
    MUST((p = malloc(0)) != NULL);
    free(p);
    aligned_corners(n);
}

static void map_corners(size_t n)
{
    size_t size = (n + 4) * 4096;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(p != MAP_FAILED);
    p[0] = p[size - 1] = 1;
    MUST(munmap(p + size - 4096, 4096) == 0); /* its end, then its beginning */
    MUST(munmap(p, 4096) == 0);
    p = mremap(p + 4096, size - 8192, size * 2, MREMAP_MAYMOVE);
    MUST(p != MAP_FAILED);
    MUST(mmap(p, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
         p);
    MUST(munmap(p, size * 2) == 0);
    errno = 0;
    MUST(mmap(NULL, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    MUST(errno == EINVAL);
}

/* ---- Threads ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *passed[64];
static volatile int is_over;

static void *short_life(void *arg)
{
    return malloc((uintptr_t)arg);
}

static void *allocates(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; !is_over; i++) {
        size_t n = (size_t)rand_r(&seed) % (i % 50 == 0 ? 100000 : 700);
        unsigned char *p = malloc(n + 1);
        MUST(p);
        p[0] = 5;
        pthread_mutex_lock(&lock);
        unsigned char *other = passed[i % 64];
        passed[i % 64] = p;
        pthread_mutex_unlock(&lock);
        MUST(!other || other[0] == 5);
        free(other);
        if (i % 40 == 0) {
            alloc_corners(n % 1000);
            map_corners(n % 8);
        }
        if (i % 100 == 0) {
            pthread_t t;
            void *made;
            MUST(pthread_create(&t, NULL, short_life, (void *)(n + 1)) == 0);
            MUST(pthread_join(t, &made) == 0 && made);
            free(made);
        }
    }
    return NULL;
}

/* ---- Signals: what comes in between may be the library itself ---- */

static volatile int handled;

static void handler(int number)
{
    (void)number;
    int error = errno;
    void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED)
        munmap(p, 8192);
    handled++;
    errno = error;
}

/* ---- Children ---- */

static void child_lives(void)
{
    for (size_t i = 0; i < 30; i++)
        alloc_corners(i * 13);
    map_corners(1);
}

static int wait_for(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static void forks_deeply(int depth)
{
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        child_lives();
        if (depth > 0)
            forks_deeply(depth - 1);
        _exit(0);
    }
    MUST(wait_for(child) == 0);
}

/* Without libc's knowledge, so that only what needs no lock may be done. */
static void forks_by_hand(void)
{
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    MUST(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 20; i++)
            map_corners(1);
        _exit(0);
    }
    MUST(wait_for(child) == 0);
}

static void executes(const char *self)
{
    char *const args[] = {(char *)(uintptr_t)self, (char *)(uintptr_t) "child", NULL};
    pid_t child = vfork();
    if (child == 0) {
        execv(self, args);
        _exit(127);
    }
    MUST(child > 0 && wait_for(child) == 0);
    MUST(posix_spawn(&child, self, NULL, NULL, args, environ) == 0);
    MUST(wait_for(child) == 0);
}

static void closes_everything(void)
{
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        for (int fd = 0; fd < 1024; fd++)
            close(fd);
        int first = open("/dev/null", O_RDWR);
        child_lives();
        int second = open("/dev/null", O_RDWR);
        /* Nothing of ours has come in between. (libunwind, of tcmalloc, has a pipe.) */
        _exit(is_lax || (first == 0 && second == 1) ? 0 : 1);
    }
    MUST(wait_for(child) == 0);
}

static void opens_libraries(void)
{
    static const char *const names[] = {"libm.so.6", "libresolv.so.2", "libutil.so.1"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            dlclose(library);
        dlsym(RTLD_DEFAULT, "there is no such symbol");
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    is_lax = getenv("TORTURE_ALLOCATOR") != NULL;
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        child_lives();
        return 0;
    }
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, NULL);

    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, allocates, (void *)(i + 1)) == 0);
    double until = seconds() + (argc > 1 ? atof(argv[1]) : 1.0);
    int rounds = 0;
    do {
        forks_deeply(3);
        forks_by_hand();
        executes(argv[0]);
        closes_everything();
        opens_libraries();
    } while (++rounds < 2 || seconds() < until);
    is_over = 1;
    for (size_t i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    for (size_t i = 0; i < 64; i++)
        free(passed[i]);
    MUST(handled > 0);
    printf("torture: fine\n");
    return 0;
}
