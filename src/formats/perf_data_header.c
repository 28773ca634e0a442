/*
 * What describes the records of a perf.data file: the attributes of events, and the features
 * (host, command line, event names, build ids) that stand behind the data or, in pipe mode, in
 * records of their own.
 */
#include <errno.h>

#include "base/hash.h"
#include "formats/perf_data_internal.h"
#include "formats/perf_names.h"

#define ATTR_SIZE_MIN 64 /* the first version ever */
#define EVENTS_MAX    4096

enum feature {
    FEATURE_BUILD_ID = 2,
    FEATURE_HOSTNAME = 3,
    FEATURE_OSRELEASE = 4,
    FEATURE_ARCH = 6,
    FEATURE_CMDLINE = 11,
    FEATURE_EVENT_DESC = 12,
    FEATURE_CLOCK_DATA = 29,
};

enum { UPDATE_NAME = 2 };

#define BUILD_ID_BYTES     20
#define MISC_BUILD_ID_SIZE (1 << 15)

struct bytes perf_cstring(struct perf_cursor *c)
{
    struct bytes s = {c->pos, perf_left(c)};
    const uint8_t *nul = bytes_find_byte(s, '\0');

    if (nul)
        s.len = (size_t)(nul - s.data);
    perf_take(c, nul ? s.len + 1 : s.len);
    return s;
}

/* Bit fields of a big-endian machine begin at the other end of each byte. */
static uint64_t read_flags(struct perf_cursor *c)
{
    struct bytes raw = perf_take(c, 8);
    uint64_t flags = 0;

    for (size_t i = 0; i < raw.len; i++) {
        uint8_t b = raw.data[i];
        if (c->is_swapped) {
            b = (uint8_t)((b & 0xf0) >> 4 | (b & 0x0f) << 4);
            b = (uint8_t)((b & 0xcc) >> 2 | (b & 0x33) << 2);
            b = (uint8_t)((b & 0xaa) >> 1 | (b & 0x55) << 1);
        }
        flags |= (uint64_t)b << (8 * i);
    }
    return flags;
}

bool perf_read_attr(struct perf_cursor *c, uint64_t size, struct perf_attr *ret)
{
    struct bytes raw = perf_take(c, size);
    struct perf_cursor in = {raw.data, raw.data + raw.len, c->is_swapped, false};
    struct perf_attr a = {0};

    if (size < ATTR_SIZE_MIN || c->failed)
        return false;
    a.type = perf_u32(&in);
    perf_u32(&in); /* its size, as the recorder knew it */
    a.config = perf_u64(&in);
    a.sample_period = perf_u64(&in);
    a.sample_type = perf_u64(&in);
    a.read_format = perf_u64(&in);
    a.flags = read_flags(&in);
    perf_u32(&in); /* wakeup */
    a.bp_type = perf_u32(&in);
    a.bp_address = perf_u64(&in);
    *ret = a;
    return true;
}

static uint64_t id_hash(uint64_t id)
{
    return hash_mix(id, 1);
}

struct perf_event *perf_find_event(struct perf_reader *r, uint64_t id)
{
    uint32_t at = IDSET_FIND(&r->id_index, id_hash(id), i, r->ids.data[i].id == id);

    return at == IDSET_NONE ? NULL : &r->events.data[r->ids.data[at].event];
}

bool perf_add_event(struct perf_reader *r, const struct perf_attr *attr, struct perf_cursor *ids)
{
    struct perf_event e = {.attr = *attr};
    uint32_t index = (uint32_t)r->events.len;

    if (index >= EVENTS_MAX)
        return false;
    vec_push(r->budget, &r->events, e);
    while (perf_left(ids) >= 8 && !budget_failed(r->budget)) {
        uint64_t id = perf_u64(ids);
        uint32_t at = (uint32_t)r->ids.len;
        if (perf_find_event(r, id))
            continue;
        if (vec_push(r->budget, &r->ids, (struct perf_id){id, index}))
            idset_add(r->budget, &r->id_index, id_hash(id), at);
    }
    return true;
}

/* A string as features hold them: its length with padding, then its bytes. */
static struct bytes read_string(struct perf_cursor *c)
{
    struct bytes s = perf_take(c, perf_u32(c));
    const uint8_t *nul = bytes_find_byte(s, '\0');

    return nul ? bytes_head(s, (size_t)(nul - s.data)) : s;
}

static void read_command_line(struct perf_reader *r, struct perf_cursor *c)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (uint32_t n = perf_u32(c); n > 0 && !c->failed; n--) {
        if (text.len > 0)
            buf_add_byte(&text, ' ');
        buf_add_bytes(&text, read_string(c));
    }
    if (!c->failed && text.len > 0)
        vec_push(r->budget, &r->profile->comments, dict_string(r->dict, buf_bytes(&text)));
}

