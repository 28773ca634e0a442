// The comparison for elsewhere: a link that stays what it is, the numbers as JSON or CSV.

import { useState } from "preact/hooks";
import type { ApiError, Params } from "../../api/client";
import { askDiff, type DiffTable, filterParams, frameParams } from "../../api/questions";
import { copyText, href, say, state } from "../../app";
import { csvText } from "../../core/export_text";
import { download } from "../../parts/export_menu";
import { Icon } from "../../parts/icons";
import { Popover } from "../../parts/popover";
import { frozenState } from "../../parts/sentence_bar";

async function answer(route: "diff" | "diff/table" | "diff.html", more: Params): Promise<Response> {
    const { base, scope, view } = state.value;
    const params = { ...filterParams(view), ...frameParams(view), ...more };
    return askDiff(base ?? scope, scope, route, params);
}

async function csv(): Promise<Blob> {
    const t = (await (await answer("diff/table", { limit: 100000 })).json()) as DiffTable;
    const keys = [
        "before_flat",
        "after_flat",
        "flat_change",
        "flat_share_change",
        "flat_ratio",
        "before_cum",
        "after_cum",
        "cum_change",
        "cum_share_change",
        "cum_ratio",
        "flat_significant",
        "cum_significant",
    ] as const;
    const rows = t.rows.map((r) => [r.name, ...keys.map((k) => r[k] ?? "")]);
    return new Blob([csvText([["function", ...keys], ...rows])], { type: "text/csv" });
}

const KINDS: { name: string; note: string; file: string; get: () => Promise<Blob> }[] = [
    {
        name: "Table as JSON",
        note: "all functions",
        file: "compare.json",
        get: async () => (await answer("diff/table", { limit: 100000 })).blob(),
    },
    {
        name: "Tree as JSON",
        note: "both sides' values",
        file: "compare-tree.json",
        get: async () =>
            (await answer("diff", { max_nodes: 100000, invert: state.value.view.invert })).blob(),
    },
    {
        name: "HTML",
        note: "the flame graph in one file",
        file: "compare.html",
        get: async () => (await answer("diff.html", { invert: state.value.view.invert })).blob(),
    },
    { name: "Table as CSV", note: "for a spreadsheet", file: "compare.csv", get: csv },
];

export function ExportDiff() {
    const [busy, setBusy] = useState("");
    const take = async (kind: (typeof KINDS)[number], close: () => void) => {
        setBusy(kind.name);
        try {
            download(kind.file, await kind.get());
            close();
        } catch (e) {
            say(`${kind.name}: ${(e as ApiError).message}`);
        }
        setBusy("");
    };
    return (
        <Popover
            class="button icon"
            title="Share and export"
            align="right"
            label={<Icon name="export" />}
        >
            {(close) => (
                <div class="export">
                    <button
                        type="button"
                        class="menu-row"
                        onClick={() => {
                            close();
                            copyText(href(frozenState(state.value)), "Link");
                        }}
                    >
                        <span>Copy link</span>
                        <small>times frozen</small>
                    </button>
                    {KINDS.map((k) => (
                        <button
                            key={k.name}
                            type="button"
                            class="menu-row"
                            disabled={busy !== ""}
                            onClick={() => take(k, close)}
                        >
                            <span>{k.name}</span>
                            <small>{busy === k.name ? "on its way…" : k.note}</small>
                        </button>
                    ))}
                </div>
            )}
        </Popover>
    );
}
