/* What libvesta-context publishes without the preloaded library: read as another process would. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/test.h"
#include "preload/context_keys.h"
#include "vesta/vesta.h"

struct header {
    char signature[8];
    uint32_t version, payload_size;
    uint64_t published_ns, payload;
};

/* The contexts that this process has, the last of them in *ret. */
static int contexts(struct header *ret)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];
    int n = 0;

    *ret = (struct header){0};
    while (maps && fgets(line, sizeof(line), maps)) {
        if (!strstr(line, "/memfd:OTEL_CTX") && !strstr(line, ":OTEL_CTX]"))
            continue;
        const struct header *h = (const struct header *)strtoul(line, NULL, 16);
        n++;
        *ret = *h;
    }
    if (maps)
        fclose(maps);
    return n;
}

static bool payload_has(const struct header *h, const char *key, const char *value)
{
    char pair[512];
    size_t k = strlen(key), v = strlen(value);
    int n = snprintf(pair, sizeof(pair), "\x0a%c%s\x12%c\x0a%c%s", (char)k, key, (char)(v + 2),
                     (char)v, value);

    return memmem((const void *)(uintptr_t)h->payload, h->payload_size, pair, (size_t)n) != NULL;
}

static void it_says_who_the_process_is(struct test *t)
{
    struct vesta_attribute more[] = {{"service.version", "1.2"}, {"zone", "from arguments"}};
    struct header first, second;

    setenv("OTEL_SERVICE_NAME", "from-environment", 1);
    setenv("OTEL_RESOURCE_ATTRIBUTES", "zone=lost, host.type = a%2Cb ,service.name=lost,,=x,y", 1);
    CHECK_INT(t, contexts(&first), 0);
    CHECK_INT(t, vesta_process_publish("shop", more, 2), 0);
    CHECK_INT(t, contexts(&first), 1);
    CHECK(t, memcmp(first.signature, "OTEL_CTX", 8) == 0);
    CHECK_INT(t, first.version, 2);
    CHECK(t, first.published_ns > 0);
    CHECK(t, payload_has(&first, "service.name", "shop"));
    CHECK(t, payload_has(&first, "service.version", "1.2"));
    CHECK(t, payload_has(&first, "zone", "from arguments"));
    CHECK(t, payload_has(&first, "host.type", "a,b"));
    CHECK(t, payload_has(&first, "threadlocal.schema_version", "tlsdesc_v1_dev"));
    CHECK(t, !memmem((void *)(uintptr_t)first.payload, first.payload_size, "lost", 4));

    CHECK_INT(t, vesta_process_publish(NULL, NULL, 0), 0);
    CHECK_INT(t, contexts(&second), 1);
    CHECK(t, second.published_ns > first.published_ns);
    CHECK(t, second.payload != first.payload);
    CHECK(t, payload_has(&second, "service.name", "from-environment"));
    CHECK(t, payload_has(&second, "zone", "lost"));
}

static void what_is_too_much_is_refused_and_changes_nothing(struct test *t)
{
    static char huge[20000];
    struct vesta_attribute large = {"large", huge}, nameless = {NULL, "x"};
    struct header before, after;

    memset(huge, 'x', sizeof(huge) - 1);
    contexts(&before);
    CHECK_INT(t, vesta_process_publish("shop", &large, 1), -E2BIG);
    CHECK_INT(t, vesta_process_publish("shop", &nameless, 1), -EINVAL);
    contexts(&after);
    CHECK_INT(t, after.published_ns, before.published_ns);
}

static void names_of_keys_are_published(struct test *t)
{
    static struct found_keys keys;
    struct header h;

    vesta_label_set("http.route", "/cart");
    vesta_label_set("tenant", "blue");
    vesta_label_set("http.route", "/pay");
    CHECK_INT(t, contexts(&h), 1);
    found_keys_read((const uint8_t *)(uintptr_t)h.payload, h.payload_size, &keys);
    CHECK_INT(t, keys.n, 2);
    CHECK(t, keys.at[1] == 10 && memcmp(keys.names, "http.routetenant", 16) == 0);
    for (int i = 0; i < 400; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%d", i);
        int r = vesta_label_set(key, "v");
        vesta_label_clear(key);
        CHECK_INT(t, r, i < 253 ? 0 : -ENOSPC);
    }
    contexts(&h);
    found_keys_read((const uint8_t *)(uintptr_t)h.payload, h.payload_size, &keys);
    CHECK_INT(t, keys.n, 255);
}

