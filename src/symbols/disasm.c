#include "symbols/disasm.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "symbols/capstone_lib.h"
#include "symbols/demangle.h"
#include "symbols/disasm_internal.h"

/* Instructions decoded before their lines are looked up, all at once. */
#define BATCH 1024

struct decoded {
    uint64_t address;
    uint64_t target; /* of a branch, or 0 */
    uint8_t size;
    char text[208];
};

struct disassembly {
    struct binary *binary;
    struct disasm_row_out out;
    const struct capstone *capstone;
    csh handle;
    cs_insn *insn;
    struct bytes code; /* what is left */
    uint64_t address;  /* of its first byte */
    size_t step;       /* bytes to skip where there is no instruction */
    struct decoded batch[BATCH];
    struct lookup lookups[BATCH];
};

static bool arch_of(const struct elf_file *f, cs_arch *arch, cs_mode *mode)
{
    cs_mode order = f->is_big_endian ? CS_MODE_BIG_ENDIAN : CS_MODE_LITTLE_ENDIAN;

    switch (f->machine) {
    case EM_X86_64:
        *arch = CS_ARCH_X86;
        *mode = CS_MODE_64;
        return true;
    case EM_386:
        *arch = CS_ARCH_X86;
        *mode = CS_MODE_32;
        return true;
    case EM_AARCH64:
        *arch = CS_ARCH_ARM64;
        *mode = order;
        return true;
    case EM_ARM:
        *arch = CS_ARCH_ARM;
        *mode = (cs_mode)(CS_MODE_ARM | order);
        return true;
    default:
        return false;
    }
}

/* The address that a branch or call goes to, when the instruction says it. */
static uint64_t branch_target(const struct disassembly *d)
{
    const cs_insn *insn = d->insn;
    const char *ops = insn->op_str;
    uint64_t target;

    if (!d->capstone->insn_group(d->handle, insn, CS_GRP_JUMP) &&
        !d->capstone->insn_group(d->handle, insn, CS_GRP_CALL) && strcmp(insn->mnemonic, "bl") != 0)
        return 0;
    const char *last = strrchr(ops, ' ');
    last = last ? last + 1 : ops;
    if (last[0] == '#')
        last++;
    return strncmp(last, "0x", 2) == 0 && bytes_to_hex(bytes_of(last), &target) ? target : 0;
}

/* Decodes the next instruction, or the bytes that are none. */
static void decode_one(struct disassembly *d, struct decoded *to)
{
    const uint8_t *code = d->code.data;
    size_t left = d->code.len;

    to->address = d->address;
    to->target = 0;
    if (d->capstone->disasm_iter(d->handle, &code, &left, &d->address, d->insn)) {
        to->size = (uint8_t)d->insn->size;
        to->target = branch_target(d);
        snprintf(to->text, sizeof(to->text), "%s%s%s", d->insn->mnemonic,
                 d->insn->op_str[0] ? " " : "", d->insn->op_str);
    } else {
        to->size = (uint8_t)(d->step < d->code.len ? d->step : d->code.len);
        int n = snprintf(to->text, sizeof(to->text), ".byte");
        for (size_t i = 0; i < to->size; i++)
            n += snprintf(to->text + n, sizeof(to->text) - (size_t)n, "%s0x%02x", i ? "," : " ",
                          d->code.data[i]);
        d->address += to->size;
    }
}

static void add_target(struct disassembly *d, struct decoded *row)
{
    const struct symbol *s =
        row->target ? symbol_table_find(binary_symbols(d->binary), row->target) : NULL;
    size_t n = strlen(row->text);

    if (!s)
        return;
    demangle(s->name, DEMANGLE_DEFAULT, &d->out.name);
    const char *name = buf_cstr(&d->out.name);
    if (row->target == s->start)
        snprintf(row->text + n, sizeof(row->text) - n, " <%s>", name);
    else
        snprintf(row->text + n, sizeof(row->text) - n, " <%s+0x%" PRIx64 ">", name,
                 row->target - s->start);
}

/* Decodes up to BATCH instructions, looks up where they came from, and hands them out. */
static int run_batch(struct disassembly *d)
{
    struct bytes code = d->code;
    size_t n = 0;
    int r = 0;

    while (n < BATCH && d->code.len > 0) {
        decode_one(d, &d->batch[n]);
        d->lookups[n] = (struct lookup){.va = d->batch[n].address};
        d->code = bytes_from(d->code, d->batch[n].size);
        n++;
    }
    binary_lookup(d->binary, d->lookups, n);
    for (size_t i = 0; i < n && r == 0; i++) {
        add_target(d, &d->batch[i]);
        struct disasm_row row = {.address = d->batch[i].address,
                                 .code = bytes_head(code, d->batch[i].size),
                                 .text = d->batch[i].text};
        r = disasm_emit(&d->out, &row, d->lookups[i].innermost);
        code = bytes_from(code, d->batch[i].size);
    }
    return r;
}

