#include "lib/sim_disk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

static void image_resize(struct disk_image *m, size_t len)
{
    if (len > m->cap) {
        size_t cap = m->cap * 2 > len ? m->cap * 2 : len;
        m->data = must_realloc(m->data, cap);
        m->cap = cap;
    }
    if (len > m->len)
        memset(m->data + m->len, 0, len - m->len);
    m->len = len;
}

static void image_write(struct disk_image *m, const uint8_t *from, size_t n, uint64_t offset)
{
    if (n == 0)
        return;
    if (offset + n > m->len)
        image_resize(m, (size_t)offset + n);
    memcpy(m->data + offset, from, n);
}

static void image_copy(struct disk_image *to, const struct disk_image *from)
{
    to->len = 0;
    image_write(to, from->data, from->len, 0);
}

static struct disk_node *node_new(struct disk *d, bool is_dir)
{
    struct disk_node *n = must_calloc(1, sizeof(*n));

    n->disk = d;
    n->is_dir = is_dir;
    n->prev = d->last;
    *(d->last ? &d->last->next : &d->first) = n;
    d->last = n;
    return n;
}

static void entry_set_now(struct disk_entry *e, struct disk_node *n)
{
    struct disk_node *before = e->now;

    e->now = n ? disk_node_hold(n) : NULL;
    disk_node_release(before);
}

static void entry_set_durable(struct disk_entry *e, struct disk_node *n)
{
    struct disk_node *before = e->durable;

    e->durable = n ? disk_node_ref(n) : NULL;
    disk_node_unref(before);
}

static void op_done(struct disk_name_op *op)
{
    disk_node_unref(op->node);
    disk_node_unref(op->after_dir);
}

static void node_free(struct disk_node *n)
{
    struct disk *d = n->disk;

    *(n->prev ? &n->prev->next : &d->first) = n->next;
    *(n->next ? &n->next->prev : &d->last) = n->prev;
    for (size_t i = 0; i < n->ops.len; i++)
        op_done(&n->ops.data[i]);
    for (size_t i = 0; i < n->n_slots; i++) {
        if (n->slots[i]) {
            entry_set_now(n->slots[i], NULL);
            entry_set_durable(n->slots[i], NULL);
            free(n->slots[i]);
        }
    }
    vec_done(&d->budget, &n->ops);
    vec_done(&d->budget, &n->changes);
    free(n->slots);
    free(n->now.data);
    free(n->durable.data);
    free(n->log.data);
    free(n);
}

struct disk_node *disk_node_ref(struct disk_node *n)
{
    n->refs++;
    return n;
}

void disk_node_unref(struct disk_node *n)
{
    if (n && --n->refs == 0)
        node_free(n);
}

struct disk_node *disk_node_hold(struct disk_node *n)
{
    if (n->live++ == 0)
        n->disk->used += n->now.len;
    return disk_node_ref(n);
}

void disk_node_release(struct disk_node *n)
{
    if (!n)
        return;
    if (--n->live == 0)
        n->disk->used -= n->now.len;
    disk_node_unref(n);
}

void disk_init(struct disk *d)
{
    *d = (struct disk){0};
    budget_init(&d->budget, SIZE_MAX);
    d->root = disk_node_hold(node_new(d, true));
}

static uint32_t hash_name(const char *name, size_t len)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)name[i]) * 16777619u;
    return h ^ h >> 15;
}

static struct disk_entry *entry_find(const struct disk_node *dir, const char *name, size_t len)
{
    uint32_t hash = hash_name(name, len);

    for (size_t i = hash; dir->n_slots > 0; i++) {
        struct disk_entry *e = dir->slots[i & (dir->n_slots - 1)];
        if (!e)
            break;
        if (e->hash == hash && strncmp(e->name, name, len) == 0 && e->name[len] == '\0')
            return e;
    }
    return NULL;
}

static void entry_place(struct disk_node *dir, struct disk_entry *e)
{
    size_t i = e->hash;

    while (dir->slots[i & (dir->n_slots - 1)])
        i++;
    dir->slots[i & (dir->n_slots - 1)] = e;
    dir->n_entries++;
}

