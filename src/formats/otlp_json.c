#include "formats/formats.h"

const struct format format_otlp_json = {
    .name = "otlp-json",
    .title = "OTLP profiles as JSON",
    .extension = ".otlp.json",
};
