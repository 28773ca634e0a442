// Source lines with what each spends. The figures are of the profile; the text is shown where the
// server has it, and where it has not, how to give it some.

import { useMemo } from "preact/hooks";
import { askLines, askSource, askTop, type Source, type Top } from "../../../api/questions";
import { detail, patchView, state, ticks } from "../../../app";
import { hottestLine, lineCosts } from "../../../core/source_rows";
import { clipText, isMatch, searchPattern } from "../../../core/text_match";
import { countText, shareText } from "../../../core/units";
import { type Column, DataTable } from "../../../parts/data_table";
import { Amount } from "../../../parts/figures";
import { FileName } from "../../../parts/frame_name";
import { Command, Empty, ErrorBox, Loading } from "../../../parts/states";
import { useQuery } from "../../../parts/use_query";
import { ourWays } from "../../../parts/ways";
import { faceOf, NothingHere, questionKey, RelativeToggle, useWhole } from "./common";
import { SourceTable } from "./source_table";
import "./source.css";

function openFile(file: string) {
    detail.value = null;
    patchView({ source: file, line: 0 });
}

interface FileRow {
    file: string;
    flat: number;
    cum: number;
}

function fileColumns(unit: string, whole: number, pattern: RegExp | null): Column<FileRow>[] {
    const share = (key: "flat" | "cum", title: string): Column<FileRow> => ({
        key,
        title,
        kind: "number",
        width: "88px",
        cell: (r) => shareText(r[key], whole),
        bar: (r) => (whole === 0 ? 0 : r[key] / whole),
    });
    return [
        {
            key: "name",
            title: "File",
            kind: "text",
            width: "minmax(168px, 1fr)",
            cell: (r) => <FileName file={r.file} pattern={pattern} />,
        },
        {
            key: "amount",
            title: "Flat",
            kind: "number",
            width: "88px",
            onlyWide: true,
            cell: (r) => <Amount value={r.flat} unit={unit} />,
        },
        share("flat", "Flat %"),
        share("cum", "Cum %"),
    ];
}

/** Without a file: those that spend most. */
function FilePicker() {
    const { scope, view } = state.value;
    const byFile = { ...view, group: "files" as const };
    const q = useQuery<Top>(
        questionKey("files", scope, byFile),
        (signal) => askTop(scope, byFile, { limit: 2000 }, signal),
        ticks.value,
    );
    const whole = useWhole(q.data?.total);
    const unit = q.data?.unit ?? "";
    const pattern = useMemo(() => searchPattern(view.search), [view.search]);
    const columns = useMemo(() => fileColumns(unit, whole, pattern), [unit, whole, pattern]);
    const rows = useMemo(() => {
        const all = (q.data?.rows ?? [])
            .map((r) => ({ file: r.file || r.name, flat: r.flat, cum: r.cum }))
            .filter((r) => r.file !== "" && !/^<unknown>$|^\?\?$/.test(r.file));
        return pattern ? all.filter((r) => isMatch(pattern, r.file)) : all;
    }, [q.data, pattern]);
    const face = faceOf(q);
    if (face || !q.data) return face;
    if (q.data.rows.length === 0) return <NothingHere />;
    return (
        <Loading isOld={q.isOld}>
            <div class="view">
                <div class="view-bar">
                    <h2>Which file?</h2>
                    <span>Choose one, or select a function in another view.</span>
                </div>
                <DataTable
                    label="Files by what they spend"
                    columns={columns}
                    rows={rows}
                    rowKey={(r) => r.file}
                    onSelect={(r) => openFile(r.file)}
                />
            </div>
        </Loading>
    );
}

/** How the server gets to know the text. */
function HowToGetText(props: { source: Source | undefined; file: string }) {
    const { scope } = state.value;
    const service = scope.service || "SERVICE";
    const version = props.source?.version || "VERSION";
    const folder = props.file.slice(0, Math.max(1, props.file.lastIndexOf("/")));
    return (
        <details class="source-how">
            <summary>There is no text of this file here. How to get it</summary>
            <p>Send the sources of this version, from the folder that holds them:</p>
            <Command
                text={`vesta push --url ${ourWays().url} --sources . --service '${service}' --label 'version=${version}'`}
            />
            <p>
                Or name a folder of the server's machine in its configuration; what the profile
                calls the file comes first:
            </p>
            <Command text={`--sources-map '${clipText(folder, 200)}=/path/on/the/server'`} />
            <p>
                Or link to the host of the repository: send profiles with{" "}
                <code>vcs.repository.url.full</code> and <code>vcs.ref.head.revision</code>.
            </p>
        </details>
    );
}

