#include "formats/formats.h"

const struct format format_firefox = {
    .name = "firefox",
    .title = "Firefox profiler",
    .extension = NULL,
};
