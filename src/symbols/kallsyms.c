#include "symbols/kallsyms.h"

#include <errno.h>
#include <stdlib.h>

#include "wire/input.h"

/* The table gives no sizes; no function is longer than this. */
#define FUNCTION_BYTES_MAX ((uint64_t)1 << 20)

struct parsed {
    uint64_t address;
    char type;
    struct bytes name;
};

/* Splits "ADDRESS TYPE NAME\t[MODULE]". */
static bool parse_line(struct bytes line, struct parsed *ret)
{
    const uint8_t *space = bytes_find_byte(line, ' ');

    if (!space || !bytes_to_hex(bytes_head(line, (size_t)(space - line.data)), &ret->address))
        return false;
    line = bytes_from(line, (size_t)(space - line.data) + 1);
    if (line.len < 3 || line.data[1] != ' ')
        return false;
    ret->type = (char)line.data[0];
    ret->name = bytes_from(line, 2);
    const uint8_t *tab = bytes_find_byte(ret->name, '\t');
    if (tab)
        ret->name = bytes_head(ret->name, (size_t)(tab - ret->name.data));
    return ret->name.len > 0;
}

static bool is_function(const struct parsed *p)
{
    return strchr("tTwW", p->type) != NULL && p->type != '\0';
}

static void add(struct kallsyms *k, const struct parsed *p)
{
    uint64_t end = p->address + FUNCTION_BYTES_MAX;

    if (bytes_are(p->name, "_text"))
        k->text_start = p->address;
    if (bytes_are(p->name, "_stext"))
        k->stext_start = p->address;
    char *name = arena_strdup(&k->text, p->name);
    if (name)
        vec_push(k->table.budget, &k->table.symbols,
                 (struct symbol){.start = p->address,
                                 .end = end < p->address ? UINT64_MAX : end,
                                 .name = name});
}

int kallsyms_parse(struct kallsyms *k, struct bytes text, struct budget *budget, struct error *err)
{
    struct bytes line;
    struct parsed p;
    uint64_t any = 0;
    size_t n = 0;

    *k = (struct kallsyms){.table.budget = budget};
    arena_init(&k->text, budget);
    while (bytes_next_line(&text, &line)) {
        n++;
        if (!parse_line(line, &p))
            return error_set(err, -EBADMSG, "kallsyms at line %zu: not \"ADDRESS TYPE NAME\"", n);
        any |= p.address;
        if (is_function(&p) && p.address != 0)
            add(k, &p);
        if (budget_failed(budget))
            return budget_error(budget, err);
    }
    if (n == 0)
        return error_set(err, -EBADMSG, "kallsyms: empty");
    if (any == 0)
        return error_set(err, -EACCES,
                         "kallsyms: all addresses are zero, the kernel hides them "
                         "(kernel.kptr_restrict)");
    symbol_table_settle(&k->table);
    return 0;
}

int kallsyms_read(struct kallsyms *k, const char *path, struct budget *budget, struct error *err)
{
    CLEANUP(input_closep) struct input *in = NULL;
    struct bytes text;

    *k = (struct kallsyms){0};
    int r = input_open(path, budget, &in, err);
    if (r >= 0)
        r = input_all(in, &text, err);
    return r < 0 ? r : kallsyms_parse(k, text, budget, err);
}

void kallsyms_done(struct kallsyms *k)
{
    symbol_table_done(&k->table);
    if (k->text.budget)
        arena_done(&k->text);
}

const char *kallsyms_find(const struct kallsyms *k, uint64_t address)
{
    const struct symbol *s = symbol_table_find(&k->table, address);
    return s ? s->name : NULL;
}
