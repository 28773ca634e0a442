// Prometheus' text format, as far as our own counters need it.

export interface Counter {
    name: string;
    labels: Record<string, string>;
    value: number;
}

function parseLabels(text: string): Record<string, string> {
    const labels: Record<string, string> = {};
    for (const m of text.matchAll(/([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"/g))
        labels[m[1]] = m[2].replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c));
    return labels;
}

export function parseCounters(text: string): Counter[] {
    const found: Counter[] = [];
    for (const line of text.split("\n")) {
        const m = /^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? (\S+)/.exec(line);
        if (!m) continue;
        const value = Number(m[3]);
        if (Number.isFinite(value))
            found.push({ name: m[1], labels: parseLabels(m[2] ?? ""), value });
    }
    return found;
}

/** "reason" -> value of one family, the largest first. */
export function byLabel(all: readonly Counter[], name: string, label: string): [string, number][] {
    return all
        .filter((c) => c.name === name)
        .map((c): [string, number] => [c.labels[label] ?? "", c.value])
        .sort((a, b) => b[1] - a[1]);
}
