#include "formats/formats.h"

const struct format format_otlp = {
    .name = "otlp",
    .title = "OTLP profiles",
    .extension = ".otlp",
};
