#include <errno.h>
#include <stdio.h>

#include "formats/formats.h"
#include "formats/otlp_internal.h"
#include "wire/inflate.h"

static size_t place(const struct otlp *o, const uint8_t *at)
{
    size_t offset = (size_t)(at - o->origin);

    return o->locate ? o->locate(o->map, offset) : o->offset + offset;
}

int otlp_fail(struct otlp *o, const uint8_t *at, const char *fmt, ...)
{
    char reason[256];
    va_list ap;

    if (o->status < 0)
        return o->status;
    va_start(ap, fmt);
    vsnprintf(reason, sizeof(reason), fmt, ap);
    va_end(ap);
    o->status = error_set(o->err, -EBADMSG, "%s at byte %zu: %s", o->format, place(o, at), reason);
    return o->status;
}

bool otlp_good(struct otlp *o, const struct pb_reader *r)
{
    if (r->failure)
        otlp_fail(o, r->failed_at, "%s", r->failure);
    else if (o->status == 0 && budget_failed(o->budget))
        o->status = budget_error(o->budget, o->err);
    return o->status == 0;
}

uint32_t otlp_no_element(struct otlp *o, size_t len, uint64_t index, const char *name,
                         const uint8_t *at)
{
    if (index != 0)
        otlp_fail(o, at, "element %lld of the %s table does not exist: it has %zu",
                  (long long)index, name, len);
    return 0;
}

/* The order of the mappings says which is the main binary, as long as they belong to one profile.
 */
static void list_mappings(struct otlp *o, struct profile *p)
{
    for (size_t i = 0; i < o->mappings.len; i++) {
        if (o->mappings.data[i] != 0)
            vec_push(o->budget, &p->mappings, o->mappings.data[i]);
    }
    if (p->mappings.len > 0)
        p->default_mapping = p->mappings.data[0];
}

int otlp_decode_message(struct bytes message, const struct otlp_source *source,
                        struct profile_set *set, struct error *err)
{
    struct otlp o = {
        .set = set,
        .dict = set->dict,
        .budget = set->budget,
        .err = err,
        .format = source->format,
        .origin = message.data,
        .offset = source->offset,
        .locate = source->locate,
        .map = source->map,
        .layout = source->layout,
        .message = message,
    };

    size_t before = set->profiles.len;

    /* Resources of several messages in one file are told apart by their index. */
    if (set->profiles.len > 0)
        o.resource_index = vec_last(&set->profiles)->resource_index + 1;
    otlp_index_tables(&o);
    if (o.status == 0 && !o.layout)
        o.layout = otlp_tell_layout(&o);
    if (o.status == 0)
        otlp_read_tables(&o);
    struct pb_reader r = pb_reader(message);
    while (o.status == 0 && pb_next(&r)) {
        if (r.field == 1)
            otlp_read_resource(&o, pb_bytes(&r));
    }
    otlp_good(&o, &r);
    if (o.status == 0 && set->profiles.len == before + 1)
        list_mappings(&o, vec_last(&set->profiles));
    otlp_tables_done(&o);
    return o.status;
}

/*
 * The Collector's file exporter writes messages one after the other, each behind its length in four
 * bytes, big end first. The first byte of a plain message is the tag of field 1 or 2, so a smaller
 * one can only be a length.
 */
#define FRAME_HEAD 4

static bool is_framed(struct bytes content)
{
    return content.len >= FRAME_HEAD && content.data[0] < (1 << 3 | PB_BYTES);
}

