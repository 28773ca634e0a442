// Debug files: names for addresses of binaries that were stripped.

import { askDebugFiles } from "../../api/agents";
import { ticks } from "../../app";
import { agoText } from "../../core/time";
import { Amount } from "../../parts/figures";
import { Command, Empty, ErrorBox, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { ourWays } from "../../parts/ways";

function HowTo() {
    const ways = ourWays();
    const auth = ways.needsToken ? " -H 'authorization: Bearer YOUR_TOKEN'" : "";
    return (
        <>
            <p>
                Binaries without symbols show as <code>binary+0xaddress</code> until their debug
                file is here. Names are looked up when you ask, so a file that arrives later names
                old profiles, too.
            </p>
            <Command
                label="upload"
                text={`curl${auth} --data-binary @app.debug ${ways.url}/api/v1/debuginfo/BUILD_ID`}
            />
            <Command label="build id" text="readelf -n app | grep 'Build ID'" />
        </>
    );
}

export function DebugFiles() {
    const found = useQuery("fleet.debug", askDebugFiles, ticks.value);
    if (found.error) return <ErrorBox error={found.error} retry={found.retry} />;
    if (!found.data) return <Skeleton rows={6} />;
    if (found.data.length === 0)
        return (
            <Empty title="No debug files">
                <HowTo />
            </Empty>
        );
    const now = Date.now();
    return (
        <>
            <div class="fleet-scroll">
                <table class="table">
                    <thead>
                        <tr>
                            <th scope="col">Build id</th>
                            <th scope="col">Holds</th>
                            <th scope="col" class="number">
                                Size
                            </th>
                            <th scope="col" class="number">
                                Uploaded
                            </th>
                        </tr>
                    </thead>
                    <tbody>
                        {found.data.map((f) => (
                            <tr key={f.build_id}>
                                <td class="mono">{f.build_id}</td>
                                <td>{f.holds}</td>
                                <td class="number">
                                    <Amount value={f.bytes} unit="bytes" />
                                </td>
                                <td class="number" title={f.time}>
                                    {agoText(Date.parse(f.time), now)}
                                </td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            </div>
            <details class="fleet-how">
                <summary>Upload another</summary>
                <HowTo />
            </details>
        </>
    );
}