/* Takes all entries over into n_slots new slots, leaving out names that nothing has. */
static void entries_rehash(struct disk_node *dir, size_t n_slots, bool drop_unused)
{
    struct disk_entry **old = dir->slots;
    size_t n_old = dir->n_slots;

    dir->slots = must_calloc(n_slots, sizeof(struct disk_entry *));
    dir->n_slots = n_slots;
    dir->n_entries = 0;
    for (size_t i = 0; i < n_old; i++) {
        if (!old[i])
            continue;
        if (drop_unused && !old[i]->now && !old[i]->durable)
            free(old[i]);
        else
            entry_place(dir, old[i]);
    }
    free(old);
}

static struct disk_entry *entry_of(struct disk_node *dir, const char *leaf)
{
    size_t len = strlen(leaf);
    struct disk_entry *e = entry_find(dir, leaf, len);

    if (e)
        return e;
    if (dir->n_entries * 2 >= dir->n_slots)
        entries_rehash(dir, dir->n_slots ? dir->n_slots * 2 : 16, false);
    e = must_calloc(1, sizeof(*e) + len + 1);
    e->hash = hash_name(leaf, len);
    memcpy(e->name, leaf, len);
    entry_place(dir, e);
    return e;
}

int disk_find(struct disk *d, const char *path, struct disk_node **ret_dir, const char **ret_leaf,
              struct disk_entry **ret_entry)
{
    struct disk_node *dir = d->root;

    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
        const struct disk_entry *e = entry_find(dir, path, (size_t)(slash - path));
        if (!e || !e->now)
            return -ENOENT;
        dir = e->now;
        if (!dir->is_dir)
            return -ENOTDIR;
    }
    *ret_dir = dir;
    *ret_leaf = path;
    *ret_entry = entry_find(dir, path, strlen(path));
    return 0;
}

struct disk_node *disk_find_dir(struct disk *d, const char *path)
{
    struct disk_node *dir;
    struct disk_entry *e;
    const char *leaf;

    if (strcmp(path, ".") == 0)
        return d->root;
    if (disk_find(d, path, &dir, &leaf, &e) < 0 || !e || !e->now || !e->now->is_dir)
        return NULL;
    return e->now;
}

static void add_op(struct disk_node *dir, struct disk_name_op op)
{
    if (op.node)
        disk_node_ref(op.node);
    if (op.after_dir)
        disk_node_ref(op.after_dir);
    (void)vec_push(&dir->disk->budget, &dir->ops, op);
}

void disk_link(struct disk_node *dir, const char *leaf, struct disk_node *node)
{
    struct disk_entry *e = entry_of(dir, leaf);

    entry_set_now(e, node);
    add_op(dir, (struct disk_name_op){.entry = e, .node = node});
}

void disk_create(struct disk_node *dir, const char *leaf, bool is_dir, struct disk_node **ret)
{
    *ret = node_new(dir->disk, is_dir);
    disk_link(dir, leaf, *ret);
}

void disk_unlink(struct disk_node *dir, struct disk_entry *entry)
{
    entry_set_now(entry, NULL);
    add_op(dir, (struct disk_name_op){.entry = entry});
}

void disk_rename(struct disk_node *from_dir, struct disk_entry *from, struct disk_node *to_dir,
                 const char *to_leaf)
{
    struct disk_entry *to = entry_of(to_dir, to_leaf);
    struct disk_node *node = from->now;

    entry_set_now(to, node);
    entry_set_now(from, NULL);
    if (from_dir == to_dir) {
        add_op(to_dir, (struct disk_name_op){.entry = to, .node = node, .also_gone = from});
        return;
    }
    uint64_t number = to_dir->ops_done + to_dir->ops.len;
    add_op(to_dir, (struct disk_name_op){.entry = to, .node = node});
    add_op(from_dir, (struct disk_name_op){.entry = from, .after_dir = to_dir, .after_op = number});
}

static void op_apply(const struct disk_name_op *op)
{
    entry_set_durable(op->entry, op->node);
    if (op->also_gone)
        entry_set_durable(op->also_gone, NULL);
}

static bool waits_for_other(const struct disk_name_op *op)
{
    return op->after_dir && op->after_op >= op->after_dir->ops_done;
}

void disk_sync_dir(struct disk_node *dir)
{
    __typeof__(dir->ops) ops = dir->ops;

    dir->ops = (__typeof__(dir->ops)){0};
    dir->ops_done += ops.len;
    for (size_t i = 0; i < ops.len; i++) {
        if (waits_for_other(&ops.data[i]))
            disk_sync_dir(ops.data[i].after_dir);
        op_apply(&ops.data[i]);
        op_done(&ops.data[i]);
    }
    vec_done(&dir->disk->budget, &ops);
}

