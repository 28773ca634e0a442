// Findings that need no judgement: a regex over functions, the share of the profile from which it is
// worth a look, why, and what usually helps. Rules are data; the numbers are the server's, of whole
// profiles.

import { COLLECTORS, LOCKS } from "./symptom_list";
import type { Kind } from "./kinds";

export type Severity = "high" | "medium";

export interface Rule {
    id: string;
    title: string;
    kind: Kind; // which profiles it is about
    match: string; // a regex that the server and browsers read alike; "": the heaviest function
    measure: "cum" | "flat"; // stacks with a match in them, or time in the matches themselves
    from: number; // the share that makes it a finding
    high: number; // the share that makes it a severe one
    why: string;
    fix: string;
}

const cpuRules: Rule[] = [
    {
        id: "gc",
        title: "Garbage collection takes much of the CPU",
        kind: "cpu",
        match: COLLECTORS,
        measure: "cum",
        from: 0.1,
        high: 0.25,
        why: "The collector runs as often as the program allocates. Above a tenth of the CPU it also makes requests wait.",
        fix: "Allocate less in the hottest paths (see allocations), reuse buffers, give the heap more room (GOGC, -Xmx).",
    },
    {
        id: "malloc",
        title: "Allocating takes much of the CPU",
        kind: "cpu",
        match: "^(__libc_)?(malloc|calloc|realloc|free|cfree)$|^_int_(malloc|free|realloc)|malloc_consolidate|tcmalloc|^je_|^mi_(malloc|free)|^operator (new|delete)|runtime\\.(mallocgc|newobject|growslice|makeslice)|_PyObject_Malloc",
        measure: "cum",
        from: 0.08,
        high: 0.2,
        why: "Time in the allocator buys nothing by itself, and what it hands out has to be freed or collected again.",
        fix: "Size slices, maps and buffers when they are made; keep and reuse them; for C and C++ try jemalloc or mimalloc.",
    },
    {
        id: "memcpy",
        title: "Copying and clearing memory",
        kind: "cpu",
        match: "^_?_?(memcpy|memmove|memset|mempcpy)|^__mem(cpy|move|set)_|runtime\\.(memmove|memclr|duffcopy|duffzero|bulkBarrier)|copy_user|copy_page|clear_page",
        measure: "flat",
        from: 0.08,
        high: 0.2,
        why: "Large values are passed by copy, buffers grow step by step, or pages are handed out fresh again and again.",
        fix: "Pass pointers or slices, preallocate, read and write in place.",
    },
    {
        id: "regex-compile",
        title: "Regular expressions are compiled at run time",
        kind: "cpu",
        match: "regexp\\.(MustCompile|Compile|compile)|regexp/syntax\\.(Parse|Compile)|util/regex/Pattern\\.compile|sre_compile|re\\.compile|_sre_compile|v8::internal::RegExp.*Compil|std::__detail::_Compiler|^pcre2?_compile|onig_new|Regex::new",
        measure: "cum",
        from: 0.02,
        high: 0.08,
        why: "Compiling costs a thousand times more than matching once, and the result is the same every time.",
        fix: "Compile once: a package variable, a static field, a cache.",
    },
    {
        id: "regex-match",
        title: "Matching regular expressions",
        kind: "cpu",
        match: "regexp\\.\\(\\*(Regexp|machine|bitState)\\)|util/regex/Matcher|^sre_|_sre\\.|v8::internal::.*RegExp|^pcre2?_(match|exec)|^onig_(search|match)|std::regex",
        measure: "cum",
        from: 0.1,
        high: 0.25,
        why: "A pattern in a hot path is run for every request, and some patterns take far longer on some inputs.",
        fix: "Check a cheap condition first, use plain string functions, anchor the pattern, avoid nested repeats.",
    },
    {
        id: "json",
        title: "JSON takes much of the CPU",
        kind: "cpu",
        match: "encoding/json|json\\.(Marshal|Unmarshal|loads|dumps|encode|decode)|jackson|gson|JSON\\.(parse|stringify)|[Jj]son(Parse|Stringif)|serde_json|rapidjson|nlohmann|simdjson|JsonSerializer",
        measure: "cum",
        from: 0.1,
        high: 0.3,
        why: "Encoding by reflection and parsing of what is thrown away are common, and there are faster ways.",
        fix: "Generated or streaming codecs, smaller messages, parsing only what is used, caching encoded answers.",
    },
    {
        id: "logging",
        title: "Logging takes much of the CPU",
        kind: "cpu",
        match: "(^|/)log\\.\\(?\\*?(Logger|Print|Output|Fatal)|log/slog|zap\\.\\(|logrus|zerolog|log4j|logback|slf4j|java/util/logging|logging\\.(Logger|Handler|StreamHandler|LogRecord)|spdlog|glog|^_?_?v?syslog|winston|(^|/)pino[./]|Serilog",
        measure: "cum",
        from: 0.05,
        high: 0.15,
        why: "Lines are formatted and written for every request, also those that nobody reads.",
        fix: "Raise the level, sample repeated lines, format lazily, write asynchronously.",
    },
    {
        id: "format",
        title: "Formatting text",
        kind: "cpu",
        match: "fmt\\.(Sprint|Fprint|Append|Errorf)|fmt\\.\\(\\*pp\\)|^_?_?v?(f|s|sn|as)printf|printf_positional|java/util/Formatter|String\\.format|fmt::v[0-9]+::|core::fmt::",
        measure: "cum",
        from: 0.06,
        high: 0.15,
        why: "General formatters interpret a pattern, box values and allocate for each call.",
        fix: "Use direct conversions (strconv, StringBuilder, to_chars) in hot paths.",
    },
    {
        id: "time-format",
        title: "Formatting or parsing dates",
        kind: "cpu",
        match: "time\\.(Time\\.(Format|AppendFormat|String)|Parse)|SimpleDateFormat|DateTimeFormatter|strftime|strptime|mktime|_?tz(file|set)_|__tz_convert|datetime\\.(strptime|strftime)|DateTimeFormat",
        measure: "cum",
        from: 0.03,
        high: 0.1,
        why: "Calendars and time zones are slow, and mostly the same answer is computed again.",
        fix: "Keep numbers inside, format at the edge, cache the text of the current second.",
    },
    {
        id: "tls",
        title: "TLS handshakes",
        kind: "cpu",
        match: "crypto/tls\\.\\(\\*Conn\\)\\..*[Hh]andshake|SSL_do_handshake|SSL_(connect|accept)|tls_(construct|process)_|ssl3?_(accept|connect)|x509\\..*[Vv]erify|SSLEngineImpl|HandshakeContext|rustls::.*handshake",
        measure: "cum",
        from: 0.05,
        high: 0.15,
        why: "A handshake costs as much as many requests. It should happen once per connection, and connections should last.",
        fix: "Keep connections alive, pool them, allow session resumption, check timeouts of proxies.",
    },
    {
        id: "crypto",
        title: "Hashing and encryption",
        kind: "cpu",
        match: "crypto/(sha|md5|aes|internal|elliptic|rsa|bcrypt|subtle)|bcrypt|scrypt|pbkdf2|argon2|^(EVP_|SHA(1|256|512)_|AES_|aes_|sha(1|256|512)_)|sun/security/provider",
        measure: "cum",
        from: 0.15,
        high: 0.35,
        why: "Either it has to be, or something is hashed again that did not change, or by code without hardware support.",
        fix: "Cache digests, use a faster hash where no attacker is, check that accelerated code is used.",
    },
    {
        id: "exceptions",
        title: "Exceptions are thrown often",
        kind: "cpu",
        match: "^_Unwind_|__cxa_(throw|allocate_exception)|__gxx_personality|fillInStackTrace|java/lang/Throwable\\.|StackTraceElement|PyErr_(Set|Format|Restore)|traceback\\.|rb_exc_|Isolate::Throw|CaptureSimpleStackTrace",
        measure: "cum",
        from: 0.03,
        high: 0.1,
        why: "Throwing walks the stack and writes it down. As a way to return a value it is thousands of times slower.",
        fix: "Return errors where they are expected; throw for what is not; keep stack traces out of hot paths.",
    },
    {
        id: "locks-cpu",
        title: "CPU goes into taking locks",
        kind: "cpu",
        match: LOCKS,
        measure: "cum",
        from: 0.05,
        high: 0.15,
        why: "Locks that cost CPU are contended: threads spin, wake each other, and switch.",
        fix: "Hold them shorter, split them, use what is made for many readers, or do not share.",
    },
    {
        id: "scheduler",
        title: "The runtime looks for work",
        kind: "cpu",
        match: "runtime\\.(findRunnable|findrunnable|stealWork|schedule|osyield|procyield|futexsleep|wakep|netpoll)|ForkJoinPool\\.(scan|awaitWork)|tokio::runtime::.*(steal|park)",
        measure: "cum",
        from: 0.15,
        high: 0.3,
        why: "Many short tasks, or more threads than cores that the container may use: they search, find nothing, and sleep.",
        fix: "Set GOMAXPROCS (or the pool's size) to the CPU limit, make tasks larger, send work in batches.",
    },
    {
        id: "page-faults",
        title: "Page faults",
        kind: "cpu",
        match: "asm_exc_page_fault|exc_page_fault|do_user_addr_fault|handle_mm_fault|do_anonymous_page|do_fault",
        measure: "cum",
        from: 0.05,
        high: 0.15,
        why: "Memory is touched for the first time again and again: it is given back to the kernel too eagerly, or files are mapped afresh.",
        fix: "Reuse large buffers, tune the allocator's trimming, use huge pages, read instead of mapping.",
    },
    {
        id: "kernel",
        title: "Much of the CPU is spent in system calls",
        kind: "cpu",
        match: "entry_SYSCALL_64|do_syscall_64|el0_svc|__x64_sys_|__arm64_sys_",
        measure: "cum",
        from: 0.4,
        high: 0.6,
        why: "Small reads and writes, too many of them, or polling.",
        fix: "Buffer, batch (writev, sendmmsg, io_uring), set TCP_NODELAY with care, raise poll intervals.",
    },
    {
        id: "fork",
        title: "Processes are started all the time",
        kind: "cpu",
        match: "kernel_clone|_do_fork|copy_process|do_execve|load_elf_binary|exit_mmap|posix_spawn|forkAndExec",
        measure: "cum",
        from: 0.05,
        high: 0.15,
        why: "Starting a process costs milliseconds of kernel time: probes, shell scripts and helpers add up.",
        fix: "Use a library in place of a command, keep helpers running, make probes rarer.",
    },
    {
        id: "dns",
        title: "Names are resolved again and again",
        kind: "cpu",
        match: "getaddrinfo|res_n?(search|query)|net\\.\\(\\*Resolver\\)|InetAddress\\.get|dns\\.lookup",
        measure: "cum",
        from: 0.02,
        high: 0.08,
        why: "Every lookup is a round trip and sometimes a timeout.",
        fix: "Keep connections, cache answers, mind ndots in Kubernetes.",
    },
    {
        id: "compression",
        title: "Compression takes much of the CPU",
        kind: "cpu",
        match: "compress/(flate|gzip|zlib|bzip2)|^(deflate|inflate)|longest_match|ZSTD_|LZ4_|snappy|[Bb]rotli|java/util/zip",
        measure: "cum",
        from: 0.1,
        high: 0.25,
        why: "High levels cost much for little, and small or packed bodies gain nothing.",
        fix: "A lower level or zstd, a size limit below which nothing is packed, caching of packed answers.",
    },
    {
        id: "reflection",
        title: "Reflection in hot paths",
        kind: "cpu",
        match: "^reflect\\.|java/lang/reflect|jdk/internal/reflect|sun/reflect|Reflect\\.(get|apply)|inspect\\.",
        measure: "cum",
        from: 0.06,
        high: 0.15,
        why: "What could be known when compiling is looked up for every value.",
        fix: "Generated code, cached accessors, types instead of maps.",
    },
    {
        id: "jit",
        title: "Code is still being compiled",
        kind: "cpu",
        match: "CompileBroker|C[12]Compiler|C[12]_|Compile::(Compile|Optimize|Code_Gen)|PhaseIdealLoop|v8::internal::(compiler::|.*Compil|interpreter::)|maglev|turbofan|jit_compile",
        measure: "cum",
        from: 0.1,
        high: 0.3,
        why: "Instances that live for minutes never get warm, and code that changes its types is compiled again.",
        fix: "Let instances live longer, warm them up, use class data sharing or snapshots, keep types stable.",
    },
];

