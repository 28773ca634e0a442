#pragma once

#include "base/buf.h"
#include "base/bytes.h"

/*
 * Whether a message of OTLP profiles (layout 1.10 and later, protobuf) keeps the rules of the
 * signal, those that OpenTelemetry's own checker knows: nothing empty, every index in its table,
 * element 0 of each table without content, each key once per owner, ids of the right length,
 * sensible addresses and lines, times within the profile's window, one shape of samples per
 * profile, no string or mapping twice, and no table entry that nothing refers to.
 *
 * Appends a line for each problem, at most OTLP_CHECK_LINES of them, and returns how many there
 * are; 0 is a good message.
 */
#define OTLP_CHECK_LINES 100

int otlp_check(struct bytes message, struct buf *problems);
