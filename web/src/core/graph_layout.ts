// Places the boxes and lines of a call graph: layers by the longest way from above (calls that go
// back up are turned around for that), an order within the layers that crosses few lines, and
// coordinates that keep callers above their callees. The same graph always gives the same picture.

export interface LayoutNode {
    width: number;
    height: number;
}
export interface LayoutEdge {
    from: number;
    to: number;
    weight: number;
}
export interface Placed {
    x: number; // middle of the box
    y: number;
    rank: number;
}
export interface Point {
    x: number;
    y: number;
}
export interface GraphLayout {
    nodes: Placed[];
    edges: Point[][]; // through which points, from the caller's box to the callee's
    order: number[]; // nodes from top to bottom and left to right: how keys walk
    width: number;
    height: number;
}

const GAP_X = 24;
const GAP_Y = 56;
const LINE_WIDTH = 12; // room for a line that passes through a layer
const SWEEPS = 12;
const SHIFTS = 8;

/** An item of a layer: a box, or the bend of a line that passes through (node < 0). */
interface Item {
    node: number;
    width: number;
    up: { item: number; weight: number }[];
    down: { item: number; weight: number }[];
    rank: number;
    x: number;
}

interface Link {
    from: number;
    to: number;
    weight: number;
    isTurned: boolean;
}

/**
 * Which edges go back up: those to a node that is still being walked. Heavy edges are walked first,
 * so that the heaviest way goes down.
 */
function turnCycles(n: number, edges: readonly LayoutEdge[]): Link[] {
    const out: number[][] = Array.from({ length: n }, () => []);
    const hasCaller = new Uint8Array(n);
    edges.forEach((e, i) => {
        if (e.from === e.to) return;
        out[e.from].push(i);
        hasCaller[e.to] = 1;
    });
    for (const list of out) list.sort((a, b) => edges[b].weight - edges[a].weight || a - b);
    const isTurned = new Uint8Array(edges.length);
    const mark = new Uint8Array(n); // 1: being walked, 2: done
    const walk = (start: number) => {
        if (mark[start]) return;
        const stack = [{ node: start, next: 0 }];
        mark[start] = 1;
        while (stack.length > 0) {
            const top = stack[stack.length - 1];
            if (top.next >= out[top.node].length) {
                mark[top.node] = 2;
                stack.pop();
                continue;
            }
            const e = out[top.node][top.next++];
            const to = edges[e].to;
            if (mark[to] === 1) isTurned[e] = 1;
            else if (mark[to] === 0) {
                mark[to] = 1;
                stack.push({ node: to, next: 0 });
            }
        }
    };
    for (let i = 0; i < n; i++) if (!hasCaller[i]) walk(i);
    for (let i = 0; i < n; i++) walk(i);
    return edges.map((e, i) =>
        isTurned[i]
            ? { from: e.to, to: e.from, weight: e.weight, isTurned: true }
            : { from: e.from, to: e.to, weight: e.weight, isTurned: false },
    );
}

/** Layers by the longest way from above; then nodes without callers sink to just above a callee. */
function rankNodes(n: number, links: readonly Link[]): Int32Array {
    const rank = new Int32Array(n);
    const waits = new Int32Array(n);
    const out: number[][] = Array.from({ length: n }, () => []);
    for (const l of links) {
        if (l.from === l.to) continue;
        out[l.from].push(l.to);
        waits[l.to]++;
    }
    const isTop = Array.from(waits, (w) => w === 0);
    const ready = [...waits.keys()].filter((i) => waits[i] === 0);
    for (let k = 0; k < ready.length; k++)
        for (const to of out[ready[k]]) {
            rank[to] = Math.max(rank[to], rank[ready[k]] + 1);
            if (--waits[to] === 0) ready.push(to);
        }
    for (let i = 0; i < n; i++)
        if (isTop[i] && out[i].length > 0) rank[i] = Math.min(...out[i].map((to) => rank[to])) - 1;
    return rank;
}

