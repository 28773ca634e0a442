#include "formats/formats.h"

const struct format format_pprof = {
    .name = "pprof",
    .title = "pprof protobuf",
    .extension = ".pb.gz",
};
