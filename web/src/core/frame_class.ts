// What a frame is: its package, its kind, where in its name the function itself begins. Profilers
// name things in many ways; these are guesses that only colours and clipped labels depend on.

export type FrameClass =
    | "kernel"
    | "runtime"
    | "jit"
    | "native"
    | "go"
    | "v8"
    | "jvm"
    | "python"
    | "unknown";

export interface FrameFacts {
    name: string;
    file: string;
    binary: string;
    kind: string;
}

const KINDS: Record<string, FrameClass> = {
    kernel: "kernel",
    native: "native",
    rust: "native",
    go: "go",
    v8js: "v8",
    jvm: "jvm",
    hotspot: "jvm",
    cpython: "python",
    python: "python",
    ruby: "jit",
    php: "jit",
    phpjit: "jit",
    perl: "jit",
    dotnet: "jit",
    beam: "jit",
    luajit: "jit",
    interpreted: "jit",
    jit: "jit",
};

const EXTENSIONS: [RegExp, FrameClass][] = [
    [/\.go$/, "go"],
    [/\.py$/, "python"],
    [/\.[cm]?[jt]sx?$/, "v8"],
    [/\.(java|kt|scala|clj)$/, "jvm"],
    [/\.(rb|php|pl|pm|cs|ex|erl|lua)$/, "jit"],
    [/\.(c|cc|cpp|cxx|h|hh|hpp|rs|s|S|zig)$/, "native"],
];

// Memory management and the machinery around a program's own code.
const RUNTIME =
    /^(runtime[./]|gcBgMark|GC |G1|ZGC|Parallel\w*GC|ConcurrentMark|v8::|_Py(Eval|GC|Mem|Object_(Malloc|Free))|gc_collect|PyGC|mono_gc|rb_gc|JavaThread::|Interpreter|\(garbage collector\)|\(program\)|\(idle\))/;

/** The start is enough to tell, and names may be long. */
const SEEN = 512;

function kernelName(f: FrameFacts): boolean {
    return /^(\[?kernel|vmlinux|\[kernel\.|\[vdso)/.test(f.binary) || f.name.endsWith("_[k]");
}

export function classOf(f: FrameFacts): FrameClass {
    const name = f.name.length > SEEN ? f.name.slice(0, SEEN) : f.name;
    let found: FrameClass | undefined = KINDS[f.kind.toLowerCase()];
    if (!found && kernelName(f)) found = "kernel";
    if (found === "kernel") return found;
    if (RUNTIME.test(name)) return "runtime";
    if (found) return found;
    if (f.kind) return "jit";
    for (const [pattern, c] of EXTENSIONS) if (pattern.test(f.file)) return c;
    if (/^[\w.-]+(\/[\w.@-]+)+\.[\w(*]/.test(name)) return "go";
    if (/^[a-z][\w$]*(\.[a-z_][\w$]*)+\.[A-Z][\w$]*\.[\w$<]/.test(name)) return "jvm";
    if (/::/.test(name)) return "native";
    return name === "" || /^(\[unknown\]|0x[0-9a-f]+|\?+)$/i.test(name) || !f.binary
        ? "unknown"
        : "native";
}

function baseName(path: string): string {
    return path.slice(path.lastIndexOf("/") + 1);
}

/** The directory or module that a file belongs to: what a person would call the library. */
function packageOfFile(file: string): string {
    const lib = /(?:node_modules|site-packages|dist-packages)\/((?:@[^/]+\/)?[^/]+)/.exec(file);
    if (lib) return lib[1];
    const cut = file.lastIndexOf("/");
    return cut > 0 ? file.slice(0, cut) : file;
}

/** What frames are coloured by: "" when nothing is known. */
export function packageOf(f: FrameFacts): string {
    const name = f.name.length > SEEN ? f.name.slice(0, SEEN) : f.name;
    const colons = name.indexOf("::");
    const plain = colons < 0 ? name : name.slice(0, colons);
    if (colons > 0 && /^[\w<&]/.test(name)) return plain.replace(/^.*[ <&]/, "");
    // Go: the path, and the package behind its last slash.
    const bracket = name.search(/[[({<]/);
    const head = bracket < 0 ? name : name.slice(0, bracket);
    const slash = head.lastIndexOf("/");
    const dot = head.indexOf(".", slash + 1);
    if (slash > 0 && dot > 0) return head.slice(0, dot);
    // Java: what begins with a capital is the class.
    const java = /^((?:[a-z_][\w$]*\.)+)[A-Z]/.exec(name);
    if (java) return java[1].slice(0, -1);
    if (f.file && !/\.(c|cc|cpp|h)$/.test(f.file)) return packageOfFile(f.file);
    if (dot > 0 && /^[\w$]/.test(name)) return head.slice(0, dot);
    return f.binary ? baseName(f.binary) : packageOfFile(f.file);
}

/** Where the function's own name begins, behind packages, namespaces and classes. */
export function shortStart(name: string): number {
    let start = 0;
    let earlier = 0;
    let nesting = 0;
    const n = Math.min(name.length, 4096);
    const at = (i: number) => name.charCodeAt(i);
    const begin = (i: number) => {
        earlier = start;
        start = i;
    };
    for (let i = 0; i + 1 < n; i++) {
        const c = at(i);
        if (c === 0x28 || c === 0x3c || c === 0x5b || c === 0x7b) nesting++;
        else if (c === 0x29 || c === 0x3e || c === 0x5d || c === 0x7d) nesting--;
        else if (nesting > 0) continue;
        else if (c === 0x20 && (at(i + 1) === 0x2f || at(i + 1) === 0x28)) break;
        else if (c === 0x3a && at(i + 1) === 0x3a && i + 2 < n) begin(i + 2);
        else if (c === 0x2f || c === 0x5c || (c === 0x2e && i > 0)) begin(i + 1);
    }
    // Closures of Go say nothing without the function around them.
    return /^func\d/.test(name.slice(start, start + 5)) ? earlier : start;
}

/** A stable number of a text (FNV-1a). */
export function hashOf(text: string): number {
    let h = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) {
        h ^= text.charCodeAt(i);
        h = Math.imul(h, 0x01000193);
    }
    // The last bits of short texts differ little.
    h ^= h >>> 15;
    h = Math.imul(h, 0x85ebca6b);
    return (h ^ (h >>> 13)) >>> 0;
}
