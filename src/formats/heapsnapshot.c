#include "formats/formats.h"

const struct format format_heapsnapshot = {
    .name = "heapsnapshot",
    .title = "V8 heap snapshot",
    .extension = NULL,
};
