// The A/B bar: both selections as sentences, one below the other, so that what differs stands out.

import { askFileInfo } from "../../api/questions";
import { patchState, refresh, state } from "../../app";
import type { Scope } from "../../core/url";
import { Icon } from "../../parts/icons";
import { Popover } from "../../parts/popover";
import { ScopeSentence } from "../../parts/scope_sentence";
import { useQuery } from "../../parts/use_query";
import { ExportDiff } from "./export_diff";
import { answeredType } from "./sides";
import { Starters } from "./starters";

function swapped(base: Scope | null, scope: Scope): { base: Scope; scope: Scope } {
    return { base: scope, scope: base ?? scope };
}

export function swapSides() {
    const { base, scope } = state.value;
    if (base) patchState(swapped(base, scope));
}

/** A file names its own types; the server is not asked for them. */
function useFileTypes(s: Scope | null): string[] | undefined {
    const q = useQuery(s?.file ? `info ${s.file}` : null, (signal) => askFileInfo(s!.file, signal));
    return s?.file ? q.data?.types.map((t) => t.type) : undefined;
}

export function SidesBar() {
    const { base, scope } = state.value;
    const typesA = useFileTypes(base);
    const typesB = useFileTypes(scope);
    // The type is the comparison's: a change on one side is one of both, as long as they agree.
    const change = (side: "base" | "scope", p: Partial<Scope>) => {
        const next = { base, scope };
        const other = side === "base" ? "scope" : "base";
        if (p.type !== undefined && base && base.type === scope.type)
            next[other] = { ...next[other]!, type: p.type };
        next[side] = { ...(next[side] ?? scope), ...p };
        patchState(next);
    };
    const shown = (s: Scope) => (s.type || !base ? s : { ...s, type: answeredType.value });
    return (
        <header class="cmp-bar-top">
            <div class="cmp-sides">
                {base && (
                    <div class="cmp-side" role="group" aria-label="Side A, before">
                        <span class="cmp-letter is-a">A</span>
                        <ScopeSentence
                            scope={shown(base)}
                            types={typesA}
                            onChange={(p) => change("base", p)}
                        />
                    </div>
                )}
                <div class="cmp-side" role="group" aria-label="Side B, after">
                    <span class="cmp-letter is-b">B</span>
                    <ScopeSentence
                        scope={shown(scope)}
                        types={typesB}
                        onChange={(p) => change("scope", p)}
                    />
                </div>
            </div>
            <div class="cmp-tools">
                {base && (
                    <button
                        type="button"
                        class="button"
                        title="Swap the sides"
                        onClick={() => patchState(swapped(base, scope))}
                    >
                        ⇅ Swap
                    </button>
                )}
                {base && (
                    <Popover
                        label="Compare with…"
                        title="Compare with something else"
                        align="right"
                        panelClass="cmp-starters-panel"
                    >
                        {(close) => <Starters done={close} />}
                    </Popover>
                )}
                <button
                    type="button"
                    class="button icon"
                    title="Ask again"
                    aria-label="Ask again"
                    onClick={refresh}
                >
                    <Icon name="refresh" />
                </button>
                {base && <ExportDiff />}
            </div>
        </header>
    );
}
