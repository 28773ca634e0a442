// A batch with everything in it.

export const startNanos = (at = Date.now()) => BigInt(at - 20_000) * 1_000_000n;

const frame = (name, file, line, startLine, kind = "v8js") => ({
    name,
    file,
    line,
    column: line > 0 ? 5 : 0,
    startLine,
    kind,
});

export const link = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" };

export function cpuProfile(start = startNanos()) {
    const at = (millis) => start + BigInt(millis) * 1_000_000n;
    const route = { "http.route": "/cart", "thread.id": 0 };
    return {
        kind: "cpu",
        sampleTypes: [
            { type: "samples", unit: "count" },
            { type: "cpu", unit: "nanoseconds" },
        ],
        defaultType: "cpu",
        periodType: { type: "cpu", unit: "nanoseconds" },
        period: 10_000_000,
        startUnixNanos: start,
        durationNanos: 10_000_000_000n,
        frames: [
            frame("main", "/app/main.js", 10, 1),
            frame("parse", "/app/parse.js", 22, 20),
            frame("", "/app/parse.js", 30, 28),
            frame("(garbage collector)", "", 0, 0, "native"),
            frame("never used", "/app/unused.js", 1, 1),
        ],
        // 1: main; 2: main, parse; 3: main, parse, (anonymous); 4: collector
        stacks: { parent: [0, 0, 1, 2, 0], frame: [0, 0, 1, 2, 3] },
        samples: [
            { stack: 2, values: [1, 10_000_000], timeUnixNanos: at(10), link, attributes: route },
            { stack: 3, values: [1, 9_000_000.4], timeUnixNanos: at(20) },
            {
                stack: 2,
                values: [1, 11_000_000],
                timeUnixNanos: at(30),
                link,
                attributes: { ...route },
            },
            { stack: 4, values: [1, 5_000_000], timeUnixNanos: at(40) },
            { stack: 2, values: [1, 7_000_000], timeUnixNanos: at(50) },
        ],
        attributes: { "window.reason": "full", "loop.utilization": 0.25, "is.short": false },
    };
}

export function heapProfile(start = startNanos()) {
    return {
        kind: "heap",
        sampleTypes: [
            { type: "inuse_objects", unit: "count" },
            { type: "inuse_space", unit: "bytes" },
        ],
        defaultType: "inuse_space",
        periodType: { type: "space", unit: "bytes" },
        period: 524_288,
        startUnixNanos: start,
        durationNanos: 10_000_000_000n,
        frames: [frame("main", "/app/main.js", 10, 1), frame("keep", "/app/cache.js", 7, 5)],
        stacks: { parent: [0, 0, 1], frame: [0, 0, 1] },
        samples: [
            { stack: 2, values: [3, 1_572_864] },
            { stack: 2, values: [1, 524_288] },
            { stack: 1, values: [0, 0] },
        ],
        attributes: {},
    };
}

export function makeBatch(service = "shop", start = startNanos()) {
    return {
        resource: {
            "service.name": service,
            "service.version": "1.2.3",
            "process.pid": 7,
            "process.command_args": ["node", "app.js"],
            "host.name": "box",
        },
        profiles: [cpuProfile(start), heapProfile(start)],
    };
}
