#pragma once

#include <stdint.h>

#include "base/bytes.h"

/* What an ExportProfilesServiceResponse says beside "taken". */
struct otlp_response {
    uint64_t rejected; /* profiles of those that were sent */
    char text[301];    /* why; or a warning; or empty */
};

/* What makes no sense says nothing. */
void otlp_read_response(struct bytes response, struct otlp_response *ret);
