#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/test.h"
#include "preload/handover.h"
#include "preload/inside.h"

static bool begin(void)
{
    return sample_begin(PRELOAD_CUSTOM);
}

static void makes_a_segment_that_says_where_all_is(struct test *t)
{
    CHECK(t, begin());
    const struct preload_header *h = preload_segment;
    CHECK(t, h->magic == PRELOAD_MAGIC);
    CHECK_INT(t, h->version, PRELOAD_VERSION);
    CHECK_INT(t, h->pid, getpid());
    CHECK(t, h->wished != 0 && h->wished == h->wanted);
    const struct preload_area *areas[] = {&h->ring, &h->texts, &h->live_keys, &h->live,
                                          &h->modules};
    uint64_t before = h->header_size;
    for (size_t i = 0; i < 5; i++) {
        CHECK(t, areas[i]->offset >= before && areas[i]->offset % 64 == 0);
        before = areas[i]->offset + areas[i]->size;
    }
    CHECK(t, before <= h->file_size);
    CHECK_INT(t, h->live.size / sizeof(struct preload_live), h->live_keys.size / 8);
    sample_end();
}

/* Who could change its size could keep readers waiting, so they read no other. */
static void its_size_is_sealed(struct test *t)
{
    char path[96];

    CHECK(t, begin());
    unsigned long at = (unsigned long)(uintptr_t)preload_segment, page = 4095;
    unsigned long end = (at + (unsigned long)segment.header->file_size + page) & ~page;
    sample_end();
    snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", at, end);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 && (errno == EPERM || errno == EACCES))
        TEST_SKIP(t, "map_files needs CAP_CHECKPOINT_RESTORE");
    CHECK(t, fd >= 0);
    int seals = fcntl(fd, F_GET_SEALS);
    CHECK_INT(t, seals & (F_SEAL_GROW | F_SEAL_SHRINK), F_SEAL_GROW | F_SEAL_SHRINK);
    CHECK(t, ftruncate(fd, 1 << 30) < 0 && errno == EPERM);
    close(fd);
}

static void texts_are_kept_once(struct test *t)
{
    CHECK(t, begin());
    uint32_t a = segment_text(PRELOAD_TEXT_STRING, "hello", 5, 0);
    CHECK(t, a > 0);
    CHECK_INT(t, segment_text(PRELOAD_TEXT_STRING, "hello", 5, 0), a);
    CHECK(t, segment_text(PRELOAD_TEXT_LABELS, "hello", 5, 0) != a);
    CHECK(t, segment_text(PRELOAD_TEXT_STRING, "hello", 5, 1) != a);
    CHECK(t, segment_text(PRELOAD_TEXT_STRING, "hello\0\0\0", 8, 0) != a);
    uint32_t none = segment_text(PRELOAD_TEXT_STRING, "", 0, 0);
    CHECK(t, none > 0 && segment_text(PRELOAD_TEXT_STRING, "", 0, 0) == none);
    const struct preload_text *text = (const void *)(segment.texts + a);
    CHECK_INT(t, text->size, 5);
    CHECK_INT(t, text->kind, PRELOAD_TEXT_STRING);
    CHECK(t, memcmp(text + 1, "hello\0\0\0", 8) == 0);
    sample_end();
}

/* Plugins that are opened and closed again and again, in the same place. */
static void modules_that_take_turns_leave_room(struct test *t)
{
    CHECK(t, begin());
    const uint64_t *used = (const uint64_t *)&segment.header->modules_used;
    struct preload_module m = {.start = 0x7000, .end = 0x9000, .build_id_len = 20};
    segment_module(&m, "/lib/one.so");
    uint64_t before = *used;
    for (int i = 0; i < 10; i++)
        segment_module(&m, "/lib/one.so");
    CHECK_INT(t, *used, before);
    m.build_id[0]++;
    segment_module(&m, "/lib/one.so"); /* built anew */
    CHECK(t, *used > before);
    for (int i = 0; i < 5000; i++)
        segment_module(&m, i % 2 ? "/lib/one.so" : "/lib/two.so");
    CHECK(t, *used > before + 1000 && *used < segment.modules_bytes * 3 / 4);
    uint64_t *lost = (uint64_t *)&segment.header->lost[PRELOAD_LOSS_MODULES];
    CHECK(t, *lost > 1000 && *lost < 5000); /* names of one may be those of the other */
    *lost = 0;
    before = *used;
    segment_module(&m, "/lib/three.so");
    CHECK(t, *used > before);
    CHECK_INT(t, *lost, 0);
    sample_end();
}

