#pragma once

#include "formats/format.h"

/* What the files of the pprof format share: pprof.c reads, pprof_sniff.c tells it from other
 * protobuf, pprof_encode.c writes. */

/* Field numbers of perftools.profiles.Profile. */
enum pprof_field {
    PPROF_SAMPLE_TYPE = 1,
    PPROF_SAMPLE,
    PPROF_MAPPING,
    PPROF_LOCATION,
    PPROF_FUNCTION,
    PPROF_STRING,
    PPROF_DROP_FRAMES,
    PPROF_KEEP_FRAMES,
    PPROF_TIME,
    PPROF_DURATION,
    PPROF_PERIOD_TYPE,
    PPROF_PERIOD,
    PPROF_COMMENT,
    PPROF_DEFAULT_TYPE,
    PPROF_DOC_URL,
    PPROF_FIELDS /* one past the last */
};

enum pprof_sample_field { PPROF_SAMPLE_LOCATION = 1, PPROF_SAMPLE_VALUE, PPROF_SAMPLE_LABEL };

int pprof_sniff(struct bytes head);
int pprof_encode(const struct profile_set *set, struct buf *out, struct buf *losses,
                 struct error *err);
