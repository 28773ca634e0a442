#include "formats/formats.h"

const struct format format_perf_data = {
    .name = "perf-data",
    .title = "perf.data",
    .extension = NULL,
};