/** Boxes and, for lines over several layers, a bend in each layer between. */
function makeItems(nodes: readonly LayoutNode[], links: readonly Link[], rank: Int32Array) {
    const items: Item[] = nodes.map((node, i) => ({
        node: i,
        width: node.width,
        up: [],
        down: [],
        rank: rank[i],
        x: 0,
    }));
    const chains: number[][] = links.map((l) => {
        if (l.from === l.to) return [l.from];
        const chain = [l.from];
        for (let r = rank[l.from] + 1; r < rank[l.to]; r++) {
            chain.push(items.length);
            items.push({ node: -1, width: LINE_WIDTH, up: [], down: [], rank: r, x: 0 });
        }
        chain.push(l.to);
        for (let k = 1; k < chain.length; k++) {
            items[chain[k - 1]].down.push({ item: chain[k], weight: l.weight });
            items[chain[k]].up.push({ item: chain[k - 1], weight: l.weight });
        }
        return chain;
    });
    return { items, chains };
}

/** How many pairs of lines between two layers cross. */
function crossings(layers: readonly number[][], items: readonly Item[]): number {
    const place = new Int32Array(items.length);
    for (const layer of layers)
        layer.forEach((item, k) => {
            place[item] = k;
        });
    let sum = 0;
    for (const layer of layers) {
        const ends: number[] = [];
        for (const item of layer) {
            const own = items[item].down.map((d) => place[d.item]).sort((a, b) => a - b);
            for (const end of own) for (const before of ends) if (before > end) sum++;
            ends.push(...own);
        }
    }
    return sum;
}

/** Sweeps down and up: each item goes to the middle of its neighbours; the best order is kept. */
function orderLayers(layers: number[][], items: readonly Item[]): number[][] {
    const place = new Float64Array(items.length);
    const settle = () => {
        for (const layer of layers)
            layer.forEach((item, k) => {
                place[item] = k;
            });
    };
    settle();
    let best = layers.map((l) => [...l]);
    let least = crossings(layers, items);
    for (let sweep = 0; sweep < SWEEPS && least > 0; sweep++) {
        const isDown = sweep % 2 === 0;
        for (let k = 0; k < layers.length; k++) {
            const layer = layers[isDown ? k : layers.length - 1 - k];
            const middle = new Map<number, number>();
            for (const item of layer) {
                const near = isDown ? items[item].up : items[item].down;
                const sum = near.reduce((s, l) => s + place[l.item], 0);
                middle.set(item, near.length > 0 ? sum / near.length : place[item]);
            }
            layer.sort((a, b) => middle.get(a)! - middle.get(b)! || place[a] - place[b] || a - b);
            layer.forEach((item, at) => {
                place[item] = at;
            });
        }
        const now = crossings(layers, items);
        if (now < least) {
            least = now;
            best = layers.map((l) => [...l]);
        }
    }
    return best;
}

const leastGap = (a: Item, b: Item) =>
    (a.width + b.width) / 2 + (a.node < 0 && b.node < 0 ? LINE_WIDTH / 2 : GAP_X);

/**
 * Where each item of a layer wants to be, made possible: items that want the same place are put side
 * by side as a group whose middle is the mean of the wishes.
 */
function spread(layer: readonly number[], items: Item[], wish: (item: number) => number) {
    interface Group {
        members: number[];
        offsets: number[];
        sum: number; // of wishes, each less its offset
        at: number; // of the first member
    }
    const groups: Group[] = [];
    for (const item of layer) {
        let group: Group = { members: [item], offsets: [0], sum: wish(item), at: wish(item) };
        for (let last = groups[groups.length - 1]; last; last = groups[groups.length - 1]) {
            const tail = last.members.length - 1;
            const gap = leastGap(items[last.members[tail]], items[group.members[0]]);
            const end = last.at + last.offsets[tail];
            if (group.at >= end + gap) break;
            const shift = last.offsets[tail] + gap;
            const sum = last.sum + group.sum - shift * group.members.length;
            const members = [...last.members, ...group.members];
            group = {
                members,
                offsets: [...last.offsets, ...group.offsets.map((o) => o + shift)],
                sum,
                at: sum / members.length,
            };
            groups.pop();
        }
        groups.push(group);
    }
    for (const g of groups)
        g.members.forEach((item, k) => {
            items[item].x = g.at + g.offsets[k];
        });
}

