#include "formats/packed_stack.h"

#include <errno.h>

#include "base/hash.h"
#include "wire/protobuf.h"

#define PIECE_BYTES 8
#define SLOTS_MIN   256
#define HIGH_BITS   UINT64_C(0x8080808080808080)

/* From node `from`, the frames encoded in `bytes` lead to node `to`, which is never 0. */
struct packed_piece {
    uint64_t bytes;
    uint32_t from, to;
};

/* How many of the eight high bits are set; the others are clear. */
static inline size_t count_high_bits(uint64_t x)
{
    return (x >> 7) * UINT64_C(0x0101010101010101) >> 56;
}

static inline size_t slot_of(uint64_t bytes, uint32_t from, size_t mask)
{
    return hash_mix(bytes, from) & mask;
}

/*
 * The piece of whole ids that ends at `end`: its length, or 0 when there is none. The same ids make
 * the same pieces, whatever stands before them. Pieces that end with a zero byte are not used: as
 * numbers they would equal shorter ones.
 */
static inline size_t piece_before(const uint8_t *start, const uint8_t *end, uint64_t *ret_bytes)
{
    size_t left = (size_t)(end - start);
    uint64_t x;

    if (end[-1] == 0)
        return 0;
    if (left <= PIECE_BYTES) {
        memcpy(&x, start, 8);
        *ret_bytes = x << (64 - 8 * left) >> (64 - 8 * left);
        return left;
    }
    /* The byte before the piece ends an id: it is the first of these eight that does. */
    memcpy(&x, end - PIECE_BYTES - 1, 8);
    uint64_t ends = ~x & HIGH_BITS;
    if (ends == 0)
        return 0;
    size_t n = PIECE_BYTES - (size_t)__builtin_ctzll(ends) / 8;
    memcpy(&x, end - PIECE_BYTES, 8);
    *ret_bytes = x >> (8 * (PIECE_BYTES - n));
    return n;
}

/* Where a piece leads to from a node, or 0; the search begins at slot `at`. */
static inline uint32_t find_piece(const struct packed_stacks *s, size_t at, uint64_t bytes,
                                  uint32_t from)
{
    for (;; at = (at + 1) & s->mask) {
        const struct packed_piece *p = &s->pieces[at];
        if (p->bytes == bytes && p->from == from)
            return p->to; /* a free slot says 0 as well */
        if (p->to == 0)
            return 0;
    }
}

/* True unless it was there. */
static bool place(struct packed_piece *pieces, size_t mask, struct packed_piece p)
{
    size_t at = slot_of(p.bytes, p.from, mask);

    for (; pieces[at].to; at = (at + 1) & mask) {
        if (pieces[at].bytes == p.bytes && pieces[at].from == p.from)
            return false;
    }
    pieces[at] = p;
    return true;
}

/* Remembering is a help, not a need: it never spends the last of the budget. */
static bool grow(struct packed_stacks *s)
{
    struct budget *b = s->dict->budget;
    size_t old_n = s->pieces ? s->mask + 1 : 0, new_n = old_n ? old_n * 2 : SLOTS_MIN;
    void *p = NULL;

    if (new_n * sizeof(*s->pieces) > (b->limit - b->used) / 4 ||
        !budget_resize(b, &p, 0, new_n * sizeof(*s->pieces))) {
        s->is_full = true;
        return false;
    }
    struct packed_piece *pieces = p;
    memset(pieces, 0, new_n * sizeof(*pieces));
    for (size_t i = 0; i < old_n; i++) {
        if (s->pieces[i].to)
            place(pieces, new_n - 1, s->pieces[i]);
    }
    budget_free(b, s->pieces, old_n * sizeof(*pieces));
    s->pieces = pieces;
    s->mask = new_n - 1;
    return true;
}

static void remember(struct packed_stacks *s, struct packed_piece p)
{
    if (s->is_full || p.to == 0)
        return;
    if (s->n_pieces * 2 >= (s->pieces ? s->mask + 1 : 0) && !grow(s))
        return;
    s->n_pieces += place(s->pieces, s->mask, p);
}

static int fail(struct packed_stacks *s, const uint8_t *at, bool is_malformed, uint64_t id)
{
    s->failed_at = at;
    s->is_malformed = is_malformed;
    s->unknown_id = id;
    return -EBADMSG;
}

