/*
 * Massif's output (Valgrind): snapshots of the heap over time, some with a tree of who allocated.
 * A profile is one moment, so one tree is read: that of the peak, or of the largest heap among
 * those that have a tree.
 *
 * The tree is upside down: below an allocation are its callers, one blank deeper each.
 *
 *     n2: 48000 0x1095DE: ins (work.c:21)        2 callers follow
 *      n0: 24960 0x1095AF: ins (work.c:21)       no callers follow: this stack ends here
 */

#include "formats/formats.h"
#include "formats/valgrind_frame.h"
#include "wire/lines.h"

struct stack_bytes {
    uint32_t node;
    int64_t bytes;
};

typedef VEC(struct stack_bytes) stack_vec;

struct reader {
    struct profile *profile;
    struct dict *dict;
    struct budget *budget;
    struct lines lines;
    uint64_t n_snapshots, n_trees;
    uint64_t snapshot; /* the number of the one being read */
    uint64_t heap_bytes;
    bool is_peak;

    stack_vec tree, best; /* the tree being read, and the one to keep */
    uint64_t best_snapshot, best_bytes;
    bool has_best, best_is_peak;
    VEC(uint32_t) path; /* locations, from the allocation outwards */
};

static int massif_sniff(struct bytes head)
{
    bool looks_right = bytes_start_with(head, BYTES("desc: ")) &&
                       bytes_find(head, BYTES("\ncmd: ")) &&
                       bytes_find(head, BYTES("\ntime_unit: "));
    return looks_right ? 95 : 0;
}

static int fail(const struct reader *r, struct error *err, const char *why)
{
    return lines_refuse(&r->lines, "massif", why, err);
}

/* "key=value" with a number. */
static bool number_of(struct bytes line, struct bytes key, uint64_t *ret)
{
    return bytes_start_with(line, key) && bytes_to_u64(bytes_from(line, key.len), ret);
}

/* One line of a tree: "n2: 48000 0x1095DE: ins (work.c:21)". */
static int read_node(struct reader *r, struct bytes line, uint64_t *ret_children, struct error *err)
{
    size_t depth = 0;
    uint64_t children, bytes;

    while (depth < line.len && line.data[depth] == ' ')
        depth++;
    struct bytes rest = bytes_from(line, depth);
    const uint8_t *colon = bytes_find(rest, BYTES(": "));
    if (rest.len < 2 || rest.data[0] != 'n' || !colon ||
        !bytes_to_u64(bytes_from(bytes_head(rest, (size_t)(colon - rest.data)), 1), &children))
        return fail(r, err, "not a line of a heap tree");
    rest = bytes_from(rest, (size_t)(colon - rest.data) + 2);
    const uint8_t *blank = bytes_find_byte(rest, ' ');
    if (!blank || !bytes_to_u64(bytes_head(rest, (size_t)(blank - rest.data)), &bytes) ||
        bytes > INT64_MAX)
        return fail(r, err, "a heap tree line has no size");
    if (depth > r->path.len)
        return fail(r, err, "a heap tree line is too far to the right");
    r->path.len = depth;

    struct bytes text = bytes_from(rest, (size_t)(blank - rest.data) + 1);
    bool is_rest =
        bytes_start_with(text, BYTES("in ")) && bytes_find(text, BYTES("below massif's threshold"));
    if (!is_rest) /* the root has no frame, but a place in the path */
        vec_push(r->budget, &r->path, depth == 0 ? 0 : valgrind_location(r->dict, text));
    if (children == 0 && r->path.len > 0) {
        uint32_t node = dict_stack(r->dict, r->path.data + 1, r->path.len - 1);
        vec_push(r->budget, &r->tree, (struct stack_bytes){node, (int64_t)bytes});
    }
    *ret_children = children;
    return 0;
}

static void keep_if_better(struct reader *r)
{
    bool is_better = !r->has_best || (r->is_peak && !r->best_is_peak) ||
                     (r->is_peak == r->best_is_peak && r->heap_bytes > r->best_bytes);
    if (!is_better)
        return;
    stack_vec t = r->best;
    r->best = r->tree;
    r->tree = t;
    r->has_best = true;
    r->best_is_peak = r->is_peak;
    r->best_snapshot = r->snapshot;
    r->best_bytes = r->heap_bytes;
}

/* A tree ends when every line has had the callers it announced. */
static int read_tree(struct reader *r, struct error *err)
{
    uint64_t pending = 1;

    vec_clear(&r->tree);
    vec_clear(&r->path);
    for (struct bytes line; pending > 0 && lines_next(&r->lines, &line);) {
        uint64_t children = 0;
        int result = read_node(r, line, &children, err);
        if (budget_failed(r->budget))
            return budget_error(r->budget, err);
        if (result < 0)
            return result;
        if (__builtin_add_overflow(pending - 1, children, &pending))
            return fail(r, err, "too many callers");
    }
    if (pending > 0 && lines_result(&r->lines, NULL) == 0)
        return fail(r, err, "a heap tree is cut short");
    r->n_trees++;
    keep_if_better(r);
    return 0;
}

static int read_line(struct reader *r, struct bytes line, struct error *err)
{
    if (number_of(line, BYTES("snapshot="), &r->snapshot)) {
        r->n_snapshots++;
        r->heap_bytes = 0;
        return 0;
    }
    if (number_of(line, BYTES("mem_heap_B="), &r->heap_bytes))
        return 0;
    if (bytes_start_with(line, BYTES("cmd: ")))
        vec_push(r->budget, &r->profile->comments, dict_string(r->dict, bytes_from(line, 5)));
    r->is_peak = bytes_are(line, "heap_tree=peak");
    if (r->is_peak || bytes_are(line, "heap_tree=detailed"))
        return read_tree(r, err);
    bool is_known = line.len == 0 || line.data[0] == '#' || bytes_find_byte(line, '=') ||
                    bytes_find(line, BYTES(": "));
    return is_known ? 0 : fail(r, err, "neither a key nor a snapshot");
}

static void add_best(struct reader *r, struct profile_set *out)
{
    profile_add_ctype(r->profile, "inuse_space", "bytes");
    for (size_t i = 0; i < r->best.len; i++)
        profile_add_value(r->profile, r->best.data[i].node, r->best.data[i].bytes);
    if (r->has_best)
        profile_set_note(out, "%llu snapshots, %llu of them with stacks; this is snapshot %llu, %s",
                         (unsigned long long)r->n_snapshots, (unsigned long long)r->n_trees,
                         (unsigned long long)r->best_snapshot,
                         r->best_is_peak ? "the peak" : "the largest with stacks");
    else
        profile_set_note(out, "%llu snapshots, none of them with stacks",
                         (unsigned long long)r->n_snapshots);
}

static void reader_done(struct reader *r)
{
    lines_done(&r->lines);
    vec_done(r->budget, &r->tree);
    vec_done(r->budget, &r->best);
    vec_done(r->budget, &r->path);
}

static int massif_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);

    CLEANUP(reader_done)
    struct reader r = {.profile = p, .dict = out->dict, .budget = out->budget};
    lines_init(&r.lines, in, out->budget);
    for (struct bytes line; lines_next(&r.lines, &line);) {
        int result = read_line(&r, line, err);
        if (result < 0)
            return result;
    }
    int result = lines_result(&r.lines, err);
    if (result < 0)
        return result;
    if (r.n_snapshots == 0)
        return fail(&r, err, "there is no snapshot");
    add_best(&r, out);
    return 0;
}

const struct format format_massif = {
    .name = "massif",
    .title = "Massif heap profile",
    .sniff = massif_sniff,
    .decode = massif_decode,
};
