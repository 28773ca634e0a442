#include "formats/text_cache.h"

#include "base/hash.h"

void text_cache_init(struct text_cache *c, struct budget *budget)
{
    *c = (struct text_cache){.budget = budget};
    arena_init(&c->text, budget);
}

void text_cache_done(struct text_cache *c)
{
    vec_done(c->budget, &c->entries);
    idset_done(c->budget, &c->index);
    arena_done(&c->text);
}

bool text_cache_find(const struct text_cache *c, struct bytes text, uint32_t *ret)
{
    const struct cached_text *e = c->entries.data;
    uint32_t at = IDSET_FIND(&c->index, hash_bytes(text.data, text.len), id,
                             e[id].len == text.len && memcmp(e[id].text, text.data, text.len) == 0);

    if (at == IDSET_NONE)
        return false;
    *ret = e[at].value;
    return true;
}

void text_cache_add(struct text_cache *c, struct bytes text, uint32_t value)
{
    if (text.len >= UINT32_MAX || c->entries.len >= IDSET_NONE - 1)
        return;
    const char *copy = arena_strdup(&c->text, text);
    struct cached_text e = {copy, (uint32_t)text.len, value};
    uint32_t at = (uint32_t)c->entries.len;

    if (!copy || !vec_push(c->budget, &c->entries, e))
        return;
    idset_add(c->budget, &c->index, hash_bytes(text.data, text.len), at);
}
