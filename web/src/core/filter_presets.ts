// The filters by the names that other tools use, and the ones that people want again and again.

import { exactRegex, tagFilterText } from "./regex";
import type { Filter, FilterKind } from "./url";

export { exactRegex };

export interface FilterWords {
    kind: FilterKind;
    title: string;
    note: string; // what other tools call it
}

export const FILTER_WORDS: readonly FilterWords[] = [
    { kind: "focus", title: "Keep stacks with", note: "focus · stack contains" },
    { kind: "ignore", title: "Drop stacks with", note: "ignore · drop function" },
    { kind: "hide", title: "Hide frames", note: "hide · merge function" },
    { kind: "show", title: "Show only frames", note: "show · frame contains" },
    { kind: "show_from", title: "Begin stacks at", note: "show_from · focus on function" },
    { kind: "prune_from", title: "End stacks at", note: "prune_from · collapse function" },
    { kind: "tagfocus", title: "Keep samples labelled", note: "tagfocus · key=regex" },
    { kind: "tagignore", title: "Drop samples labelled", note: "tagignore · key=regex" },
];

export interface Preset {
    title: string;
    filter: Filter;
}

// Regexes match function, file and binary names; each is kept to what is surely meant.
const LIBC = "(^|/)(lib(c|m|dl|rt|pthread)[-.0-9]*\\.so|ld-(linux|musl)|libc-2)|glibc/";
const RUNTIMES: [string, string][] = [
    ["Go", "^runtime[./]|^internal/(abi|bytealg|poll|runtime)|^syscall\\."],
    ["JVM", "^(jdk\\.internal|java\\.lang\\.(reflect|invoke)|sun\\.(reflect|nio))|libjvm\\.so"],
    ["Python", "^_?Py[A-Z_]|libpython|<frozen |importlib"],
    ["Node", "^node:|^internal/|^v8::|^Builtins_|libnode"],
    ["Ruby", "^(rb|vm|ruby)_|libruby"],
    [".NET", "^System\\.Private|libcoreclr|^\\[System\\.Private"],
    ["Rust", "^(core|alloc|std)::|/rustc/|__rust_"],
];
const IDLE = [
    "\\[waiting: (poll|sleep|timer|signal|child process)\\]",
    "^runtime\\.(gopark|notetsleep|notesleep|netpoll|usleep|futexsleep)",
    "^(do_)?epoll_p?wait|^(__)?(x64_sys_|sys_)?(select|poll|ppoll|nanosleep|pause|kevent)$",
    "clock_nanosleep|sigtimedwait|pthread_cond_(timed)?wait|jdk\\.internal\\.misc\\.Unsafe\\.park",
    "^java\\.lang\\.(Object\\.wait|Thread\\.sleep)|^\\(idle\\)$|cpuidle|^do_idle$|swapper",
].join("|");
const LIBRARIES = [
    LIBC,
    ...RUNTIMES.map(([, regex]) => regex),
    "/usr/(local/)?(lib|include|share)/|/go/pkg/mod/|/vendor/|node_modules/|(site|dist)-packages/",
    "^(javax?|sun|jdk|kotlin|scala)\\.|\\.cargo/registry|^std::|\\[kernel|vmlinux|\\[vdso\\]",
].join("|");

export const PRESETS: readonly Preset[] = [
    { title: "My code only", filter: { kind: "hide", value: LIBRARIES } },
    { title: "Hide libc", filter: { kind: "hide", value: LIBC } },
    ...RUNTIMES.map(([name, value]) => ({
        title: `Hide ${name} internals`,
        filter: { kind: "hide" as const, value },
    })),
    { title: "Hide expected idle", filter: { kind: "ignore", value: IDLE } },
    { title: "Kernel only", filter: { kind: "show", value: "\\[kernel|vmlinux|\\.ko(\\.|$)" } },
];

/** A chip's text: presets by their name, the regex of one exact name as that name, others as is. */
export function filterText(f: Filter): string {
    const preset = PRESETS.find((p) => p.filter.kind === f.kind && p.filter.value === f.value);
    if (preset) return preset.title;
    if (f.kind.startsWith("tag")) return `${f.kind}: ${tagFilterText(f.value) ?? f.value}`;
    const name = f.value.slice(1, -1).replace(/\\(.)/g, "$1");
    return `${f.kind}: ${exactRegex(name) === f.value ? name : f.value}`;
}
