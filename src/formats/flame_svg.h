#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "profile/frames.h"
#include "profile/profile.h"

/*
 * A flame graph as one SVG file: every frame is a box as wide as its share, callers above callees.
 * Opened in a browser it zooms (click, arrow keys and Enter, Escape) and searches (/), with no
 * network; anywhere else it is a plain picture. Light and dark follow the viewer.
 */
struct flame_options {
    uint32_t type;     /* the column to draw */
    int32_t base_type; /* a column to compare with, or -1: width is the sum, colour the change */
    bool invert;       /* leaves first: who calls the hot code */
    const char *title; /* NULL: the sample type */
    struct frame_options frames;
};

/* At most this many frames are stored; the narrowest give way, and the picture says how many. */
#define FLAME_FRAMES_MAX 200000

int flame_svg(const struct profile *p, const struct flame_options *o, struct buf *out,
              struct error *err);
