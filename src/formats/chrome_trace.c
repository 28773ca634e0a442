#include "formats/formats.h"

const struct format format_chrome_trace = {
    .name = "chrome-trace",
    .title = "Chrome trace events",
    .extension = NULL,
};
