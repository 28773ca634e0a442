// Numbers on pages: the figure in tabular digits, the unit small and muted.

import { amount, shareText } from "../core/units";

export function Amount(props: { value: number; unit: string; sign?: boolean }) {
    const a = amount(props.value, props.unit);
    return (
        <span class="amount">
            {props.sign && props.value > 0 ? "+" : ""}
            {a.figure}
            {a.unit && <small> {a.unit}</small>}
        </span>
    );
}

/** A share as a number with its bar behind it. */
export function Share(props: { part: number; whole: number }) {
    const share = props.whole === 0 ? 0 : Math.min(1, Math.abs(props.part / props.whole));
    return (
        <span class="share">
            <span class="share-bar" style={{ width: `${100 * share}%` }} />
            <span class="share-text">{shareText(props.part, props.whole)}</span>
        </span>
    );
}
