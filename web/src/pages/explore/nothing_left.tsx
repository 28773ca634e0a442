// There are profiles, and the filters let nothing of them through: which one to drop.

import { patchView, state } from "../../app";
import { filterText } from "../../core/filter_presets";
import { Empty } from "../../parts/states";
import { shown } from "./head";
import "./no_data.css";

export default function NothingLeft() {
    const { filters } = state.value.view;
    const warnings = shown.value.head?.warnings ?? [];
    return (
        <Empty title="The filters let nothing through">
            {warnings.map((w) => (
                <p key={w}>{w}.</p>
            ))}
            <p class="no-data-ways">
                {filters.map((f) => (
                    <button
                        key={`${f.kind} ${f.value}`}
                        type="button"
                        class="button"
                        onClick={() => patchView({ filters: filters.filter((x) => x !== f) })}
                    >
                        Drop {filterText(f).slice(0, 80)}
                    </button>
                ))}
                {filters.length > 1 && (
                    <button type="button" class="button" onClick={() => patchView({ filters: [] })}>
                        Drop all
                    </button>
                )}
            </p>
        </Empty>
    );
}
