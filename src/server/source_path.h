#pragma once

#include "base/buf.h"
#include "base/bytes.h"

/*
 * Names of source files. A profile calls a file as the compiler did ("/build/shop/src/cart.c",
 * "github.com/x/shop/cart.go", "webpack:///./src/cart.ts"), an uploaded one has its place in a
 * repository ("src/cart.c"): these bring the two together.
 */
#define SOURCE_NAME_MAX 1024

/* The name for a file to be kept: folders and a name, without "." and empty ones. False for what
 * could lead elsewhere ("..", a leading drive or NUL) or has control characters, and for names that
 * are empty or too long. */
bool source_name_clean(struct bytes name, struct buf *ret);

/* The path without a scheme in front ("file://", "webpack:///") and "./". Borrowed. */
struct bytes source_path_plain(struct bytes path);

/*
 * How well a kept name fits a path: the number of folders and names, from the end, that are the
 * same, twice, and one more when all of either are. 0 when it does not fit: the file's name
 * differs, or it is all that is the same of two names with folders.
 */
unsigned source_name_fits(struct bytes name, struct bytes path);

/* Takes a folder off the front: true when the path lies in it; *ret is what lies behind. */
bool source_path_below(struct bytes path, struct bytes folder, struct bytes *ret);
