// The flame graph as a thing on the page: two canvases the size of the view (boxes below; pointer,
// focus and selection above), a camera, and ways to move it. flame_input.ts turns gestures and keys
// into calls of these.

import { FlameAria } from "./flame_aria";
import {
    type Camera,
    cameraAlong,
    clampCamera,
    easeCamera,
    PITCH,
    rowAt,
    rowsInView,
    rowsWithin,
    WHOLE,
} from "./flame_camera";
import { Brushes, drawFlame, type Picture } from "./flame_draw";
import { listen } from "./flame_input";
import { heightBelow, type Hit, hitAt, isWithin } from "./flame_layout";
import { infoOf, spokenText } from "./flame_moves";
import { drawOverlay } from "./flame_overlay";
import { type FlameOptions, type FlameScene, sceneOf } from "./flame_scene";
import { nextMatch } from "./flame_search";
import { nodeAt, pathOf } from "./frame_tree";

const EASE_MS = 120;

export interface FlameEvents {
    onHover(hit: Hit | null): void; // also what the keyboard goes to
    onSelect(node: number): void; // -1: nothing any more
    onZoom(node: number): void;
    onMenu(x: number, y: number, node: number): void; // where on the page
    onOpenHidden(node: number): void;
    onKey?(e: KeyboardEvent, node: number): boolean; // true: it is done
}

export class FlameChart {
    readonly tree: HTMLElement;
    private readonly base: HTMLCanvasElement;
    private readonly over: HTMLCanvasElement;
    private readonly brushes = new Brushes();
    private readonly aria: FlameAria;
    private readonly sizes: ResizeObserver;
    private readonly unlisten: () => void;
    private picture: Picture | null = null;
    private scheduled = 0;
    private isStale = false; // the boxes, not only what lies over them
    private easing: { from: Camera; to: Camera; start: number } | null = null;
    scene: FlameScene | null = null;
    camera: Camera = WHOLE;
    zoomed = 0; // the node that fills the width
    focused = 0;
    hover: Hit | null = null;

    constructor(
        readonly host: HTMLElement,
        readonly events: FlameEvents,
    ) {
        const doc = host.ownerDocument;
        this.tree = doc.createElement("div");
        this.tree.className = "flame-tree";
        this.base = doc.createElement("canvas");
        this.over = doc.createElement("canvas");
        for (const c of [this.base, this.over]) {
            c.className = "flame-canvas";
            c.setAttribute("aria-hidden", "true");
            this.tree.append(c);
        }
        host.append(this.tree);
        this.aria = new FlameAria(this.tree, host);
        this.sizes = new ResizeObserver(() => this.invalidate());
        this.sizes.observe(host);
        this.unlisten = listen(this);
    }

    destroy() {
        cancelAnimationFrame(this.scheduled);
        this.sizes.disconnect();
        this.unlisten();
        this.host.replaceChildren();
    }

    // ---- What is shown

    update(o: FlameOptions) {
        const was = this.scene;
        const old = was?.options;
        // Another tree may be the same one, newer: what is looked at stays where it is.
        const path = old && old.tree !== o.tree ? pathOf(old.tree, this.zoomed) : null;
        const focus = old && old.tree !== o.tree ? pathOf(old.tree, this.focused) : null;
        this.scene = sceneOf(o, this.scene);
        if (path && focus) {
            const from = this.zoomed;
            const to = nodeAt(o.tree, path);
            this.zoomed = to.node;
            this.focused = nodeAt(o.tree, focus).node;
            this.hover = null;
            const isSame = o.question !== undefined && o.question === old?.question;
            const along =
                was && isSame && to.isWhole
                    ? cameraAlong(
                          this.easing?.to ?? this.camera,
                          { layout: was.layout, node: from },
                          { layout: this.scene.layout, node: to.node },
                      )
                    : null;
            this.look(along ?? this.cameraFor(this.zoomed));
        }
        this.aria.label(
            `${o.isIcicle ? "Icicle" : "Flame"} graph of ${o.tree.n} frames. Arrow keys move, Enter zooms in, Backspace out.`,
        );
        this.aria.show(this.scene, this.focused, false);
        this.invalidate();
    }