static uint32_t frame_length(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* One frame: a message, or JSON, and either may have been packed before it was framed. */
static int decode_frame(struct bytes frame, size_t offset, struct profile_set *out,
                        struct error *err)
{
    struct unpacked plain = {0};
    enum codec codec = codec_detect(frame);
    int r;

    if (codec != CODEC_NONE) {
        r = unpack(codec, frame, out->budget, &plain, err);
        if (r < 0)
            return error_prefix(err, r, "otlp at byte %zu", offset);
        frame = (struct bytes){plain.data, plain.len};
        offset = 0;
    }
    if (frame.len > 0 && frame.data[0] == '{') {
        CLEANUP(input_closep) struct input *in = input_from_bytes(frame, "frame", out->budget);
        r = otlp_decode_json(in, out, err);
    } else {
        r = otlp_decode_message(frame, &(struct otlp_source){.format = "otlp", .offset = offset},
                                out, err);
    }
    unpacked_done(out->budget, &plain);
    return r;
}

static int decode_frames(struct bytes content, struct profile_set *out, struct error *err)
{
    for (size_t at = 0; at < content.len;) {
        if (content.len - at < FRAME_HEAD)
            return error_set(err, -EBADMSG,
                             "otlp at byte %zu: the length of a message is cut short", at);
        size_t len = frame_length(content.data + at), left = content.len - at - FRAME_HEAD;
        if (len > left)
            return error_set(err, -EBADMSG,
                             "otlp at byte %zu: a message of %zu bytes is cut short: %zu are left",
                             at, len, left);
        at += FRAME_HEAD;
        int r = decode_frame((struct bytes){content.data + at, len}, at, out, err);
        if (r < 0)
            return r;
        at += len;
    }
    return 0;
}

/* Whether every field of a message that begins here is one of `fields`, all of them messages. */
static bool holds_messages(struct bytes head, uint64_t fields, uint64_t *ret_seen)
{
    struct pb_reader r = pb_reader(head);
    uint64_t seen = 0;

    while (pb_next(&r)) {
        if (r.wire != PB_BYTES || r.field > 63 || !(fields & 1ull << r.field))
            return false;
        seen |= 1ull << r.field;
    }
    /* The head may end in the middle of a field; its tag was read all the same. */
    if (r.failure && (r.wire != PB_BYTES || r.field > 63 || !(fields & 1ull << r.field)))
        return false;
    *ret_seen = seen | (r.failure ? 1ull << r.field : 0);
    return true;
}

#define BIT(n) (1ull << (n))

/*
 * A pprof profile also begins with messages of fields 1 and 2: its sample types hold numbers where
 * a resource holds messages, and no sample of it has the fields 4 to 7 of a dictionary.
 */
static int sniff_message(struct bytes head)
{
    const uint8_t *pos = head.data, *end = head.data + head.len;
    uint64_t tag, len, seen;

    if (!pb_varint(&pos, end, &tag) || !pb_varint(&pos, end, &len))
        return 0;
    struct bytes first = {pos, len < (size_t)(end - pos) ? (size_t)len : (size_t)(end - pos)};
    if (tag == (1 << 3 | PB_BYTES)) {
        if (!holds_messages(first, BIT(1) | BIT(2) | BIT(3) | BIT(1000 & 63), &seen))
            return 0;
        return seen & BIT(2) ? 90 : 30;
    }
    if (tag == (2 << 3 | PB_BYTES)) {
        if (!holds_messages(first, 0x1fe, &seen))
            return 0;
        return seen & 0xf0 ? 90 : len > first.len ? 60 : 20;
    }
    return 0;
}

static int otlp_sniff(struct bytes head)
{
    if (!is_framed(head))
        return sniff_message(head);
    uint32_t len = frame_length(head.data);
    struct bytes message = bytes_head(bytes_from(head, FRAME_HEAD), len);
    if (message.len < len && head.len < INPUT_PEEK_BYTES)
        return 0;
    if (codec_detect(message) != CODEC_NONE)
        return 50;
    if (message.len > 0 && message.data[0] == '{')
        return 50;
    return sniff_message(message);
}

static int otlp_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct bytes content;
    int r = input_all(in, &content, err);

    if (r < 0)
        return r;
    if (is_framed(content))
        return decode_frames(content, out, err);
    return otlp_decode_message(content, &(struct otlp_source){.format = "otlp"}, out, err);
}

const struct format format_otlp = {
    .name = "otlp",
    .title = "OTLP profiles",
    .extension = ".otlp",
    .sniff = otlp_sniff,
    .decode = otlp_decode,
    .encode = otlp_encode,
    .holds_many = true,
    .is_binary = true,
};
