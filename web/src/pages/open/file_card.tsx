// One file that is open in this tab: what it is, and what can be done with it.

import type { LocalFile } from "../../api/files";
import { dropLocalFile } from "../../api/files";
import { type FileInfo, type Stat, askFileInfo } from "../../api/facts";
import { href, say } from "../../app";
import { clockText, spanText } from "../../core/time";
import { amountText, countText } from "../../core/units";
import { emptyScope, emptyState, type State } from "../../core/url";
import { Amount } from "../../parts/figures";
import { Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { CompareFile } from "./compare_file";
import { KeepFile } from "./keep_file";

export function fileState(key: string, type: string): State {
    const s = emptyState("explore");
    s.scope = { ...emptyScope(), file: key, type };
    return s;
}

function whenText(info: FileInfo): string {
    const start = Number(info.start_ns) / 1e6;
    const length = Number(info.duration_ns) / 1e6;
    if (!start) return length ? spanText(length) : "";
    return `${clockText(start, Date.now())}${length ? `, ${spanText(length)}` : ""}`;
}

function Facts(props: { info: FileInfo; size: number }) {
    const { info } = props;
    const when = whenText(info);
    const facts: [string, string][] = [
        ["Format", info.title || info.format],
        ["Size", amountText(props.size, "bytes")],
        ["Samples", countText(info.samples)],
        ["Stacks", `${countText(info.stacks)}, up to ${countText(info.max_depth)} deep`],
        ["Functions", countText(info.functions)],
    ];
    if (info.profiles > 1) facts.push(["Profiles", countText(info.profiles)]);
    if (info.nameless > 0) facts.push(["Without a name", countText(info.nameless)]);
    if (when) facts.push(["Taken", when]);
    if (info.labels.length > 0) facts.push(["Labels", info.labels.join(", ")]);
    return (
        <dl class="open-facts">
            {facts.map(([name, value]) => (
                <div key={name}>
                    <dt>{name}</dt>
                    <dd>{value}</dd>
                </div>
            ))}
        </dl>
    );
}

function Types(props: { info: FileInfo; file: LocalFile }) {
    return (
        <ul class="open-types" aria-label="Types">
            {props.info.types.map((t) => (
                <li key={`${t.type}:${t.unit}`}>
                    <a href={href(fileState(props.file.key, t.type))}>{t.type}</a>{" "}
                    <Amount value={t.total} unit={t.unit} />
                    {t.type === props.info.default_type && props.info.types.length > 1 && (
                        <span class="muted"> (default)</span>
                    )}
                </li>
            ))}
        </ul>
    );
}

export function FileCard(props: { file: LocalFile; stat: Stat | undefined }) {
    const { file } = props;
    const info = useQuery(`open.info ${file.key}`, (signal) => askFileInfo(file.bytes, signal));
    const remove = () => {
        dropLocalFile(file.key);
        say(`${file.name} is closed`);
    };
    const main = info.data?.default_type ?? info.data?.types[0]?.type ?? "";
    return (
        <article class="open-card" aria-label={file.name}>
            <header class="open-card-head">
                <h3 class="mono">{file.name}</h3>
                {info.data && (
                    <a class="button primary" href={href(fileState(file.key, main))}>
                        Open in Explore
                    </a>
                )}
                <button
                    type="button"
                    class="button"
                    onClick={remove}
                    aria-label={`Close ${file.name}`}
                >
                    Close
                </button>
            </header>
            {info.isLoading && <Skeleton rows={3} label="Reading the file" />}
            {info.error && (
                <p class="open-problem" role="alert">
                    {info.error.message}{" "}
                    {info.error.status === 0 && (
                        <button type="button" class="button small" onClick={info.retry}>
                            Try again
                        </button>
                    )}
                </p>
            )}
            {info.data && (
                <>
                    <Types info={info.data} file={file} />
                    <Facts info={info.data} size={file.bytes.size} />
                    {info.data.notes.length > 0 && (
                        <details class="open-notes">
                            <summary>
                                {info.data.notes.length === 1
                                    ? "1 note about what was read"
                                    : `${info.data.notes.length} notes about what was read`}
                            </summary>
                            <ul>
                                {info.data.notes.map((n) => (
                                    <li key={n}>{n}</li>
                                ))}
                            </ul>
                        </details>
                    )}
                    <div class="open-actions">
                        <CompareFile file={file} type={main} />
                        <KeepFile file={file} type={main} stat={props.stat} />
                    </div>
                </>
            )}
        </article>
    );
}