static void modules_form_a_list(struct test *t)
{
    CHECK(t, begin());
    uint64_t from = segment.header->modules_used;
    struct preload_module m = {.start = 0x1000, .end = 0x2000, .build_id_len = 20};
    segment_module(&m, "/lib/a.so");
    segment_module(&m, "");
    const struct preload_module *one = (const void *)(segment.modules + from);
    CHECK_INT(t, one->path_len, 9);
    CHECK(t, one->size % 8 == 0 && memcmp(one + 1, "/lib/a.so", 9) == 0);
    const struct preload_module *two = (const void *)((const char *)one + one->size);
    CHECK_INT(t, two->size, sizeof(*two));
    const struct preload_module *end = (const void *)((const char *)two + two->size);
    CHECK_INT(t, end->size, 0);
    for (uint64_t i = 0; i < 10000; i++) {
        m.start = i << 12;
        m.end = (i + 1) << 12;
        segment_module(&m, "/usr/lib/x86_64-linux-gnu/libsomething.so.1.2.3");
    }
    CHECK(t, segment.header->lost[PRELOAD_LOSS_MODULES] > 0);
    CHECK(t, segment.header->modules_used < segment.modules_bytes);
    sample_end();
}

/* ---- The ring ---- */

enum { WRITERS = 4, RECORDS = 20000 };

static void *write_records(void *arg)
{
    uint64_t me = (uintptr_t)arg;
    for (uint64_t i = 0; i < RECORDS; i++) {
        if (!begin())
            continue;
        struct preload_record r = {.kind = PRELOAD_CUSTOM, .address = me, .value = i};
        r.other = (uint32_t)(me * 1000003 + i);
        segment_put(&r);
        sample_end();
    }
    return NULL;
}

/* Reads all there is; counts what is out of order or torn. */
static size_t read_records(uint64_t next[WRITERS], size_t *ret_wrong)
{
    struct preload_header *h = segment.header;
    uint64_t tail = h->ring_tail, head = __atomic_load_n(&h->ring_head, __ATOMIC_ACQUIRE);
    size_t n = 0;
    for (; tail < head; tail++, n++) {
        const struct preload_record *r = &segment.ring[tail & (segment.ring_records - 1)];
        if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) != (uint32_t)(tail + 1))
            break;
        *ret_wrong += r->address >= WRITERS || r->value < next[r->address % WRITERS] ||
                      r->other != (uint32_t)(r->address * 1000003 + r->value) ||
                      r->kind != PRELOAD_CUSTOM || r->tid == 0 || r->time_ns == 0;
        next[r->address % WRITERS] = r->value + 1;
    }
    __atomic_store_n(&h->ring_tail, tail, __ATOMIC_RELEASE);
    return n;
}

static void records_of_threads_arrive_whole_and_in_order(struct test *t)
{
    struct preload_header *h = segment.header;
    pthread_t threads[WRITERS];
    for (size_t i = 0; i < WRITERS; i++)
        CHECK(t, pthread_create(&threads[i], NULL, write_records, (void *)(uintptr_t)i) == 0);
    uint64_t next[WRITERS] = {0};
    size_t read = 0, wrong = 0;
    while (read + __atomic_load_n(&h->lost[PRELOAD_LOSS_RING], __ATOMIC_RELAXED) <
           (size_t)WRITERS * RECORDS)
        read += read_records(next, &wrong);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    read += read_records(next, &wrong);
    CHECK_INT(t, wrong, 0);
    CHECK_INT(t, read + h->lost[PRELOAD_LOSS_RING], WRITERS * RECORDS);
    CHECK_INT(t, h->sampled[PRELOAD_CUSTOM], WRITERS * RECORDS);
    CHECK_INT(t, h->ring_head, read);
}

