/*
 * V8 CPU profiles (.cpuprofile), as Node.js, Chrome's DevTools, Deno and others write them: one
 * object with "nodes", "samples" and "timeDeltas", or the old form with a tree in "head" and
 * "timestamps". v8_cpu.h says which time belongs to which sample.
 *
 * "(program)", "(idle)" and "(garbage collector)" are kept as V8 has them, frames at the bottom of
 * the stack; "(root)" is left out, except where a sample is on nothing else.
 */
#include "formats/formats.h"
#include "formats/json_sniff.h"
#include "formats/v8_cpu.h"

static int cpuprofile_sniff(struct bytes head)
{
    struct bytes value, first, frame;

    if (json_head_find(head, "nodes", &value) && json_head_first(value, &first) &&
        json_head_find(first, "callFrame", &frame))
        return 90;
    if (json_head_find(head, "head", &value) && json_head_find(value, "functionName", &frame))
        return 90;
    /* The nodes may come behind long arrays. */
    if (json_head_find(head, "timeDeltas", &value) ||
        (json_head_find(head, "timestamps", &value) && json_head_first(value, &first)) ||
        (json_head_find(head, "samples", &value) && json_head_first(value, &first) &&
         first.data[0] >= '0' && first.data[0] <= '9'))
        return 50;
    return 0;
}

static int cpuprofile_decode(struct input *in, struct profile_set *out, struct error *err)
{
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(in, out->budget);
    CLEANUP(v8_cpu_done) struct v8_cpu c;

    v8_cpu_init(&c, out->dict);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (!v8_cpu_read_field(&c, r, key))
            json_skip(r);
    }
    int result = json_finish(r, "cpuprofile", err);
    if (result < 0)
        return result;
    if (c.tree.nodes.len == 0)
        json_fail(r, "there are neither \"nodes\" nor a \"head\"");
    v8_cpu_finish(&c, r, out);
    return json_result(r, "cpuprofile", err);
}

const struct format format_cpuprofile = {
    .name = "cpuprofile",
    .title = "V8 CPU profile",
    .extension = NULL,
    .sniff = cpuprofile_sniff,
    .decode = cpuprofile_decode,
};
