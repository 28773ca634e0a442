/*
 * Stacks that are none: threads that work with their stack pointer in nowhere, with frame pointers
 * that go round in circles, and with return addresses that are others at every look. x86-64 only.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "work.h"

/* No stack at all: not a single push. */
static void *nowhere(void *arg)
{
    __asm__ volatile("mov %0, %%rsp\n\tmov %0, %%rbp\n1:\tpause\n\tjmp 1b" : : "r"(arg) : "memory");
    return NULL;
}

/* Code of no file, so it is left by frame pointers: jmp to itself. */
static void *code(void)
{
    static const uint8_t text[] = {0xf3, 0x90, 0xeb, 0xfc};
    uint8_t *c =
        mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memcpy(c, text, sizeof(text));
    return c;
}

struct fake {
    uint64_t frame, stack;
    void *code;
};

static void *with_frames(void *arg)
{
    const struct fake *f = arg;

    __asm__ volatile("mov %0, %%rbp\n\tmov %1, %%rsp\n\tjmp *%2"
                     :
                     : "r"(f->frame), "r"(f->stack), "r"(f->code)
                     : "memory");
    return NULL;
}

int main(void)
{
    static const uint64_t places[] = {
        0, 8, 0x1000, 0xdeadbeef000, 0x7fffffffffff, 0xffffffff81000000, 0xffffffffffffffff};
    static struct fake fakes[3];
    enum { FRAMES = 4000 };
    pthread_t t;
    uint8_t *c = code();
    uint64_t *circle =
        mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *many =
        mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        pthread_create(&t, NULL, nowhere, (void *)places[i]);

    circle[0] = (uint64_t)&circle[2]; /* back to itself by way of another */
    circle[1] = (uint64_t)(c + 100);
    circle[2] = (uint64_t)&circle[0];
    circle[3] = (uint64_t)(c + 200);
    fakes[0] = (struct fake){(uint64_t)circle, (uint64_t)circle, c};

    for (size_t i = 0; i < FRAMES; i++) {
        many[2 * i] = (uint64_t)&many[2 * i + 2];
        many[2 * i + 1] = (uint64_t)(c + 16 * i + 1);
    }
    fakes[1] = (struct fake){(uint64_t)many, (uint64_t)many, c};
    fakes[2] = (struct fake){(uint64_t)c, (uint64_t)c, c}; /* code for a stack */
    for (size_t i = 0; i < 3; i++)
        for (size_t n = 0; n < 2; n++)
            pthread_create(&t, NULL, with_frames, &fakes[i]);
    puts("ready");
    fflush(stdout);
    uint64_t x = 1;
    for (double until = seconds_now() + 300; seconds_now() < until;)
        for (size_t i = 0; i < FRAMES; i++) {
            x = x * 6364136223846793005ul + 1442695040888963407ul;
            many[2 * i + 1] = (uint64_t)(c + (x >> 44));
        }
    return 0;
}
