// Few samples make wide errors: says how wide, and offers a longer range.

import { patchScope, state } from "../../app";
import { widerFrom } from "../../core/time";
import { countText, threeDigits } from "../../core/units";
import { serverNow } from "../../api/client";
import { shown } from "./head";

/** Below this, every view says that its shares are rough. */
export const THIN = 100;
const WIDER = 4;

export function ThinNote() {
    const { scope } = state.value;
    const samples = shown.value.head?.samples;
    if (samples === undefined || samples <= 0 || samples >= THIN) return null;
    // Half of the widest 95 % interval of a share, in points.
    const points = 98 / Math.sqrt(samples);
    return (
        <div class="explore-thin" role="status">
            <span>
                Only {countText(samples)} samples: shares are ± {threeDigits(Math.round(points))}{" "}
                points.
            </span>
            {!scope.file && !scope.id && (
                <button
                    type="button"
                    class="button small"
                    onClick={() =>
                        patchScope({ from: widerFrom(scope.from, scope.until, WIDER, serverNow()) })
                    }
                >
                    Look at {WIDER} times the range
                </button>
            )}
        </div>
    );
}
