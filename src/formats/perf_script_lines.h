#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/*
 * The lines of `perf script` output, taken apart. Which columns a line has depends on the options
 * it was made with, so everything but the shape is optional.
 */

/* "comm pid/tid [cpu] seconds.fraction: period event: rest" */
struct perf_header {
    struct bytes who; /* comm up to the cpu, as the line has it: equal text is an equal sampler */
    struct bytes comm;
    int64_t pid, tid, cpu; /* -1 when the line does not say */
    bool has_time;
    uint64_t time_ns;
    bool has_period;
    int64_t period;
    struct bytes event; /* without the colon; empty when the line does not say */
    struct bytes rest;  /* behind it: an address and symbol, or fields of a tracepoint */
};

/* False when it is no such line. */
bool perf_parse_header(struct bytes line, struct perf_header *ret);

/* "address symbol+0xoffset (dso)" */
struct perf_frame {
    uint64_t address;
    struct bytes symbol; /* without the offset; empty when "[unknown]" or not given */
    struct bytes dso;    /* empty when "[unknown]" or not given */
    bool is_inlined;     /* inlined into the frame of the next line */
};

bool perf_parse_frame(struct bytes line, struct perf_frame *ret);

/* "file.c:12", which `-F +srcline` prints below a frame. */
bool perf_parse_source(struct bytes line, struct bytes *ret_file, int64_t *ret_line);