int disasm_emit(struct disasm_row_out *out, struct disasm_row *row, const struct code_frame *f)
{
    if (f && f->name) {
        demangle(f->name, DEMANGLE_DEFAULT, &out->name);
        row->function = buf_cstr(&out->name);
    }
    if (f) {
        row->file = f->file;
        row->line = f->line;
    }
    return out->sink(row, out->opaque);
}

static int run_capstone(struct disassembly *d, bool intel)
{
    int r = 0;

    if (!intel)
        d->capstone->option(d->handle, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT); /* only there */
    d->capstone->option(d->handle, CS_OPT_DETAIL, CS_OPT_ON);
    d->insn = d->capstone->malloc(d->handle);
    while (r == 0 && d->insn && d->code.len > 0)
        r = run_batch(d);
    if (d->insn)
        d->capstone->free(d->insn, 1);
    return r;
}

/* The code in [start, end), checked to be in this file. */
static int read_code(struct binary *b, uint64_t start, uint64_t end, struct bytes *ret,
                     struct error *err)
{
    struct elf_file *f = binary_elf(b);

    if (end <= start)
        return error_set(err, -ERANGE, "no code from 0x%jx to 0x%jx", (uintmax_t)start,
                         (uintmax_t)end);
    if (end - start > DISASM_BYTES_MAX)
        return error_set(err, -E2BIG, "%ju bytes of code are more than the limit of %ju",
                         (uintmax_t)(end - start), (uintmax_t)DISASM_BYTES_MAX);
    for (size_t i = 1; i < f->n_sections; i++) {
        const struct elf_section *s = &f->sections[i];
        if (s->type == SHT_NOBITS && (s->flags & SHF_EXECINSTR) && start >= s->addr &&
            start - s->addr < s->size)
            return error_set(err, -ERANGE, "%s holds debug info only, not the code", f->path);
    }
    return elf_read_va(f, start, end - start, ret, err);
}

int disasm_code(struct binary *b, const struct disasm_request *q, disasm_row_sink *sink,
                void *opaque, struct error *err)
{
    struct bytes code = {0};
    cs_arch arch;
    cs_mode mode;
    int r = read_code(b, q->start, q->end, &code, err);

    if (r < 0)
        return r;
    CLEANUP(freep) struct disassembly *d = calloc(1, sizeof(*d));
    if (!d)
        return error_set(err, -ENOMEM, "out of memory");
    d->binary = b;
    d->out = (struct disasm_row_out){.sink = sink, .opaque = opaque};
    d->code = code;
    d->address = q->start;
    d->capstone = capstone_get();
    if (d->capstone && arch_of(binary_elf(b), &arch, &mode) &&
        d->capstone->open(arch, mode, &d->handle) == CS_ERR_OK) {
        d->step = arch == CS_ARCH_X86 ? 1 : 4;
        r = run_capstone(d, q->intel);
        d->capstone->close(&d->handle);
    } else {
        r = disasm_by_objdump(b, q->start, q->start + code.len, &d->out, err);
    }
    buf_done(&d->out.name);
    return r;
}

/* The form of a name that the pattern matches; false when none does. */
static bool match_name(const struct regex *re, const char *name, struct buf *out)
{
    static const enum demangle_mode modes[] = {DEMANGLE_NONE, DEMANGLE_FULL, DEMANGLE_TEMPLATES,
                                               DEMANGLE_DEFAULT};

    for (size_t i = 0; re && i < sizeof(modes) / sizeof(modes[0]); i++) {
        demangle(name, modes[i], out);
        if (regex_matches(re, buf_bytes(out)))
            return true;
    }
    return false;
}

int disasm_find(struct binary *b, const struct regex *re, uint64_t address,
                disasm_symbol_sink *sink, void *opaque)
{
    const struct symbol_table *t = binary_symbols(b);
    const struct symbol *at = address ? symbol_table_find(t, address) : NULL;
    struct buf name = {0};
    int r = 0;

    for (size_t i = 0; i < t->symbols.len && r == 0; i++) {
        const struct symbol *s = &t->symbols.data[i];
        bool matches = match_name(re, s->name, &name);
        if (!matches && s == at)
            demangle(s->name, DEMANGLE_DEFAULT, &name);
        if ((matches || s == at) && s->end > s->start)
            r = sink(buf_cstr(&name), s->start, s->end, opaque);
    }
    buf_done(&name);
    return r;
}
