// Breakdown by an attribute of samples: what each of its values spends, and the ways to go on with
// one: only it, all but it. Values that are too many to list and samples without the attribute have
// rows too, so that it adds up.

import { useMemo } from "preact/hooks";
import type { Tag, Tags } from "../../../api/questions";
import { addFilter, patchView } from "../../../app";
import { countText } from "../../../core/units";
import type { Filter } from "../../../core/url";
import type { Column } from "../../../parts/data_table";
import { FrameName } from "../../../parts/frame_name";
import { Command, Empty, ErrorBox, Loading, Skeleton } from "../../../parts/states";
import type { Query } from "../../../parts/use_query";
import { amountColumns, usePattern, ValuesTable } from "./values_table";

export interface TagRow {
    key: string;
    name: string;
    isReal: boolean; // else what is left of the whole
    total: number;
    only?: Filter;
    without?: Filter;
}

/** Rows that add up to the whole, where no sample has several values. */
export function tagRows(tag: Tag): TagRow[] {
    const filters = (value: string | undefined, isInverse = false): Partial<TagRow> => {
        if (value === undefined) return {};
        const keep: Filter = { kind: "tagfocus", value };
        const drop: Filter = { kind: "tagignore", value };
        return isInverse ? { only: drop, without: keep } : { only: keep, without: drop };
    };
    const rows: TagRow[] = tag.values.map((v) => ({
        key: `= ${v.value}`,
        name: v.value,
        isReal: true,
        total: v.total,
        ...filters(v.filter),
    }));
    const left = tag.all_values - tag.values.length;
    if (left > 0)
        rows.push({
            key: "other",
            name: `(${countText(left)} more ${left === 1 ? "value" : "values"})`,
            isReal: false,
            total: tag.other,
        });
    if (tag.not_set !== 0)
        rows.push({
            key: "not set",
            name: "(not set)",
            isReal: false,
            total: tag.not_set,
            ...filters(tag.filter, true),
        });
    return rows;
}

function Actions(props: { row: TagRow; isAlone: boolean }) {
    const { row } = props;
    const name = row.name.slice(0, 80) || "(empty)";
    const act = (f: Filter | undefined, text: string, isOff = false) => (
        <button
            type="button"
            class="button quiet small"
            aria-label={`${text} ${name}`}
            disabled={!f || isOff}
            onClick={(e) => {
                e.stopPropagation();
                if (f) addFilter(f);
            }}
        >
            {text}
        </button>
    );
    if (row.key === "other") return null;
    return (
        <span class="labels-actions">
            {act(row.only, "Only")}
            {act(row.without, "Without", props.isAlone)}
        </span>
    );
}

function tagColumns(tag: string, unit: string, whole: number, n: number, pattern: RegExp | null) {
    const columns: Column<TagRow>[] = [
        {
            key: "name",
            title: tag,
            kind: "text",
            width: "minmax(96px, 2fr)",
            sort: (r) => r.name,
            cell: (r) =>
                r.isReal && r.name !== "" ? (
                    <FrameName name={r.name} pattern={pattern} />
                ) : (
                    <span class="muted">{r.name || "(empty)"}</span>
                ),
        },
        ...amountColumns<TagRow>(unit, whole),
        {
            key: "actions",
            title: "Go on with",
            kind: "text",
            width: "minmax(128px, 1fr)",
            cell: (r) => <Actions row={r} isAlone={n < 2} />,
        },
    ];
    return columns;
}

function Values(props: { tag: Tag; whole: number; unit: string }) {
    const { tag, whole, unit } = props;
    const pattern = usePattern();
    const rows = useMemo(() => tagRows(tag), [tag]);
    const columns = useMemo(
        () => tagColumns(tag.name, unit, whole, rows.length, pattern),
        [tag.name, unit, whole, rows.length, pattern],
    );
    return (
        <ValuesTable
            name={tag.name}
            columns={columns}
            rows={rows}
            pattern={pattern}
            whole={whole}
            unit={unit}
            nameOf={(r) => r.name}
            rowKey={(r) => r.key}
            onOpen={(r) => r.only && addFilter(r.only)}
        />
    );
}

/** How attributes come onto samples. */
function NoAttributes() {
    return (
        <Empty title="Samples carry no attributes">
            <p>
                Programs say from inside what they are doing, and samples taken meanwhile carry it:
                a route, a job, the kind of a lock.
            </p>
            <p>
                C and C++ set labels with vesta.h, Node programs with the package @vesta/node, Go
                programs with pprof.Do; vesta run adds lock.kind, memory.kind and leak.suspect by
                itself. Attributes of samples in OTLP and labels in pprof files are taken as they
                are.
            </p>
            <Command text={'vesta_label_set("http.route", "/cart");'} />
        </Empty>
    );
}

function NotThere(props: { tag: string; tags: Tags }) {
    const others = props.tags.tags.slice(0, 12);
    return (
        <Empty title={`No sample here has ${props.tag}`}>
            <p>Choose a wider range or another type, or one of the attributes that there are:</p>
            <p class="view-buttons">
                {others.map((t) => (
                    <button
                        key={t.name}
                        type="button"
                        class="button"
                        onClick={() => patchView({ tag: t.name })}
                    >
                        {t.name}
                    </button>
                ))}
            </p>
        </Empty>
    );
}

export function SampleValues(props: { tag: string; asked: Query<Tags> }) {
    const q = props.asked;
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data) return <Skeleton rows={8} />;
    if (q.data.tags.length === 0) return <NoAttributes />;
    const tag = q.data.tags.find((t) => t.name === props.tag);
    if (!tag) return <NotThere tag={props.tag} tags={q.data} />;
    return (
        <Loading isOld={q.isOld}>
            {tag.repeated !== 0 && (
                <ul class="view-notes">
                    <li>Samples with several values of {tag.name} count for each of them.</li>
                </ul>
            )}
            <Values tag={tag} whole={q.data.total} unit={q.data.unit} />
        </Loading>
    );
}
