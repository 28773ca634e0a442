// Any profile file: look at it, compare it, keep it. Files are questions that carry their own data;
// nothing is stored unless somebody says so.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { addLocalFile, localFiles } from "../../api/files";
import { type Stat, askStat } from "../../api/facts";
import { amountText } from "../../core/units";
import { useQuery } from "../../parts/use_query";
import { FileCard } from "./file_card";
import { StartHere } from "./start_here";
import "./open.css";

/** Why a file cannot be sent, before it is tried; "" when it can. */
export function tooLarge(name: string, size: number, limits: Stat["limits"]): string {
    if (!limits) return "";
    const isHeap = /\.heapsnapshot(\.gz|\.zst)?$/.test(name);
    const limit = isHeap ? limits.upload_bytes : limits.body_bytes;
    if (size <= limit) return "";
    const key = isHeap ? "limits.upload" : "limits.body";
    return `${name} has ${amountText(size, "bytes")}; this server takes ${amountText(limit, "bytes")} at most (${key}).`;
}

export default function OpenPage() {
    const isOver = useSignal(false);
    const problem = useSignal("");
    const stat = useQuery("open.stat", askStat);
    const limits = stat.data?.limits;

    const add = (list: Iterable<File>) => {
        const refused: string[] = [];
        for (const f of list) {
            const why = f.size === 0 ? `${f.name} is empty.` : tooLarge(f.name, f.size, limits);
            if (why) refused.push(why);
            else addLocalFile(f.name, f);
        }
        problem.value = refused.join(" ");
    };

    useEffect(() => {
        const onPaste = (e: ClipboardEvent) => {
            const target = e.target as HTMLElement | null;
            if (target && /^(INPUT|TEXTAREA)$/.test(target.tagName)) return;
            const files = e.clipboardData?.files;
            const text = e.clipboardData?.getData("text/plain") ?? "";
            if (files && files.length > 0) add(files);
            else if (text.trim()) add([new File([text], "pasted.txt")]);
            else return;
            e.preventDefault();
        };
        document.addEventListener("paste", onPaste);
        return () => document.removeEventListener("paste", onPaste);
    });

    const files = localFiles.value;
    return (
        <div
            class="page open"
            onDragOver={(e) => {
                e.preventDefault();
                isOver.value = true;
            }}
            onDragLeave={(e) => {
                if (e.currentTarget === e.target) isOver.value = false;
            }}
            onDrop={(e) => {
                e.preventDefault();
                isOver.value = false;
                add(e.dataTransfer?.files ?? []);
            }}
        >
            <h1>Open file</h1>
            <p class="lead">
                Look at a profile of any format. The file stays in this browser tab: it goes to this
                server with each question, which answers and forgets it. Nothing is stored until you
                choose to keep it.
            </p>
            <label class={isOver.value ? "open-drop is-over" : "open-drop"}>
                <input
                    type="file"
                    multiple
                    class="sr-only"
                    onChange={(e) => {
                        add(e.currentTarget.files ?? []);
                        e.currentTarget.value = "";
                    }}
                />
                <span class="open-drop-title">
                    Drop files here, paste, or <u>choose files</u>
                </span>
                <span class="muted">
                    pprof, OTLP, JFR, perf, collapsed stacks, speedscope, cpuprofile, heap
                    snapshots, callgrind and more; packed with gzip or zstd, too
                    {limits && `. Up to ${amountText(limits.body_bytes, "bytes")}`}
                </span>
            </label>
            {problem.value && (
                <p class="open-problem" role="alert">
                    {problem.value}
                </p>
            )}
            {files.length === 0 && <StartHere />}
            {files.length > 0 && (
                <>
                    <h2>
                        {files.length === 1
                            ? "Open in this tab"
                            : `${files.length} files open in this tab`}
                    </h2>
                    <ul class="open-files">
                        {[...files].reverse().map((f) => (
                            <li key={f.key}>
                                <FileCard file={f} stat={stat.data} />
                            </li>
                        ))}
                    </ul>
                </>
            )}
        </div>
    );
}
