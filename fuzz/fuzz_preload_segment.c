/*
 * Any bytes as the shared memory of a process: no crash, bounded memory, and what is accepted can
 * be read, added up and made profiles of. The magic is put in its place, and the checks of texts
 * that lie one behind the other, so that the rest is reached.
 *
 * Links: inproc.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "inproc/inproc_profiles.h"

static void mend_texts(int fd, const uint8_t *data, size_t len)
{
    struct preload_header h;
    struct preload_text t;

    if (len < sizeof(h))
        return;
    memcpy(&h, data, sizeof(h));
    if (h.texts.offset > len || h.texts.size > len - h.texts.offset)
        return;
    const uint8_t *texts = data + h.texts.offset;
    for (uint64_t at = 8; at + sizeof(t) < h.texts.size; at += (sizeof(t) + t.size + 7) / 8 * 8) {
        memcpy(&t, texts + at, sizeof(t));
        if (t.size > h.texts.size - at - sizeof(t))
            break;
        t.check =
            preload_text_check(preload_text_hash(&t, texts + at + sizeof(t)), (uint32_t)(at / 8));
        (void)!pwrite(fd, &t, sizeof(t), (off_t)(h.texts.offset + at));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct error err = {{0}};
    struct segment_reader *r = NULL;
    uint64_t magic = PRELOAD_MAGIC;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    REQUIRE(fd >= 0 && pwrite(fd, data, len, 0) == (ssize_t)len);
    if (len >= sizeof(magic))
        REQUIRE(pwrite(fd, &magic, sizeof(magic), 0) == sizeof(magic));
    mend_texts(fd, data, len);
    struct segment_options limits = {
        .max_memory = (size_t)1 << 20, .max_drained = 1000, .max_doubts = 5000};
    int result = segment_reader_open(fd, &limits, &r, &err);
    if (result < 0) {
        REQUIRE(err.text[0] != '\0');
        return 0;
    }
    struct inproc_window_options o = {
        .by_thread = true, .max_memory = (size_t)1 << 20, .window_ns = 1};
    struct inproc_profiles_options p = {.scope_name = "fuzz"};
    struct inproc_window *w = inproc_window_new(r, &o);
    struct budget budget;
    budget_init(&budget, (size_t)16 << 20);
    struct profile_set *set = profile_set_new(&budget);
    for (uint64_t i = 1; i < 9; i++)
        (void)inproc_window_poll(w, i * 1000, false, &err);
    (void)inproc_window_end(w, 10000, true, &err);
    inproc_profiles_add(w, &p, set);
    inproc_profiles_named(set);
    profile_set_free(set);
    inproc_window_free(w);
    segment_reader_free(r);
    return 0;
}
