// What this thread has used of a core.
import { readFileSync } from "node:fs";

type ThreadCpuUsage = () => { user: number; system: number };

/** Of this thread, by the system. Reading a file in step happens in the calling thread. */
export function threadCpuNanos(): number | undefined {
    try {
        const [nanos] = readFileSync("/proc/thread-self/schedstat", "latin1").split(" ", 1);
        const value = Number(nanos);
        if (value > 0) return value;
    } catch {
        // Another system, or a kernel without these numbers.
    }
    const { threadCpuUsage } = process as unknown as { threadCpuUsage?: ThreadCpuUsage };
    if (!threadCpuUsage) return undefined;
    const { user, system } = threadCpuUsage.call(process);
    return (user + system) * 1000;
}
