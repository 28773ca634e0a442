// The tree behind the canvas: the node that has the focus, its parent and its nearest siblings as
// real elements, out of sight, with their levels and places, so that screen readers have something
// to read. Only a handful of elements, whatever the size of the profile.

import { infoOf, spokenText } from "./flame_moves";
import type { FlameScene } from "./flame_scene";

const NEAR = 5; // siblings on each side

let charts = 0;

export class FlameAria {
    private readonly id = `flame-${++charts}`;
    private readonly items: HTMLElement;
    private readonly live: HTMLElement;

    constructor(
        private readonly tree: HTMLElement,
        outside: HTMLElement,
    ) {
        const doc = tree.ownerDocument;
        tree.setAttribute("role", "tree");
        tree.tabIndex = 0;
        this.items = doc.createElement("div");
        this.items.className = "sr-only";
        this.items.setAttribute("role", "none");
        tree.append(this.items);
        this.live = doc.createElement("div");
        this.live.className = "sr-only";
        this.live.setAttribute("aria-live", "polite");
        outside.append(this.live);
    }

    label(text: string) {
        this.tree.setAttribute("aria-label", text);
    }

    /** Shows what is around a node; `isSaid` when it was gone to by keys. */
    show(s: FlameScene, node: number, isSaid: boolean) {
        const t = s.layout.tree;
        const items: HTMLElement[] = [];
        const parent = t.parent[node];
        if (node !== 0) items.push(this.item(s, parent, node));
        if (node === 0) items.push(this.item(s, 0, node));
        else {
            const first = t.first[parent];
            const last = first + t.children[parent] - 1;
            const from = Math.max(first, node - NEAR);
            const until = Math.min(last, node + NEAR);
            for (let i = from; i <= until; i++) items.push(this.item(s, i, node));
        }
        this.items.replaceChildren(...items);
        this.tree.setAttribute("aria-activedescendant", `${this.id}-${node}`);
        if (isSaid) this.live.textContent = spokenText(infoOf(s, node));
    }

    private item(s: FlameScene, node: number, focused: number): HTMLElement {
        const t = s.layout.tree;
        const parent = t.parent[node];
        const e = this.tree.ownerDocument.createElement("div");
        e.id = `${this.id}-${node}`;
        e.setAttribute("role", "treeitem");
        e.setAttribute("aria-level", String(t.depth[node] + 1));
        e.setAttribute("aria-posinset", String(node === 0 ? 1 : node - t.first[parent] + 1));
        e.setAttribute("aria-setsize", String(node === 0 ? 1 : t.children[parent]));
        e.setAttribute("aria-selected", String(node === focused));
        if (t.children[node] > 0) e.setAttribute("aria-expanded", "true");
        e.textContent = spokenText(infoOf(s, node));
        return e;
    }

    say(text: string) {
        this.live.textContent = text;
    }
}
