// How the picture is made: grouping, colours, direction.

import { patchView, state } from "../../app";
import type { ColourMode, Granularity } from "../../core/url";
import { COLOURS } from "./tabs_line";

const GROUPS: [Granularity, string][] = [
    ["functions", "function"],
    ["filefunctions", "function and file"],
    ["lines", "line"],
    ["files", "file"],
    ["packages", "package"],
    ["binaries", "binary"],
    ["addresses", "address"],
];

function Check(props: { name: string; note: string; isOn: boolean; set: (on: boolean) => void }) {
    return (
        <label class="tabs-check">
            <input
                type="checkbox"
                checked={props.isOn}
                onChange={(e) => props.set(e.currentTarget.checked)}
            />
            {props.name}
            <small>{props.note}</small>
        </label>
    );
}

export function OptionsPanel() {
    const v = state.value.view;
    return (
        <div class="tabs-options">
            <label>
                Group by
                <select
                    value={v.group}
                    onChange={(e) =>
                        patchView({ group: e.currentTarget.value as Granularity, root: [] })
                    }
                >
                    {GROUPS.map(([value, text]) => (
                        <option key={value} value={value}>
                            {text}
                        </option>
                    ))}
                </select>
            </label>
            <label>
                Colour by
                <select
                    value={v.colour}
                    onChange={(e) => patchView({ colour: e.currentTarget.value as ColourMode })}
                >
                    {COLOURS.map(([value, text]) => (
                        <option key={value} value={value}>
                            {text}
                        </option>
                    ))}
                </select>
            </label>
            <Check
                name="Inverted"
                note="i"
                isOn={v.invert}
                set={(invert) => patchView({ invert, root: [] })}
            />
            <Check
                name="Collapse recursion"
                note="r"
                isOn={v.recursion}
                set={(recursion) => patchView({ recursion, root: [] })}
            />
            <Check
                name="Shares of what is shown"
                note="instead of the whole"
                isOn={v.relative}
                set={(relative) => patchView({ relative })}
            />
        </div>
    );
}
