/*
 * Any bytes as a perf map and as kallsyms: no crash, no leak, a failure has words, and what is
 * written can be read back.
 *
 * Links: host.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "host/name_table.h"
#include "host/parse_internal.h"

static void check(int (*parse)(int fd, int out, struct error *err), const uint8_t *data, size_t len)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC), out = memfd_create("names", MFD_CLOEXEC);
    struct name_table *t = NULL;
    struct name_found f = {0};
    struct error err = {{0}};

    REQUIRE(fd >= 0 && out >= 0 && write(fd, data, len) == (ssize_t)len);
    REQUIRE(lseek(fd, 0, SEEK_SET) == 0);
    int r = parse(fd, out, &err);
    close(fd);
    REQUIRE(r == 0 || err.text[0] != '\0');
    if (r < 0) {
        close(out);
        return;
    }
    REQUIRE(name_table_open(out, &t, &err) == 0);
    for (uint64_t va = 0; va < 1 << 16; va += 509)
        name_table_find(t, va, &f);
    REQUIRE(!name_table_is_damaged(t));
    name_table_close(t);
    name_found_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    check(parse_perf_map_of, data, len);
    check(parse_kallsyms_of, data, len);
    return 0;
}