const otherRules: Rule[] = [
    {
        id: "hot-function",
        title: "One function takes a large part of the CPU by itself",
        kind: "cpu",
        match: "",
        measure: "flat",
        from: 0.3,
        high: 0.6,
        why: "A single place where anything saved is saved for all.",
        fix: "Look at its lines in the source view, and at who calls it so often.",
    },
    {
        id: "hot-allocation",
        title: "One place makes most of the allocations",
        kind: "alloc",
        match: "",
        measure: "flat",
        from: 0.4,
        high: 0.7,
        why: "The collector's work follows from what is allocated, and here that is one place.",
        fix: "Reuse what it allocates, or size it when it is made.",
    },
    {
        id: "starved",
        title: "Threads wait for a free CPU",
        kind: "offcpu",
        match: "\\[wants to run\\]",
        measure: "cum",
        from: 0.1,
        high: 0.3,
        why: "They could run and do not: the machine is full, or the container's CPU limit throttles them.",
        fix: "Raise the limit, use fewer threads, move noisy neighbours.",
    },
    {
        id: "lock-waits",
        title: "Much of the waiting is for locks",
        kind: "offcpu",
        match: "\\[waiting: futex\\]|futex_wait|semacquire|pthread_(mutex|rwlock)",
        measure: "cum",
        from: 0.3,
        high: 0.6,
        why: "Threads that wait for each other do nothing for anybody. Idle pools wait like this, too: see who calls.",
        fix: "Split the lock, hold it shorter, or make pools smaller.",
    },
    {
        id: "disk-waits",
        title: "Threads wait for the disk",
        kind: "offcpu",
        match: "\\[waiting: (disk|page fault)\\]|io_schedule|wait_on_page",
        measure: "cum",
        from: 0.1,
        high: 0.3,
        why: "Reads that miss the page cache, synchronous writes, or swapping.",
        fix: "More memory for the cache, batching of syncs, a faster disk, no swap.",
    },
    {
        id: "unnamed",
        title: "Many frames have no names",
        kind: "cpu",
        match: "^[^ ]*\\+0x[0-9a-f]+$|^0x[0-9a-f]+$|^\\[?unknown\\]?$",
        measure: "flat",
        from: 0.2,
        high: 0.5,
        why: "Functions without names hide the cause. The binaries are stripped, and nobody uploaded their debug files.",
        fix: "Upload debug files (POST /api/v1/debuginfo/BUILD_ID), name a debuginfod server, or do not strip.",
    },
    {
        id: "cut-stacks",
        title: "Many stacks end early",
        kind: "cpu",
        match: "^\\[cut: ",
        measure: "cum",
        from: 0.1,
        high: 0.3,
        why: "Their outer callers are missing, so the flame graph is wider at the bottom than it should be. The frame says why.",
        fix: "Build with frame pointers or unwind tables; see vesta-agent doctor on the host.",
    },
];

export const RULES: readonly Rule[] = [...cpuRules, ...otherRules];

export function severityOf(rule: Rule, share: number): Severity | null {
    return share >= rule.high ? "high" : share >= rule.from ? "medium" : null;
}

/** The functions of a list that a rule is about. */
export function matches(rule: Rule, names: readonly string[]): number[] {
    const re = new RegExp(rule.match);
    const found: number[] = [];
    names.forEach((n, i) => {
        if (re.test(n)) found.push(i);
    });
    return found;
}