static void what_nobody_reads_is_counted(struct test *t)
{
    struct preload_header *h = segment.header;
    uint64_t head = h->ring_head, lost = h->lost[PRELOAD_LOSS_RING];
    CHECK(t, begin());
    for (size_t i = 0; i < segment.ring_records + 100; i++) {
        struct preload_record r = {.kind = PRELOAD_CUSTOM, .value = i};
        CHECK(t, segment_put(&r) == (i < segment.ring_records));
    }
    CHECK_INT(t, h->ring_head, head + segment.ring_records);
    CHECK_INT(t, h->lost[PRELOAD_LOSS_RING], lost + 100);
    h->ring_tail = UINT64_MAX; /* a reader that is out of its mind */
    struct preload_record r = {.kind = PRELOAD_CUSTOM};
    CHECK(t, !segment_put(&r));
    h->ring_tail = h->ring_head;
    CHECK(t, segment_put(&r));
    h->ring_tail = h->ring_head;
    sample_end();
}

/* ---- Texts, by threads ---- */

static uint32_t texts_of[WRITERS][512];

static void *write_texts(void *arg)
{
    uint32_t *mine = texts_of[(uintptr_t)arg];
    for (int round = 0; round < 50; round++) {
        for (uint32_t i = 0; i < 512; i++) {
            uint64_t stack[40];
            for (size_t k = 0; k < 40; k++)
                stack[k] = i * 7 + k;
            if (!begin())
                continue;
            uint32_t number = segment_text(PRELOAD_TEXT_STACK, stack, 8 * (1 + i % 40), 0);
            sample_end();
            mine[i] = round == 0 || mine[i] == number ? number : UINT32_MAX;
        }
    }
    return NULL;
}

static void threads_share_texts(struct test *t)
{
    pthread_t threads[WRITERS];
    for (size_t i = 0; i < WRITERS; i++)
        CHECK(t, pthread_create(&threads[i], NULL, write_texts, (void *)(uintptr_t)i) == 0);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    size_t same = 0;
    for (uint32_t i = 0; i < 512; i++) {
        for (size_t k = 0; k < WRITERS; k++) {
            const struct preload_text *text = (const void *)(segment.texts + texts_of[k][i]);
            CHECK(t, texts_of[k][i] < segment.texts_half);
            CHECK_INT(t, text->size, 8 * (1 + i % 40));
            CHECK_INT(t, *(const uint64_t *)(text + 1), i * 7);
            same += texts_of[k][i] == texts_of[0][i];
        }
    }
    CHECK(t, same > 512 * WRITERS * 9 / 10);
}

/* ---- Children ---- */

/* ThreadSanitizer writes out, in a child too, what the parent has not written yet. */
static pid_t forked(void)
{
    fflush(stdout);
    return fork();
}

static int status_of(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void children_have_memory_of_their_own(struct test *t)
{
    struct preload_header *h = segment.header;
    h->alloc_rate = 12345; /* a reader has changed it */
    uint64_t head = h->ring_head;
    pid_t child = forked();
    if (child == 0) {
        bool good = !segment_is_ours() && begin() && preload_segment->pid == (uint32_t)getpid() &&
                    preload_segment->alloc_rate == 12345 && preload_segment->ring_head == 0 &&
                    preload_thread.tid == (uint32_t)getpid();
        struct preload_record r = {.kind = PRELOAD_CUSTOM};
        good = good && segment_put(&r) && preload_segment->ring_head == 1 &&
               segment_text(PRELOAD_TEXT_STRING, "child", 5, 0) != 0;
        _exit(good ? 0 : 1);
    }
    CHECK_INT(t, status_of(child), 0);
    CHECK_INT(t, h->ring_head, head);
    CHECK_INT(t, h->pid, getpid());
}

static void vfork_children_borrow_it(struct test *t)
{
#ifdef __SANITIZE_THREAD__
    TEST_SKIP(t, "the sanitizer makes fork of vfork");
#endif
    uint64_t head = segment.header->ring_head;
    pid_t child = vfork();
    if (child == 0) {
        struct preload_record r = {.kind = PRELOAD_CUSTOM};
        if (begin()) {
            segment_put(&r);
            sample_end();
        }
        _exit(0);
    }
    CHECK_INT(t, status_of(child), 0);
    CHECK_INT(t, segment.header->pid, getpid());
    CHECK_INT(t, segment.header->ring_head, head + 1);
    CHECK_INT(t, preload_thread.tid, getpid());
}

static int in_directory(void)
{
    char directory[] = "/tmp/preload-test-XXXXXX", path[600];
    if (!mkdtemp(directory))
        return 1;
    strcpy(preload_settings.directory, directory);
    bool good = begin();
    DIR *d = opendir(directory);
    int files = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        files++;
        char wanted[32];
        snprintf(wanted, sizeof(wanted), "%d-", getpid());
        good = good && strncmp(e->d_name, wanted, strlen(wanted)) == 0 &&
               strcmp(e->d_name + strlen(e->d_name) - 5, ".ring") == 0;
        snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        good = good && (flock(fd, LOCK_EX | LOCK_NB) != 0) == (segment.header->is_locked != 0);
        close(fd);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(directory);
    return good && files == 1 ? 0 : 1;
}

static bool has_seen_nothing;
static bool is_made;

static void *looks_all_the_time(void *arg)
{
    while (!__atomic_load_n(&is_made, __ATOMIC_RELAXED)) {
        const struct preload_header *h = __atomic_load_n(&segment.header, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&h->pid, __ATOMIC_RELAXED) == 0 ||
            __atomic_load_n(&h->wanted, __ATOMIC_RELAXED) == 0)
            has_seen_nothing = true;
    }
    return arg;
}

