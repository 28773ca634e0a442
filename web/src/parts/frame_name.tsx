// The name of a function or a file, as text and nothing else: isolated, so that a name written from
// right to left does not turn the row around, with what a search finds marked.

import { clipText, matchSpans, splitName } from "../core/text_match";
import "./frame_name.css";

const SHOWN_MAX = 1000; // more than any row can show: names may have 64 KB

function Marked(props: { text: string; pattern: RegExp | null }) {
    const spans = matchSpans(props.pattern, props.text);
    if (spans.length === 0) return <>{props.text}</>;
    const parts = [];
    let at = 0;
    for (const [start, end] of spans) {
        if (start > at) parts.push(props.text.slice(at, start));
        parts.push(<mark key={start}>{props.text.slice(start, end)}</mark>);
        at = end;
    }
    parts.push(props.text.slice(at));
    return <>{parts}</>;
}

/** One line; what is too long is clipped in the package first, so that the function survives. */
export function FrameName(props: { name: string; pattern?: RegExp | null }) {
    if (props.name === "") return <span class="frame-name muted">(no name)</span>;
    const name = clipText(props.name, SHOWN_MAX);
    const [before, own] = splitName(name);
    const pattern = props.pattern ?? null;
    // What matches across the border of the parts is marked in the whole name only.
    const isWhole =
        before === "" ||
        matchSpans(pattern, name).some(([a, b]) => a < before.length && b > before.length);
    return (
        <span class="frame-name" title={clipText(props.name)}>
            {isWhole ? (
                <bdi class="frame-own">
                    <Marked text={name} pattern={pattern} />
                </bdi>
            ) : (
                <>
                    <bdi class="frame-before">
                        <Marked text={before} pattern={pattern} />
                    </bdi>
                    <bdi class="frame-own">
                        <Marked text={own} pattern={pattern} />
                    </bdi>
                </>
            )}
        </span>
    );
}

/** A file, muted; its end is what tells it apart. */
export function FileName(props: { file: string; line?: number; pattern?: RegExp | null }) {
    if (!props.file) return null;
    const text = props.line ? `${props.file}:${props.line}` : props.file;
    const slash = text.lastIndexOf("/");
    return (
        <span class="frame-name muted" title={clipText(text)}>
            {slash > 0 && (
                <bdi class="frame-before">
                    <Marked
                        text={clipText(text.slice(0, slash + 1))}
                        pattern={props.pattern ?? null}
                    />
                </bdi>
            )}
            <bdi class="frame-own">
                <Marked text={clipText(text.slice(slash + 1))} pattern={props.pattern ?? null} />
            </bdi>
        </span>
    );
}