int packed_stack_append(struct packed_stacks *s, struct bytes packed)
{
    const uint8_t *pos = packed.data, *end = pos + packed.len;

    if (!vec_reserve(s->dict->budget, &s->stack, packed.len))
        return -ENOBUFS;
    uint32_t *to = s->stack.data + s->stack.len;
    while (pos < end) {
        const uint8_t *at = pos;
        uint64_t id;
        if (!pb_varint(&pos, end, &id))
            return fail(s, at, true, 0);
        uint32_t location = 0;
        if (__builtin_expect(id < s->n_dense, 1))
            location = s->dense[id];
        else if (s->find)
            location = s->find(s->context, id);
        if (__builtin_expect(location == 0, 0))
            return fail(s, at, false, id);
        *to++ = location;
    }
    s->stack.len = (size_t)(to - s->stack.data);
    return 0;
}

/*
 * Remembers the pieces of a stack that was just read from `from` on, with its nodes in s->path.
 * Only those that were met before, whose nodes are less than n_old: most new ones never come again.
 */
static void remember_pieces(struct packed_stacks *s, struct bytes packed, uint32_t from,
                            size_t n_old)
{
    const uint8_t *end = packed.data + packed.len;
    size_t frames = 0;

    while (end > packed.data && !s->is_full) {
        struct packed_piece p = {.from = from};
        size_t n = piece_before(packed.data, end, &p.bytes);
        if (n == 0)
            return;
        frames += count_high_bits(~p.bytes & HIGH_BITS >> (64 - 8 * n));
        from = p.to = s->path.data[frames - 1];
        if (p.to >= n_old)
            return;
        remember(s, p);
        end -= n;
    }
}

/* Reads what is left of a stack after the pieces that were known, which led to `node`. */
static int read_rest(struct packed_stacks *s, struct bytes rest, uint32_t *node)
{
    vec_clear(&s->stack);
    int rc = packed_stack_append(s, rest);
    if (rc < 0)
        return rc;
    if (!vec_reserve(s->dict->budget, &s->path, s->stack.len))
        return -ENOBUFS;
    size_t n_old = dict_n_nodes(s->dict);
    uint32_t leaf = dict_path(s->dict, *node, s->stack.data, s->stack.len, s->path.data);
    if (leaf == 0)
        return -ENOBUFS;
    remember_pieces(s, rest, *node, n_old);
    *node = leaf;
    return 0;
}

/* One stack on its way through the table. */
struct walk {
    const uint8_t *start, *end; /* what is not walked yet */
    uint64_t bytes;             /* the piece before `end`, of n bytes, looked for at `slot` */
    size_t n, slot;
};

/* Finds the next piece and asks for the memory it will be looked up in. False when there is none.
 */
static inline bool walk_next(const struct packed_stacks *s, struct walk *w, uint32_t node)
{
    if (w->end == w->start)
        return false;
    w->n = piece_before(w->start, w->end, &w->bytes);
    if (w->n == 0)
        return false;
    w->slot = slot_of(w->bytes, node, s->mask);
    __builtin_prefetch(&s->pieces[w->slot]);
    return true;
}

/*
 * Walks all stacks at once, one piece of each in turn: a look-up waits for memory, and others can
 * wait with it.
 */
static void walk_known(const struct packed_stacks *s, struct walk *walks, uint32_t *nodes, size_t n)
{
    uint8_t active[PACKED_STACKS_AT_ONCE];
    size_t n_active = 0;

    for (size_t i = 0; i < n; i++) {
        if (walk_next(s, &walks[i], 0))
            active[n_active++] = (uint8_t)i;
    }
    while (n_active > 0) {
        size_t kept = 0;
        for (size_t k = 0; k < n_active; k++) {
            size_t i = active[k];
            struct walk *w = &walks[i];
            uint32_t to = find_piece(s, w->slot, w->bytes, nodes[i]);
            if (to == 0)
                continue;
            nodes[i] = to;
            w->end -= w->n;
            if (walk_next(s, w, to))
                active[kept++] = (uint8_t)i;
        }
        n_active = kept;
    }
}

int packed_stacks_read(struct packed_stacks *s, const struct bytes *packed, size_t n,
                       uint32_t *ret_nodes)
{
    struct walk walks[PACKED_STACKS_AT_ONCE];

    for (size_t i = 0; i < n; i++) {
        walks[i].start = packed[i].data;
        walks[i].end = packed[i].data + packed[i].len;
        ret_nodes[i] = 0;
    }
    if (s->pieces)
        walk_known(s, walks, ret_nodes, n);
    for (size_t i = 0; i < n; i++) {
        struct bytes rest = {walks[i].start, (size_t)(walks[i].end - walks[i].start)};
        int rc = rest.len ? read_rest(s, rest, &ret_nodes[i]) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

void packed_stacks_done(struct packed_stacks *s)
{
    struct budget *b = s->dict->budget;

    if (s->pieces)
        budget_free(b, s->pieces, (s->mask + 1) * sizeof(*s->pieces));
    vec_done(b, &s->stack);
    vec_done(b, &s->path);
}
