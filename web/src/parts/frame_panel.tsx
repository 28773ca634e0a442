// The menu of a frame, wherever it was asked for (app.openFrameMenu): right button, `.`, long press.

import { useEffect, useRef } from "preact/hooks";
import {
    addFilter,
    copyText,
    type FrameTarget,
    href,
    menuAt,
    navigate,
    pageState,
    patchView,
    state,
} from "../app";
import { frameRegex, functionOf } from "../core/regex";
import type { FilterKind } from "../core/url";
import { openUnder } from "./frame_menu";
import { beforeState, frozenState } from "./sentence_bar";

interface Entry {
    name: string;
    note?: string;
    run: () => void;
}

function filterBy(kind: FilterKind, name: string) {
    addFilter({ kind, value: frameRegex(name, state.value.view.group) });
}

function copying(f: FrameTarget): Entry[] {
    const here = state.value;
    const link = { ...here, view: { ...here.view, selected: f.name, root: f.path } };
    return [
        { name: "Copy name", run: () => copyText(f.name, "Name") },
        ...(f.path.length > 0
            ? [{ name: "Copy stack", run: () => copyText(f.path.join("\n"), "Stack") }]
            : []),
        { name: "Copy link", note: "y", run: () => copyText(href(frozenState(link)), "Link") },
    ];
}

function filtering(f: FrameTarget): Entry[] {
    return [
        { name: "Keep stacks with it", note: "f", run: () => filterBy("focus", f.name) },
        { name: "Hide it", note: "h", run: () => filterBy("hide", f.name) },
        { name: "Drop stacks with it", run: () => filterBy("ignore", f.name) },
        { name: "Begin stacks here", run: () => filterBy("show_from", f.name) },
    ];
}

function looking(f: FrameTarget): Entry[] {
    const s = state.value;
    const isTree = f.path.length > 0 && s.page === "explore";
    const zoom: Entry[] = [
        { name: "Zoom to it", note: "Enter", run: () => patchView({ root: f.path }) },
        {
            name: "Open all under it",
            run: () => {
                patchView({ root: f.path });
                openUnder.value = f.path;
            },
        },
    ];
    const go = (view: Partial<typeof s.view>) =>
        navigate(pageState("explore", { view: { ...s.view, selected: f.name, ...view } }));
    return [
        ...(isTree ? zoom : []),
        { name: "Callers and callees", note: "s", run: () => go({ view: "callers" }) },
        {
            name: "Source",
            run: () => go({ view: "source", source: f.file, line: f.line }),
        },
        ...(s.scope.file
            ? []
            : [
                  {
                      name: "History of this function",
                      run: () =>
                          navigate(
                              pageState("function", {
                                  view: { ...s.view, selected: functionOf(f.name, s.view.group) },
                              }),
                          ),
                  },
                  {
                      name: "Open in Compare",
                      run: () => {
                          const next = beforeState(s.scope);
                          const value = frameRegex(f.name, s.view.group);
                          const filters = s.view.filters.filter((x) => x.kind !== "focus");
                          navigate({
                              ...next,
                              view: {
                                  ...s.view,
                                  selected: f.name,
                                  filters: [...filters, { kind: "focus" as const, value }],
                                  root: [],
                              },
                          });
                      },
                  },
              ]),
    ];
}

function moveFocus(menu: HTMLElement, key: string) {
    const rows = [...menu.querySelectorAll<HTMLElement>("[role=menuitem]")];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    const to =
        key === "Home"
            ? 0
            : key === "End"
              ? rows.length - 1
              : (at + (key === "ArrowDown" ? 1 : -1) + rows.length) % rows.length;
    rows[to]?.focus();
}

export function FramePanel(props: { x: number; y: number; frame: FrameTarget }) {
    const box = useRef<HTMLDivElement>(null);
    const back = useRef(document.activeElement as HTMLElement | null);
    const close = () => {
        menuAt.value = null;
        back.current?.focus?.({ preventScroll: true });
    };
    useEffect(() => {
        const menu = box.current;
        if (!menu) return;
        // Within the window, whatever corner was clicked.
        const r = menu.getBoundingClientRect();
        menu.style.left = `${Math.max(4, Math.min(props.x, innerWidth - r.width - 4))}px`;
        menu.style.top = `${Math.max(4, Math.min(props.y, innerHeight - r.height - 4))}px`;
        menu.querySelector<HTMLElement>("[role=menuitem]")?.focus({ preventScroll: true });
        const onDown = (e: PointerEvent) => {
            if (!menu.contains(e.target as Node)) menuAt.value = null;
        };
        document.addEventListener("pointerdown", onDown, true);
        return () => document.removeEventListener("pointerdown", onDown, true);
    }, [props.x, props.y, props.frame]);

    const onKey = (e: KeyboardEvent) => {
        e.stopPropagation();
        if (e.key === "Escape" || e.key === "Tab") {
            e.preventDefault();
            close();
        } else if (/^(Arrow(Up|Down)|Home|End)$/.test(e.key) && box.current) {
            e.preventDefault();
            moveFocus(box.current, e.key);
        }
    };
    const hasKeys = state.value.page === "explore";
    const groups = [looking(props.frame), filtering(props.frame), copying(props.frame)];
    return (
        <div
            class="frame-menu"
            role="menu"
            aria-label={`${props.frame.name || "(no name)"}: what to do`}
            ref={box}
            tabIndex={-1}
            onKeyDown={onKey}
            onContextMenu={(e) => e.preventDefault()}
        >
            <div class="frame-menu-name mono" role="presentation" title={props.frame.name}>
                <bdi>{props.frame.name || "(no name)"}</bdi>
            </div>
            {groups.map((entries, i) => (
                <div
                    key={i}
                    class="frame-menu-group"
                    role="group"
                    aria-label={["Look", "Filter", "Copy"][i]}
                >
                    {entries.map((e) => (
                        <button
                            key={e.name}
                            type="button"
                            role="menuitem"
                            class="menu-row"
                            onClick={() => {
                                close();
                                e.run();
                            }}
                        >
                            <span>{e.name}</span>
                            {e.note && hasKeys && <small>{e.note}</small>}
                        </button>
                    ))}
                </div>
            ))}
        </div>
    );
}
