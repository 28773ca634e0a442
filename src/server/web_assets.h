#pragma once

#include <stdbool.h>

#include "base/bytes.h"

/*
 * The web UI as the build made it of web/: tools/build_web.mjs writes these tables. A build without
 * it (-Dweb=disabled) has empty ones.
 */

/* A file that the page loads. */
struct web_asset {
    const char *path; /* "/assets/index-Bq3x.js" */
    const char *type;
    const char *etag;          /* without quotes; of the plain content */
    bool is_hashed;            /* another content would have another path */
    struct bytes plain;        /* as it is */
    struct bytes gzip, brotli; /* empty where packing makes it no smaller */
};

/* Ends with a row of zeros. */
extern const struct web_asset web_assets[];

/* The page, taken apart where the server writes its base address and what it tells the scripts. */
struct web_page {
    struct bytes before_base, before_boot, after_boot;
};

extern const struct web_page web_page;

/* The viewer that stands in one file together with a profile. Neither part can end the element that
 * it is put into. */
struct web_viewer {
    struct bytes script, style;
    const char *script_hash, *style_hash; /* "sha256-...", as policies (CSP) name them */
};

extern const struct web_viewer web_viewer;
