#include "formats/perf_names.h"

/* Above it lies the kernel on x86-64, arm64 and most 64-bit machines. */
#define KERNEL_SPACE 0xffff000000000000u

static bool ends_with(struct bytes s, struct bytes tail)
{
    return s.len >= tail.len && bytes_equal(bytes_from(s, s.len - tail.len), tail);
}

bool perf_dso_is_jit(struct bytes dso)
{
    if (bytes_start_with(dso, BYTES("[JIT]")))
        return true;
    if (bytes_find(dso, BYTES("/perf-")) && ends_with(dso, BYTES(".map")))
        return true;
    return bytes_find(dso, BYTES("/jitted-")) && ends_with(dso, BYTES(".so"));
}

/* True for the kernel and its modules. */
static bool is_kernel(struct bytes dso, uint64_t address)
{
    if (bytes_start_with(dso, BYTES("[kernel")) || bytes_start_with(dso, BYTES("[guest.kernel")))
        return true;
    if (ends_with(dso, BYTES("/vmlinux")) || bytes_find(dso, BYTES("/vmlinux-")) ||
        bytes_find(dso, BYTES(".ko")))
        return !bytes_find(dso, BYTES(".kol"));
    /* "[nf_conntrack]": modules are in brackets too, as are [vdso], [heap]... of user space. */
    return address >= KERNEL_SPACE && dso.len > 0 && dso.data[0] == '[' &&
           !bytes_are(dso, "[vsyscall]");
}

/* Runtimes put their names into perf maps in forms of their own. */
static const char *jit_type(struct bytes symbol)
{
    static const char *const v8[] = {
        "LazyCompile:", "Function:", "JS:",   "Builtin:",        "Script:",
        "Stub:",        "RegExp:",   "Eval:", "BytecodeHandler:"};

    for (size_t i = 0; i < ARRAY_SIZE(v8); i++) {
        if (bytes_start_with(symbol, bytes_of(v8[i])))
            return "v8js";
    }
    if (bytes_start_with(symbol, BYTES("py::")))
        return "cpython";
    bool is_java = bytes_find(symbol, BYTES(";::")) || bytes_are(symbol, "Interpreter") ||
                   bytes_are(symbol, "call_stub");
    return is_java ? "jvm" : "";
}

const char *perf_frame_type(struct bytes symbol, struct bytes dso, uint64_t address)
{
    if (is_kernel(dso, address))
        return "kernel";
    if (perf_dso_is_jit(dso))
        return jit_type(symbol);
    return dso.len > 0 ? "native" : "";
}

static uint32_t int_attribute(struct dict *d, const char *key, int64_t value)
{
    return dict_int_attribute(d, dict_cstring(d, key), value, 0);
}

uint32_t perf_sampler_attrs(struct dict *d, const struct perf_sampler *s)
{
    uint32_t ids[4];
    size_t n = 0;

    if (s->comm.len > 0)
        ids[n++] =
            dict_string_attribute(d, dict_cstring(d, "thread.name"), dict_string(d, s->comm));
    if (s->pid >= 0)
        ids[n++] = int_attribute(d, "process.pid", s->pid);
    if (s->tid >= 0)
        ids[n++] = int_attribute(d, "thread.id", s->tid);
    if (s->cpu >= 0)
        ids[n++] = int_attribute(d, "cpu.logical_number", s->cpu);
    return dict_attrs(d, ids, n);
}

/* OpenTelemetry has names of its own for machines. */
static struct bytes arch_name(struct bytes arch)
{
    if (bytes_are(arch, "x86_64"))
        return BYTES("amd64");
    if (bytes_are(arch, "aarch64"))
        return BYTES("arm64");
    return arch;
}

void perf_add_host_attribute(struct profile *p, struct bytes key, struct bytes value)
{
    const char *name = bytes_are(key, "hostname")     ? "host.name"
                       : bytes_are(key, "os release") ? "os.version"
                       : bytes_are(key, "arch")       ? "host.arch"
                                                      : NULL;
    if (!name || value.len == 0)
        return;
    if (bytes_are(key, "arch"))
        value = arch_name(value);
    uint32_t a =
        dict_string_attribute(p->dict, dict_cstring(p->dict, name), dict_string(p->dict, value));
    p->resource_attrs = dict_attrs_with(p->dict, p->resource_attrs, a);
}
