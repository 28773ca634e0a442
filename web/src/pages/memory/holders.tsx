// Who holds what has grown: the growth as a flame graph, allocation sites first.

import type { Windows } from "./data";
import { compareGrowth } from "./verdict";

export function Holders(props: { windows: Windows; type: string }) {
    return (
        <p>
            <a class="button" href={compareGrowth(props.windows, props.type, true)}>
                The growth by allocation site, as a flame graph
            </a>
        </p>
    );
}
