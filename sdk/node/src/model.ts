// What every profiler of this package makes and every exporter takes: one shape, whatever V8 said
// and whatever the wire wants.

export type ProfileKind =
    | "cpu" // cpu/nanoseconds, samples/count
    | "wall" // wall/nanoseconds, samples/count
    | "alloc" // alloc_objects/count, alloc_space/bytes of the window
    | "heap" // inuse_objects/count, inuse_space/bytes at its end
    | "event_loop" // event_loop_delay/nanoseconds, event_loop_blocks/count
    | "heap_summary"; // inuse by constructor, from a snapshot

export interface Frame {
    name: string; // "(anonymous)" where there is none
    file: string; // path or URL as it is shown; "" for what V8 and Node do themselves
    line: number; // 1-based; 0: not known. The line that ran, or the function's own (lineNumbers)
    column: number; // 1-based; 0: not known
    startLine: number; // of the function; 0: not known
    startColumn?: number; // of the function, 1-based: tells functions of minified files apart
    kind: "v8js" | "native";
}

export interface ValueType {
    type: string;
    unit: string;
}

/** 32 and 16 hexadecimal digits. */
export interface SpanLink {
    traceId: string;
    spanId: string;
}

export type Attributes = Record<string, string | number | boolean | string[]>;

export interface Sample {
    stack: number; // into Profile.stacks
    values: number[]; // one for each sample type
    timeUnixNanos?: bigint;
    link?: SpanLink;
    attributes?: Attributes; // e.g. http.route, thread.name
}

/** A trie: every stack is its caller's stack plus one frame. Number 0 is the empty stack. */
export interface Stacks {
    parent: number[];
    frame: number[];
}

export interface Profile {
    kind: ProfileKind;
    sampleTypes: ValueType[];
    defaultType: string; // which of sampleTypes people look at first
    periodType?: ValueType;
    period?: number;
    startUnixNanos: bigint;
    durationNanos: bigint;
    frames: Frame[];
    stacks: Stacks;
    samples: Sample[];
    attributes: Attributes; // of the profile: lag percentiles, utilisation, why a window was short
}

/** service.name and the rest of the resource. */
export type Resource = Attributes;

/** What an exporter gets: profiles of one window, taken in one process or thread. */
export interface Batch {
    resource: Resource;
    profiles: Profile[];
}

/** Where batches go. Never rejects for what the app did; errors are counted and told in stats. */
export interface Exporter {
    export(batch: Batch): Promise<void>;
    /** Sends what waits, for at most this long, and gives up then. */
    shutdown(timeoutMillis: number): Promise<void>;
}
