#include "symbols/capstone_lib.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define TEXT_OF(number)  TEXT_OF_(number)
#define TEXT_OF_(number) #number

/* Where each function of struct capstone is found. */
static const struct {
    const char *symbol;
    size_t offset;
} functions[] = {
    {"cs_open", offsetof(struct capstone, open)},
    {"cs_close", offsetof(struct capstone, close)},
    {"cs_option", offsetof(struct capstone, option)},
    {"cs_malloc", offsetof(struct capstone, malloc)},
    {"cs_free", offsetof(struct capstone, free)},
    {"cs_disasm_iter", offsetof(struct capstone, disasm_iter)},
    {"cs_insn_group", offsetof(struct capstone, insn_group)},
};

static bool load(struct capstone *to)
{
    /* Kept until the program ends. */
    void *library = dlopen("libcapstone.so." TEXT_OF(CS_API_MAJOR), RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return false;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *found = dlsym(library, functions[i].symbol);
        if (!found)
            return false;
        memcpy((char *)to + functions[i].offset, &found, sizeof(found));
    }
    return true;
}

const struct capstone *capstone_get(void)
{
    static struct capstone loaded;
    static bool is_tried, is_there;

    if (!is_tried) {
        is_tried = true;
        is_there = load(&loaded);
    }
    return is_there ? &loaded : NULL;
}
