#include "preload/walk_shapes.h"

#include <alloca.h>
#include <string.h>

/* Keeps a call from being the last thing that a function does. */
#define AFTER __asm__ volatile("" ::: "memory")

int shape_plain(shape_fn *at, void *ctx)
{
    at(ctx);
    AFTER;
    return 1;
}

int shape_many_registers(shape_fn *at, void *ctx)
{
    volatile int seed = 3;
    int a = seed, b = seed + 1, c = seed * 2, d = seed - 5, e = seed << 3, f = seed ^ 9;

    at(ctx);
    AFTER;
    return a + b * c - d * e + f;
}

int shape_variable(shape_fn *at, void *ctx, size_t n)
{
    char *p = alloca(n);

    memset(p, 1, n);
    at(ctx);
    AFTER;
    return p[n / 2];
}

int shape_aligned(shape_fn *at, void *ctx)
{
    volatile char room[64] __attribute__((aligned(64)));

    room[1] = 1;
    at(ctx);
    AFTER;
    return room[1];
}

int shape_aligned_variable(shape_fn *at, void *ctx, size_t n)
{
    volatile char room[64] __attribute__((aligned(64)));
    char *p = alloca(n);

    memset(p, 1, n);
    room[1] = 1;
    at(ctx);
    AFTER;
    return room[1] + p[n / 2];
}

int shape_large(shape_fn *at, void *ctx)
{
    volatile char room[400000];

    room[0] = room[sizeof(room) - 1] = 1;
    at(ctx);
    AFTER;
    return room[0];
}

int shape_early_out(shape_fn *at, void *ctx, int n)
{
    if (n < 0)
        return -1;
    if (n == 0) {
        at(ctx);
        AFTER;
        return shape_many_registers(at, ctx) + 1;
    }
    for (int i = 0; i < n; i++)
        shape_plain(at, ctx);
    return n;
}

int shape_deep(shape_fn *at, void *ctx, int depth)
{
    if (depth == 0) {
        at(ctx);
        AFTER;
        return 0;
    }
    int r = shape_deep(at, ctx, depth - 1);
    AFTER;
    return r + 1;
}

struct late {
    shape_fn *at;
    void *ctx;
};

static void run_late(struct late *l)
{
    l->at(l->ctx);
    AFTER;
}

void shape_cleanup(shape_fn *at, void *ctx)
{
    struct late l __attribute__((cleanup(run_late))) = {at, ctx};
    extern void pthread_exit(void *) __attribute__((noreturn));

    pthread_exit(NULL);
}

#define ASM_SHAPE(name, body)                                                                      \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" body               \
            ".size " #name ", . - " #name "\n")

ASM_SHAPE(shape_without_tables, "push %rbp\n"
                                "mov %rdx, %rbp\n"
                                "mov %rdi, %rax\n"
                                "mov %rsi, %rdi\n"
                                "call *%rax\n"
                                "pop %rbp\n"
                                "ret\n");

ASM_SHAPE(shape_with_pointer, "push %rbp\n"
                              "mov %rsp, %rbp\n"
                              "mov %rdi, %rax\n"
                              "mov %rsi, %rdi\n"
                              "call *%rax\n"
                              "pop %rbp\n"
                              "ret\n");

#define WRONG_SHAPE(name, tables)                                                                  \
    ASM_SHAPE(name, ".cfi_startproc\n" tables "sub $8, %rsp\n"                                     \
                    "mov %rdi, %rax\n"                                                             \
                    "mov %rsi, %rdi\n"                                                             \
                    "call *%rax\n"                                                                 \
                    "add $8, %rsp\n"                                                               \
                    "ret\n"                                                                        \
                    ".cfi_endproc\n")

WRONG_SHAPE(shape_wrong_far, ".cfi_def_cfa_offset 0x7ffffff0\n");
WRONG_SHAPE(shape_wrong_unmapped, ".cfi_escape 0x0f, 2, 0x09, 0x88\n"); /* cfa: const1s -120 */
/* cfa: an endless jump; const, const, div by 0. */
WRONG_SHAPE(shape_wrong_expression, ".cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff\n");
/* The return address is in rsp: not code. */
WRONG_SHAPE(shape_wrong_loop, ".cfi_register rip, rsp\n");

__asm__(".section .note.GNU-stack, \"\", @progbits\n.text\n");
