/* Formats are told apart by content: every input of the corpus is taken for what it is. */
#include <errno.h>

#include "formats/format.h"
#include "lib/corpus.h"
#include "lib/test.h"

/* The manifest's `format`, and the name of the format that reads it. NULL: nothing that Vesta
 * reads, so nothing may take it for its own. */
static const struct {
    const char *manifest, *name;
} formats[] = {
    {"callgrind", "callgrind"},
    {"chrome-trace", "chrome-trace"},
    {"collapsed", "collapsed"},
    {"cpuprofile", "cpuprofile"},
    {"dhat", "dhat"},
    {"dtrace", "dtrace"},
    {"elf", NULL},
    {"firefox", "firefox"},
    {"ghc-prof-json", "ghc-prof"},
    {"go-stack-dump", "pprof-legacy"},
    {"gprof-text", NULL},
    {"heapprofile", "heapprofile"},
    {"heapsnapshot", "heapsnapshot"},
    {"instruments-deep-copy", "instruments"},
    {"jfr", "jfr"},
    {"jfr-labels", NULL},
    {"macos-sample", "macos-sample"},
    {"massif", "massif"},
    {"otlp-profiles", "otlp"},
    {"otlp-profiles-json", "otlp-json"},
    {"otlp-profiles-yaml", NULL},
    {"perf-data", "perf-data"},
    {"perf-script", "perf-script"},
    {"pmcstat", "pmcstat"},
    {"pprof", "pprof"},
    {"pprof-legacy", "pprof-legacy"},
    {"speedscope", "speedscope"},
    {"stackprof", "stackprof"},
    {"vtune-csv", "vtune-csv"},
};

/* False when the manifest has a format that the table above does not know. */
static bool expected_name(struct bytes manifest, const char **ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        if (bytes_are(manifest, formats[i].manifest)) {
            *ret = formats[i].name;
            return true;
        }
    }
    return false;
}

/* What the content is taken for: "" when for nothing, "damaged" when its compression is. */
static const char *detected_name(const char *path)
{
    struct budget b;
    struct input *in = NULL;
    struct bytes head;
    struct error err;
    const char *name = "damaged";

    budget_init(&b, (size_t)1 << 28);
    if (input_open(path, &b, &in, &err) < 0)
        return "missing";
    if (input_peek(in, &head, &err) == 0) {
        const struct format *f = format_detect(head);
        name = f ? f->name : "";
    }
    input_close(in);
    return name;
}

static void check_row(struct test *t, struct bytes row)
{
    struct bytes cells[3] = {0};
    const char *want;

    for (size_t i = 0; i < 3; i++) {
        const uint8_t *tab = bytes_find_byte(row, '\t');
        if (!tab)
            return;
        cells[i] = bytes_head(row, (size_t)(tab - row.data));
        row = bytes_from(row, cells[i].len + 1);
    }
    if (!bytes_are(cells[2], "input"))
        return;
    char name[1024];
    snprintf(name, sizeof(name), "%.*s", (int)cells[0].len, (const char *)cells[0].data);
    const char *path = corpus_path(name);
    if (!expected_name(cells[1], &want)) {
        printf("# %s: the manifest calls it %.*s\n", path, (int)cells[1].len,
               (const char *)cells[1].data);
        t->failures++;
        return;
    }
    const struct format *reader = want ? format_by_name(want) : NULL;
    if (reader && !reader->sniff)
        want = NULL; /* so far it is only written */
    const char *got = detected_name(path);
    bool is_mutant = strstr(path, "/mutants/") != NULL;
    bool is_right = strcmp(got, want ? want : "") == 0;
    /* A damaged file may be past recognition, but never another format. */
    if (!is_right && !(is_mutant && (!*got || strcmp(got, "damaged") == 0))) {
        printf("# %s is taken for \"%s\", not \"%s\"\n", path, got, want ? want : "");
        t->failures++;
    }
}

static void every_input_of_the_corpus_is_taken_for_what_it_is(struct test *t)
{
    struct budget b;
    struct input *in = NULL;
    struct bytes rest, row;
    struct error err;

    budget_init(&b, (size_t)1 << 26);
    if (input_open(corpus_path("MANIFEST.tsv"), &b, &in, &err) < 0)
        TEST_SKIP(t, CORPUS_ABSENT);
    CHECK_INT(t, input_all(in, &rest, &err), 0);
    while (bytes_next_line(&rest, &row))
        check_row(t, row);
    input_close(in);
}

static void nothing_is_detected_in_nothing(struct test *t)
{
    CHECK(t, format_detect(BYTES("\0\0\0\0\0\0\0\0")) == NULL);
    CHECK(t, format_detect(BYTES("hello, world\n")) == NULL);
    CHECK(t, format_detect(BYTES("<!DOCTYPE html><html><body>\n")) == NULL);
    CHECK(t, format_detect(BYTES("{\"hello\": [1, 2, 3]}\n")) == NULL);
    CHECK(t, format_detect(BYTES("int main(void)\n{\n    return 0;\n}\n")) == NULL);
}

static const struct test_case cases[] = {
    TEST(every_input_of_the_corpus_is_taken_for_what_it_is),
    TEST(nothing_is_detected_in_nothing),
};
TEST_MAIN(cases)
