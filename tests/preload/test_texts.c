#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/test.h"
#include "preload/handover.h"
#include "preload/inside.h"

enum { WRITERS = 4 };

static bool begin(void)
{
    return sample_begin(PRELOAD_CUSTOM);
}

/* In a folder, where no agent of this machine comes to read. The file goes at once. */
static void makes_a_segment_apart(struct test *t)
{
    char folder[] = "/tmp/preload-texts-XXXXXX";
    CHECK(t, mkdtemp(folder) != NULL);
    setenv("VESTA_PRELOAD_DIR", folder, 1);
    CHECK(t, begin());
    sample_end();
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        (void)unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    CHECK_INT(t, rmdir(folder), 0);
}

static const struct preload_text *text_at(uint32_t number)
{
    return (const void *)(segment.texts + (number & (2 * segment.texts_half - 1)));
}

static void texts_that_nobody_reads_fill_their_room(struct test *t)
{
    CHECK(t, begin());
    struct preload_header *h = segment.header;
    char text[4096] = "";
    uint32_t number = 1, i = 0;
    /* This one is to be read; and what one half has room for is not all. */
    struct preload_record r = {.kind = PRELOAD_CUSTOM,
                               .stack = segment_text(PRELOAD_TEXT_STRING, "a", 1, 0)};
    CHECK(t, segment_put(&r));
    for (; number && i < 10000; i++) {
        memcpy(text, &i, sizeof(i));
        number = segment_text(PRELOAD_TEXT_STRING, text, sizeof(text), 0);
    }
    CHECK_INT(t, number, 0);
    CHECK(t, i > h->texts.size / 4200);
    CHECK_INT(t, h->lost[PRELOAD_LOSS_TEXTS], 1);
    const struct preload_text *kept = text_at(r.stack);
    CHECK(t, kept->size == 1 && *(const char *)(kept + 1) == 'a');
    CHECK_INT(t, segment_text(PRELOAD_TEXT_STRING, text, 1u << 20, 0), 0);
    /* Then it is read. */
    h->ring_tail = h->ring_head;
    CHECK(t, segment_text(PRELOAD_TEXT_STRING, text, sizeof(text), 0) != 0);
    CHECK_INT(t, h->lost[PRELOAD_LOSS_TEXTS], 1);
    sample_end();
}

/* Live objects keep their stacks, however many others there were since, also beyond the largest
 * number. */
static void stacks_of_live_memory_are_carried_over(struct test *t)
{
    enum { OBJECTS = 3000, TURNS = 7 };
    struct preload_header *h = segment.header;
    uint64_t lost = h->lost[PRELOAD_LOSS_TEXTS], stack[16] = {0};
    CHECK(t, begin());
    h->texts_used = (1ull << 32) - segment.texts_half + 1;
    for (uint64_t i = 1; i <= OBJECTS; i++) {
        stack[0] = i;
        uint32_t number = segment_text(PRELOAD_TEXT_STACK, stack, sizeof(stack), 0);
        CHECK(t, number != 0);
        live_add((void *)(uintptr_t)(i * 4096), &(struct preload_live){.size = i, .stack = number});
    }
    uint64_t end = h->texts_used + TURNS * segment.texts_half;
    for (uint64_t i = 0; h->texts_used < end; i++) {
        stack[0] = 1000000 + i;
        CHECK(t, segment_text(PRELOAD_TEXT_STACK, stack, sizeof(stack), 0) != 0);
        if (i % 100 == 0) /* one goes, and another comes in the middle */
            CHECK(t, live_remove((void *)(uintptr_t)((1 + i / 100 % OBJECTS) * 4096), NULL) ==
                         (i / 100 < OBJECTS));
    }
    size_t found = 0;
    for (uint64_t i = 1; i <= OBJECTS; i++) {
        struct preload_live live;
        if (!live_remove((void *)(uintptr_t)(i * 4096), &live))
            continue;
        const struct preload_text *text = text_at(live.stack);
        CHECK_INT(t, live.size, i);
        CHECK(t, live.stack != 0);
        CHECK(t, preload_text_age(live.stack, h->texts_used, segment.texts_half) <=
                     segment.texts_half);
        CHECK_INT(t, text->size, sizeof(stack));
        CHECK_INT(t, *(const uint64_t *)(text + 1), i);
        found++;
    }
    CHECK(t, found > OBJECTS / 4);
    CHECK_INT(t, h->lost[PRELOAD_LOSS_TEXTS], lost);
    sample_end();
}

