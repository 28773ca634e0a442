#include "store_local/upgrade.h"

#include <errno.h>
#include <inttypes.h>

#include "segment/varint.h"
#include "store_local/scout.h"
#include "store_local/version.h"

/* None yet: the first format is the only one. The last entry ends the table. */
static const struct upgrade_step steps[] = {{0, NULL}};

int upgrade_format(struct bytes content, uint64_t *ret, struct error *err)
{
    if (!take_varint(&content, ret))
        return error_set(err, -EBADMSG, "the manifest is damaged in its header");
    return 0;
}

static const struct upgrade_step *step_from(uint64_t format)
{
    for (const struct upgrade_step *s = steps; s->run; s++) {
        if (s->from == format)
            return s;
    }
    return NULL;
}

static int read_format(struct local *l, uint64_t *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf content = {0};
    struct manifest_report report;

    int r = manifest_file_read(l->fs, &content, &report, err);
    return r < 0 ? r : upgrade_format(buf_bytes(&content), ret, err);
}

static int take_steps(struct local *l, store_report_fn report, void *ctx, struct error *err)
{
    struct error text;
    uint64_t format = 0;

    for (;;) {
        int r = read_format(l, &format, err);
        if (r < 0)
            return r;
        if (format == VERSION_FORMAT)
            break;
        const struct upgrade_step *step = step_from(format);
        if (!step)
            return error_set(err, -EPROTONOSUPPORT,
                             "the store has format %" PRIu64
                             ", this program has no way from there to format %d",
                             format, VERSION_FORMAT);
        r = step->run(l, err);
        if (r < 0)
            return r;
        error_set(&text, 0, "upgraded from format %" PRIu64, format);
        report(ctx, false, text.text);
    }
    error_set(&text, 0, "nothing to do: the store has format %" PRIu64, format);
    report(ctx, false, text.text);
    return 0;
}

int local_upgrade(struct fs *fs, store_report_fn report, void *ctx, struct error *err)
{
    CLEANUP(fs_freep) struct fs *owned = fs;
    CLEANUP(scout_freep) struct local *l = scout_new(fs, NULL);

    (void)owned;
    int r = fs_exists(fs, MANIFEST_NAME, err);
    if (r == 0)
        return error_set(err, -ENOENT, "there is no store here: %s is missing", MANIFEST_NAME);
    if (r > 0)
        r = local_take_lock(l, err);
    return r < 0 ? r : take_steps(l, report, ctx, err);
}
