// Nothing is open yet: where files come from.

import { Command } from "../../parts/states";

const SOURCES: { label: string; text: string }[] = [
    {
        label: "Go",
        text: "curl -o cpu.pb.gz 'http://localhost:6060/debug/pprof/profile?seconds=30'",
    },
    { label: "Linux", text: "vesta record -p PID -d 30s -o cpu.pb.gz" },
    { label: "perf", text: "perf record -F 99 -g -p PID -- sleep 30 && perf script > out.perf" },
    { label: "Java", text: "asprof -d 30 -e cpu -f out.jfr PID" },
    { label: "Node", text: "node --cpu-prof app.js" },
];

export function StartHere() {
    return (
        <section class="open-start">
            <h2>No file yet?</h2>
            <p class="muted">Most profilers write one:</p>
            {SOURCES.map((s) => (
                <Command key={s.label} label={s.label} text={s.text} />
            ))}
        </section>
    );
}
