// A batch as OTLP lays profiles out (proto 1.11, v1development): one dictionary for all of it, and a
// profile for each sample type. encode_otlp.ts and encode_otlp_json.ts only write down what is here.
import { randomBytes } from "node:crypto";
import { type MergedSample, mergeSamples, parentOf, wholeNumber } from "./merge.js";
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

const nothing: number[] = [];

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

    const string = (text: string): number => intern(strings, text, tables.strings, () => text);
    const attribute = (key: string, value: AttributeValue): number =>
        intern(attributeIds, JSON.stringify([key, value]), tables.attributes, () => ({
            key: string(key),
            value,
        }));
    const attributes = (given: Attributes | undefined): number[] =>
        given ? Object.entries(given).map(([key, value]) => attribute(key, value)) : nothing;

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
    return {
        tables,
        string,
        attributes,
        link: (link) =>
            link && isLink(link)
                ? intern(links, link.traceId + link.spanId, tables.links, () => link)
                : 0,
        stacksOf: createStacks(tables, locationOf),
    };
}

/** All profiles' stacks in one trie, so that those that are equal are one, however they are numbered.
 * Only those of samples are written. */
function createStacks(tables: OtlpTables, locationOf: (frame: Frame) => number) {
    const nodes = new Map<number, number>();
    const parents = [0];
    const locations = [0];
    const written = [0]; // by node: its number in the table

    function nodeOf(parent: number, location: number): number {
        const key = parent * 2 ** 26 + location;
        let node = nodes.get(key);
        if (node === undefined) {
            node = parents.push(parent) - 1;
            locations.push(location);
            nodes.set(key, node);
        }
        return node;
    }
    function numberOf(node: number): number {
        let number = written[node];
        if (number === undefined) {
            const path: number[] = [];
            for (let at = node; at > 0; at = parents[at]!) {
                path.push(locations[at]!);
            }
            number = tables.stacks.push(path) - 1;
            written[node] = number;
        }
        return number;
    }
    return ({ frames, stacks }: Profile): ((stack: number) => number) => {
        const locationIds: number[] = [];
        const known = [0];
        return (stack) => {
            const path: number[] = [];
            for (let at = stack; known[at] === undefined; at = parentOf(stacks, at)) {
                path.push(at);
            }
            while (path.length > 0) {
                const at = path.pop()!;
                const frame = stacks.frame[at]!;
                locationIds[frame] ??= locationOf(frames[frame]!);
                known[at] = nodeOf(known[parentOf(stacks, at)]!, locationIds[frame]);
            }
            return numberOf(known[stack]!);
        };
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
