#include "formats/formats.h"

const struct format format_pprof_legacy = {
    .name = "pprof-legacy",
    .title = "pprof legacy (gperftools and Go text)",
    .extension = NULL,
};
