#include "server/routes.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

/* Every table, each defined in the file that answers. */
/* clang-format off */
static const struct route *const tables[] = {
    pyroscope_query_routes,
    admin_routes,
    status_routes,
    control_routes,
    otlp_routes,
    traces_routes,
    deployments_routes,
    api_merge_routes,
    api_graph_routes,
    api_time_routes,
    api_diff_routes,
    api_search_routes,
    api_list_routes,
    api_found_routes,
    api_export_routes,
    api_file_routes,
    api_span_routes,
    api_tag_routes,
    api_source_routes,
    openapi_routes,
    pyroscope_ingest_routes,
    push_routes,
    upload_routes,
    names_routes,
    web_routes,
};
/* clang-format on */

const struct route *route_at(size_t n)
{
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
        for (const struct route *r = tables[t]; r->path; r++) {
            if (n-- == 0)
                return r;
        }
    }
    return NULL;
}

static bool has_path(const struct route *r, struct bytes path)
{
    size_t n = strlen(r->path);
    if (r->path[n - 1] == '*')
        return path.len > n - 1 && memcmp(path.data, r->path, n - 1) == 0;
    return path.len == n && memcmp(path.data, r->path, n) == 0;
}

static bool has_method(const struct route *r, struct bytes method)
{
    for (const char *m = r->method; *m;) {
        size_t n = strcspn(m, "|");
        if (n == method.len && memcmp(m, method.data, n) == 0)
            return true;
        /* What can be got can be asked for without its body. */
        if (n == 3 && memcmp(m, "GET", 3) == 0 && bytes_are(method, "HEAD"))
            return true;
        m += n + (m[n] == '|');
    }
    return false;
}

int route_find(struct bytes method, struct bytes path, const struct route **ret,
               const char **ret_methods)
{
    const struct route *other = NULL;

    for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
        for (const struct route *r = tables[t]; r->path; r++) {
            if (!has_path(r, path))
                continue;
            if (has_method(r, method)) {
                *ret = r;
                return 0;
            }
            other = r;
        }
    }
    if (!other)
        return -ENOENT;
    *ret_methods = other->method;
    return -EBADRQC;
}
