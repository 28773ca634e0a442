#include "formats/formats.h"

const struct format format_perf_script = {
    .name = "perf-script",
    .title = "perf script text",
    .extension = NULL,
};
