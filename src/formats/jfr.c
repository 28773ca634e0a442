#include "formats/formats.h"

const struct format format_jfr = {
    .name = "jfr",
    .title = "Java Flight Recorder",
    .extension = NULL,
};
