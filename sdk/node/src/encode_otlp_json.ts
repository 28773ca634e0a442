// OTLP profiles as JSON: names in camel case, ids in hexadecimal digits, 64-bit numbers as texts, and
// nothing where a value is 0.
import type { Batch } from "./model.js";
import {
    type AttributeValue,
    buildOtlp,
    type OtlpMessage,
    type OtlpProfile,
    type OtlpScope,
    type OtlpTables,
} from "./otlp_tables.js";
import { sdkName, sdkVersion } from "./version.js";

export function encodeOtlpJson(batch: Batch): Buffer {
    return writeOtlpJson(buildOtlp(batch));
}

export function writeOtlpJson({ resource, scopes, tables }: OtlpMessage): Buffer {
    const request = {
        resourceProfiles: [
            {
                resource: {
                    attributes: Object.entries(resource).map(([k, v]) => keyValueOf(k, v)),
                },
                scopeProfiles: scopes.map(scopeOf),
            },
        ],
        dictionary: dictionaryOf(tables),
    };
    return Buffer.from(JSON.stringify(request));
}

/** Left out by JSON.stringify. */
function unlessZero(value: number): number | undefined {
    return value === 0 ? undefined : value;
}
function textUnlessZero(value: number | bigint): string | undefined {
    return value === 0 || value === 0n ? undefined : String(value);
}
function unlessEmpty<T>(list: T[]): T[] | undefined {
    return list.length === 0 ? undefined : list;
}

function keyValueOf(key: string, value: AttributeValue | number[]) {
    return { key, value: anyValueOf(value) };
}

function anyValueOf(value: AttributeValue | number[]): Record<string, unknown> {
    if (typeof value === "string") {
        return { stringValue: value };
    }
    if (typeof value === "boolean") {
        return { boolValue: value };
    }
    if (Array.isArray(value)) {
        return { arrayValue: { values: value.map(anyValueOf) } };
    }
    if (Number.isSafeInteger(value)) {
        return { intValue: String(value) };
    }
    return { doubleValue: Number.isFinite(value) ? value : String(value) };
}

function scopeOf(scope: OtlpScope) {
    const shown = keyValueOf("pprof.scope.default_sample_type", scope.defaultType);
    const order = keyValueOf("pprof.scope.sample_type_order", scope.order);
    const attributes = scope.order.length > 1 ? [order, shown] : [shown];
    return {
        scope: { name: sdkName, version: sdkVersion, attributes },
        profiles: scope.profiles.map(profileOf),
    };
}

function typeOf(type: number, unit: number) {
    return { typeStrindex: unlessZero(type), unitStrindex: unlessZero(unit) };
}

function profileOf(profile: OtlpProfile) {
    return {
        sampleType: typeOf(profile.type, profile.unit),
        samples: profile.samples.map((sample) => ({
            stackIndex: unlessZero(sample.stack),
            attributeIndices: unlessEmpty(sample.attributes),
            linkIndex: unlessZero(sample.link),
            values: unlessEmpty(sample.values.map(String)),
            timestampsUnixNano: unlessEmpty(sample.times.map(String)),
        })),
        timeUnixNano: String(profile.timeUnixNanos),
        durationNano: textUnlessZero(profile.durationNanos),
        periodType: profile.periodType && typeOf(...profile.periodType),
        period: textUnlessZero(profile.period),
        profileId: profile.id?.toString("hex"),
        attributeIndices: unlessEmpty(profile.attributes),
    };
}

function dictionaryOf(tables: OtlpTables) {
    return {
        mappingTable: [{}],
        locationTable: tables.locations.map((location) => ({
            lines:
                location.function === 0
                    ? undefined
                    : [
                          {
                              functionIndex: location.function,
                              line: textUnlessZero(location.line),
                              column: textUnlessZero(location.column),
                          },
                      ],
            attributeIndices: unlessEmpty(location.attributes),
        })),
        functionTable: tables.functions.map((of) => ({
            nameStrindex: unlessZero(of.name),
            filenameStrindex: unlessZero(of.file),
            startLine: textUnlessZero(of.startLine),
        })),
        linkTable: tables.links,
        stringTable: tables.strings,
        attributeTable: tables.attributes.map(({ key, value }, i) =>
            i === 0 ? {} : { keyStrindex: key, value: anyValueOf(value) },
        ),
        stackTable: tables.stacks.map((stack) => ({ locationIndices: unlessEmpty(stack) })),
    };
}