    get width(): number {
        return this.host.clientWidth;
    }

    get height(): number {
        return this.host.clientHeight;
    }

    private pins(): number[] {
        const depth = this.scene?.layout.tree.depth[this.zoomed] ?? 0;
        return depth > 0 ? [0, depth] : [0];
    }

    maxScroll(c: Camera): number {
        if (!this.scene) return 0;
        const rows = rowsWithin(this.scene.layout, c.from, c.to);
        return Math.max(0, rows * PITCH - this.height);
    }

    // ---- Drawing

    /** Draws before the next frame is shown. */
    invalidate(isStale = true) {
        this.isStale ||= isStale;
        if (this.scheduled === 0) this.scheduled = requestAnimationFrame((now) => this.draw(now));
    }

    private draw(now: number) {
        this.scheduled = 0;
        if (!this.scene) return;
        if (this.easing) {
            const progress = (now - this.easing.start) / EASE_MS;
            this.camera = easeCamera(this.easing.from, this.easing.to, progress);
            if (progress >= 1) this.easing = null;
            else this.invalidate();
        }
        const base = this.base.getContext("2d");
        const over = this.over.getContext("2d");
        if (!base || !over) return;
        if (this.isStale || !this.picture) {
            this.isStale = this.easing !== null;
            this.fit();
            this.picture = this.pictureNow();
            drawFlame(base, this.scene, this.picture, this.brushes);
        }
        drawOverlay(over, this.scene, this.picture, {
            hover: this.hover,
            focus: this.focused,
            hasFocus: this.tree.matches(":focus-visible"),
            scroll: this.scrollMark(),
        });
    }

    private fit() {
        const ratio = devicePixelRatio || 1;
        const width = Math.max(1, Math.round(this.width * ratio));
        const height = Math.max(1, Math.round(this.height * ratio));
        for (const c of [this.base, this.over]) {
            if (c.width !== width) c.width = width;
            if (c.height !== height) c.height = height;
        }
        if (!this.easing) this.camera = clampCamera(this.camera, this.maxScroll(this.camera));
    }

    private pictureNow(): Picture {
        const l = this.scene?.layout;
        const nRows = l ? rowsWithin(l, this.camera.from, this.camera.to) : 0;
        return {
            width: this.base.width,
            height: this.base.height,
            ratio: devicePixelRatio || 1,
            from: this.camera.from,
            to: this.camera.to,
            rows: rowsInView(this.camera.scroll, this.height, nRows, this.pins()),
            isIcicle: this.scene?.options.isIcicle ?? false,
        };
    }

    private scrollMark() {
        const max = this.maxScroll(this.camera);
        if (max <= 0) return null;
        return { at: this.camera.scroll / max, size: this.height / (max + this.height) };
    }

    // ---- Camera

    look(c: Camera) {
        this.easing = null;
        this.camera = clampCamera(c, this.maxScroll(c));
        this.invalidate();
    }

