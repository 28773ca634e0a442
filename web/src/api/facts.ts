// Questions about the server itself and about files: what it may hold, who sends, what a file is.

import type { Scope } from "../core/url";
import { type Params, apiUrl, getJson, send } from "./client";
import type { TypeName } from "./questions";

// ---- The server

export interface StoreFacts {
    tenants: number;
    series: number;
    profiles: number;
    samples: number;
    spans: number;
    segments: number;
    tombstones: number;
    disk_bytes: number;
    segment_bytes: number;
    dict_bytes: number;
    wal_bytes: number;
    limit_bytes: number;
    free_bytes: number;
    memory_bytes: number;
    memory_limit: number;
    appended: number;
    duplicates: number;
    rejected: number;
    lost_records: number;
    first_ns: string;
    last_ns: string;
    is_read_only: boolean;
    trouble: string;
}
export interface Stat {
    version: string;
    tenant: string;
    now_ns: string;
    start_ns: string;
    is_draining: boolean;
    roles?: string[];
    retention?: { profiles_ns: string; spans_ns: string; max_bytes: number };
    limits?: { body_bytes: number; upload_bytes: number };
    store?: StoreFacts;
}

export function askStat(signal?: AbortSignal): Promise<Stat> {
    return getJson("stat", {}, { signal });
}

// ---- Files

export interface FileInfo {
    format: string;
    title: string;
    profiles: number;
    samples: number;
    stacks: number;
    max_depth: number;
    functions: number;
    nameless: number;
    types: (TypeName & { total: number })[];
    default_type: string;
    is_instant: boolean;
    start_ns: string;
    duration_ns: string;
    has_times: boolean;
    has_spans: boolean;
    labels: string[];
    resources: unknown[];
    comments: string[];
    notes: string[];
}

/** What a file is; nothing is stored. */
export async function askFileInfo(bytes: Blob, signal?: AbortSignal): Promise<FileInfo> {
    const r = await send(apiUrl("file/info"), { method: "POST", body: bytes, signal });
    return (await r.json()) as FileInfo;
}

export interface Stored {
    format: string;
    profiles: number;
    stored: number;
    duplicates: number;
    rejected: number;
    why?: string;
    from_ns?: string;
    until_ns?: string;
    labels?: Record<string, string>;
    notes: string[];
}

/** Stores a file on the server, with labels that a link can select it by. */
export async function storeFile(bytes: Blob, labels: Params): Promise<Stored> {
    const r = await send(apiUrl("profiles", labels), { method: "POST", body: bytes });
    return (await r.json()) as Stored;
}

/** Where a stored file is found again. */
export function storedScope(s: Stored, service: string, upload: string, type: string): Scope {
    // Whole milliseconds around it: addresses are for people, too.
    const ms = (ns: string | undefined, more: number) =>
        new Date(Math.floor(Number(ns ?? 0) / 1e6) + more).toISOString();
    return {
        service,
        type,
        labels: [{ name: "vesta.upload", op: "=", value: upload }],
        from: ms(s.from_ns, 0),
        until: ms(s.until_ns, 2),
        id: "",
        trace: "",
        span: "",
        file: "",
    };
}
