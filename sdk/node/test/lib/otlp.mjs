// The schema of OTLP profiles 1.11 and of pprof, and what a request holds when its tables are looked
// up, for tests.
import { decode } from "./protobuf.mjs";

const anyValue = {
    stringValue: [1, "text"],
    boolValue: [2, "number"],
    intValue: [3, "number"],
    doubleValue: [4, "double"],
};
anyValue.arrayValue = [5, "message", { values: [1, ["message"], anyValue] }];
const keyValue = { key: [1, "text"], value: [2, "message", anyValue] };
const valueType = { typeStrindex: [1, "number"], unitStrindex: [2, "number"] };
const sample = {
    stackIndex: [1, "number"],
    attributeIndices: [2, "packed"],
    linkIndex: [3, "number"],
    values: [4, "packed"],
    timestampsUnixNano: [5, "packedFixed64"],
};
const profile = {
    sampleType: [1, "message", valueType],
    samples: [2, ["message"], sample],
    timeUnixNano: [3, "fixed64"],
    durationNano: [4, "big"],
    periodType: [5, "message", valueType],
    period: [6, "big"],
    profileId: [7, "bytes"],
    attributeIndices: [11, "packed"],
};
const scope = { name: [1, "text"], version: [2, "text"], attributes: [3, ["message"], keyValue] };
const line = { functionIndex: [1, "number"], line: [2, "number"], column: [3, "number"] };
const dictionary = {
    mappingTable: [1, ["message"], {}],
    locationTable: [
        2,
        ["message"],
        { lines: [3, ["message"], line], attributeIndices: [4, "packed"] },
    ],
    functionTable: [
        3,
        ["message"],
        { nameStrindex: [1, "number"], filenameStrindex: [3, "number"], startLine: [4, "number"] },
    ],
    linkTable: [4, ["message"], { traceId: [1, "bytes"], spanId: [2, "bytes"] }],
    stringTable: [5, ["text"]],
    attributeTable: [
        6,
        ["message"],
        { keyStrindex: [1, "number"], value: [2, "message", anyValue] },
    ],
    stackTable: [7, ["message"], { locationIndices: [1, "packed"] }],
};
const request = {
    resourceProfiles: [
        1,
        ["message"],
        {
            resource: [1, "message", { attributes: [1, ["message"], keyValue] }],
            scopeProfiles: [
                2,
                ["message"],
                { scope: [1, "message", scope], profiles: [2, ["message"], profile] },
            ],
        },
    ],
    dictionary: [2, "message", dictionary],
};

export function decodeOtlp(body) {
    return decode(body, request);
}

function plainValue(value = {}) {
    if (value.arrayValue) return (value.arrayValue.values ?? []).map(plainValue);
    if (value.boolValue !== undefined) return Boolean(value.boolValue);
    return (
        value.stringValue ??
        (value.intValue === undefined ? value.doubleValue : Number(value.intValue))
    );
}

const attributesOf = (list = []) =>
    Object.fromEntries(list.map((a) => [a.key, plainValue(a.value)]));
const hex = (id) => (typeof id === "string" ? id : id.toString("hex"));

/** Protobuf and JSON alike, with names in place of numbers. */
export function resolveOtlp(message) {
    const d = message.dictionary;
    const text = (i = 0) => d.stringTable[i];
    const attributes = (ids = []) =>
        Object.fromEntries(
            ids.map((i) => [
                text(d.attributeTable[i].keyStrindex),
                plainValue(d.attributeTable[i].value),
            ]),
        );
    const type = (t) => t && `${text(t.typeStrindex)}/${text(t.unitStrindex)}`;
    const frame = (i) => {
        const location = d.locationTable[i];
        const [place] = location.lines;
        const of = d.functionTable[place.functionIndex];
        return {
            name: text(of.nameStrindex),
            file: text(of.filenameStrindex),
            startLine: Number(of.startLine ?? 0),
            line: Number(place.line ?? 0),
            column: Number(place.column ?? 0),
            ...attributes(location.attributeIndices),
        };
    };
    const link = (i = 0) =>
        i === 0 ? undefined : [hex(d.linkTable[i].traceId), hex(d.linkTable[i].spanId)];
    const [resource] = message.resourceProfiles;
    return {
        resource: attributesOf(resource.resource.attributes),
        scopes: resource.scopeProfiles.map(({ scope: s, profiles }) => ({
            name: s.name,
            attributes: attributesOf(s.attributes),
            profiles: profiles.map((p) => ({
                type: type(p.sampleType),
                time: BigInt(p.timeUnixNano),
                duration: BigInt(p.durationNano ?? 0),
                periodType: type(p.periodType),
                period: Number(p.period ?? 0),
                id: p.profileId && hex(p.profileId),
                attributes: attributes(p.attributeIndices),
                samples: p.samples.map((one) => ({
                    stack: (d.stackTable[one.stackIndex ?? 0].locationIndices ?? []).map(frame),
                    link: link(one.linkIndex),
                    attributes: attributes(one.attributeIndices),
                    values: (one.values ?? []).map(Number),
                    times: (one.timestampsUnixNano ?? []).map(BigInt),
                })),
            })),
        })),
    };
}

const label = {
    key: [1, "number"],
    str: [2, "number"],
    num: [3, "number"],
};
const pprof = {
    sampleType: [1, ["message"], { type: [1, "number"], unit: [2, "number"] }],
    sample: [
        2,
        ["message"],
        { locationId: [1, "packed"], value: [2, "packed"], label: [3, ["message"], label] },
    ],
    location: [
        4,
        ["message"],
        {
            id: [1, "number"],
            line: [
                4,
                ["message"],
                { functionId: [1, "number"], line: [2, "number"], column: [3, "number"] },
            ],
        },
    ],
    function: [
        5,
        ["message"],
        {
            id: [1, "number"],
            name: [2, "number"],
            systemName: [3, "number"],
            filename: [4, "number"],
            startLine: [5, "number"],
        },
    ],
    strings: [6, ["text"]],
    timeNanos: [9, "big"],
    durationNanos: [10, "big"],
    periodType: [11, "message", { type: [1, "number"], unit: [2, "number"] }],
    period: [12, "number"],
    comment: [13, "packed"],
    defaultSampleType: [14, "number"],
};

export function decodePprof(body) {
    const p = decode(body, pprof);
    const text = (i = 0) => p.strings[i];
    const functions = new Map(p.function.map((f) => [f.id, f]));
    const locations = new Map(p.location.map((l) => [l.id, l]));
    return {
        types: p.sampleType.map((t) => `${text(t.type)}/${text(t.unit)}`),
        defaultType: text(p.defaultSampleType),
        time: p.timeNanos,
        duration: p.durationNanos,
        period: p.period,
        comments: p.comment.map(text),
        samples: p.sample.map((s) => ({
            stack: s.locationId.map((id) => {
                const [place] = locations.get(id).line;
                const of = functions.get(place.functionId);
                return `${text(of.name)} ${text(of.filename)}:${place.line ?? 0}`;
            }),
            values: s.value,
            labels: Object.fromEntries(s.label.map((l) => [text(l.key), l.num ?? text(l.str)])),
        })),
    };
}
