// Agents and SDKs that announce themselves, what they are told, and debug files.

import { change, getJson } from "./client";

export type Mode = "off" | "low" | "normal" | "burst";
export const MODES: readonly Mode[] = ["off", "low", "normal", "burst"];

export interface Directive {
    number: number; // 0: nobody has said anything
    mode: Mode;
    rate?: number;
    types?: string[];
    until?: string;
    reason?: string;
}
export interface Order extends Directive {
    agent: string;
    service: string;
    host: string;
    issued: string;
    actor: string;
}
export interface Agent {
    id: string;
    kind: string;
    version: string;
    host: string;
    services: string[];
    types?: string[];
    mode: string;
    rate: number;
    samples: number;
    lost: number;
    cpu_percent?: number;
    memory_bytes?: number;
    skew_ns?: string;
    first_seen: string;
    last_seen: string;
    directive: Directive;
}
export interface Fleet {
    agents: Agent[];
    directives?: Order[];
}

export function askAgents(signal?: AbortSignal): Promise<Fleet> {
    return getJson("agents", {}, { signal });
}

export interface Wish {
    mode: Mode;
    agent?: string;
    service?: string;
    host?: string;
    types?: string[];
    rate?: number;
    duration?: string;
    reason?: string;
}

export function direct(wish: Wish): Promise<{ directive: Directive }> {
    return change("POST", "agents/directive", wish);
}

/** Back to what agents do by themselves: the newest word for the same target, soon over. */
export function endOrder(o: Order): Promise<{ directive: Directive }> {
    const target = Object.fromEntries(
        (["agent", "service", "host"] as const).filter((k) => o[k]).map((k) => [k, o[k]]),
    );
    return direct({ mode: "normal", duration: "1s", reason: "ended by hand", ...target });
}

export interface DebugFile {
    build_id: string;
    bytes: number;
    time: string;
    holds: string;
}

export async function askDebugFiles(signal?: AbortSignal): Promise<DebugFile[]> {
    return (await getJson<{ files: DebugFile[] }>("debuginfo", {}, { signal })).files;
}
