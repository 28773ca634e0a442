/*
 * One step of a walk: from a frame to its caller. No #pragma once: this is included once for each
 * way to read memory, in programs for the kernel and in native tests, with these defined:
 *
 *     UNWIND_NAME(x)               x with a prefix of its own
 *     UNWIND_ENV                   type of what is handed through as `env`
 *     UNWIND_READ(env, to, n, at)  reads n bytes of the target at `at`; 0 when that went well
 *     UNWIND_MAPPING(env, i), UNWIND_FILE(env, i), UNWIND_PAGE(env, i), UNWIND_ROW_PAIR(env, i),
 *     UNWIND_RULE(env, i), UNWIND_MEMO(env, i)
 *                                  pointer to element i, NULL where there is none
 *     UNWIND_INLINE                linkage
 *     UNWIND_IS_ARM64              1 for aarch64, 0 for x86-64
 *
 * Nothing read here is believed: tables may be hostile or change meanwhile, so every search is
 * bounded and every index goes through the macros above.
 */
#ifdef UNWIND_NAME

#include "probe/unwind_walk.h"

UNWIND_INLINE int UNWIND_NAME(stop)(struct unwind_walk *w, __u8 end)
{
    w->end = end;
    return 1;
}

/* Code addresses without the bits that sign them. */
UNWIND_INLINE __u64 UNWIND_NAME(code)(__u64 pc)
{
    return UNWIND_IS_ARM64 ? pc & ((1ull << 48) - 1) : pc;
}

UNWIND_INLINE int UNWIND_NAME(arrive)(struct unwind_walk *w, __u64 pc, __u64 sp, __u64 fp)
{
    pc = UNWIND_NAME(code)(pc);
    if (!pc)
        return UNWIND_NAME(stop)(w, UNWIND_END_OUTERMOST);
    w->pc = pc;
    w->sp = sp;
    w->fp = fp;
    w->is_return = 1;
    w->has_lr = 0;
    return 0;
}