    private ease(to: Camera) {
        const target = clampCamera(to, this.maxScroll(to));
        if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
            this.look(target);
            return;
        }
        this.easing = { from: this.camera, to: target, start: performance.now() };
        this.invalidate();
    }

    private cameraFor(node: number): Camera {
        const l = this.scene?.layout;
        if (!l || node === 0 || !(l.end[node] > l.x[node])) return { ...WHOLE, scroll: 0 };
        const depth = l.tree.depth[node];
        const bottom = (depth + heightBelow(l, node)) * PITCH - this.height;
        const scroll = Math.max(0, Math.min(bottom, (depth - 1) * PITCH));
        return { from: l.x[node], to: l.end[node], scroll };
    }

    /** Lets a node fill the width. */
    zoomTo(node: number, isSilent = false) {
        if (!this.scene) return;
        this.zoomed = node;
        this.hover = null;
        this.ease(this.cameraFor(node));
        if (!isSilent) {
            this.events.onZoom(node);
            const i = infoOf(this.scene, node);
            this.aria.say(`Zoomed to ${spokenText(i)}`);
        }
    }

    zoomOut() {
        if (this.scene && this.zoomed !== 0)
            this.zoomTo(this.scene.layout.tree.parent[this.zoomed]);
        else this.zoomTo(0);
    }

    /** To where a path leads, as an address says it. No event: the address is there already. */
    setRoot(path: readonly string[]) {
        if (!this.scene) return;
        const { node } = nodeAt(this.scene.layout.tree, path);
        if (node === this.zoomed) return;
        this.zoomTo(node, true);
    }

    /** Moves the camera so that a node can be seen. */
    private reveal(node: number) {
        const l = this.scene?.layout;
        if (!l) return;
        let c: Camera = { ...(this.easing?.to ?? this.camera) };
        const span = l.end[node] - l.x[node];
        const isOut = l.x[node] >= c.to || l.end[node] <= c.from;
        if (span > 0 && (isOut || (span / (c.to - c.from)) * this.width < 6)) {
            const room = Math.min(1, Math.max(span * 4, 0));
            c = {
                ...c,
                from: l.x[node] + span / 2 - room / 2,
                to: l.x[node] + span / 2 + room / 2,
            };
            if (!isWithin(l.tree, node, this.zoomed)) this.zoomed = 0;
        }
        const at = l.tree.depth[node] * PITCH;
        const top = this.pins().length * PITCH;
        if (at - c.scroll < top && l.tree.depth[node] > 0) c.scroll = at - top;
        if (at + PITCH - c.scroll > this.height) c.scroll = at + PITCH - this.height;
        const was = this.easing?.to ?? this.camera;
        if (c.from !== was.from || c.to !== was.to || c.scroll !== was.scroll) this.ease(c);
    }

    // ---- Focus and pointer

    focusNode(node: number, isSaid = true) {
        if (!this.scene) return;
        this.focused = node;
        this.hover = null;
        this.reveal(node);
        this.aria.show(this.scene, node, isSaid);
        this.events.onHover({ node, isHidden: false });
        this.invalidate(false);
    }

    nextMatch(step: 1 | -1) {
        if (!this.scene) return;
        const node = nextMatch(this.scene.matches, this.focused, step);
        if (node >= 0) this.focusNode(node);
    }

    /** What is at a place of the page. */
    hitPoint(clientX: number, clientY: number): Hit | null {
        if (!this.scene || !this.picture) return null;
        const box = this.host.getBoundingClientRect();
        const y = clientY - box.top;
        const depth = rowAt(this.picture.rows, this.picture.isIcicle ? y : box.height - y);
        if (depth < 0) return null;
        const perPixel = (this.camera.to - this.camera.from) / box.width;
        const x = this.camera.from + (clientX - box.left) * perPixel;
        return hitAt(this.scene.layout, depth, x, perPixel);
    }

    setHover(hit: Hit | null) {
        if (hit?.node === this.hover?.node && hit?.isHidden === this.hover?.isHidden) return;
        this.hover = hit;
        this.events.onHover(hit);
        this.invalidate(false);
    }

    /** Where a node's box is on the page, for a menu that keys open. */
    placeOf(node: number): { x: number; y: number } {
        const box = this.host.getBoundingClientRect();
        const l = this.scene?.layout;
        const row = this.picture?.rows.find((r) => r.depth === l?.tree.depth[node]);
        if (!l || !row) return { x: box.left, y: box.top };
        const c = this.camera;
        const part = (l.x[node] - c.from) / (c.to - c.from);
        const x = box.left + Math.min(box.width - 24, Math.max(8, part * box.width));
        return { x, y: this.picture?.isIcicle ? box.top + row.at + PITCH : box.bottom - row.at };
    }
}
