// What can be done with a file that is only in this window: keep it on the server, or compare it.

import { useState } from "preact/hooks";
import { type ApiError, apiUrl, getJson, send } from "../../api/client";
import { findLocalFile, type LocalFile } from "../../api/files";
import { href, navigate, pageState, say, state } from "../../app";
import { timeParam } from "../../core/time";
import { emptyScope } from "../../core/url";
import { Popover } from "../../parts/popover";

interface FileInfo {
    start_ns: string;
    duration_ns: string;
}

/** Stores the file as a profile of a service; afterwards the page shows what is stored. */
async function keep(file: LocalFile, service: string) {
    const asking = { method: "POST", body: file.bytes };
    const info = (await (await send(apiUrl("file/info"), asking)).json()) as FileInfo;
    await send(apiUrl("profiles", { "service.name": service }), asking);
    const start = Number(info.start_ns) / 1e6;
    let range = { from: "now-1h", until: "now" };
    if (start > 0) {
        const end = start + Math.max(60e3, Number(info.duration_ns) / 1e6);
        range = { from: timeParam(start - 60e3), until: timeParam(end + 60e3) };
    }
    const s = state.value;
    navigate({ ...s, scope: { ...emptyScope(), service, type: s.scope.type, ...range } });
    say(`Kept as ${service}`);
    // The oldest may already be too old to be kept: better said now than found missing later.
    await getJson("top", {
        query: `{service.name=${JSON.stringify(service)}}`,
        ...range,
        limit: 1,
    }).catch(() => say("It was taken, but lies outside what the server keeps"));
}

export function FileTools() {
    const file = findLocalFile(state.value.scope.file);
    const [service, setService] = useState(file?.name.replace(/\..*$/, "") ?? "");
    const [isBusy, setBusy] = useState(false);
    if (!file) return null;
    const onKeep = async (close: () => void) => {
        setBusy(true);
        try {
            await keep(file, service.trim());
            close();
        } catch (e) {
            say((e as ApiError).message);
        }
        setBusy(false);
    };
    return (
        <>
            <Popover title="Keep on the server" label="Keep on the server" align="right">
                {(close) => (
                    <form
                        class="share-panel"
                        onSubmit={(e) => {
                            e.preventDefault();
                            onKeep(close);
                        }}
                    >
                        <p class="muted">
                            It is stored as long as other profiles are, and can be shared.
                        </p>
                        <input
                            aria-label="As a profile of the service"
                            value={service}
                            onInput={(e) => setService(e.currentTarget.value)}
                        />
                        <button
                            type="submit"
                            class="button primary"
                            disabled={isBusy || !service.trim()}
                        >
                            Keep
                        </button>
                    </form>
                )}
            </Popover>
            <a
                class="button"
                href={href(pageState("compare", { base: { ...state.value.scope } }))}
                title="Compare this file"
            >
                Compare
            </a>
        </>
    );
}
