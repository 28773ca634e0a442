#include "formats/formats.h"

const struct format format_speedscope = {
    .name = "speedscope",
    .title = "Speedscope",
    .extension = ".speedscope.json",
};