/* Cut and changed anywhere, it is read without harm. */
static void a_damaged_map_of_keys_does_no_harm(struct test *t)
{
    static struct found_keys keys;
    struct header h;
    uint64_t random = 1;

    contexts(&h);
    for (size_t n = 0; n < h.payload_size; n++) {
        uint8_t *copy = malloc(n + 1);
        memcpy(copy, (const void *)(uintptr_t)h.payload, n);
        for (int i = 0; i < 4 && n > 0; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            copy[(random >> 33) % n] = (uint8_t)(random >> 20);
        }
        found_keys_read(copy, n, &keys);
        CHECK(t, keys.n <= FIND_KEYS_MAX && keys.at[keys.n] <= FIND_NAMES_MAX);
        free(copy);
    }
}

static void *publishes(void *is_over)
{
    while (!__atomic_load_n((bool *)is_over, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < 50; i++)
            vesta_process_publish("busy", NULL, 0);
        usleep(100);
    }
    return NULL;
}

/* Also when another thread is just publishing. */
static void a_child_publishes_its_own(struct test *t)
{
    bool is_over = false;
    pthread_t thread;

    pthread_create(&thread, NULL, publishes, &is_over);
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct header h;
            alarm(10);
            bool is_there = contexts(&h) == 1 && h.published_ns && h.payload_size > 0 &&
                            memmem((void *)(uintptr_t)h.payload, h.payload_size, "http.route", 10);
            bool can_change = vesta_process_publish("child", NULL, 0) == 0 && contexts(&h) == 1 &&
                              payload_has(&h, "service.name", "child");
            _exit(is_there && can_change ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        CHECK_INT(t, status, 0);
    }
    __atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

/* It is in no list of who forks: what the thread has locked stays locked in its memory. */
static void a_child_that_nobody_was_told_of(struct test *t)
{
    bool is_over = false;
    pthread_t thread;

    pthread_create(&thread, NULL, publishes, &is_over);
    for (int i = 0; i < 30; i++) {
        pid_t child = (pid_t)syscall(SYS_fork);
        if (child == 0) {
            alarm(10);
            _exit(vesta_process_publish("child", NULL, 0) == 0 ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        CHECK_INT(t, status, 0);
    }
    __atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

static int in_small_files(void)
{
    struct rlimit small = {4096, 4096};
    struct header h;

    /* The old memory is in a file already, and the child has none of it. */
    return setrlimit(RLIMIT_FSIZE, &small) == 0 && vesta_process_publish("small", NULL, 0) == 0 &&
                   contexts(&h) <= 1
               ? 0
               : 1;
}

static void files_may_have_to_be_small(struct test *t)
{
    int status = -1;
    pid_t child = (pid_t)syscall(SYS_fork);

    if (child == 0)
        _exit(in_small_files());
    waitpid(child, &status, 0);
    CHECK_INT(t, status, 0);
}

/* Its first process has the number 1, and so has that of the next one. */
static int first_of_a_namespace(bool is_last)
{
    int status = -1;
    pid_t child;

    if (unshare(is_last ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return 77;
    child = fork();
    if (child == 0) {
        bool is_good = getpid() == 1 && vesta_process_publish("first", NULL, 0) == 0;
        _exit(!is_good ? 1 : is_last ? 0 : first_of_a_namespace(true));
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void processes_may_have_the_same_number(struct test *t)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0)
        _exit(first_of_a_namespace(false));
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        TEST_SKIP(t, "namespaces may not be made here");
    CHECK_INT(t, status, 0);
}

static void without_the_library_samples_go_nowhere(struct test *t)
{
    errno = 4711;
    vesta_sample("test/count", 1);
    vesta_profiling_set(false);
    vesta_profiling_set(true);
    CHECK_INT(t, errno, 4711);
}

static const struct test_case cases[] = {
    TEST(it_says_who_the_process_is),
    TEST(what_is_too_much_is_refused_and_changes_nothing),
    TEST(names_of_keys_are_published),
    TEST(a_damaged_map_of_keys_does_no_harm),
    TEST(a_child_publishes_its_own),
    TEST(a_child_that_nobody_was_told_of),
    TEST(files_may_have_to_be_small),
    TEST(processes_may_have_the_same_number),
    TEST(without_the_library_samples_go_nowhere),
};
TEST_MAIN(cases)
