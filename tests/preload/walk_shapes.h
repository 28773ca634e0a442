#pragma once

#include <stddef.h>
#include <stdint.h>

/* Functions with frames of all shapes, without frame pointers. Each calls `at` in its midst. */
typedef void shape_fn(void *ctx);

#define SHAPE __attribute__((noinline, visibility("default")))

SHAPE int shape_plain(shape_fn *at, void *ctx);
SHAPE int shape_many_registers(shape_fn *at, void *ctx);
SHAPE int shape_variable(shape_fn *at, void *ctx, size_t n);
SHAPE int shape_aligned(shape_fn *at, void *ctx);
SHAPE int shape_aligned_variable(shape_fn *at, void *ctx, size_t n);
SHAPE int shape_large(shape_fn *at, void *ctx);
SHAPE int shape_early_out(shape_fn *at, void *ctx, int n);
SHAPE int shape_deep(shape_fn *at, void *ctx, int depth);
SHAPE void shape_cleanup(shape_fn *at, void *ctx);

/* In assembly. No table has it; rbp is as given while `at` runs. */
SHAPE void shape_without_tables(shape_fn *at, void *ctx, uint64_t rbp);
/* The same with the frame pointer as it should be. */
SHAPE void shape_with_pointer(shape_fn *at, void *ctx);
/* Tables that are wrong: the cfa is far away; not mapped; said by a senseless expression. */
SHAPE void shape_wrong_far(shape_fn *at, void *ctx);
SHAPE void shape_wrong_unmapped(shape_fn *at, void *ctx);
SHAPE void shape_wrong_expression(shape_fn *at, void *ctx);
SHAPE void shape_wrong_loop(shape_fn *at, void *ctx);
