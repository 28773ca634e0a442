// Data that every test can count on. Times are relative to now, so that "last 1 h" shows it; all
// numbers are made here and none is random.

import { makePprof } from "./pprof.mjs";

export const MINUTE = 60_000;

const app = (name, line, file = "cart.go") => ({
    name: `example.com/shop/${name}`, file: `/src/shop/${file}`, line, binary: "/usr/bin/shop", build: "cafe0123456789abcdef",
});
const runtime = (name) => ({ name: `runtime.${name}`, file: `/usr/lib/go/src/runtime/${name}.go`, line: 10, binary: "/usr/bin/shop", build: "cafe0123456789abcdef" });
const kernel = (name) => ({ name, file: "", line: 0, binary: "[kernel.kallsyms]" });

export const MAIN = app("main.main", 12, "main.go");
const serve = app("http.Serve", 88, "serve.go");

/** CPU of one window: ms by stack; `slow` is what version 2 spends more in pricing. */
function cpuStacks(slow, env) {
    const ms = (n) => [n, n * 10_000_000];
    const of = (n, ...frames) => ({ frames: [MAIN, serve, ...frames], values: ms(n), labels: { thread: env } });
    return [
        of(30, app("cart.Total", 40), app("cart.price", 51)),
        of(20 + slow, app("cart.Total", 40), app("cart.discount", 70), { ...app("regexp.MustCompile", 9, "regexp.go") }),
        of(15, app("json.Marshal", 20, "json.go"), runtime("mallocgc")),
        of(10, runtime("gcBgMarkWorker")),
        of(12, app("cart.walk", 90), app("cart.walk", 90), app("cart.walk", 90), app("cart.visit", 95)),
        of(8, kernel("entry_SYSCALL_64"), kernel("do_syscall_64"), kernel("vfs_read")),
        of(5, app("log.Printf", 5, "log.go")),
    ];
}

const CPU = [["samples", "count"], ["cpu", "nanoseconds"]];

export async function seed(server) {
    const now = Date.now();
    const at = (minutes) => now - minutes * MINUTE;
    const jobs = [];
    for (let m = 115; m >= 5; m -= 5) {
        const isNew = m <= 60;
        for (const env of ["prod", "staging"]) {
            jobs.push([makePprof({ types: CPU, period: 10_000_000, startMs: at(m), stacks: cpuStacks(isNew ? 25 : 0, env) }),
                { "service.name": "checkout", "service.version": isNew ? "2.3.1" : "2.3.0", "deployment.environment.name": env, "service.instance.id": `${env}-1` }]);
        }
        const wall = cpuStacks(0, "prod").concat([{ frames: [MAIN, serve, app("db.Query", 33, "db.go"), kernel("futex_wait")], values: [400, 4_000_000_000] }]);
        jobs.push([makePprof({ types: [["samples", "count"], ["wall", "nanoseconds"]], period: 10_000_000, startMs: at(m), stacks: wall }),
            { "service.name": "checkout", "service.version": isNew ? "2.3.1" : "2.3.0", "deployment.environment.name": "prod", "service.instance.id": "prod-1" }]);
        // A heap that grows by 2 MiB every five minutes, in one site.
        const grown = (115 - m) / 5;
        jobs.push([makePprof({
            types: [["alloc_objects", "count"], ["alloc_space", "bytes"], ["inuse_objects", "count"], ["inuse_space", "bytes"]],
            startMs: at(m), durationMs: 1000,
            stacks: [
                { frames: [MAIN, serve, app("cache.Put", 17, "cache.go")], values: [900, 90 << 20, 100 + 20 * grown, (10 + 2 * grown) * 2 ** 20] },
                { frames: [MAIN, serve, app("json.Marshal", 20, "json.go")], values: [5000, 50 << 20, 30, 3 << 20] },
            ],
        }), { "service.name": "checkout", "service.version": isNew ? "2.3.1" : "2.3.0", "deployment.environment.name": "prod", "service.instance.id": "prod-1" }, { instant: "0" }]);
        if (m % 15 === 0)
            jobs.push([makePprof({ types: CPU, period: 10_000_000, startMs: at(m), stacks: [
                { frames: ["main", "handle", "parse"], values: [40, 400_000_000] },
                { frames: ["main", "handle", "render"], values: [60, 600_000_000] },
                { frames: ["main", "idle"], values: [2, 20_000_000] },
            ] }), { "service.name": "payments", "service.version": "1.0.0" }]);
    }
    for (const [bytes, labels, more] of jobs) await server.push(bytes, labels, more?.instant === "0" ? {} : more);
    return { now };
}
