// What a question about merged profiles depends on, as a key for useQuery().

import { filterParams, frameParams, scopeParams } from "../api/questions";
import type { Scope, View } from "../core/url";

export function queryKey(scope: Scope, view: View): string {
    return JSON.stringify([scope.file, scopeParams(scope), filterParams(view), frameParams(view)]);
}
