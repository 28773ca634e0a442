#include "formats/format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "formats/formats.h"

/* Order breaks ties in format_detect(): formats with a magic number go first. */
static const struct format *const formats[] = {
    &format_pprof,
    &format_otlp,
    &format_otlp_json,
    &format_jfr,
    &format_perf_data,
    &format_cpuprofile,
    &format_heapprofile,
    &format_heapsnapshot,
    &format_chrome_trace,
    &format_speedscope,
    &format_firefox,
    &format_stackprof,
    &format_callgrind,
    &format_dhat,
    &format_ghc_prof,
    &format_massif,
    &format_pmcstat,
    &format_instruments,
    &format_dtrace,
    &format_macos_sample,
    &format_vtune_csv,
    &format_pprof_legacy,
    &format_perf_script,
    &format_collapsed,
    &format_svg,
    &format_pyroscope_tree,
    &format_pyroscope_trie,
    &format_pyroscope_lines,
    &format_pyroscope_groups,
};

const struct format *format_at(size_t n)
{
    return n < ARRAY_SIZE(formats) ? formats[n] : NULL;
}

const struct format *format_by_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    }
    return NULL;
}

const struct format *format_by_extension(const char *path)
{
    const struct format *best = NULL;
    size_t best_len = 0, len = strlen(path);

    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        const char *ext = formats[i]->extension;
        size_t n = ext ? strlen(ext) : 0;
        if (n > best_len && n < len && strcmp(path + len - n, ext) == 0 && formats[i]->encode) {
            best = formats[i];
            best_len = n;
        }
    }
    return best;
}

const struct format *format_detect(struct bytes head)
{
    const struct format *best = NULL;
    int best_score = 0;

    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        int score = formats[i]->sniff ? formats[i]->sniff(head) : 0;
        if (score > best_score) {
            best = formats[i];
            best_score = score;
        }
    }
    return best;
}

/* The first bytes in a form that fits a message. */
static const char *show_head(struct bytes head, char *text, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < head.len && i < 16 && n + 5 < size; i++) {
        uint8_t c = head.data[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
            text[n++] = (char)c;
        else
            n += (size_t)snprintf(text + n, size - n, "\\x%02x", c);
    }
    text[n] = '\0';
    return text;
}

int format_read(struct input *in, const struct format *forced, struct profile_set *out,
                const struct format **ret_format, struct error *err)
{
    struct bytes head;
    int r = input_peek(in, &head, err);
    if (r < 0)
        return error_prefix(err, r, "%s", input_name(in));
    if (head.len == 0)
        return error_set(err, -EBADMSG, "%s: the file is empty", input_name(in));

    const struct format *f = forced ? forced : format_detect(head);
    if (!f || !f->decode) {
        char text[80];
        return error_set(
            err, -EBADMSG,
            "%s: not a profile in any known format (\"vesta help formats\" lists them): it begins "
            "\"%s\"",
            input_name(in), show_head(head, text, sizeof(text)));
    }
    if (ret_format)
        *ret_format = f;

    size_t before = out->profiles.len;
    r = f->decode(in, out, err);
    if (budget_failed(out->budget)) /* whatever else went wrong followed from it */
        r = budget_error(out->budget, err);
    if (r < 0) {
        profile_set_truncate(out, before);
        return error_prefix(err, r, "%s", input_name(in));
    }
    return 0;
}
