// Colours of lines over time, for charts and their legends.

import { cssToken } from "../app";

/** The colours of lines by their slot, of so many: also for legends. One alone is the accent. */
export function lineColour(slot: number, lines: number): string {
    if (lines === 1) return cssToken("--accent");
    return slot < 0 ? cssToken("--ink-2") : cssToken(`--line-${slot + 1}`);
}