/** Files in which the selected function is, when no file was chosen. */
function useFile() {
    const { scope, view } = state.value;
    const needsAsking = view.source === "" && view.selected !== "";
    const q = useQuery<Top>(
        needsAsking ? questionKey("file of", scope, { ...view, group: "functions" }) : null,
        (signal) => askTop(scope, { ...view, group: "functions" }, { limit: 10_000 }, signal),
    );
    const files = useMemo(() => {
        const rows = q.data?.rows.filter((r) => r.name === view.selected && r.file !== "") ?? [];
        return [...new Set(rows.map((r) => r.file))];
    }, [q.data, view.selected]);
    return { q, needsAsking, file: view.source || files[0] || "", files };
}

function SourceLink(props: { source: Source | undefined; line: number }) {
    const { source } = props;
    if (!source?.link || !/^https?:/.test(source.link)) return null;
    const anchor = props.line > 0 && source.line_anchor ? source.line_anchor + props.line : "";
    return (
        <a
            class="button small"
            href={source.link + anchor}
            target="_blank"
            rel="noreferrer noopener"
        >
            At {source.commit ? source.commit.slice(0, 10) : "its host"}
        </a>
    );
}

function Origin(props: { source: Source | undefined }) {
    const { source } = props;
    if (!source || source.found === "none") return null;
    const whose = source.version || source.commit?.slice(0, 10) || "";
    return (
        <span>
            {source.found === "map" ? "text from the server's machine" : `text as uploaded`}
            {whose && ` for ${whose}`}
            {source.is_exact === false && (
                <span class="source-other"> (another version: lines may be off)</span>
            )}
        </span>
    );
}

function SourceFile(props: { file: string; others: readonly string[] }) {
    const { file } = props;
    const { scope, view } = state.value;
    const q = useQuery<Top>(
        questionKey("lines", scope, view, file),
        (signal) => askLines(scope, view, file, signal),
        ticks.value,
    );
    const text = useQuery<Source>(
        questionKey("source", scope, { ...view, filters: [] }, file),
        (signal) => askSource(scope, file, signal),
    );
    const whole = useWhole(q.data?.total);
    const costs = useMemo(() => lineCosts(q.data?.rows ?? []), [q.data]);
    const hottest = useMemo(() => hottestLine(costs), [costs]);
    if (q.error?.code === "not_found")
        return (
            <Empty title="No lines of this file">
                <p>No sample here is in {clipText(file, 200)}. Choose another file or range.</p>
                <button type="button" class="button" onClick={() => openFile("")}>
                    All files
                </button>
            </Empty>
        );
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    const face = faceOf(q);
    if (face || !q.data) return face;
    const source = text.isOld ? undefined : text.data;
    return (
        <Loading isOld={q.isOld}>
            <div class="view">
                <div class="view-bar">
                    <h2 class="source-file">
                        <FileName file={file} />
                    </h2>
                    <Origin source={source} />
                    <span class="view-space" />
                    {props.others.length > 1 && (
                        <select
                            aria-label="Other files with this function"
                            value={file}
                            onChange={(e) => openFile(e.currentTarget.value)}
                        >
                            {props.others.map((f) => (
                                <option key={f}>{f}</option>
                            ))}
                        </select>
                    )}
                    <button
                        type="button"
                        class="button small"
                        onClick={() => patchView({ line: hottest }, { replace: true })}
                    >
                        Hottest line
                    </button>
                    <SourceLink source={source} line={view.line || hottest} />
                    <button
                        type="button"
                        class="button small"
                        onClick={() => patchView({ source: "", selected: "", line: 0 })}
                    >
                        All files
                    </button>
                    <RelativeToggle />
                </div>
                {source?.text === undefined && !text.isLoading && (
                    <HowToGetText source={source} file={file} />
                )}
                <SourceTable
                    file={file}
                    text={source?.text}
                    costs={costs}
                    unit={q.data.unit}
                    whole={whole}
                    line={view.line || hottest}
                />
                {q.data.all_rows > q.data.rows.length && (
                    <p class="source-cut">
                        {countText(q.data.rows.length)} of {countText(q.data.all_rows)} lines with
                        figures: the rest weighs less.
                    </p>
                )}
            </div>
        </Loading>
    );
}

export default function SourceView() {
    const { view } = state.value;
    const { q, needsAsking, file, files } = useFile();
    if (file) return <SourceFile file={file} others={files} />;
    if (!needsAsking) return <FilePicker />;
    const face = faceOf(q);
    if (face) return face;
    return (
        <Empty title="No file is known">
            <p>
                The profile does not say in which file{" "}
                <bdi>{clipText(view.selected, 200) || "(no name)"}</bdi> is. Debug information of
                its binary may help.
            </p>
            <button type="button" class="button" onClick={() => patchView({ selected: "" })}>
                All files
            </button>
        </Empty>
    );
}
