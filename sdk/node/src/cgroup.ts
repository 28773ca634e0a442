// How many cores a container may use: its cgroup may allow less than the machine has, which older ones
// of Node do not look at.
import { readFileSync } from "node:fs";
import * as path from "node:path";

/** "QUOTA PERIOD", or "max PERIOD": in cores. */
function coresOf(text: string): number {
    const [quota, period] = text.trim().split(/\s+/).map(Number);
    const cores = (quota ?? 0) / (period ?? 0);
    return cores > 0 ? cores : Number.POSITIVE_INFINITY;
}

function read(...files: string[]): string | undefined {
    try {
        return files.map((file) => readFileSync(file, "latin1").trim()).join(" ");
    } catch {
        return undefined;
    }
}

/** The smallest limit from the process's own group up to the root. Infinity where there is none.
 * root and self: for tests. */
export function cgroupCores(root = "/sys/fs/cgroup", self = "/proc/self/cgroup"): number {
    const own = read(self);
    if (own === undefined) return Number.POSITIVE_INFINITY;
    const unified = /^0::(\/.*)$/m.exec(own)?.[1] ?? "/";
    const old = /^\d+:(?:[^:]*,)?cpu(?:,[^:]*)?:(\/.*)$/m.exec(own)?.[1];
    const limits = [
        ...upwards(root, unified).map((folder) => read(path.join(folder, "cpu.max"))),
        ...(old === undefined ? [] : upwards(path.join(root, "cpu"), old)).map((folder) =>
            read(path.join(folder, "cpu.cfs_quota_us"), path.join(folder, "cpu.cfs_period_us")),
        ),
    ];
    return Math.min(...limits.map((text) => (text ? coresOf(text) : Number.POSITIVE_INFINITY)));
}

/** Within a container the root may be the group itself, under another name. */
function upwards(root: string, group: string): string[] {
    const folders = [root];
    for (let at = group; at !== "/" && !at.includes(".."); at = path.dirname(at)) {
        folders.push(path.join(root, at));
    }
    return folders;
}
