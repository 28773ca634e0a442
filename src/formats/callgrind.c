#include "formats/formats.h"

const struct format format_callgrind = {
    .name = "callgrind",
    .title = "callgrind",
    .extension = ".callgrind",
};
