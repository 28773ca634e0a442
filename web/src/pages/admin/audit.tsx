// Who changed what, newest first.

import { useState } from "preact/hooks";
import { askAudit } from "../../api/admin";
import { ticks } from "../../app";
import { clockText } from "../../core/time";
import { ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";

const STEP = 100;

export function Audit() {
    const [limit, setLimit] = useState(STEP);
    const found = useQuery(`admin.audit ${limit}`, (s) => askAudit(limit, s), ticks.value);
    if (found.error && !found.data) return <ErrorBox error={found.error} retry={found.retry} />;
    if (!found.data) return <Skeleton rows={8} />;
    const events = found.data;
    const now = Date.now();
    return (
        <Loading isOld={found.isOld}>
            <p class="lead">
                Every change is written down before it is made, in <code>audit.log</code> of the
                data directory.
            </p>
            {events.length === 0 ? (
                <p class="muted">Nothing was changed yet.</p>
            ) : (
                <div class="admin-scroll">
                    <table class="table">
                        <thead>
                            <tr>
                                <th scope="col">When</th>
                                <th scope="col">Who</th>
                                <th scope="col">From</th>
                                <th scope="col">Tenant</th>
                                <th scope="col">Action</th>
                                <th scope="col">What</th>
                            </tr>
                        </thead>
                        <tbody>
                            {events.map((e, i) => (
                                <tr key={i}>
                                    <td class="admin-nowrap" title={e.time}>
                                        {clockText(Date.parse(e.time), now, true)}
                                    </td>
                                    <td class="admin-nowrap">{e.actor}</td>
                                    <td class="admin-nowrap">{e.peer}</td>
                                    <td>{e.tenant}</td>
                                    <td class="admin-nowrap">{e.action}</td>
                                    <td class="admin-what">{e.what}</td>
                                </tr>
                            ))}
                        </tbody>
                    </table>
                </div>
            )}
            {events.length === limit && limit < 10_000 && (
                <p>
                    <button type="button" class="button" onClick={() => setLimit(limit * 4)}>
                        Older
                    </button>
                </p>
            )}
        </Loading>
    );
}
