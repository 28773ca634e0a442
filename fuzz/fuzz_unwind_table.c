/*
 * Any bytes as an ELF file, and the same as its debug file: its unwind table is built, written,
 * read and searched. No crash, no leak, no hang, all memory within the budget; what was built can
 * be read.
 *
 * Links: unwind.
 */
#include <errno.h>

#include "fuzz.h"
#include "unwind/unwind_table.h"

static void search(const struct unwind_table *t)
{
    struct buf image = {0};
    struct unwind_view v;

    unwind_table_write(t, &image);
    REQUIRE(unwind_table_read(buf_bytes(&image), &v, NULL) == 0);
    for (uint32_t i = 0; i < v.n_pages; i++) {
        uint64_t page = ((uint64_t)v.first_text_page + i) << UNWIND_PAGE_BITS;
        for (uint32_t row = v.pages[i]; row < v.pages[i + 1]; row++) {
            struct unwind_rule want = v.rules[v.rows[row].rule];
            struct unwind_rule got = unwind_view_find(&v, page + v.rows[row].pc_low);
            REQUIRE(memcmp(&want, &got, sizeof(got)) == 0);
        }
    }
    REQUIRE(unwind_view_find(&v, 0).cfa <= UNWIND_CFA_UNSUPPORTED);
    buf_done(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct budget b;
    struct elf_file *f = NULL;
    struct unwind_table t = {0};
    struct error err = {{0}};

    budget_init(&b, (size_t)64 << 20);
    if (elf_from_bytes((struct bytes){data, len}, "input", &b, &f, &err) == 0) {
        int r = unwind_table_build(f, f, &b, &t, &err);
        REQUIRE(r == 0 || err.text[0] != '\0');
        REQUIRE(r == 0 || r == -ENODATA || r == -EBADMSG || r == -E2BIG || r == -ENOBUFS ||
                r == -EOPNOTSUPP);
        if (r == 0)
            search(&t);
        unwind_table_done(&t);
    }
    elf_close(f);
    REQUIRE(b.used == 0);
    return 0;
}
