#include <errno.h>

#include "base/cleanup.h"
#include "lib/stacks.h"
#include "server/viewer_page.h"
#include "server/web_assets.h"

static size_t count(const struct buf *page, const char *text)
{
    size_t n = 0, len = strlen(text);
    struct bytes rest = buf_bytes(page);

    for (const uint8_t *at; (at = bytes_find(rest, bytes_of(text))); n++)
        rest = bytes_from(rest, (size_t)(at - rest.data) + len);
    return n;
}

static void no_text_ends_an_element(struct test *t)
{
    struct fixture f;
    struct error err = {""};
    struct viewer_about about = {
        .title = "</title><b>", .selection = "\"></script><!--", .time_ns = 1000000000};

    fixture_init(&f);
    add(&f, "main;</script><i>", 3);
    {
        CLEANUP(buf_done) struct buf page = {.budget = &f.budget};
        int r = viewer_page_write(f.p, &(struct flame_cut_options){0}, &about, &page, &err);
        if (web_viewer.script.len == 0) {
            CHECK_INT(t, r, -ENOSYS);
            CHECK(t, strstr(err.text, "-Dweb=disabled") != NULL);
        } else {
            CHECK_INT(t, r, 0);
            CHECK_INT(t, count(&page, "<script"), 3);
            CHECK_INT(t, count(&page, "</script"), 3);
            CHECK_INT(t, count(&page, "<!--"), 0);
            CHECK_INT(t, count(&page, "<title>&lt;/title&gt;&lt;b&gt;</title>"), 1);
            CHECK_INT(t, count(&page, "\"total\":3,\"unit\":\"count\",\"type\":\"samples\""), 1);
            CHECK_INT(t, count(&page, "\"date\":\"1970-01-01T00:00:01Z\""), 1);
        }
    }
    fixture_done(&f);
}

static void memory_is_bounded(struct test *t)
{
    struct fixture f;
    struct error err = {""};
    struct budget little;

    fixture_init(&f);
    add(&f, "main;a", 3);
    budget_init(&little, 2048);
    {
        CLEANUP(buf_done) struct buf page = {.budget = &little};
        int r = viewer_page_write(f.p, &(struct flame_cut_options){0},
                                  &(struct viewer_about){.title = "x"}, &page, &err);
        CHECK_INT(t, r, web_viewer.script.len ? -ENOBUFS : -ENOSYS);
    }
    CHECK_INT(t, little.used, 0);
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(no_text_ends_an_element),
    TEST(memory_is_bounded),
};
TEST_MAIN(cases)
