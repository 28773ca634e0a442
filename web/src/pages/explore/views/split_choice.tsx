// What the Labels view splits by: a label of the series, or an attribute of the samples. Attributes
// are asked for when the list is open: single profiles have to be read for them.

import { askTags, type Tags } from "../../../api/questions";
import { patchView, state, ticks } from "../../../app";
import { countText } from "../../../core/units";
import type { View } from "../../../core/url";
import { ListPicker, type Option } from "../../../parts/list_picker";
import { Popover } from "../../../parts/popover";
import { type Query, useQuery } from "../../../parts/use_query";
import { questionKey } from "./common";

export const SERIES = "Labels of series";
export const SAMPLES = "Attributes of samples";
const MOST_VALUES = 200;

/** The attributes of the selection's samples; one question for the list and the table. */
export function useTags(isAsked: boolean): Query<Tags> {
    const { scope, view } = state.value;
    return useQuery<Tags>(
        isAsked ? questionKey("tags", scope, view) : null,
        (signal) => askTags(scope, view, { limit: MOST_VALUES }, signal),
        ticks.value,
    );
}

/** Of a thousand names, one list: the kind is in front. */
const LABEL = "l:";
const TAG = "t:";

export function splitOptions(labels: readonly string[], tags: Tags | undefined): Option[] {
    return [
        ...labels.map((l) => ({ value: LABEL + l, text: l, group: SERIES })),
        ...(tags?.tags ?? []).map((t) => ({
            value: TAG + t.name,
            text: t.name,
            note: `${countText(t.all_values)} ${t.all_values === 1 ? "value" : "values"}`,
            group: SAMPLES,
        })),
    ];
}

function picked(value: string): Partial<View> {
    const name = value.slice(2);
    return value.startsWith(TAG) ? { tag: name } : { by: name, tag: "" };
}

function Choices(props: { labels: readonly string[]; current: string; close: () => void }) {
    const tags = useTags(true);
    return (
        <>
            <ListPicker
                options={splitOptions(props.labels, tags.data)}
                current={props.current}
                placeholder="Label or attribute"
                onPick={(value) => {
                    props.close();
                    patchView(picked(value));
                }}
            />
            {tags.isLoading && <p class="muted pick-empty">Reading attributes of samples…</p>}
            {tags.error && <p class="muted pick-empty">{tags.error.message}</p>}
            {tags.data?.tags.length === 0 && (
                <p class="muted pick-empty">Samples here carry no attributes.</p>
            )}
        </>
    );
}

export function SplitChoice(props: { labels: readonly string[]; label: string; tag: string }) {
    const name = props.tag || props.label;
    return (
        <Popover
            title="Choose what to split by"
            label={
                <>
                    Split by <b class="mono">{name || "…"}</b>
                    <span aria-hidden="true"> ▾</span>
                </>
            }
        >
            {(close) => (
                <Choices
                    labels={props.labels}
                    current={props.tag ? TAG + props.tag : LABEL + props.label}
                    close={close}
                />
            )}
        </Popover>
    );
}
