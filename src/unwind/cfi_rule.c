#include <limits.h>

#include "unwind/cfi.h"

static bool fits_16(int64_t v)
{
    return v >= INT16_MIN && v <= INT16_MAX;
}

static struct unwind_rule cfa_of(const struct cfi_machine *m, const struct cfi_state *s)
{
    if (s->cfa_is_expression)
        return s->cfa_rule;
    if ((s->cfa_register != m->sp && s->cfa_register != m->fp) || s->cfa_off < INT32_MIN ||
        s->cfa_off > INT32_MAX)
        return (struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED};
    return (struct unwind_rule){.cfa = s->cfa_register == m->sp ? UNWIND_CFA_SP : UNWIND_CFA_FP,
                                .cfa_off = (int32_t)s->cfa_off};
}

/* x86-64: the return address is below the frame's address, where the call pushed it. */
static void save_x86_64(const struct cfi_state *s, struct unwind_rule *rule)
{
    const struct cfi_register *fp = &s->fp;

    if (s->ra.place != CFI_AT_CFA || s->ra.off != -8) {
        *rule = (struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED};
    } else if (rule->cfa == UNWIND_CFA_SP && rule->cfa_off < 8) {
        /* The return address is popped already: code that never returns, such as musl's clone. */
        *rule = (struct unwind_rule){.cfa = UNWIND_CFA_END};
    } else if (fp->place == CFI_SAME || (fp->place == CFI_AT_FP && rule->cfa == UNWIND_CFA_SP)) {
        /* gcc does not say that fp is the caller's again once a realigned frame is left. */
        rule->saved = UNWIND_SAVED_NONE;
    } else if ((fp->place == CFI_AT_CFA || fp->place == CFI_AT_FP) && fits_16(fp->off)) {
        rule->saved = fp->place == CFI_AT_CFA ? UNWIND_SAVED_FP : UNWIND_SAVED_AT_FP;
        rule->saved_off = (int16_t)fp->off;
    } else {
        rule->saved = UNWIND_SAVED_LOST;
    }
}

/* aarch64: the return address is in its register, or saved, mostly as a pair with fp. */
static void save_aarch64(const struct cfi_state *s, struct unwind_rule *rule)
{
    const struct cfi_register *fp = &s->fp, *ra = &s->ra;
    bool fp_is_saved = fp->place == CFI_AT_CFA && fits_16(fp->off);
    bool ra_is_saved = ra->place == CFI_AT_CFA && fits_16(ra->off);

    if (ra_is_saved && fp_is_saved && ra->off == fp->off + 8) {
        rule->saved = UNWIND_SAVED_PAIR;
        rule->saved_off = (int16_t)fp->off;
    } else if (ra_is_saved && fp->place == CFI_SAME) {
        rule->saved = UNWIND_SAVED_RA;
        rule->saved_off = (int16_t)ra->off;
    } else if (ra->place == CFI_SAME && fp_is_saved) {
        rule->saved = UNWIND_SAVED_FP;
        rule->saved_off = (int16_t)fp->off;
    } else if (ra->place == CFI_SAME && fp->place == CFI_SAME) {
        rule->saved = UNWIND_SAVED_NONE;
    } else if (ra->place == CFI_SAME) {
        rule->saved = UNWIND_SAVED_LOST;
    } else {
        *rule = (struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED};
    }
}

struct unwind_rule cfi_rule(const struct cfi_machine *m, const struct cfi_state *s, bool is_signal)
{
    /* On x86-64 other code calls itself a signal frame too: the kernel's has its return address
     * where an expression says. */
    if (is_signal && (m->ra_in_register || s->ra.place == CFI_EXPRESSION))
        return (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL};
    if (s->ra.place == CFI_UNDEFINED)
        return (struct unwind_rule){.cfa = UNWIND_CFA_END};
    struct unwind_rule rule = cfa_of(m, s);
    if (rule.cfa == UNWIND_CFA_UNSUPPORTED)
        return rule;
    if (m->ra_in_register)
        save_aarch64(s, &rule);
    else
        save_x86_64(s, &rule);
    return rule;
}