/* Sets map_begin.. to the mapping of pc. */
UNWIND_INLINE int UNWIND_NAME(find_mapping)(UNWIND_ENV env, struct unwind_walk *w, __u64 pc)
{
    if (pc >= w->map_begin && pc < w->map_end)
        return 1;
    __u32 first = w->first_mapping, low = first, high = first + w->n_mappings;
    for (int i = 0; i < 18 && low < high; i++) {
        __u32 middle = low + (high - low) / 2;
        const struct unwind_mapping *m = UNWIND_MAPPING(env, middle);
        if (!m)
            return 0;
        if (m->begin <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == first)
        return 0;
    const struct unwind_mapping *m = UNWIND_MAPPING(env, low - 1);
    if (!m || pc < m->begin || pc >= m->end)
        return 0;
    w->map_begin = m->begin;
    w->map_end = m->end;
    w->bias = m->bias;
    w->file = m->file;
    w->map_kind = m->kind;
    return 1;
}

/* The rule of a file at a virtual address; NULL where there is none. */
UNWIND_INLINE const struct unwind_rule *
UNWIND_NAME(find_rule)(UNWIND_ENV env, const volatile struct unwind_file *f, __u64 va)
{
    __u32 first_page = f->first_page, n_pages = f->n_pages;
    __u32 first_rule = f->first_rule, n_rules = f->n_rules;
    __u64 number = (va >> UNWIND_PAGE_BITS) - f->first_text_page;
    if (number >= n_pages)
        return 0;
    const struct unwind_page *page = UNWIND_PAGE(env, first_page + (__u32)number);
    if (!page)
        return 0;
    __u32 first = page->first_row, low = first, high = first + page->n_rows;
    __u16 pc_low = (__u16)va;
    /* 2^16 rows at most: as many as there are addresses. */
    for (int i = 0; i < 17 && low < high; i++) {
        __u32 middle = low + (high - low) / 2;
        const struct unwind_row_pair *pair = UNWIND_ROW_PAIR(env, middle / 2);
        if (!pair)
            return 0;
        if (pair->row[middle & 1].pc_low <= pc_low)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == first)
        return 0;
    low--;
    const struct unwind_row_pair *pair = UNWIND_ROW_PAIR(env, low / 2);
    if (!pair)
        return 0;
    __u32 rule = pair->row[low & 1].rule;
    return rule < n_rules ? UNWIND_RULE(env, first_rule + rule) : 0;
}

/* The caller by frame pointer. Unless this code promised to keep them, the result is a guess,
 * dropped again unless it is code. */
UNWIND_INLINE int UNWIND_NAME(by_frame_pointer)(UNWIND_ENV env, struct unwind_walk *w, int fp_is)
{
    __u64 pair[2];
    __u64 fp = w->fp;
    int is_promised = fp_is & UNWIND_FP_PROMISED;
    __u8 end = fp_is & UNWIND_FP_OF_NO_FILE ? UNWIND_END_NO_FRAME : UNWIND_END_NO_TABLE;
    if (!w->has_fp || fp & 7)
        return UNWIND_NAME(stop)(w, end);
    if (fp < w->sp || fp - w->sp > UNWIND_FRAME_BYTES_MAX) {
        if (!is_promised || w->n_switches >= UNWIND_SWITCHES_MAX)
            return UNWIND_NAME(stop)(w, is_promised ? UNWIND_END_NOT_UPWARD : end);
        w->n_switches++;
    }
    if (UNWIND_READ(env, pair, sizeof(pair), fp))
        return UNWIND_NAME(stop)(w, is_promised ? UNWIND_END_READ : end);
    w->is_guess = !is_promised;
    w->guess_end = end;
    return UNWIND_NAME(arrive)(w, pair[1], fp + 16, pair[0]);
}

/* Registers of what a signal interrupted, from the frame that the kernel put at sp. */
UNWIND_INLINE int UNWIND_NAME(by_signal)(UNWIND_ENV env, struct unwind_walk *w)
{
#if UNWIND_IS_ARM64
    struct {
        __u64 fp, lr, sp, pc;
    } regs;
    const __u64 at = w->sp + 544; /* siginfo, then x29 of the context */
#else
    struct {
        __u64 fp, bx, dx, ax, cx, sp, pc;
    } regs;
    const __u64 at = w->sp + 120; /* rbp of the context */
#endif
    if (UNWIND_READ(env, &regs, sizeof(regs), at))
        return UNWIND_NAME(stop)(w, UNWIND_END_READ);
    if (UNWIND_NAME(arrive)(w, regs.pc, regs.sp, regs.fp))
        return 1;
#if UNWIND_IS_ARM64
    w->lr = regs.lr;
    w->has_lr = 1;
#endif
    w->has_fp = 1;
    w->is_return = 0;
    return 0;
}

/* Return address and frame pointer of the caller whose frame ends at `cfa`. */
#if UNWIND_IS_ARM64
UNWIND_INLINE int UNWIND_NAME(restore)(UNWIND_ENV env, struct unwind_walk *w, __u8 saved,
                                       __s16 saved_off, __u64 cfa)
{
    __u64 at = cfa + (__u64)(__s64)saved_off, fp = w->fp, ra = w->lr;
    __u64 pair[2];
    if (saved != UNWIND_SAVED_PAIR && saved != UNWIND_SAVED_RA && !w->has_lr)
        return UNWIND_NAME(stop)(w, UNWIND_END_UNSUPPORTED);
    if (saved == UNWIND_SAVED_PAIR) {
        if (UNWIND_READ(env, pair, sizeof(pair), at))
            return UNWIND_NAME(stop)(w, UNWIND_END_READ);
        fp = pair[0];
        ra = pair[1];
    } else if (saved == UNWIND_SAVED_RA) {
        if (UNWIND_READ(env, &ra, sizeof(ra), at))
            return UNWIND_NAME(stop)(w, UNWIND_END_READ);
    } else if (saved == UNWIND_SAVED_FP) {
        if (UNWIND_READ(env, &fp, sizeof(fp), at))
            return UNWIND_NAME(stop)(w, UNWIND_END_READ);
    }
    if (saved == UNWIND_SAVED_PAIR || saved == UNWIND_SAVED_FP)
        w->has_fp = 1;
    if (saved == UNWIND_SAVED_LOST)
        w->has_fp = 0;
    return UNWIND_NAME(arrive)(w, ra, cfa, fp);
}
#else
UNWIND_INLINE int UNWIND_NAME(restore)(UNWIND_ENV env, struct unwind_walk *w, __u8 saved,
                                       __s16 saved_off, __u64 cfa)
{
    __u64 fp = w->fp, ra;
    /* With the other registers that a function saves: mostly one read instead of two. */
    if (saved == UNWIND_SAVED_FP && saved_off >= -UNWIND_SAVED_BYTES && saved_off <= -16 &&
        !UNWIND_READ(env, w->saved, UNWIND_SAVED_BYTES, cfa - UNWIND_SAVED_BYTES)) {
        ra = w->saved[UNWIND_SAVED_BYTES / 8 - 1];
        fp = w->saved[(__u32)(saved_off + UNWIND_SAVED_BYTES) / 8 % 8];
    } else {
        __u64 at = (saved == UNWIND_SAVED_FP ? cfa : fp) + (__u64)(__s64)saved_off;
        if (UNWIND_READ(env, &ra, sizeof(ra), cfa - 8))
            return UNWIND_NAME(stop)(w, UNWIND_END_READ);
        if ((saved == UNWIND_SAVED_FP || saved == UNWIND_SAVED_AT_FP) &&
            UNWIND_READ(env, &fp, sizeof(fp), at))
            return UNWIND_NAME(stop)(w, UNWIND_END_READ);
    }
    if (saved == UNWIND_SAVED_FP)
        w->has_fp = 1;
    if (saved == UNWIND_SAVED_LOST)
        w->has_fp = 0;
    return UNWIND_NAME(arrive)(w, ra, cfa, fp);
}
#endif

/* The caller as a rule says that is about registers and memory. */
UNWIND_INLINE int UNWIND_NAME(by_rule)(UNWIND_ENV env, struct unwind_walk *w, __u8 kind, __u8 saved,
                                       __s16 saved_off, __s32 cfa_off)
{
    __u64 cfa;
    int by_fp = kind == UNWIND_CFA_FP || kind == UNWIND_CFA_FP_DEREF;
    if (by_fp && !w->has_fp)
        return UNWIND_NAME(stop)(w, UNWIND_END_UNSUPPORTED);
    if (kind == UNWIND_CFA_SP || kind == UNWIND_CFA_FP) {
        cfa = (by_fp ? w->fp : w->sp) + (__u64)(__s64)cfa_off;
    } else if (kind == UNWIND_CFA_SP_DEREF || kind == UNWIND_CFA_FP_DEREF) {
        __u64 at = (by_fp ? w->fp : w->sp) + (__u64)(__s64)(cfa_off >> 8);
        if (UNWIND_READ(env, &cfa, sizeof(cfa), at))
            return UNWIND_NAME(stop)(w, UNWIND_END_READ);
        cfa += (__u64)(cfa_off & 0xff);
    } else if (kind == UNWIND_CFA_PLT && !UNWIND_IS_ARM64) {
        cfa = w->sp + 8 + ((w->pc & 15) >= (__u64)(__s64)cfa_off ? 8 : 0);
    } else {
        return UNWIND_NAME(stop)(w, UNWIND_END_UNSUPPORTED);
    }
    /* A function that needs no stack leaves sp alone; only aarch64 has such. */
    if (cfa <= w->sp && !(cfa == w->sp && w->has_lr)) {
        if (!by_fp || w->n_switches >= UNWIND_SWITCHES_MAX)
            return UNWIND_NAME(stop)(w, UNWIND_END_NOT_UPWARD);
        w->n_switches++;
    }
    return UNWIND_NAME(restore)(env, w, saved, saved_off, cfa);
}

UNWIND_INLINE __u32 UNWIND_NAME(memo_check)(const struct unwind_memo *m)
{
    __u64 sum = (m->pc ^ m->rule * 31 ^ ((__u64)m->mappings_id << 32 | m->file)) + m->version;
    return (__u32)(sum * 0x9e3779b97f4a7c15ull >> 32);
}

UNWIND_INLINE struct unwind_memo *UNWIND_NAME(find_memo)(UNWIND_ENV env,
                                                         const struct unwind_walk *w, __u64 pc)
{
    __u32 block = w->mappings_id % UNWIND_MEMO_BLOCKS;
    __u32 at = (__u32)(pc * 0x9e3779b97f4a7c15ull >> 40) % UNWIND_BLOCK_MEMOS;
    return UNWIND_MEMO(env, block * UNWIND_BLOCK_MEMOS + at);
}

/* The rule of pc, when it was looked for not long ago and its table is the same still. */
UNWIND_INLINE int UNWIND_NAME(remember)(UNWIND_ENV env, const struct unwind_walk *w,
                                        const struct unwind_memo *memo, __u64 pc, __u64 *ret)
{
    if (!memo)
        return 0;
    struct unwind_memo m = *memo;
    if (m.pc != pc || m.mappings_id != w->mappings_id || m.check != UNWIND_NAME(memo_check)(&m))
        return 0;
    volatile struct unwind_file *f = UNWIND_FILE(env, m.file);
    if (!f || f->version != m.version)
        return 0;
    if (f->last_used != w->now_s)
        f->last_used = w->now_s;
    *ret = m.rule;
    return 1;
}

/* The rule of pc in its mapping's file, 0 for a gap; returns what frame pointers are worth then. */
UNWIND_INLINE int UNWIND_NAME(search)(UNWIND_ENV env, struct unwind_walk *w,
                                      struct unwind_memo *memo, __u64 pc, __u64 *ret)
{
    if (w->map_kind != UNWIND_MAPPING_FILE || !w->file)
        return UNWIND_FP_ZERO_ENDS | UNWIND_FP_OF_NO_FILE;
    volatile struct unwind_file *f = UNWIND_FILE(env, w->file);
    if (!f)
        return 0;
    if (f->last_used != w->now_s)
        f->last_used = w->now_s;
    __u32 version = f->version, state = f->state;
    if (state == UNWIND_FILE_FRAME_POINTERS)
        return UNWIND_FP_ZERO_ENDS | UNWIND_FP_PROMISED;
    if (state != UNWIND_FILE_READY)
        return 0;
    const struct unwind_rule *found = UNWIND_NAME(find_rule)(env, f, pc - w->bias);
    struct unwind_memo m = {
        .pc = pc, .mappings_id = w->mappings_id, .file = w->file, .version = version};
    if (found)
        m.rule = found->cfa | (__u64)found->saved << 8 | (__u64)(__u16)found->saved_off << 16 |
                 (__u64)(__u32)found->cfa_off << 32;
    if (f->version != version)
        return 0;
    if (memo) {
        m.check = UNWIND_NAME(memo_check)(&m);
        *memo = m;
    }
    *ret = m.rule;
    /* Hand-written code at the start of a thread has no rows, and clears the frame pointer. */
    return UNWIND_FP_ZERO_ENDS;
}

/* Records where the walk is. */
UNWIND_INLINE int UNWIND_NAME(record)(struct unwind_walk *w, __u64 *addresses)
{
    __u32 n = w->n, at = w->first + n;
    if (n >= UNWIND_USER_FRAMES_MAX || at >= UNWIND_ADDRESSES_MAX)
        return UNWIND_NAME(stop)(w, UNWIND_END_TOO_DEEP);
    addresses[at] = w->pc;
    if (!w->is_return && n < 32)
        w->exact |= 1u << n;
    w->n = n + 1;
    w->is_guess = 0;
    return 0;
}

/* Records where the walk is and goes to the caller; 1 when it has ended, w->end says why. */
UNWIND_INLINE int UNWIND_NAME(step)(UNWIND_ENV env, struct unwind_walk *w, __u64 *addresses)
{
    __u64 pc = w->is_return ? w->pc - 1 : w->pc, rule = UNWIND_CFA_GAP;
    struct unwind_memo *memo = UNWIND_NAME(find_memo)(env, w, pc);
    int fp_is = UNWIND_FP_ZERO_ENDS, is_mapped = 1;
    if (!UNWIND_NAME(remember)(env, w, memo, pc, &rule)) {
        is_mapped = UNWIND_NAME(find_mapping)(env, w, pc);
        if (is_mapped)
            fp_is = UNWIND_NAME(search)(env, w, memo, pc, &rule);
        else if (w->is_guess)
            return UNWIND_NAME(stop)(w, w->guess_end);
    }
    if (UNWIND_NAME(record)(w, addresses))
        return 1;
    if (!is_mapped)
        return UNWIND_NAME(stop)(w, UNWIND_END_NO_MAPPING);
    __u8 kind = (__u8)rule;
    if (kind == UNWIND_CFA_END ||
        (kind == UNWIND_CFA_GAP && fp_is & UNWIND_FP_ZERO_ENDS && w->has_fp && !w->fp))
        return UNWIND_NAME(stop)(w, UNWIND_END_OUTERMOST);
    if (kind == UNWIND_CFA_GAP)
        return UNWIND_NAME(by_frame_pointer)(env, w, fp_is);
    if (kind == UNWIND_CFA_SIGNAL)
        return UNWIND_NAME(by_signal)(env, w);
    return UNWIND_NAME(by_rule)(env, w, kind, (__u8)(rule >> 8), (__s16)(rule >> 16),
                                (__s32)(rule >> 32));
}

#endif
