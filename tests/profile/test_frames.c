#include "lib/test.h"
#include "profile/frames.h"

struct fixture {
    struct budget budget;
    struct dict *dict;
    uint32_t inlined; /* b inlined into a, at 0x1234 of /bin/app */
    uint32_t plain;   /* a alone, at 0x1250 */
    uint32_t unknown; /* 0x1300 of /bin/app */
    uint32_t nothing; /* a location of which nothing is known */
};

static void fixture_init(struct fixture *f)
{
    budget_init(&f->budget, BUDGET_DEFAULT_BYTES);
    struct dict *d = f->dict = dict_new(&f->budget);
    uint32_t m =
        dict_mapping(d, (struct mapping){.limit = 0x9000, .file = dict_cstring(d, "/bin/app")});
    uint32_t file = dict_cstring(d, "/src/./x.go");
    uint32_t a = dict_function(
        d, (struct function){.name = dict_cstring(d, "p/q.a"), .file = file, .start_line = 3});
    uint32_t b =
        dict_function(d, (struct function){.name = dict_cstring(d, "p/q.b"), .file = file});
    f->inlined = dict_location(d, (struct location){.address = 0x1234, .mapping = m},
                               (struct line[]){{b, 10, 2}, {a, 5, 1}}, 2);
    f->plain = dict_location(d, (struct location){.address = 0x1250, .mapping = m},
                             (struct line[]){{a, 6, 1}}, 1);
    f->unknown = dict_location(d, (struct location){.address = 0x1300, .mapping = m}, NULL, 0);
    f->nothing = dict_location(d, (struct location){0}, NULL, 0);
}

/* The names of a location's frames, innermost first, joined by "|". */
static const char *names(struct fixture *f, struct frame_options o, uint32_t location)
{
    static char text[512];
    struct frames frames;
    uint32_t n;

    frames_init(&frames, f->dict, o);
    size_t first = frames_of(&frames, location, &n);
    text[0] = '\0';
    for (uint32_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? "|" : "",
                 frames_name(&frames, frames.ids.data[first + i]));
    frames_done(&frames);
    return text;
}

static void each_granularity_shows_what_it_counts_by(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    static const struct {
        struct frame_options o;
        const char *inlined, *unknown;
    } cases[] = {
        {{.granularity = GRANULARITY_FUNCTIONS}, "p/q.b|p/q.a", "[app]"},
        {{.granularity = GRANULARITY_DEFAULT, .no_inlines = true}, "p/q.a", "[app]"},
        {{.granularity = GRANULARITY_FILEFUNCTIONS}, "p/q.b /src/x.go|p/q.a /src/x.go", "[app]"},
        {{.granularity = GRANULARITY_FILES, .trim_path = "/src"}, "x.go|x.go", "[app]"},
        {{.granularity = GRANULARITY_LINES}, "p/q.b /src/x.go:10|p/q.a /src/x.go:5", "[app]"},
        {{.granularity = GRANULARITY_LINES, .show_columns = true},
         "p/q.b /src/x.go:10:2|p/q.a /src/x.go:5:1",
         "[app]"},
        {{.granularity = GRANULARITY_ADDRESSES, .no_inlines = true},
         "0000000000001234 p/q.a /src/x.go:5",
         "0000000000001300 [app]"},
        {{.granularity = GRANULARITY_PACKAGES}, "p/q|p/q", "[app]"},
        {{.granularity = GRANULARITY_FUNCTIONS, .name_unknown = true}, "p/q.b|p/q.a", "app+0x1300"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK_STR(t, names(&f, cases[i].o, f.inlined), cases[i].inlined);
        CHECK_STR(t, names(&f, cases[i].o, f.unknown), cases[i].unknown);
    }
    CHECK_STR(t, names(&f, (struct frame_options){0}, f.nothing), "<unknown>");
    CHECK_STR(t, names(&f, (struct frame_options){.name_unknown = true}, f.nothing), "0x0");
    dict_free(f.dict);
}

static void equal_frames_of_different_locations_are_one(struct test *t)
{
    struct fixture f;
    fixture_init(&f);
    struct frames frames;
    uint32_t n1, n2;

    frames_init(&frames, f.dict, (struct frame_options){0});
    size_t a = frames_of(&frames, f.inlined, &n1), b = frames_of(&frames, f.plain, &n2);
    CHECK_INT(t, n1, 2);
    CHECK_INT(t, n2, 1);
    CHECK_INT(t, frames.ids.data[a + 1], frames.ids.data[b]);
    CHECK_INT(t, frames_of(&frames, f.inlined, &n1), a);
    frames_done(&frames);
    dict_free(f.dict);
}

static void packages_are_told_by_the_look_of_a_name(struct test *t)
{
    static const char *const cases[][2] = {
        {"net/http.(*conn).serve", "net/http"},
        {"main.main", "main"},
        {"runtime.mallocgc", "runtime"},
        {"std::vector<a::b>::push_back", "std"},
        {"std::ranges::sort", "std::ranges"},
        {"java.util.HashMap.get", "java.util"},
        {"github.com/a/b.F[...]", "github.com/a/b"},
        {"malloc", ""},
        {"", ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK(t, bytes_are(frames_package(bytes_of(cases[i][0])), cases[i][1]));
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    bool done = false;
    for (size_t extra = 0; !done && extra < 300000; extra += 8) {
        struct fixture f;
        struct frames frames;
        uint32_t n;
        fixture_init(&f);
        f.budget.limit = f.budget.used + extra;
        frames_init(&frames, f.dict, (struct frame_options){.granularity = GRANULARITY_LINES});
        size_t first = frames_of(&frames, f.inlined, &n);
        done = n == 2 && *frames_name(&frames, frames.ids.data[first]) != '\0';
        CHECK(t, done == !budget_failed(&f.budget));
        frames_done(&frames);
        dict_free(f.dict);
        CHECK_INT(t, f.budget.used, 0);
    }
    CHECK(t, done);
}

static void binaries_go_by_their_base_names(struct test *t)
{
    struct budget budget;
    struct frames frames;
    uint32_t n;
    budget_init(&budget, BUDGET_DEFAULT_BYTES);
    struct dict *d = dict_new(&budget);
    const struct mapping libs[] = {{.file = dict_cstring(d, "/usr/lib/libz.so.1")},
                                   {.file = dict_cstring(d, "/lib64/libz.so.1")}};
    uint32_t python = dict_cstring(d, "python");
    const struct location places[] = {
        {.address = 1, .mapping = dict_mapping(d, libs[0])},
        {.address = 2, .mapping = dict_mapping(d, libs[1])},
        {.address = 3, .type = python},
        {.address = 4},
    };
    static const char *const names[] = {"libz.so.1", "libz.so.1", "[python]", "<unknown>"};
    frames_init(&frames, d,
                (struct frame_options){.granularity = GRANULARITY_BINARIES, .name_unknown = true});
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        size_t at = frames_of(&frames, dict_location(d, places[i], NULL, 0), &n);
        CHECK_STR(t, frames_name(&frames, frames.ids.data[at]), names[i]);
    }
    CHECK_INT(t, frames.all.len, 4);
    CHECK_INT(t, frames.all.data[1].mapping, places[0].mapping);
    frames_done(&frames);
    dict_free(d);
}

static const struct test_case cases[] = {
    TEST(binaries_go_by_their_base_names),
    TEST(each_granularity_shows_what_it_counts_by),
    TEST(equal_frames_of_different_locations_are_one),
    TEST(packages_are_told_by_the_look_of_a_name),
    TEST(survives_running_out_of_memory_anywhere),
};
TEST_MAIN(cases)
