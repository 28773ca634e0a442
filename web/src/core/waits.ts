// Where code waits: wall-clock time minus CPU time, stack by stack. Both come from the server as one
// tree of two sides; what is left of each node's own time is what it did not run for.

import type { FrameTree, Hidden } from "./frame_tree";
import { totalsOf } from "./tree_decode";

/** `t` is a difference: before is CPU, after is wall clock. Where CPU has more, nothing is left. */
export function waitsOf(t: FrameTree): FrameTree {
    const cpu = t.before?.self;
    const self = t.self.map((wall, i) => Math.max(0, wall - (cpu?.[i] ?? 0)));
    const hidden = new Map<number, Hidden>();
    let cut = 0;
    for (const [node, h] of t.hidden) {
        const value = Math.max(0, h.value - h.before);
        hidden.set(node, { children: h.children, value, before: 0 });
        cut += value;
    }
    const total = totalsOf(self, t.parent, hidden, "value");
    return {
        ...t,
        self,
        total,
        before: null,
        isSure: null,
        hidden,
        head: { ...t.head, total: total[0], cut, samples: t.head.after?.samples },
    };
}