static void add_change(struct disk_node *file, struct disk_change c)
{
    (void)vec_push(&file->disk->budget, &file->changes, c);
    file->differs = true;
}

static void resize_now(struct disk_node *file, size_t size)
{
    if (file->live > 0)
        file->disk->used += size - file->now.len;
    image_resize(&file->now, size);
}

void disk_write(struct disk_node *file, const void *from, size_t n, uint64_t offset)
{
    if (n == 0)
        return;
    if (offset + n > file->now.len)
        resize_now(file, (size_t)offset + n);
    memcpy(file->now.data + offset, from, n);
    add_change(file, (struct disk_change){.offset = offset, .len = n, .at = file->log.len});
    image_write(&file->log, from, n, file->log.len);
}

void disk_truncate(struct disk_node *file, uint64_t size)
{
    resize_now(file, (size_t)size);
    add_change(file, (struct disk_change){.offset = size, .is_truncate = true});
}

static void change_apply(struct disk_node *file, const struct disk_change *c)
{
    if (c->is_truncate)
        image_resize(&file->durable, (size_t)c->offset);
    else
        image_write(&file->durable, file->log.data + c->at, c->len, c->offset);
}

static void changes_clear(struct disk_node *file)
{
    vec_clear(&file->changes);
    file->log.len = 0;
}

void disk_sync(struct disk_node *file)
{
    for (size_t i = 0; i < file->changes.len; i++)
        change_apply(file, &file->changes.data[i]);
    changes_clear(file);
    file->differs = file->is_lossy;
}

void disk_sync_failed(struct disk_node *file, struct random *random)
{
    for (size_t i = 0; i < file->changes.len; i++) {
        if (random_below(random, 2) == 0)
            change_apply(file, &file->changes.data[i]);
    }
    file->is_lossy |= file->changes.len > 0;
    changes_clear(file);
}

/* Which of n changes in order survive: all, none, the first few, or any of them. */
struct lot {
    struct random *random;
    size_t sure;   /* so many survive... */
    bool is_mixed; /* ...and of the others half */
};

static struct lot lot_draw(struct random *random, size_t n)
{
    struct lot lot = {.random = random};

    switch (random_below(random, 5)) {
    case 0:
        lot.sure = n;
        break;
    case 1:
        break;
    case 2:
        lot.sure = (size_t)random_below(random, n + 1);
        break;
    default:
        lot.is_mixed = true;
    }
    return lot;
}

static bool lot_survives(const struct lot *lot, size_t i)
{
    return i < lot->sure || (lot->is_mixed && random_below(lot->random, 2) == 0);
}

/* Of a write only some survives, cut where a disk, a page cache or nobody in particular would. */
static void change_tear(struct disk_node *file, const struct disk_change *c, struct random *random)
{
    static const uint64_t units[] = {1, 512, 4096};
    uint64_t unit = units[random_below(random, 3)], end = c->offset + c->len;
    uint64_t cut = (c->offset + random_below(random, c->len + 1)) / unit * unit;
    const uint8_t *from = file->log.data + c->at;

    if (cut < c->offset)
        cut = c->offset;
    size_t head = (size_t)(cut - c->offset), tail = (size_t)(end - cut);
    switch (random_below(random, 4)) {
    case 0: /* its beginning */
        image_write(&file->durable, from, head, c->offset);
        break;
    case 1: /* its end */
        image_write(&file->durable, from + head, tail, cut);
        break;
    case 2: /* the space was allocated, the bytes never came */
        image_write(&file->durable, from, head, c->offset);
        if (end > file->durable.len)
            image_resize(&file->durable, (size_t)end);
        memset(file->durable.data + cut, 0, tail);
        break;
    default: /* some sectors of it */
        for (uint64_t at = c->offset, next; at < end; at = next) {
            next = (at / 512 + 1) * 512 < end ? (at / 512 + 1) * 512 : end;
            if (random_below(random, 2) == 0)
                image_write(&file->durable, from + (at - c->offset), (size_t)(next - at), at);
        }
    }
}

