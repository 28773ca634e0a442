// A batch as OTLP lays profiles out (proto 1.11, v1development): one dictionary for all of it, and a
// profile for each sample type. encode_otlp.ts and encode_otlp_json.ts only write down what is here.
import { randomBytes } from "node:crypto";
import { type MergedSample, mergeSamples, wholeNumber } from "./merge.js";
import type { Attributes, Batch, Frame, Profile, Resource, SpanLink, ValueType } from "./model.js";

export type AttributeValue = Attributes[string];

export interface OtlpFunction {
    name: number;
    file: number;
    startLine: number;
}
export interface OtlpLocation {
    function: number;
    line: number;
    column: number;
    attributes: number[];
}
export interface OtlpAttribute {
    key: number;
    value: AttributeValue;
}
/** Number 0 of every table is "none". */
export interface OtlpTables {
    strings: string[];
    functions: OtlpFunction[];
    locations: OtlpLocation[];
    links: SpanLink[];
    attributes: OtlpAttribute[];
    stacks: number[][]; // leaf first
}

export interface OtlpSample {
    stack: number;
    attributes: number[];
    link: number;
    values: number[]; // empty: 1 for each time
    times: bigint[];
}
export interface OtlpProfile {
    type: number;
    unit: number;
    samples: OtlpSample[];
    timeUnixNanos: bigint;
    durationNanos: bigint;
    periodType: [number, number] | undefined;
    period: number;
    id: Buffer | undefined;
    attributes: number[];
}
/** All types of one profile; the one to look at first is the first. */
export interface OtlpScope {
    /** Which of the types each profile is, and which is shown: as pprof has them. */
    order: number[];
    defaultType: string;
    profiles: OtlpProfile[];
}
export interface OtlpMessage {
    resource: Resource;
    scopes: OtlpScope[];
    tables: OtlpTables;
}

const noId = { traceId: "0".repeat(32), spanId: "0".repeat(16) };

/** The number of a key in a table: that of before, or a new one. */
function intern<K, T>(known: Map<K, number>, key: K, table: T[], make: () => T): number {
    let at = known.get(key);
    if (at === undefined) {
        const made = make(); // may intern more in the same table
        at = table.length;
        table.push(made);
        known.set(key, at);
    }
    return at;
}

interface Dictionary {
    tables: OtlpTables;
    string(text: string): number;
    attributes(attributes: Attributes | undefined): number[];
    link(link: SpanLink | undefined): number;
    /** From numbers of a profile's stacks to those of the table. */
    stacksOf(profile: Profile): (stack: number) => number;
}

function createDictionary(): Dictionary {
    const tables: OtlpTables = {
        strings: [""],
        functions: [{ name: 0, file: 0, startLine: 0 }],
        locations: [{ function: 0, line: 0, column: 0, attributes: [] }],
        links: [noId],
        attributes: [{ key: 0, value: "" }],
        stacks: [[]],
    };
    const strings = new Map([["", 0]]);
    const functions = new Map<string, number>();
    const locations = new Map<string, number>();
    const links = new Map<string, number>();
    const attributeIds = new Map<string, number>();
    const stacks = new Map<string, number>([["", 0]]);

    const string = (text: string): number => intern(strings, text, tables.strings, () => text);
    const attribute = (key: string, value: AttributeValue): number =>
        intern(attributeIds, JSON.stringify([key, value]), tables.attributes, () => ({
            key: string(key),
            value,
        }));
    const attributes = (given: Attributes | undefined): number[] =>
        given ? Object.entries(given).map(([key, value]) => attribute(key, value)) : [];

    function functionOf(frame: Frame): number {
        const startLine = wholeNumber(frame.startLine);
        const id = {
            name: string(frame.name || "(anonymous)"),
            file: string(frame.file),
            startLine,
        };
        return intern(functions, `${id.name} ${id.file} ${startLine}`, tables.functions, () => id);
    }
    function locationOf(frame: Frame): number {
        const of = functionOf(frame);
        const line = wholeNumber(frame.line);
        const column = line > 0 ? wholeNumber(frame.column) : 0;
        const key = `${of} ${line} ${column} ${frame.kind}`;
        return intern(locations, key, tables.locations, () => ({
            function: of,
            line,
            column,
            attributes: [attribute("profile.frame.type", frame.kind)],
        }));
    }
    function stacksOf(profile: Profile): (stack: number) => number {
        const { parent, frame } = profile.stacks;
        const locationIds: number[] = [];
        const known: number[] = [0];
        return (stack) => {
            const before = known[stack];
            if (before !== undefined) {
                return before;
            }
            const path: number[] = [];
            // A parent is older than its child: anything else would never end.
            for (let at = stack; at > 0; ) {
                const number = frame[at]!;
                locationIds[number] ??= locationOf(profile.frames[number]!);
                path.push(locationIds[number]);
                at = parent[at]! < at ? parent[at]! : 0;
            }
            const found = intern(stacks, path.join(" "), tables.stacks, () => path);
            known[stack] = found;
            return found;
        };
    }
    return {
        tables,
        string,
        attributes,
        link: (link) =>
            link && isLink(link)
                ? intern(links, link.traceId + link.spanId, tables.links, () => link)
                : 0,
        stacksOf,
    };
}

