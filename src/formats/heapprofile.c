/*
 * V8 sampling heap profiles (.heapprofile): a tree of call frames in "head", each with the bytes
 * that it allocated and that are still in use, estimated by V8 from its samples ("selfSize"). Newer
 * ones list the samples, too; how many objects a sample stands for is not told, so they are counted
 * as samples and not as objects. "(root)" is kept: V8 puts allocations without a stack there.
 */
#include "formats/formats.h"
#include "formats/json_sniff.h"
#include "formats/v8_tree.h"

struct heap_sample {
    int64_t node_id;
    int64_t size;
};

struct heap {
    struct v8_tree tree;
    VEC(struct heap_sample) samples;
};

static void heap_done(struct heap *h)
{
    vec_done(h->tree.dict->budget, &h->samples);
    v8_tree_done(&h->tree);
}

static int heapprofile_sniff(struct bytes head)
{
    struct bytes value, field;

    if (!json_head_find(head, "head", &value))
        return 0;
    if (json_head_find(value, "callFrame", &field) || json_head_find(value, "selfSize", &field))
        return 95;
    return 0;
}

static void read_samples(struct heap *h, struct json_reader *r)
{
    json_enter_array(r);
    while (json_next_element(r)) {
        struct heap_sample s = {0};
        json_enter_object(r);
        for (struct bytes key; json_next_key(r, &key);) {
            if (bytes_are(key, "nodeId"))
                s.node_id = json_get_i64(r);
            else if (bytes_are(key, "size"))
                s.size = json_get_i64(r);
            else
                json_skip(r);
        }
        if (!json_failed(r))
            vec_push(h->tree.dict->budget, &h->samples, s);
    }
}

/* How many samples each node has; `counts` has an element per node. */
static void count_samples(const struct heap *h, struct profile_set *out, int64_t *counts)
{
    uint64_t n_lost = 0, bytes_lost = 0;

    for (size_t i = 0; i < h->samples.len; i++) {
        uint32_t at = v8_tree_find(&h->tree, h->samples.data[i].node_id);
        if (at != V8_NO_NODE) {
            counts[at]++;
        } else {
            n_lost++;
            bytes_lost += (uint64_t)h->samples.data[i].size;
        }
    }
    if (n_lost > 0)
        profile_set_note(out,
                         "%llu samples of %llu bytes name nodes that are not in the tree and "
                         "were left out",
                         (unsigned long long)n_lost, (unsigned long long)bytes_lost);
}

static void add_profile(struct heap *h, struct json_reader *r, struct profile_set *out)
{
    struct budget *b = out->budget;
    VEC(int64_t) counts = {0};

    v8_tree_resolve(&h->tree, r);
    struct profile *p = json_failed(r) ? NULL : profile_set_add(out);
    if (!p || !vec_resize(b, &counts, h->tree.nodes.len))
        return;
    count_samples(h, out, counts.data);
    bool has_samples = h->samples.len > 0;
    if (has_samples)
        profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "inuse_space", "bytes");
    for (size_t i = 0; i < h->tree.nodes.len; i++) {
        const struct v8_node *n = &h->tree.nodes.data[i];
        int64_t values[] = {counts.data[i], n->weight};
        if (values[0] || values[1])
            profile_add(
                p, &(struct sample){.node = n->stack, .values = has_samples ? values : values + 1});
    }
    vec_done(b, &counts);
}

static int heapprofile_decode(struct input *in, struct profile_set *out, struct error *err)
{
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(in, out->budget);
    CLEANUP(heap_done) struct heap h = {0};

    v8_tree_init(&h.tree, out->dict, false);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "head"))
            v8_tree_read_node(&h.tree, r);
        else if (bytes_are(key, "samples"))
            read_samples(&h, r);
        else
            json_skip(r);
    }
    int result = json_finish(r, "heapprofile", err);
    if (result < 0)
        return result;
    if (h.tree.nodes.len == 0)
        json_fail(r, "there is no \"head\"");
    add_profile(&h, r, out);
    return json_result(r, "heapprofile", err);
}

const struct format format_heapprofile = {
    .name = "heapprofile",
    .title = "V8 sampling heap profile",
    .extension = NULL,
    .sniff = heapprofile_sniff,
    .decode = heapprofile_decode,
};
