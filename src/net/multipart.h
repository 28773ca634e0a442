#pragma once

#include <stddef.h>

#include "base/bytes.h"
#include "base/error.h"

/*
 * multipart/form-data (RFC 7578, in the form of RFC 2046) in memory: steps through the parts, which
 * borrow from the body. Nothing is copied or unescaped, so nothing can grow.
 *
 *     struct multipart m;
 *     int r = multipart_begin(content_type, body, &m, err);
 *     for (struct multipart_part p; r == 0 && (r = multipart_next(&m, &p, err)) > 0; r = 0)
 *         use(p.name, p.content);
 *
 * Lines end in CRLF; a transfer encoding other than none is refused; a body without its closing
 * delimiter was cut short and is refused.
 */
#define MULTIPART_PARTS_MAX    64
#define MULTIPART_HEADER_MAX   8192 /* bytes of the headers of one part */
#define MULTIPART_BOUNDARY_MAX 70

struct multipart {
    struct bytes body, rest;
    char delimiter[MULTIPART_BOUNDARY_MAX + 8]; /* CR LF "--" boundary */
    size_t delimiter_len;
    size_t n_parts;
    bool is_ended;
};

struct multipart_part {
    struct bytes name; /* as it stands between the quotes */
    struct bytes file_name;
    struct bytes content_type;
    struct bytes content;
};

/* -EBADMSG when the content type is not multipart/form-data with a sound boundary, or the body has
 * no part. */
int multipart_begin(struct bytes content_type, struct bytes body, struct multipart *ret,
                    struct error *err);

/* 1 and the next part, 0 behind the last, or -EBADMSG saying what is wrong at which byte. */
int multipart_next(struct multipart *m, struct multipart_part *ret, struct error *err);
