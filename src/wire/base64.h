#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/bytes.h"

/* Appends `in` in base64, with '=' at the end where is_padded. */
void base64_encode(struct bytes in, bool is_padded, struct buf *out);

/*
 * Appends what the text stands for. Both alphabets are read ("+/" and the one of URLs, "-_"), with
 * or without '=' at the end. False when it is neither; `out` is then as it was.
 */
bool base64_decode(struct bytes text, struct buf *out);
