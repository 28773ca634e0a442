#pragma once

#include "abi/unwind.h"
#include "base/bytes.h"
#include "unwind/cfi_cursor.h"
#include "unwind/row_builder.h"
#include "unwind/section_window.h"

/*
 * Call frame information (DWARF 5 §6.4, and .eh_frame of the LSB) becomes rows. What matters are
 * the canonical frame address, the frame pointer and the return address; rules of all other
 * registers are passed over.
 */

/* The numbers DWARF has for a machine's registers. */
struct cfi_machine {
    uint8_t sp, fp, ra;
    bool ra_in_register; /* the link register: else a call pushes it, and it is at cfa - 8 */
};
extern const struct cfi_machine cfi_x86_64, cfi_aarch64;

/* Where the caller's value of a register is. */
enum cfi_place {
    CFI_SAME,
    CFI_UNDEFINED,
    CFI_AT_CFA,     /* saved at cfa + off */
    CFI_AT_FP,      /* saved at fp + off */
    CFI_EXPRESSION, /* saved where some expression says */
    CFI_ELSEWHERE,
};

struct cfi_register {
    enum cfi_place place;
    int64_t off;
};

/* All that holds at one address. */
struct cfi_state {
    bool cfa_is_expression;
    uint64_t cfa_register;
    int64_t cfa_off;
    struct unwind_rule cfa_rule; /* of the expression */
    struct cfi_register fp, ra;
};

/* What functions share: a common information entry. */
struct cfi_common {
    uint64_t at; /* where it is in the section */
    bool is_good;
    bool is_signal;
    bool has_augmentation_size;
    uint8_t pointer_encoding; /* DW_EH_PE_... */
    uint64_t code_align;
    int64_t data_align;
    struct cfi_state start;
};

/* One function: instructions over [start, end). */
struct cfi_function {
    const struct cfi_machine *machine;
    const struct cfi_common *common;
    uint64_t start, end;
    uint64_t program_va; /* where the instructions are, for DW_CFA_set_loc */
    struct bytes program;
};

/* Runs the common part, which makes `common->start`. False when it is damaged. */
bool cfi_run_common(const struct cfi_machine *m, struct cfi_common *common, struct bytes program);

/* Adds the function's rows. False when its instructions are damaged: nothing is added then. */
bool cfi_run(const struct cfi_function *f, struct row_builder *rows);

/* The rule that a state makes. */
struct unwind_rule cfi_rule(const struct cfi_machine *m, const struct cfi_state *s, bool is_signal);

/* What an expression for the canonical frame address says; UNWIND_CFA_UNSUPPORTED when it is of no
 * kind that is followed. */
struct unwind_rule cfi_expression_rule(const struct cfi_machine *m, struct bytes expression);

/* Whether an expression is "register + offset". */
bool cfi_expression_base(struct bytes expression, uint64_t *ret_register, int64_t *ret_off);

/* A pointer of .eh_frame. `va` is the address of the pointer itself. */
bool cfi_pointer(struct cfi_cursor *c, uint8_t encoding, uint64_t va, uint64_t *ret);

struct cfi_section {
    struct section_window *bytes;
    uint64_t va;       /* of its first byte, where it is loaded */
    bool is_eh_frame;  /* else .debug_frame */
    bool ends_at_zero; /* its size is not known: a length of 0 ends it */
};

/* Adds the rows of all functions in a section. Damaged ones are left out; where the entries cannot
 * be told apart any more it ends. -EBADMSG when not one was good, or the file cannot be read. */
int cfi_read_section(const struct cfi_section *s, const struct cfi_machine *m,
                     struct row_builder *rows, struct error *err);
