#pragma once

#include "formats/format.h"

/* format.encode of pprof without its gzip layer, for messages that hold a Profile. */
int pprof_encode_plain(const struct profile_set *set, struct buf *out, struct buf *losses,
                       struct error *err);
