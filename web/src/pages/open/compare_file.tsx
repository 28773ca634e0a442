// A file against another one, or against what a service has stored.

import { useState } from "preact/hooks";
import { type LocalFile, localFiles } from "../../api/files";
import { askServices } from "../../api/questions";
import { href } from "../../app";
import { emptyScope, emptyState, type Scope } from "../../core/url";
import { useQuery } from "../../parts/use_query";

/** "file:KEY" or "service:NAME" as the side before. */
export function otherSide(choice: string, type: string): Scope | null {
    const [, kind, value] = /^(file|service):([\s\S]*)$/.exec(choice) ?? [];
    if (!kind) return null;
    return kind === "file"
        ? { ...emptyScope(), file: value, type }
        : { ...emptyScope(), service: value, type, from: "now-24h" };
}

export function CompareFile(props: { file: LocalFile; type: string }) {
    const { file, type } = props;
    const [choice, setChoice] = useState("");
    const services = useQuery("open.services", (signal) => askServices("now-24h", "now", signal));
    const others = localFiles.value.filter((f) => f.key !== file.key);
    const base = otherSide(choice, type);
    const to = { ...emptyState("compare"), base, scope: { ...emptyScope(), file: file.key, type } };
    const isNothing = others.length === 0 && !services.data?.length;
    return (
        <div class="open-action">
            <h4>Compare</h4>
            {isNothing ? (
                <p class="muted">Open a second file to compare this one with it.</p>
            ) : (
                <div class="open-row">
                    <select
                        aria-label={`Compare ${file.name} with`}
                        value={choice}
                        onChange={(e) => setChoice(e.currentTarget.value)}
                    >
                        <option value="">with …</option>
                        {others.length > 0 && (
                            <optgroup label="Files">
                                {others.map((f) => (
                                    <option key={f.key} value={`file:${f.key}`}>
                                        {f.name}
                                    </option>
                                ))}
                            </optgroup>
                        )}
                        {services.data && services.data.length > 0 && (
                            <optgroup label="Stored, last 24 h">
                                {services.data.map((s) => (
                                    <option key={s.service} value={`service:${s.service}`}>
                                        {s.service}
                                    </option>
                                ))}
                            </optgroup>
                        )}
                    </select>
                    {base && (
                        <a class="button" href={href(to)}>
                            Compare
                        </a>
                    )}
                </div>
            )}
            <p class="muted open-hint">
                The other one is the side before (A), this file the side after (B).
            </p>
        </div>
    );
}