/* The parent's is replaced while other threads look at it, as threads do that wait. */
static int under_the_eyes_of_others(const char *directory)
{
    strcpy(preload_settings.directory, directory);
    pthread_t thread;
    if (pthread_create(&thread, NULL, looks_all_the_time, NULL) != 0)
        return 2;
    usleep(100);
    bool good = begin();
    __atomic_store_n(&is_made, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    return good && preload_segment->pid == (uint32_t)getpid() && !has_seen_nothing ? 0 : 1;
}

static void others_never_see_half_of_it(struct test *t)
{
    char directory[] = "/tmp/preload-test-XXXXXX", path[600];
    CHECK(t, mkdtemp(directory) != NULL);
    for (int i = 0; i < 40 && !t->failures; i++) {
        pid_t child = forked();
        if (child == 0)
            _exit(under_the_eyes_of_others(i % 4 ? directory : ""));
        CHECK_INT(t, status_of(child), 0);
    }
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(directory);
}

static int under_a_limit(void)
{
    /* ftruncate() beyond it would kill. */
    struct rlimit small = {4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &small) != 0)
        return 1;
    bool refused = !begin() && !begin();
    return refused && preload_thread.busy == 0 && !live_remove((void *)4096, NULL) ? 0 : 1;
}

static void a_directory_holds_it_as_a_file(struct test *t)
{
    pid_t child = forked();
    if (child == 0)
        _exit(in_directory());
    CHECK_INT(t, status_of(child), 0);
}

static void does_without_where_it_cannot_be(struct test *t)
{
    pid_t child = forked();
    if (child == 0)
        _exit(under_a_limit());
    CHECK_INT(t, status_of(child), 0);
}

/* It may be in a sandbox: what it has is its parent's until something is wanted. */
static int of_a_dormant_parent(void)
{
    if (begin() || segment_is_ours() || segment.header->pid != (uint32_t)getppid())
        return 1;
    segment.header->wanted = preload_settings.wanted;
    return begin() && segment.header->pid == (uint32_t)getpid() ? 0 : 2;
}

static void children_of_the_dormant_make_none(struct test *t)
{
    segment.header->wanted = 0;
    pid_t child = forked();
    if (child == 0)
        _exit(of_a_dormant_parent());
    CHECK_INT(t, status_of(child), 0);
    CHECK_INT(t, segment.header->wanted, preload_settings.wanted); /* the child could write it */
}

static void it_goes_on_without_an_environment(struct test *t)
{
    char **kept = environ;
    environ = NULL;
    CHECK(t, begin());
    sample_end();
    pid_t child = forked();
    if (child == 0)
        _exit(begin() ? 0 : 1);
    CHECK_INT(t, status_of(child), 0);
    environ = kept;
}

static const struct test_case cases[] = {
    TEST(makes_a_segment_that_says_where_all_is),
    TEST(its_size_is_sealed),
    TEST(texts_are_kept_once),
    TEST(modules_that_take_turns_leave_room),
    TEST(modules_form_a_list),
    TEST(records_of_threads_arrive_whole_and_in_order),
    TEST(what_nobody_reads_is_counted),
    TEST(threads_share_texts),
    TEST(children_have_memory_of_their_own),
    TEST(vfork_children_borrow_it),
    TEST(a_directory_holds_it_as_a_file),
    TEST(others_never_see_half_of_it),
    TEST(does_without_where_it_cannot_be),
    TEST(children_of_the_dormant_make_none),
    TEST(it_goes_on_without_an_environment),
};
TEST_MAIN(cases)
