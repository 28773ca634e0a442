// What is on screen, as a file for other tools. Files are fetched with the token and handed to the
// browser, so that they work for local files and for servers that ask who one is.

import { useState } from "preact/hooks";
import type { ApiError, Params } from "../api/client";
import { ask, askTop, filterParams, frameParams } from "../api/questions";
import { copyText, say, state } from "../app";
import { cliCommand, csvText } from "../core/export_text";
import { timeParam } from "../core/time";
import type { State } from "../core/url";
import { download, picture } from "./export_menu";

interface Kind {
    name: string;
    note: string;
    extension: string;
    get: (s: State) => Promise<Blob>;
}

function viewParams(s: State): Params {
    return { ...filterParams(s.view), ...frameParams(s.view) };
}

function route(path: string, more: (s: State) => Params = () => ({})) {
    return async (s: State) =>
        (await ask(path, s.scope, { ...filterParams(s.view), ...more(s) })).blob();
}

/** What is on screen; of other views the server's picture, painted. */
async function png(s: State): Promise<Blob> {
    const drawn = picture.current?.();
    if (drawn) return drawn;
    const p = { ...viewParams(s), invert: s.view.invert };
    const svg = await (await ask("flame.svg", s.scope, p)).blob();
    const url = URL.createObjectURL(svg.slice(0, svg.size, "image/svg+xml"));
    try {
        const image = new Image();
        image.src = url;
        await image.decode();
        const canvas = document.createElement("canvas");
        const scale = Math.min(2, 16000 / image.height, 16000 / image.width);
        canvas.width = image.width * scale;
        canvas.height = image.height * scale;
        const c = canvas.getContext("2d")!;
        c.fillStyle = "#fff";
        c.fillRect(0, 0, canvas.width, canvas.height);
        c.drawImage(image, 0, 0, canvas.width, canvas.height);
        return await new Promise((done, fail) =>
            canvas.toBlob((b) => (b ? done(b) : fail(new Error("too large to paint")))),
        );
    } finally {
        URL.revokeObjectURL(url);
    }
}

async function csv(s: State): Promise<Blob> {
    const top = await askTop(s.scope, s.view, { limit: 100000 });
    const rows = top.rows.map((r) => [r.name, r.file, r.flat, r.cum]);
    const head = ["function", "file", `flat (${top.unit})`, `cum (${top.unit})`];
    return new Blob([csvText([head, ...rows])], { type: "text/csv" });
}

const svgParams = (s: State): Params => ({ ...frameParams(s.view), invert: s.view.invert });

const KINDS: Kind[] = [
    { name: "pprof", note: "go tool pprof", extension: "pb.gz", get: route("profile.pb.gz") },
    { name: "OTLP", note: "protobuf", extension: "otlp", get: route("profile.otlp") },
    { name: "SVG", note: "any browser", extension: "svg", get: route("flame.svg", svgParams) },
    { name: "PNG", note: "for a report", extension: "png", get: png },
    {
        name: "Speedscope",
        note: "speedscope.app",
        extension: "speedscope.json",
        get: route("profile.speedscope.json"),
    },
    {
        name: "Collapsed",
        note: "stacks as lines",
        extension: "folded",
        get: route("profile.folded"),
    },
    {
        name: "JSON",
        note: "the tree",
        extension: "json",
        get: route("flame", (s) => ({ ...svgParams(s), max_nodes: 1000000, format: "json" })),
    },
    { name: "CSV", note: "functions as a table", extension: "csv", get: csv },
    {
        name: "HTML",
        note: "this viewer in one file",
        extension: "html",
        get: route("flame.html", svgParams),
    },
];

function fileName(s: State, extension: string): string {
    const parts = [
        s.scope.service || s.scope.file || "all",
        s.scope.type.split(":")[0] || "profile",
    ];
    const when = timeParam(Date.now()).slice(0, 16).replace(/[-:]/g, "");
    return `${[...parts, when].join("-").replace(/[^\w.-]+/g, "_")}.${extension}`;
}

export function ExportPanel(props: { close: () => void }) {
    const [busy, setBusy] = useState("");
    const take = async (kind: Kind) => {
        const s = state.value;
        setBusy(kind.name);
        try {
            download(fileName(s, kind.extension), await kind.get(s));
            props.close();
        } catch (e) {
            say(`${kind.name}: ${(e as ApiError).message}`);
        }
        setBusy("");
    };
    return (
        <div class="export">
            {KINDS.map((k) => (
                <button
                    key={k.name}
                    type="button"
                    class="menu-row"
                    disabled={busy !== ""}
                    onClick={() => take(k)}
                >
                    <span>{k.name}</span>
                    <small>{busy === k.name ? "on its way…" : k.note}</small>
                </button>
            ))}
            <hr />
            <button
                type="button"
                class="menu-row"
                onClick={() => {
                    props.close();
                    const base = document.baseURI.replace(/\/$/, "");
                    copyText(cliCommand(state.value, base), "Command");
                }}
            >
                <span>Copy as command</span>
                <small>vesta top …</small>
            </button>
        </div>
    );
}
