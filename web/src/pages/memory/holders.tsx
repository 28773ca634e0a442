// Who holds what has grown: the growth as a flame graph, allocation sites first and who called them
// beside. The picture is Compare's, with the ends of the range as its sides.

import { useState } from "preact/hooks";
import { askDiff, TREE_TYPE } from "../../api/questions";
import { detail, openFrameMenu, patchView, state } from "../../app";
import { decodeTree } from "../../core/tree_decode";
import { FlameView } from "../../parts/flame_view";
import { ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { scopeParams } from "../../api/questions";
import type { Windows } from "./data";
import { compareGrowth } from "./verdict";

export function Holders(props: { windows: Windows; type: string }) {
    const before = { ...props.windows.before, type: props.type };
    const after = { ...props.windows.after, type: props.type };
    const [root, setRoot] = useState<string[]>([]);
    const [isInverted, setInverted] = useState(true);
    const key = JSON.stringify([scopeParams(before), scopeParams(after), isInverted]);
    const q = useQuery(`holders ${key}`, async (signal) => {
        const params = { invert: isInverted, max_nodes: 20000, format: "tree" };
        const r = await askDiff(before, after, "diff", params, { signal, accept: TREE_TYPE });
        return decodeTree(await r.arrayBuffer());
    });
    return (
        <>
            <div class="mem-next">
                <span class="muted">
                    {isInverted
                        ? "Allocation sites on top, who called them below; orange grew."
                        : "From the outermost caller down to the allocation; orange grew."}
                </span>
                <button
                    type="button"
                    class="button small"
                    aria-pressed={isInverted}
                    onClick={() => {
                        setRoot([]);
                        setInverted(!isInverted);
                    }}
                >
                    Sites first
                </button>
                <a class="button small" href={compareGrowth(props.windows, props.type, isInverted)}>
                    Open in Compare
                </a>
            </div>
            {q.error && <ErrorBox error={q.error} retry={q.retry} />}
            {!q.data && !q.error && <Skeleton rows={8} label="Loading the flame graph" />}
            {q.data && (
                <Loading isOld={q.isOld}>
                    <div class="mem-flame">
                        <FlameView
                            tree={q.data}
                            isIcicle
                            selected={state.value.view.selected}
                            root={root}
                            diff={{ mode: "absolute", width: "union" }}
                            onHover={(d) => {
                                detail.value = d;
                            }}
                            onSelect={(name) => patchView({ selected: name }, { replace: true })}
                            onZoom={setRoot}
                            onMenu={(x, y, frame) => openFrameMenu(x, y, frame)}
                        />
                    </div>
                </Loading>
            )}
        </>
    );
}