/* Names of events, by id or, when there are no ids, by position. */
static void read_event_names(struct perf_reader *r, struct perf_cursor *c)
{
    uint32_t n = perf_u32(c), attr_size = perf_u32(c);

    for (uint32_t i = 0; i < n && !c->failed; i++) {
        perf_take(c, attr_size);
        uint32_t n_ids = perf_u32(c);
        struct bytes name = read_string(c);
        struct bytes ids = perf_take(c, (uint64_t)n_ids * 8);
        struct perf_cursor id = {ids.data, ids.data + ids.len, c->is_swapped, false};
        struct perf_event *e = n_ids > 0 ? perf_find_event(r, perf_u64(&id)) : NULL;
        if (!e && i < r->events.len)
            e = &r->events.data[i];
        if (e && !c->failed && name.len > 0)
            e->name = dict_string(r->dict, name);
    }
}

/* What perf's clock and the wall clock said at one moment. */
static void read_clock(struct perf_reader *r, struct perf_cursor *c)
{
    uint32_t version = perf_u32(c);
    perf_u32(c); /* which clock */
    uint64_t wall = perf_u64(c), clock = perf_u64(c);

    if (c->failed || version != 1 || wall == 0)
        return;
    r->has_clock = true;
    r->clock_to_utc = wall - clock;
}

static uint32_t hex_string(struct perf_reader *r, struct bytes id)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t text[2 * BUILD_ID_BYTES];

    if (id.len > BUILD_ID_BYTES)
        id.len = BUILD_ID_BYTES;
    for (size_t i = 0; i < id.len; i++) {
        text[2 * i] = (uint8_t)digits[id.data[i] >> 4];
        text[2 * i + 1] = (uint8_t)digits[id.data[i] & 15];
    }
    return dict_string(r->dict, (struct bytes){text, 2 * id.len});
}

/* The body of a build id record: pid, 20 bytes and padding, file name. */
static void read_build_id(struct perf_reader *r, uint16_t misc, struct perf_cursor *c)
{
    perf_u32(c);
    struct bytes raw = perf_take(c, 24);
    struct bytes file = perf_cstring(c);
    uint32_t known;

    if (raw.len == 0 || file.len == 0)
        return;
    size_t len = misc & MISC_BUILD_ID_SIZE ? raw.data[BUILD_ID_BYTES] : BUILD_ID_BYTES;
    uint32_t id = hex_string(r, bytes_head(raw, len));
    if (!text_cache_find(&r->build_ids, file, &known))
        text_cache_add(&r->build_ids, file, id);
}

static void read_build_ids(struct perf_reader *r, struct perf_cursor *c)
{
    while (perf_left(c) >= 8) {
        perf_u32(c); /* type: always 0 or BUILD_ID */
        uint16_t misc = perf_u16(c), size = perf_u16(c);
        if (size < 8)
            return;
        struct bytes raw = perf_take(c, size - 8u);
        struct perf_cursor body = {raw.data, raw.data + raw.len, c->is_swapped, false};
        read_build_id(r, misc, &body);
    }
}

void perf_read_feature(struct perf_reader *r, uint32_t feature, struct perf_cursor content)
{
    switch (feature) {
    case FEATURE_BUILD_ID:
        read_build_ids(r, &content);
        break;
    case FEATURE_HOSTNAME:
        perf_add_host_attribute(r->profile, BYTES("hostname"), read_string(&content));
        break;
    case FEATURE_OSRELEASE:
        perf_add_host_attribute(r->profile, BYTES("os release"), read_string(&content));
        break;
    case FEATURE_ARCH:
        perf_add_host_attribute(r->profile, BYTES("arch"), read_string(&content));
        break;
    case FEATURE_CMDLINE:
        read_command_line(r, &content);
        break;
    case FEATURE_EVENT_DESC:
        read_event_names(r, &content);
        break;
    case FEATURE_CLOCK_DATA:
        read_clock(r, &content);
        break;
    default:
        break;
    }
}

static int read_attr_record(struct perf_reader *r, struct perf_record *record, struct error *err)
{
    struct perf_cursor peek = record->body;
    struct perf_attr attr;

    perf_u32(&peek);
    uint32_t size = perf_u32(&peek);
    if (size == 0)
        size = ATTR_SIZE_MIN;
    if (!perf_read_attr(&record->body, size, &attr))
        return perf_record_error(record, err, "event attributes of %u bytes do not fit", size);
    if (!perf_add_event(r, &attr, &record->body))
        return perf_record_error(record, err, "more than %d events", EVENTS_MAX);
    return 0;
}

int perf_read_header_record(struct perf_reader *r, struct perf_record *record, struct error *err)
{
    struct perf_cursor *c = &record->body;

    if (record->type == PERF_HEADER_ATTR)
        return read_attr_record(r, record, err);
    if (record->type == PERF_HEADER_FEATURE) {
        uint64_t feature = perf_u64(c);
        perf_read_feature(r, feature > UINT32_MAX ? 0 : (uint32_t)feature, *c);
    } else if (record->type == PERF_BUILD_ID) {
        read_build_id(r, record->misc, c);
    } else if (record->type == PERF_EVENT_UPDATE) {
        uint64_t kind = perf_u64(c);
        struct perf_event *e = perf_find_event(r, perf_u64(c));
        struct bytes name = perf_cstring(c);
        if (kind == UPDATE_NAME && e && name.len > 0)
            e->name = dict_string(r->dict, name);
    }
    return 0;
}
