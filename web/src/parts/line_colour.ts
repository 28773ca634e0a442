// Colours of lines over time, for charts and their legends.

import { cssToken } from "../app";

/** The colours of lines by their slot: also for legends. */
export function lineColour(slot: number): string {
    return slot < 0 ? cssToken("--ink-2") : cssToken(`--line-${slot + 1}`);
}
