// Storing a file, to have a link that others can open. It says for how long, and who can see it.

import { useSignal } from "@preact/signals";
import { ApiError } from "../../api/client";
import type { LocalFile } from "../../api/files";
import { type Stat, type Stored, storeFile, storedScope } from "../../api/facts";
import { copyText, href } from "../../app";
import { spanText } from "../../core/time";
import { emptyState } from "../../core/url";

function newId(): string {
    const bytes = crypto.getRandomValues(new Uint8Array(6));
    return [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/** "checkout cpu.pb.gz" is a service called "checkout-cpu" to begin with. */
export function serviceFor(name: string): string {
    const stem = name.replace(/\.(gz|zst|zstd)$/i, "").replace(/\.[a-z0-9_-]{1,16}$/i, "");
    const clean = stem.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "");
    return clean.slice(0, 60) || "file";
}

interface Kept {
    link: string;
    stored: Stored;
}

function KeptLink(props: { kept: Kept; keepText: string }) {
    const { kept } = props;
    return (
        <div role="status">
            <div class="open-row">
                <a href={kept.link}>The stored profile</a>
                <button type="button" class="button" onClick={() => copyText(kept.link, "Link")}>
                    Copy link
                </button>
            </div>
            <p class="muted open-hint">
                {kept.stored.duplicates > 0 && kept.stored.stored === 0
                    ? "It was stored already. "
                    : ""}
                {props.keepText}
            </p>
        </div>
    );
}

export function KeepFile(props: { file: LocalFile; type: string; stat: Stat | undefined }) {
    const { file, stat } = props;
    const service = useSignal(serviceFor(file.name));
    const problem = useSignal("");
    const isOldFile = useSignal(false);
    const isBusy = useSignal(false);
    const kept = useSignal<Kept | null>(null);
    const mayStore = !stat?.roles || stat.roles.includes("ingest");
    const keepMs = Number(stat?.retention?.profiles_ns ?? 0) / 1e6;
    const keepText = keepMs
        ? `Kept for ${spanText(keepMs)} from the time it was taken, then deleted.`
        : "Kept for as long as this server keeps profiles.";

    const keep = async (retime: boolean) => {
        isBusy.value = true;
        problem.value = "";
        isOldFile.value = false;
        const id = newId();
        const labels = {
            "service.name": service.value.trim(),
            "vesta.upload": id,
            retime: retime ? "1" : undefined,
        };
        try {
            const stored = await storeFile(file.bytes, labels);
            const to = { ...emptyState("explore") };
            to.scope = storedScope(stored, service.value.trim(), id, props.type);
            kept.value = { link: href(to), stored };
        } catch (e) {
            problem.value = (e as Error).message;
            isOldFile.value = e instanceof ApiError && /old/.test(e.message);
        }
        isBusy.value = false;
    };

    if (kept.value)
        return (
            <div class="open-action">
                <h4>Kept on the server</h4>
                <KeptLink kept={kept.value} keepText={keepText} />
            </div>
        );
    return (
        <div class="open-action">
            <h4>Keep on the server and share the link</h4>
            {!mayStore ? (
                <p class="muted">
                    Storing needs a token with the role “ingest”; yours may only read.
                </p>
            ) : (
                <form
                    class="open-row"
                    onSubmit={(e) => {
                        e.preventDefault();
                        keep(false);
                    }}
                >
                    <label class="open-service">
                        as service
                        <input
                            value={service.value}
                            maxLength={200}
                            required
                            onInput={(e) => {
                                service.value = e.currentTarget.value;
                            }}
                        />
                    </label>
                    <button
                        type="submit"
                        class="button"
                        disabled={isBusy.value || service.value.trim() === ""}
                    >
                        {isBusy.value ? "Storing …" : "Keep"}
                    </button>
                </form>
            )}
            {problem.value && (
                <p class="open-problem" role="alert">
                    {problem.value}{" "}
                    {isOldFile.value && (
                        <button type="button" class="button small" onClick={() => keep(true)}>
                            Store it as if taken now
                        </button>
                    )}
                </p>
            )}
            <p class="muted open-hint">{keepText} Everyone who may read this server can see it.</p>
        </div>
    );
}