function isLink(link: SpanLink): boolean {
    return /^[0-9a-f]{32}$/i.test(link.traceId) && /^[0-9a-f]{16}$/i.test(link.spanId);
}

// ---- Profiles

export function buildOtlp(batch: Batch): OtlpMessage {
    const dictionary = createDictionary();
    const scopes = batch.profiles.map((profile) => scopeOf(profile, dictionary));
    return { resource: batch.resource, scopes, tables: dictionary.tables };
}

function scopeOf(profile: Profile, dictionary: Dictionary): OtlpScope {
    const { sampleTypes } = profile;
    const merged = mergeSamples(profile, true);
    const stackOf = dictionary.stacksOf(profile);
    const rows = merged.map((row) => ({
        row,
        stack: stackOf(row.stack),
        attributes: dictionary.attributes(row.attributes),
        link: dictionary.link(row.link),
    }));
    const shown = Math.max(
        sampleTypes.findIndex((t) => t.type === profile.defaultType),
        0,
    );
    const order = [shown, ...sampleTypes.keys()].filter((t, i) => i === 0 || t !== shown);
    const common = headerOf(profile, merged, dictionary);
    const profiles = order.map((column, i) => {
        const isCounting = countsTimes(merged, column);
        const samples = rows.map(({ row, stack, attributes, link }) => ({
            stack,
            attributes,
            link,
            values: isCounting ? [] : row.values[column]!.map(wholeNumber),
            times: row.times,
        }));
        const [type, unit] = typeIds(sampleTypes[column]!, dictionary);
        // The parts of one profile have one id: it stands in the first of them.
        return { ...common, id: i === 0 ? randomBytes(16) : undefined, type, unit, samples };
    });
    return { order, defaultType: sampleTypes[shown]!.type, profiles };
}

function typeIds(type: ValueType, dictionary: Dictionary): [number, number] {
    return [dictionary.string(type.type), dictionary.string(type.unit)];
}

/** Every value is 1 and has its time: the times say it all. */
function countsTimes(rows: MergedSample[], column: number): boolean {
    return rows.every((row) => row.times.length > 0 && row.values[column]!.every((v) => v === 1));
}

function headerOf(profile: Profile, rows: MergedSample[], dictionary: Dictionary) {
    let from = profile.startUnixNanos;
    let until = from + profile.durationNanos;
    for (const row of rows) {
        for (const time of row.times) {
            if (time < from) {
                from = time;
            }
            if (time >= until) {
                until = time + 1n;
            }
        }
    }
    return {
        timeUnixNanos: from,
        durationNanos: until - from,
        periodType: profile.periodType && typeIds(profile.periodType, dictionary),
        period: wholeNumber(profile.period ?? 0),
        attributes: dictionary.attributes(profile.attributes),
    };
}
