// This server's own address, as the page knows it.

import { boot } from "../api/client";
import { type Ways, waysTo } from "../core/addresses";

export function ourWays(): Ways {
    return waysTo({ ...boot, origin: location.origin + new URL(document.baseURI).pathname });
}