static void file_crash(struct disk_node *file, struct random *random)
{
    struct lot lot = lot_draw(random, file->changes.len);

    for (size_t i = 0; i < file->changes.len; i++) {
        const struct disk_change *c = &file->changes.data[i];
        if (!lot_survives(&lot, i))
            continue;
        if (c->is_truncate || random_below(random, 4) > 0)
            change_apply(file, c);
        else
            change_tear(file, c, random);
    }
    changes_clear(file);
    file->differs = file->is_lossy = false;
    if (file->live > 0)
        file->disk->used += file->durable.len - file->now.len;
    image_copy(&file->now, &file->durable);
}

/*
 * Changes of different names may survive in any order, those of one name only in the order they
 * were made: whoever lost one loses all that built on it.
 */
static void dir_crash(struct disk_node *dir, struct random *random)
{
    struct lot lot = lot_draw(random, dir->ops.len);

    for (size_t i = 0; i < dir->ops.len; i++) {
        struct disk_name_op *op = &dir->ops.data[i];
        bool survives = lot_survives(&lot, i) && !waits_for_other(op) && !op->entry->is_blocked &&
                        !(op->also_gone && op->also_gone->is_blocked);
        if (survives) {
            op_apply(op);
            continue;
        }
        op->entry->is_blocked = true;
        if (op->also_gone)
            op->also_gone->is_blocked = true;
    }
}

/* Unfinished renames may refer to each other's directories. */
static void forget_ops(struct disk_node *dir, struct random *random)
{
    (void)random;
    for (size_t i = 0; i < dir->ops.len; i++)
        op_done(&dir->ops.data[i]);
    vec_clear(&dir->ops);
}

/* What is durable is what there is. */
static void dir_revert(struct disk_node *dir, struct random *random)
{
    dir->ops_done += dir->ops.len;
    forget_ops(dir, random);
    for (size_t i = 0; i < dir->n_slots; i++) {
        struct disk_entry *e = dir->slots[i];
        if (e && e->now != e->durable)
            entry_set_now(e, e->durable);
        if (e)
            e->is_blocked = false;
    }
    if (dir->n_slots > 0)
        entries_rehash(dir, dir->n_slots, true);
}

/* Calls fn for each node of a kind, oldest first, though any node may go away meanwhile. */
static void each_node(struct disk *d, bool is_dir, struct random *random,
                      void (*fn)(struct disk_node *n, struct random *random))
{
    VEC(struct disk_node *) nodes = {0};

    for (struct disk_node *n = d->first; n; n = n->next) {
        if (n->is_dir == is_dir && (is_dir || n->differs))
            (void)vec_push(&d->budget, &nodes, disk_node_ref(n));
    }
    for (size_t i = 0; i < nodes.len; i++) {
        fn(nodes.data[i], random);
        disk_node_unref(nodes.data[i]);
    }
    vec_done(&d->budget, &nodes);
}

void disk_done(struct disk *d)
{
    each_node(d, true, NULL, forget_ops);
    disk_node_release(d->root);
}

void disk_crash(struct disk *d, struct random *random)
{
    each_node(d, true, random, dir_crash);
    each_node(d, true, random, dir_revert);
    each_node(d, false, random, file_crash);
}

void disk_flip(struct disk_node *file, uint64_t bit)
{
    uint8_t mask = (uint8_t)(1u << bit % 8);

    if (bit / 8 < file->now.len)
        file->now.data[bit / 8] ^= mask;
    if (bit / 8 < file->durable.len)
        file->durable.data[bit / 8] ^= mask;
}

struct pick {
    struct random *random;
    struct disk_node *found;
    size_t n_seen;
    char *ret_path;
    size_t size;
};

/* Each file met replaces the choice with one chance in the number met so far. */
static void pick_below(struct pick *p, const struct disk_node *dir, const char *prefix)
{
    char path[1024];

    for (size_t i = 0; i < dir->n_slots; i++) {
        const struct disk_entry *e = dir->slots[i];
        if (!e || !e->durable || e->now != e->durable)
            continue;
        snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "/" : "", e->name);
        if (e->durable->is_dir) {
            pick_below(p, e->durable, path);
        } else if (e->durable->durable.len > 0 && random_below(p->random, ++p->n_seen) == 0) {
            p->found = e->durable;
            snprintf(p->ret_path, p->size, "%s", path);
        }
    }
}

struct disk_node *disk_pick_file(struct disk *d, struct random *random, char *path, size_t size)
{
    struct pick p = {.random = random, .ret_path = path, .size = size};

    pick_below(&p, d->root, "");
    return p.found;
}
