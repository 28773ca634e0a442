#include "formats/formats.h"

const struct format format_heapprofile = {
    .name = "heapprofile",
    .title = "V8 sampling heap profile",
    .extension = NULL,
};
