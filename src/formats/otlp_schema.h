#pragma once

#include "base/bytes.h"

/*
 * The messages of OTLP profiles by name, for JSON: what each field is called and its number, which
 * is the layout otlp_layout_own's. Names of older releases stand beside the present ones.
 */
enum otlp_kind {
    OTLP_MESSAGE,
    OTLP_INT32, /* a number in JSON; the 64-bit ones are strings of digits */
    OTLP_INT,
    OTLP_UINT,
    OTLP_FIXED64,
    OTLP_BOOL,
    OTLP_DOUBLE,
    OTLP_STRING,
    OTLP_BYTES, /* base64 */
    OTLP_ID8,   /* hexadecimal, this many bytes */
    OTLP_ID16,
    OTLP_TEMPORALITY, /* an enum, by number or by name */
};

struct otlp_schema_field {
    const char *name;
    uint8_t number;
    uint8_t kind;
    bool repeated;
    bool until_1_7; /* only messages of 1.7 have it */
    const struct otlp_schema *message;
};

struct otlp_schema {
    const struct otlp_schema_field *fields; /* the present name of a number before older ones */
    size_t n;
};

extern const struct otlp_schema otlp_schema_root;

/* By name, also written with_underscores; NULL when there is none. */
const struct otlp_schema_field *otlp_schema_by_name(const struct otlp_schema *s, struct bytes name);
const struct otlp_schema_field *otlp_schema_by_number(const struct otlp_schema *s, uint32_t number);
