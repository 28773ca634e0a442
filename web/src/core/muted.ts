// Findings that somebody does not want to see again, as a set of keys that can be stored.

export function readMuted(text: string | null): Set<string> {
    try {
        const list: unknown = JSON.parse(text ?? "[]");
        return new Set(Array.isArray(list) ? list.filter((x) => typeof x === "string") : []);
    } catch {
        return new Set();
    }
}

export function writeMuted(muted: ReadonlySet<string>): string {
    return JSON.stringify([...muted].sort().slice(0, 1000));
}
