// Pointers, wheels and keys of a flame graph, as calls of the chart.

import { panBy, PITCH, zoomAt } from "./flame_camera";
import type { FlameChart } from "./flame_chart";
import type { Hit } from "./flame_layout";
import { type Move, moveFrom, moveIn } from "./flame_moves";

const DRAG_MIN = 4; // pixels: less is a click

interface Touch {
    x: number;
    y: number;
}

function partOf(chart: FlameChart, clientX: number): number {
    const box = chart.host.getBoundingClientRect();
    return box.width > 0 ? (clientX - box.left) / box.width : 0;
}

/** Rows away from the root are up in a flame graph and down in an icicle. */
function away(chart: FlameChart): 1 | -1 {
    return chart.scene?.options.isIcicle ? 1 : -1;
}

function onWheel(chart: FlameChart, e: WheelEvent) {
    const unit = e.deltaMode === 1 ? PITCH : e.deltaMode === 2 ? chart.height : 1;
    const dx = (e.shiftKey && e.deltaX === 0 ? e.deltaY : e.deltaX) * unit;
    const dy = (e.shiftKey ? 0 : e.deltaY) * unit;
    const c = chart.camera;
    if (e.ctrlKey || e.metaKey) {
        e.preventDefault();
        const factor = Math.exp(-Math.max(-100, Math.min(100, e.deltaY * unit)) / 200);
        chart.look(zoomAt(c, partOf(chart, e.clientX), factor));
        return;
    }
    const max = chart.maxScroll(c);
    const scroll = Math.min(max, Math.max(0, c.scroll + away(chart) * dy));
    const moved = dx !== 0 ? panBy(c, dx / Math.max(1, chart.width)) : c;
    // What leads nowhere here is left to the page.
    if (scroll === c.scroll && moved.from === c.from) return;
    e.preventDefault();
    chart.look({ ...moved, scroll });
    chart.setHover(chart.hitPoint(e.clientX, e.clientY));
}

// ---- Pointers

interface Drag {
    touches: Map<number, Touch>;
    isMoved: boolean;
    last: { hit: Hit | null; time: number };
}

function moveTouches(chart: FlameChart, drag: Drag, e: PointerEvent) {
    const was = drag.touches.get(e.pointerId);
    if (!was) return;
    const others = [...drag.touches.entries()].filter(([id]) => id !== e.pointerId);
    if (!drag.isMoved && Math.hypot(e.clientX - was.x, e.clientY - was.y) < DRAG_MIN) return;
    drag.isMoved = true;
    drag.touches.set(e.pointerId, { x: e.clientX, y: e.clientY });
    const width = Math.max(1, chart.width);
    if (others.length === 0) {
        const c = panBy(chart.camera, (was.x - e.clientX) / width);
        chart.look({ ...c, scroll: c.scroll + away(chart) * (was.y - e.clientY) });
        return;
    }
    const other = others[0][1];
    const before = Math.max(8, Math.abs(was.x - other.x));
    const after = Math.max(8, Math.abs(e.clientX - other.x));
    chart.look(zoomAt(chart.camera, partOf(chart, other.x), after / before));
}

function onClick(chart: FlameChart, drag: Drag, e: PointerEvent) {
    const hit = chart.hitPoint(e.clientX, e.clientY);
    const now = performance.now();
    const isSecond = now - drag.last.time < 400 && hit !== null && hit.node === drag.last.hit?.node;
    drag.last = { hit, time: isSecond ? 0 : now };
    if (!hit) {
        chart.events.onSelect(-1);
        return;
    }
    if (hit.isHidden) {
        chart.events.onOpenHidden(hit.node);
        return;
    }
    chart.focused = hit.node;
    if (isSecond) chart.zoomTo(hit.node);
    else chart.events.onSelect(hit.node === 0 ? -1 : hit.node);
}

function listenPointers(chart: FlameChart, signal: AbortSignal) {
    const drag: Drag = { touches: new Map(), isMoved: false, last: { hit: null, time: 0 } };
    const e = chart.tree;
    e.addEventListener(
        "pointerdown",
        (p) => {
            if (p.button !== 0) return;
            drag.touches.set(p.pointerId, { x: p.clientX, y: p.clientY });
            if (drag.touches.size === 1) drag.isMoved = false;
            e.setPointerCapture(p.pointerId);
        },
        { signal },
    );
    e.addEventListener(
        "pointermove",
        (p) => {
            if (drag.touches.has(p.pointerId)) moveTouches(chart, drag, p);
            e.classList.toggle("is-dragged", drag.isMoved && drag.touches.size > 0);
            if (drag.touches.size === 0) chart.setHover(chart.hitPoint(p.clientX, p.clientY));
        },
        { signal },
    );
    const up = (p: PointerEvent) => {
        const isOurs = drag.touches.delete(p.pointerId);
        e.classList.remove("is-dragged");
        if (isOurs && p.type === "pointerup" && !drag.isMoved) onClick(chart, drag, p);
    };
    e.addEventListener("pointerup", up, { signal });
    e.addEventListener("pointercancel", up, { signal });
    e.addEventListener("pointerleave", () => chart.setHover(null), { signal });
    e.addEventListener(
        "contextmenu",
        (m) => {
            const isByKey = m.button !== 2 && m.clientX === 0 && m.clientY === 0;
            const hit = isByKey ? null : chart.hitPoint(m.clientX, m.clientY);
            if (!hit && !isByKey) return;
            m.preventDefault();
            if (hit) chart.events.onMenu(m.clientX, m.clientY, hit.node);
            else openMenu(chart);
        },
        { signal },
    );
}