/* However little is carried with each text: the other half stays until all is. */
static void no_half_is_left_before_all_is_carried(struct test *t)
{
    struct preload_header *h = segment.header;
    uint64_t half = segment.texts_half, lost = h->lost[PRELOAD_LOSS_TEXTS], i = 0, waited = 0;
    uint64_t stack[180] = {0};
    CHECK(t, begin());
    uint64_t generation = h->texts_used / half;
    CHECK(t, generation > 0);
    while (h->texts_used / half == generation && i < 100000) {
        stack[0] = 2000000 + i++;
        if ((h->texts_used & (half - 1)) + 1000 < half)
            segment.texts_carried = 0;
        waited += segment_text(PRELOAD_TEXT_STACK, stack, sizeof(stack), 0) == 0;
    }
    CHECK(t, waited > 10 && waited <= (segment.live_mask + 1) / 256);
    CHECK_INT(t, h->lost[PRELOAD_LOSS_TEXTS], lost + waited);
    CHECK(t, h->texts_used / half == generation + 1);
    h->lost[PRELOAD_LOSS_TEXTS] = lost;
    sample_end();
}

/* ---- Texts that come and go, by threads ---- */

static void *turn_texts(void *arg)
{
    uint64_t stack[180] = {0};
    for (uint64_t i = 0; i < 40000; i++) {
        stack[0] = (uintptr_t)arg << 32 | i;
        if (!begin())
            continue;
        uint32_t number = segment_text(PRELOAD_TEXT_STACK, stack, sizeof(stack), 0);
        live_add((void *)((uintptr_t)(1 + (uintptr_t)arg) << 32 | (i % 512) << 12),
                 &(struct preload_live){.size = stack[0], .stack = number});
        sample_end();
    }
    return NULL;
}

static void threads_turn_texts_together(struct test *t)
{
    pthread_t threads[WRITERS];
    struct preload_header *h = segment.header;
    uint64_t before = h->texts_used / segment.texts_half;
    size_t n = 0, whole = 0;
    for (size_t i = 0; i < WRITERS; i++)
        CHECK(t, pthread_create(&threads[i], NULL, turn_texts, (void *)(uintptr_t)i) == 0);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(t, h->texts_used / segment.texts_half > before + 4);
    for (size_t i = 0; i <= segment.live_mask; i++) {
        const struct preload_live *live = &segment.live[i];
        if (segment.keys[i] < 4096 || live->stack == 0)
            continue;
        const struct preload_text *text = text_at(live->stack);
        uint64_t hash = text->size <= 180 * 8 ? preload_text_hash(text, text + 1) : 0;
        n++;
        if (text->check != preload_text_check(hash, live->stack))
            continue;
        whole++;
        CHECK(t, preload_text_age(live->stack, h->texts_used, segment.texts_half) <=
                     segment.texts_half);
        CHECK_INT(t, *(const uint64_t *)(text + 1), live->size);
    }
    /* Threads that are held up while they write damage a few, and that can be told. */
    CHECK(t, n > 512 && whole > n * 9 / 10);
}

static const struct test_case cases[] = {
    TEST(makes_a_segment_apart),
    TEST(texts_that_nobody_reads_fill_their_room),
    TEST(stacks_of_live_memory_are_carried_over),
    TEST(no_half_is_left_before_all_is_carried),
    TEST(threads_turn_texts_together),
};
TEST_MAIN(cases)
