/* Scrape configs and files with targets: whatever is taken can be relabelled, whatever is not has
 * words. The first byte says which. */
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "scrape/discover.h"
#include "scrape/scrape_config.h"

static void try_config(struct bytes text)
{
    static const char *const names[] = {"__address__", "__meta_a", "env", "job"};
    const struct config_node *list = NULL;
    struct scrape_jobs jobs = {0};
    struct budget budget;
    struct arena arena;
    struct error err = {""};

    budget_init(&budget, 1 << 22);
    arena_init(&arena, &budget);
    int r = config_node_read(text, &arena, &list, &err);
    if (r == 0)
        r = scrape_jobs_parse(list, &jobs, &err);
    REQUIRE(r == 0 || err.text[0]);
    for (size_t i = 0; r == 0 && i < jobs.n && i < 4; i++) {
        struct tags t = {0};
        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            tags_set(&t, bytes_of(names[k]), bytes_of("some:80"));
        relabel_apply(&jobs.items[i].relabel, &t);
        REQUIRE(t.n <= TAGS_MAX);
        for (size_t k = 0; k < t.n; k++)
            REQUIRE(t.items[k].value[0] &&
                    (k == 0 || strcmp(t.items[k - 1].name, t.items[k].name) < 0));
        tags_done(&t);
    }
    scrape_jobs_done(&jobs);
    arena_done(&arena);
}

static void try_file(struct bytes text)
{
    struct tags_list found = {0};
    struct error err = {""};
    int r = discover_parse_file(text, "f", &found, &err);

    REQUIRE(r == 0 || (r < 0 && err.text[0] && found.n == 0));
    for (size_t i = 0; i < found.n; i++)
        REQUIRE(scrape_address_is_sound(tags_get(&found.items[i], "__address__")));
    tags_list_done(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    if (data[0] == 'f')
        try_file((struct bytes){data + 1, len - 1});
    else
        try_config((struct bytes){data + 1, len - 1});
    return 0;
}
