// The line at the bottom: what is under the pointer or the keyboard's focus, at once; and when there
// is nothing, what the whole picture is made of and what is missing from it.

import { signal } from "@preact/signals";
import { detail, type Detail } from "../app";
import { amountText, changeText, countText, shareText } from "../core/units";
import "./details_bar.css";

export interface Status {
    total: number;
    unit: string;
    samples?: number;
    profiles?: number;
    drawn?: number; // nodes here
    cutNodes?: number; // nodes that are not
    cut?: number; // what those weigh
    incomplete?: string;
    warnings?: readonly string[];
    note?: string;
}

/** Views that know say it here. */
export const status = signal<Status | null>(null);

function place(d: Detail): string {
    return d.file ? `${d.file}${d.line ? `:${d.line}` : ""}` : "";
}

function Figures(props: { d: Detail }) {
    const d = props.d;
    const unit = d.unit ?? "";
    const of = d.of ?? 0;
    return (
        <span class="details-figures">
            {d.total !== undefined && (
                <span>
                    <small>total</small> {amountText(d.total, unit)}
                    {of !== 0 && ` · ${shareText(d.total, of)}`}
                </span>
            )}
            {d.self !== undefined && (
                <span>
                    <small>self</small> {amountText(d.self, unit)}
                    {of !== 0 && ` · ${shareText(d.self, of)}`}
                </span>
            )}
            {d.total !== undefined && d.parent !== undefined && d.parent !== 0 && (
                <span>
                    <small>of parent</small> {shareText(d.total, d.parent)}
                </span>
            )}
            {d.before !== undefined && d.total !== undefined && (
                <span>
                    <small>before</small> {amountText(d.before, unit)} (
                    {changeText(d.total - d.before, unit)})
                </span>
            )}
        </span>
    );
}

function About(props: { d: Detail }) {
    const d = props.d;
    return (
        <>
            <span class="details-name mono" title={d.name}>
                <bdi>{d.name || "(no name)"}</bdi>
            </span>
            <Figures d={d} />
            {d.note && <span>{d.note}</span>}
            <span class="details-place mono" title={[place(d), d.binary, d.build].join("\n")}>
                <bdi>
                    {[place(d), d.kind, d.binary, d.build?.slice(0, 12)]
                        .filter(Boolean)
                        .join("  ·  ")}
                </bdi>
            </span>
        </>
    );
}

function Whole(props: { s: Status }) {
    const s = props.s;
    const cut = s.cutNodes ?? 0;
    const drawn = s.drawn ?? 0;
    return (
        <>
            <span>
                <small>total</small> {amountText(s.total, s.unit)}
            </span>
            {s.samples !== undefined && (
                <span>
                    <small>samples</small> {countText(s.samples)}
                </span>
            )}
            {s.profiles !== undefined && (
                <span>
                    <small>profiles</small> {countText(s.profiles)}
                </span>
            )}
            {s.drawn !== undefined && (
                <span>
                    {cut > 0
                        ? `${countText(drawn)} of ${countText(drawn + cut)} nodes drawn, ${shareText(s.cut ?? 0, s.total)} folded`
                        : `${countText(drawn)} nodes, all drawn`}
                </span>
            )}
            {s.note && <span>{s.note}</span>}
            {s.incomplete && <span class="details-warn">incomplete: {s.incomplete}</span>}
            {s.warnings && s.warnings.length > 0 && (
                <span class="details-warn">{s.warnings.join("; ")}</span>
            )}
        </>
    );
}

export function DetailsBar() {
    const d = detail.value;
    const s = status.value;
    return (
        <footer class="details" aria-label="Details">
            {d ? <About d={d} /> : s ? <Whole s={s} /> : <span class="muted">–</span>}
        </footer>
    );
}
