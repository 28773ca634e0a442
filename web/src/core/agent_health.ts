// What is not as it should be with an agent, in words.

export interface AgentFacts {
    version: string;
    mode: string;
    samples: number;
    lost: number;
    cpu_percent?: number;
    skew_ns?: string;
    last_seen: string;
}

const SILENT_MS = 90_000; // three heartbeats
const SKEW_MS = 2_000;
const LOST_SHARE = 0.01;
const CPU_PERCENT = 2;

export interface Trouble {
    id: "silent" | "skew" | "lost" | "cpu" | "version";
    text: string;
    isBad: boolean;
}

export function troublesOf(a: AgentFacts, now: number, serverVersion: string): Trouble[] {
    const found: Trouble[] = [];
    const silent = now - Date.parse(a.last_seen);
    if (silent > SILENT_MS)
        found.push({
            id: "silent",
            text: `silent for ${Math.round(silent / 60e3)} min`,
            isBad: true,
        });
    const skew = Number(a.skew_ns ?? 0) / 1e6;
    if (Math.abs(skew) > SKEW_MS)
        found.push({
            id: "skew",
            text: `clock ${(Math.abs(skew) / 1e3).toFixed(0)} s ${skew > 0 ? "ahead" : "behind"}`,
            isBad: true,
        });
    const all = a.samples + a.lost;
    if (all > 0 && a.lost / all > LOST_SHARE)
        found.push({
            id: "lost",
            text: `${((100 * a.lost) / all).toFixed(1)} % of samples dropped`,
            isBad: true,
        });
    if ((a.cpu_percent ?? 0) > CPU_PERCENT)
        found.push({
            id: "cpu",
            text: `takes ${a.cpu_percent?.toFixed(1)} % of a CPU`,
            isBad: false,
        });
    if (serverVersion && a.version && a.version !== serverVersion)
        found.push({ id: "version", text: `version ${a.version}`, isBad: false });
    return found;
}