function placeAcross(layers: readonly number[][], items: Item[]) {
    for (const layer of layers) spread(layer, items, () => 0);
    for (let k = 0; k < SHIFTS; k++) {
        const isDown = k % 2 === 0;
        const isLast = k >= SHIFTS - 2; // the last ones look both ways
        for (let i = 0; i < layers.length; i++) {
            const layer = layers[isDown ? i : layers.length - 1 - i];
            spread(layer, items, (item) => {
                const { up, down } = items[item];
                const near = isLast ? [...up, ...down] : isDown ? up : down;
                const weight = near.reduce((s, l) => s + l.weight, 0);
                if (near.length === 0 || weight <= 0) return items[item].x;
                return near.reduce((s, l) => s + l.weight * items[l.item].x, 0) / weight;
            });
        }
    }
}

/** The whole layout. Edges may go anywhere, also to their own node. */
export function layOutGraph(
    nodes: readonly LayoutNode[],
    edges: readonly LayoutEdge[],
): GraphLayout {
    const n = nodes.length;
    if (n === 0) return { nodes: [], edges: [], order: [], width: 0, height: 0 };
    // Weights of lines that weigh nothing, or less: the layout needs something to hold on to.
    const sane = edges.map((e) => ({ ...e, weight: Math.max(Math.abs(e.weight), 1e-9) }));
    const links = turnCycles(n, sane);
    const rank = rankNodes(n, links);
    const lowest = Math.min(...rank);
    for (let i = 0; i < n; i++) rank[i] -= lowest;
    const { items, chains } = makeItems(nodes, links, rank);
    const first: number[][] = Array.from({ length: Math.max(...rank) + 1 }, () => []);
    items.forEach((item, i) => {
        first[item.rank].push(i);
    });
    const layers = orderLayers(first, items);
    placeAcross(layers, items);

    const middle: number[] = [];
    let y = 0;
    for (const layer of layers) {
        const height = Math.max(0, ...layer.map((i) => nodes[items[i].node]?.height ?? 0));
        middle.push(y + height / 2);
        y += height + GAP_Y;
    }
    const left = Math.min(...items.map((i) => i.x - i.width / 2));
    const right = Math.max(...items.map((i) => i.x + i.width / 2));
    const at = (i: number): Point => ({ x: items[i].x - left, y: middle[items[i].rank] });
    return {
        nodes: nodes.map((_, i) => ({ ...at(i), rank: rank[i] })),
        edges: chains.map((chain, k) => edgePoints(chain.map(at), links[k], nodes)),
        order: layers.flatMap((layer) => layer.filter((i) => items[i].node >= 0)),
        width: right - left,
        height: y - GAP_Y,
    };
}

/** From border to border, in the direction of the call; a call of itself is a loop at the side. */
function edgePoints(points: Point[], link: Link, nodes: readonly LayoutNode[]): Point[] {
    const a = nodes[link.from];
    const b = nodes[link.to];
    if (link.from === link.to) {
        const { x, y } = points[0];
        const side = x + a.width / 2;
        return [
            { x: side, y: y - a.height / 4 },
            { x: side + 20, y },
            { x: side, y: y + a.height / 4 },
        ];
    }
    // A call back up runs beside the one down.
    const aside = link.isTurned ? LINE_WIDTH : 0;
    const out = points.map((p) => ({ x: p.x + aside, y: p.y }));
    out[0].y += a.height / 2;
    out[out.length - 1].y -= b.height / 2;
    return link.isTurned ? out.reverse() : out;
}

/** A smooth line through points, for the `d` of an SVG path. */
export function pathText(points: readonly Point[]): string {
    const r = (v: number) => Math.round(v * 10) / 10;
    let text = `M${r(points[0].x)} ${r(points[0].y)}`;
    for (let i = 1; i < points.length; i++) {
        const a = points[i - 1];
        const b = points[i];
        const bend = (b.y - a.y) / 2;
        text += `C${r(a.x)} ${r(a.y + bend)} ${r(b.x)} ${r(b.y - bend)} ${r(b.x)} ${r(b.y)}`;
    }
    return text;
}
