#include <errno.h>

#include "profile/name_search.h"
#include "server/api_merged.h"
#include "server/routes.h"

/* What a pattern finds in a merged selection as a whole, whatever of it is drawn. */

static int reply_found(struct api_query *q, struct api_merged *m, const struct name_search *found,
                       struct error *err)
{
    struct sheet s;
    sheet_init(&s, &q->call->budget);
    api_merged_head(q, m, &s.head);
    json_key(&s.head, "matched_cum");
    json_i64(&s.head, found->cum);
    json_key(&s.head, "matched_flat");
    json_i64(&s.head, found->flat);
    json_key(&s.head, "functions");
    json_u64(&s.head, found->functions);
    int r = api_reply_sheet(q, &s, err);
    sheet_done(&s);
    return r;
}

static int run_search(struct api_query *q, struct error *err)
{
    CLEANUP(api_merged_done) struct api_merged m = {0};
    CLEANUP(regex_freep) struct regex *re = NULL;
    struct name_search found;

    int r = regex_new(bytes_of(api_text(q, "match")), &re, err);
    if (r < 0)
        return error_prefix(err, r, "match");
    regex_set_cancel(re, q->query.cancelled);
    r = api_merge(q, &m, err);
    if (r < 0)
        return r;
    struct frames frames;
    frames_init(&frames, m.profile->dict, m.frames);
    if (!profile_search(m.profile, m.type, &frames, re, &found))
        r = budget_error(m.profile->dict->budget, err);
    else if (q->query.cancelled && atomic_load(q->query.cancelled))
        r = error_set(err, -ECANCELED, "given up while names were matched");
    frames_done(&frames);
    return r < 0 ? r : reply_found(q, &m, &found, err);
}

static int handle(struct call *c, struct error *err)
{
    return api_answer(c, run_search, err);
}

const struct route api_search_routes[] = {
    API_ROUTE(
        "search", 0, "What functions that match a regex spend, of the whole selection",
        API_P_MERGE API_P_FRAMES
        "match!: regex over functions, files and binaries, with (?i) in front for any case; "),
    {0},
};
