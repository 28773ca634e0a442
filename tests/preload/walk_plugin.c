/* A library that is loaded and unloaded. */
#include "preload/walk_shapes.h"

SHAPE void plugin_call(shape_fn *at, void *ctx);

void plugin_call(shape_fn *at, void *ctx)
{
    volatile int room[30] = {0};

    at(ctx);
    room[3]++;
}
