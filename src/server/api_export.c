#include <errno.h>
#include <string.h>

#include "formats/flame_svg.h"
#include "formats/format.h"
#include "query/time_range.h"
#include "server/api_mask.h"
#include "server/api_merged.h"
#include "server/server_internal.h"
#include "server/viewer_page.h"

/* A selection as a file: what other tools open. */
static const struct {
    const char *format; /* of formats/format.h; NULL: a picture */
    const char *media_type;
    const char *name;
} files[] = {
    {"pprof", "application/octet-stream", "profile.pb.gz"},
    {"otlp", "application/x-protobuf", "profile.otlp"},
    {"otlp-json", "application/json", "profile.json"},
    {"collapsed", "text/plain; charset=utf-8", "profile.folded"},
    {"speedscope", "application/json", "profile.speedscope.json"},
    {NULL, "image/svg+xml", "flame.svg"},
    {NULL, "text/html; charset=utf-8", "flame.html"},
};

#define AS_PAGE 6

static int encode(const struct api_merged *m, const char *name, struct buf *out, struct error *err)
{
    CLEANUP(buf_done) struct buf losses = {0};
    struct profile *only[] = {m->profile};
    struct profile_set one = {
        .budget = m->profile->dict->budget, .dict = m->profile->dict, .profiles = {only, 1, 1}};
    return format_by_name(name)->encode(&one, out, &losses, err);
}

static int draw(struct api_query *q, const struct api_merged *m, struct buf *out, struct error *err)
{
    struct flame_options o = {
        .type = m->type, .base_type = -1, .title = api_text(q, "title"), .frames = m->frames};
    int r = api_flag(q, "invert", &o.invert, err);
    return r < 0 ? r : flame_svg(m->profile, &o, out, err);
}

/* "cpu{...}, 2026-03-01T12:00:00Z to 2026-03-01T13:00:00Z" */
static void name_selection(const struct api_query *q, struct buf *out)
{
    char from[TIME_TEXT_MAX], until[TIME_TEXT_MAX];

    if (q->call->file) { /* whose name stays where it is */
        buf_add_str(out, "a file");
        return;
    }
    buf_add_bytes(out, q->query.selector->text);
    buf_addf(out, ", %s to %s", time_text(q->query.from_ns, from),
             time_text(q->query.to_ns, until));
}

static int make_page(struct api_query *q, struct api_merged *m, struct buf *out, struct error *err)
{
    CLEANUP(buf_done) struct buf selection = {.budget = &q->call->budget};
    CLEANUP(buf_done) struct buf members = {.budget = &q->call->budget};
    struct json_writer w = {.out = &members};
    struct flame_cut_options o = {.type = m->type, .frames = m->frames};
    const char *title = api_text(q, "title");

    int r = api_flag(q, "invert", &o.invert, err);
    if (r < 0)
        return r;
    name_selection(q, &selection);
    api_merged_head(q, m, &w);
    struct viewer_about about = {
        .title = title ? title : "Flame graph",
        .selection = buf_cstr(&selection),
        .time_ns = q->query.from_ns,
        .members = buf_cstr(&members),
    };
    return viewer_page_write(m->profile, &o, &about, out, err);
}

static int run_export(struct api_query *q, struct error *err)
{
    CLEANUP(api_merged_done) struct api_merged m = {0};
    CLEANUP(buf_done) struct buf out = {.budget = &q->call->budget};
    size_t which = (size_t)q->call->route->argument;

    int r = api_flag(q, "labels", &q->query.with_labels, err);
    if (r == 0)
        r = api_merge(q, &m, err);
    if (r == 0)
        r = api_mask(q->call->server->mask, m.profile, err);
    if (r == 0)
        r = files[which].format ? encode(&m, files[which].format, &out, err)
            : which == AS_PAGE  ? make_page(q, &m, &out, err)
                                : draw(q, &m, &out, err);
    if (r == 0 && buf_full(&out))
        r = buf_error(&out, err);
    if (r < 0)
        return r;
    api_reply_file(q, files[which].name, files[which].media_type, &out);
    return 0;
}

/* Rules of masking may change: no tag. */
static int handle(struct call *c, struct error *err)
{
    return api_answer_untagged(c, run_export, err);
}

#define P_EXPORT                                                                                   \
    API_P_MERGE "seconds: the range is this long and ends now, as pprof asks; "                    \
                "labels: 1 keeps the labels of samples, which is slower; "

const struct route api_export_routes[] = {
    API_ROUTE("profile.pb.gz", 0, "A selection as pprof: go tool pprof opens this URL", P_EXPORT),
    API_ROUTE("profile.otlp", 1, "A selection as OTLP profiles (protobuf)", P_EXPORT),
    API_ROUTE("profile.json", 2, "A selection as OTLP profiles (JSON)", P_EXPORT),
    API_ROUTE("profile.folded", 3, "A selection as folded stacks", P_EXPORT),
    API_ROUTE("profile.speedscope.json", 4, "A selection for speedscope", P_EXPORT),
    API_ROUTE("flame.svg", 5, "A flame graph as a file that can be opened anywhere",
              P_EXPORT API_P_FRAMES "invert: 1 puts the frames that spend first; "
                                    "title: heading of the picture; "),
    API_ROUTE("flame.html", AS_PAGE, "The viewer and the profile in one file, for a browser",
              P_EXPORT API_P_FRAMES "invert: 1 puts the frames that spend first; "
                                    "title: heading of the page; "),
    {0},
};
