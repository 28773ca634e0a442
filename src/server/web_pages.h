#pragma once

#include "server/call.h"
#include "server/web_assets.h"

/*
 * The web UI as the server hands it out: one page, whatever the path within it, and the files that
 * it loads. Files were packed when they were built; nothing is computed for them. The page says
 * what this server is (<base href>, the "boot" JSON), which may change while it runs, so it is put
 * together for each request.
 */

/* The route for a path that no table has: a file of the web UI, or the page for who wants to read
 * one. NULL: there is nothing. */
const struct route *web_pages_route(const struct http_request *q);

/* What of a file to send to a client that accepts these encodings; *ret_coding is "br", "gzip", or
 * NULL for the plain one. */
struct bytes web_asset_body(const struct web_asset *a, struct bytes accept_encoding,
                            const char **ret_coding);

/* Whether the list of an if-none-match has this tag (with its quotes). */
bool web_has_tag(struct bytes list, const char *tag);

/* Appends the path of a URL, ending in '/', as an attribute in HTML may have it; "/" where there is
 * none: "/vesta/" of "https://example.com/vesta". */
void web_base_path(const char *url, struct buf *out);

/* Appends JSON so that no element can end in it: as content of a script element. */
void web_add_json(struct bytes json, struct buf *out);

/* Appends text so that HTML takes it for text, between tags and in quoted attributes. */
void web_escape(struct bytes text, struct buf *out);
