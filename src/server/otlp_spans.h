#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "config/server_config.h"
#include "store/store.h"

/*
 * OTLP traces as the spans that are kept: what correlation with profiles needs, no events and no
 * links. Of the attributes of a span and its resource those that the config chooses are kept.
 */
struct otlp_spans_options {
    const struct config_list *attributes; /* names */
    bool is_json;
    int64_t now_ns;
};

struct otlp_spans {
    struct arena *arena; /* spans and their attributes; texts are the message's where they can be */
    struct store_span *all;
    size_t n, cap;
    size_t rejected;  /* with ids that are none, without a start, or from the future */
    struct error why; /* of the first */
    struct buf plain; /* of JSON: the message */
};

/*
 * Decodes an ExportTraceServiceRequest into `ret`, which has its arena and is zero otherwise.
 * `message` must live as long as the spans. -EBADMSG with the place, -ENOBUFS. Whatever it returns,
 * otlp_spans_done() is due; the arena is the caller's.
 */
int otlp_spans_decode(struct bytes message, const struct otlp_spans_options *o,
                      struct otlp_spans *ret, struct error *err);
void otlp_spans_done(struct otlp_spans *s);
