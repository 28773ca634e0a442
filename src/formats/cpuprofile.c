#include "formats/formats.h"

const struct format format_cpuprofile = {
    .name = "cpuprofile",
    .title = "V8 CPU profile",
    .extension = NULL,
};
