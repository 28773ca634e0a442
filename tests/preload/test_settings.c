#include "abi/preload.h"
#include "lib/test.h"
#include "preload/settings.h"

static const char *(*environment)[2];

static const char *lookup(const char *name)
{
    for (size_t i = 0; environment[i][0]; i++)
        if (strcmp(environment[i][0], name) == 0)
            return environment[i][1];
    return NULL;
}

static struct preload_settings settings_of(const char *pairs[][2])
{
    struct preload_settings s;
    environment = pairs;
    settings_read(&s, lookup);
    return s;
}

static void has_defaults(struct test *t)
{
    struct preload_settings s = settings_of((const char *[][2]){{NULL, NULL}});
    CHECK_INT(t, s.wanted,
              PRELOAD_WANTS(PRELOAD_ALLOC) | PRELOAD_WANTS(PRELOAD_LIVE) |
                  PRELOAD_WANTS(PRELOAD_LOCK) | PRELOAD_WANTS(PRELOAD_THREAD) |
                  PRELOAD_WANTS(PRELOAD_CUSTOM));
    CHECK_INT(t, s.alloc_rate, 512 << 10);
    CHECK_INT(t, s.lock_rate, 1000000);
    CHECK_INT(t, s.ring_records, 16384);
    CHECK_INT(t, s.live_max, 65536);
    CHECK_INT(t, s.texts_bytes, 8 << 20);
    CHECK(t, !s.has_seed);
    CHECK_STR(t, s.directory, "");
}

static void takes_what_it_understands(struct test *t)
{
    struct preload_settings s = settings_of((const char *[][2]){
        {"VESTA_PRELOAD_TYPES", "threads,nonsense,live"},
        {"VESTA_PRELOAD_INTERVAL", "64K"},
        {"VESTA_PRELOAD_LOCK_INTERVAL", "250us"},
        {"VESTA_PRELOAD_LIVE_MAX", "1000"},
        {"VESTA_PRELOAD_SEED", "42"},
        {"VESTA_PRELOAD_DIR", "/run/vesta"},
        {NULL, NULL},
    });
    CHECK_INT(t, s.wanted,
              PRELOAD_WANTS(PRELOAD_THREAD) | PRELOAD_WANTS(PRELOAD_ALLOC) |
                  PRELOAD_WANTS(PRELOAD_LIVE));
    CHECK_INT(t, s.alloc_rate, 65536);
    CHECK_INT(t, s.lock_rate, 250000);
    CHECK_INT(t, s.live_max, 1024);
    CHECK(t, s.has_seed);
    CHECK_INT(t, s.seed, 42);
    CHECK_STR(t, s.directory, "/run/vesta");
}

static void is_as_before_with_nonsense(struct test *t)
{
    static const char *const bad[] = {"", "x", "12x", "-5", "99999999999999999999999", "1.5M", "0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct preload_settings s = settings_of((const char *[][2]){
            {"VESTA_PRELOAD_INTERVAL", bad[i]},
            {"VESTA_PRELOAD_LOCK_INTERVAL", bad[i]},
            {"VESTA_PRELOAD_RING_MAX", bad[i]},
            {NULL, NULL},
        });
        CHECK_INT(t, s.alloc_rate, 512 << 10);
        CHECK_INT(t, s.lock_rate, 1000000);
        CHECK_INT(t, s.ring_records, 16384);
    }
    char deep[1024] = "";
    memset(deep, 'd', sizeof(deep) - 1);
    struct preload_settings s = settings_of((const char *[][2]){
        {"VESTA_PRELOAD_DIR", deep},
        {"VESTA_PRELOAD_INTERVAL", "900G"},
        {"VESTA_PRELOAD_RING_MAX", "1"},
        {NULL, NULL},
    });
    CHECK_STR(t, s.directory, "");
    CHECK_INT(t, s.alloc_rate, UINT32_MAX);
    CHECK_INT(t, s.ring_records, 64);
}

static void can_begin_dormant(struct test *t)
{
    struct preload_settings s = settings_of((const char *[][2]){
        {"VESTA_PRELOAD_OFF", "1"}, {"VESTA_PRELOAD_TYPES", "alloc"}, {NULL, NULL}});
    CHECK_INT(t, s.wanted, 0);
    s = settings_of((const char *[][2]){
        {"VESTA_PRELOAD_OFF", "0"}, {"VESTA_PRELOAD_TYPES", "alloc"}, {NULL, NULL}});
    CHECK_INT(t, s.wanted, PRELOAD_WANTS(PRELOAD_ALLOC));
}

static const struct test_case cases[] = {
    TEST(has_defaults),
    TEST(takes_what_it_understands),
    TEST(is_as_before_with_nonsense),
    TEST(can_begin_dormant),
};
TEST_MAIN(cases)
