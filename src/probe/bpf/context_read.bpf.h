/*
 * The span that a thread is in, read from its memory: a record that it points to (OTEP 4947), or
 * the labels of its goroutine. All of it is the program's word: whatever cannot be read or is not
 * sound is not there. Included once for each way to read memory, with these defined:
 *
 *     CONTEXT_NAME(x)               names of this inclusion's functions
 *     CONTEXT_ENV                   type of what readers are handed
 *     CONTEXT_READ(env, to, n, at)  n <= EVENT_ATTRS_MAX; 0 when it was read
 *     CONTEXT_LOOP(n, fn, arg)      fn(0 ... n - 1, arg), until it returns something else than 0
 */

static __always_inline u64 CONTEXT_NAME(word)(CONTEXT_ENV env, u64 at)
{
    u64 word = 0;
    return CONTEXT_READ(env, &word, sizeof(word), at) ? 0 : word;
}

/* The thread's own instance of the variable that points to its record. */
static __always_inline u64 CONTEXT_NAME(variable)(CONTEXT_ENV env, struct task_struct *task,
                                                  const struct thread_context_place *place)
{
    u64 thread = thread_pointer(task), module = place->tls_module;
    if (place->kind == THREAD_CONTEXT_TLS)
        return thread + (u64)place->tls_offset;
    u64 list = CONTEXT_NAME(word)(env, thread + dtv_offset(place->is_musl));
    u64 block = list ? CONTEXT_NAME(word)(env, list + module * (place->is_musl ? 8 : 16)) : 0;
    /* All ones: this thread has not used it yet. */
    return block && block + 1 ? block + (u64)place->tls_offset : 0;
}

static __always_inline void CONTEXT_NAME(record)(CONTEXT_ENV env, struct probe_thread_context *c,
                                                 struct task_struct *task,
                                                 const struct thread_context_place *place)
{
    u64 variable = CONTEXT_NAME(variable)(env, task, place);
    u64 at = variable ? CONTEXT_NAME(word)(env, variable) : 0;
    struct context_record *r = &c->record;
    if (!at || CONTEXT_READ(env, r, CONTEXT_RECORD_BYTES, at) || r->valid != 1)
        return;
    const u64 *ids = (const u64 *)r;
    c->has_span = (ids[0] | ids[1]) && ids[2];
    u32 n = r->attrs_len;
    if (n > CONTEXT_ATTRS_MAX)
        n = CONTEXT_ATTRS_MAX;
    if (n && !CONTEXT_READ(env, c->attrs, n, at + CONTEXT_RECORD_BYTES))
        c->attrs_len = n;
}

/* Adds a label of Go to c->attrs. */
static __noinline int CONTEXT_NAME(label)(CONTEXT_ENV env, struct probe_thread_context *c,
                                          u64 key_at, u64 value_at)
{
    struct go_string key = {0}, value = {0};
    if (!c)
        return 0;
    u32 len = c->attrs_len;
    if (len > EVENT_ATTRS_MAX - GO_LABEL_MAX)
        return 0;
    if (CONTEXT_READ(env, &key, sizeof(key), key_at) ||
        CONTEXT_READ(env, &value, sizeof(value), value_at))
        return 0;
    /* Half a key would be another one. */
    if (key.len < 1 || key.len > GO_KEY_MAX || value.len < 1)
        return 0;
    u32 key_len = (u32)key.len & (2 * GO_KEY_MAX - 1);
    u32 value_len = value.len < GO_VALUE_MAX ? (u32)value.len : GO_VALUE_MAX;
    if (CONTEXT_READ(env, c->attrs + len + 2, key_len, key.at) ||
        CONTEXT_READ(env, c->attrs + len + 2 + key_len, value_len, value.at))
        return 0;
    c->attrs[len] = (u8)key_len;
    c->attrs[len + 1] = (u8)value_len;
    c->attrs_len = len + 2 + key_len + value_len;
    return 0;
}

/* The labels of a goroutine, one after the other. */
struct CONTEXT_NAME(list) {
    CONTEXT_ENV env;
    struct probe_thread_context *c;
    u64 at, n; /* the slice, or the buckets of the map: places for labels */
    u64 marks; /* of the current bucket */
    u64 is_slice;
};

/* Before Go 1.24 they are a map: buckets of 8 marks, 8 keys, 8 values and a pointer. */
static long CONTEXT_NAME(label_number)(u32 i, void *p)
{
    struct CONTEXT_NAME(list) *l = p;
    u64 key, apart;
    if (i >= l->n)
        return 1;
    if (l->is_slice) {
        apart = sizeof(struct go_string);
        key = l->at + i * 2 * apart;
    } else {
        u64 bucket = l->at + i / 8 * GO_BUCKET_BYTES;
        if (i % 8 == 0)
            l->marks = CONTEXT_NAME(word)(l->env, bucket);
        if ((u8)(l->marks >> i % 8 * 8) < GO_MARK_USED)
            return 0;
        apart = 8 * sizeof(struct go_string);
        key = bucket + 8 + i % 8 * sizeof(struct go_string);
    }
    CONTEXT_NAME(label)(l->env, l->c, key, key + apart);
    return 0;
}

/* Where they are. */
static __always_inline bool CONTEXT_NAME(open_labels)(struct CONTEXT_NAME(list) * l, u64 labels)
{
    struct go_string slice = {0}; /* begins as a string does */
    struct go_map map = {0};
    if (l->is_slice) {
        if (CONTEXT_READ(l->env, &slice, sizeof(slice), labels))
            return false;
        l->at = slice.at;
        l->n = slice.len;
    } else {
        u64 at = CONTEXT_NAME(word)(l->env, labels);
        if (!at || CONTEXT_READ(l->env, &map, sizeof(map), at))
            return false;
        l->at = map.buckets;
        l->n = 8ull << (map.bucket_bits & 31);
    }
    return true;
}

static __always_inline void CONTEXT_NAME(labels)(CONTEXT_ENV env, struct probe_thread_context *c,
                                                 struct task_struct *task,
                                                 const struct thread_context_place *place)
{
    u64 g = place->tls_offset
                ? CONTEXT_NAME(word)(env, thread_pointer(task) + (u64)place->tls_offset)
                : register_of_g(task);
    u64 m = g ? CONTEXT_NAME(word)(env, g + place->g_m) : 0;
    u64 current = m ? CONTEXT_NAME(word)(env, m + place->m_curg) : 0;
    /* Both ways, so that what is no goroutine is not taken for one. */
    if (!current || CONTEXT_NAME(word)(env, current + place->g_m) != m)
        return;
    u64 labels = CONTEXT_NAME(word)(env, current + place->g_labels);
    struct CONTEXT_NAME(list) l = {.env = env, .c = c, .is_slice = place->labels_are_slice};
    if (labels && CONTEXT_NAME(open_labels)(&l, labels))
        CONTEXT_LOOP(GO_LABELS_MAX, CONTEXT_NAME(label_number), &l);
}

/* What the thread says about itself, into `c`, which is empty. */
static __noinline int CONTEXT_NAME(read)(CONTEXT_ENV env, struct probe_thread_context *c,
                                         struct task_struct *task,
                                         const struct thread_context_place *place)
{
    if (!c || !place)
        return 0;
    if (place->kind == THREAD_CONTEXT_GO_LABELS)
        CONTEXT_NAME(labels)(env, c, task, place);
    else
        CONTEXT_NAME(record)(env, c, task, place);
    return 0;
}