// ---- Keys

function openMenu(chart: FlameChart) {
    const { x, y } = chart.placeOf(chart.focused);
    chart.events.onMenu(x, y, chart.focused);
}

function moveOf(chart: FlameChart, key: string): Move | null {
    if (key === "ArrowLeft") return "left";
    if (key === "ArrowRight") return "right";
    const isDown = key === "ArrowDown";
    if (!isDown && key !== "ArrowUp") return null;
    return isDown === (away(chart) === 1) ? "in" : "out";
}

function moveFocus(chart: FlameChart, move: Move) {
    const s = chart.scene;
    if (!s) return;
    const c = chart.camera;
    const l = s.layout;
    const from = chart.focused;
    const middle = (Math.max(c.from, l.x[from]) + Math.min(c.to, l.end[from])) / 2;
    const isNarrowed = c.from > l.x[from] || c.to < l.end[from];
    const to = move === "in" && isNarrowed ? moveIn(s, from, middle) : moveFrom(l.tree, from, move);
    chart.focusNode(to);
}

/** Keys that move the camera. True: it was one. */
function cameraKey(chart: FlameChart, e: KeyboardEvent): boolean {
    const c = chart.camera;
    const page = Math.max(PITCH, chart.height - 2 * PITCH);
    switch (e.shiftKey && e.key.startsWith("Arrow") ? `Shift${e.key}` : e.key) {
        case "w":
        case "+":
            chart.look(zoomAt(c, 0.5, 1.4));
            return true;
        case "s":
        case "-":
            chart.look(zoomAt(c, 0.5, 1 / 1.4));
            return true;
        case "a":
        case "ShiftArrowLeft":
            chart.look(panBy(c, -0.15));
            return true;
        case "d":
        case "ShiftArrowRight":
            chart.look(panBy(c, 0.15));
            return true;
        case "PageDown":
            chart.look({ ...c, scroll: c.scroll + away(chart) * page });
            return true;
        case "PageUp":
            chart.look({ ...c, scroll: c.scroll - away(chart) * page });
            return true;
        case "0":
            chart.zoomTo(0);
            return true;
        case "Backspace":
            chart.zoomOut();
            return true;
        default:
            return false;
    }
}

/** Keys that are about the node which has the focus. */
function nodeKey(chart: FlameChart, e: KeyboardEvent): boolean {
    const node = chart.focused;
    switch (e.key) {
        case "Enter":
            chart.zoomTo(node);
            return true;
        case " ":
            chart.events.onSelect(node === 0 ? -1 : node);
            return true;
        case "Escape":
            if (!chart.scene?.options.selected) return false;
            chart.events.onSelect(-1);
            return true;
        case ".":
        case "ContextMenu":
            openMenu(chart);
            return true;
        case "o":
            if (!chart.scene?.layout.tree.hidden.has(node)) return false;
            chart.events.onOpenHidden(node);
            return true;
        case "n":
            chart.nextMatch(1);
            return true;
        case "N":
            chart.nextMatch(-1);
            return true;
        default:
            return false;
    }
}

function onKey(chart: FlameChart, e: KeyboardEvent) {
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey) return;
    const move = e.shiftKey ? null : moveOf(chart, e.key);
    if (move) moveFocus(chart, move);
    else {
        // The page comes first: its keys are about the frame that has the focus.
        const isDone = chart.events.onKey?.(e, chart.focused) ?? false;
        if (!isDone && !cameraKey(chart, e) && !nodeKey(chart, e)) return;
    }
    e.preventDefault();
    e.stopPropagation();
}

/** Listens until the function that it gives is called. */
export function listen(chart: FlameChart): () => void {
    const stop = new AbortController();
    const { signal } = stop;
    chart.tree.addEventListener("wheel", (e) => onWheel(chart, e), { signal, passive: false });
    chart.tree.addEventListener("keydown", (e) => onKey(chart, e), { signal });
    for (const name of ["focus", "blur"] as const)
        chart.tree.addEventListener(name, () => chart.invalidate(false), { signal });
    listenPointers(chart, signal);
    return () => stop.abort();
}
