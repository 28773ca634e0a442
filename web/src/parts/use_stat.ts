// What the server says of itself and of the caller: version, roles, limits.

import { askStat, type Stat } from "../api/facts";
import { ticks } from "../app";
import { type Query, useQuery } from "./use_query";

export function useStat(): Query<Stat> {
    return useQuery("stat", askStat, ticks.value);
}

/** Servers that do not say it yet decide when asked. */
export function mayAdmin(s: Stat | undefined): boolean {
    return !s?.roles || s.roles.includes("admin");
}
