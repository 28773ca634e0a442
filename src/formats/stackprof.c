#include "formats/formats.h"

const struct format format_stackprof = {
    .name = "stackprof",
    .title = "stackprof",
    .extension = NULL,
};
