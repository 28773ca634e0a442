// OTLP profiles as protobuf: ExportProfilesServiceRequest, current layout (1.11, v1development).
import type { Batch } from "./model.js";
import {
    type AttributeValue,
    buildOtlp,
    type OtlpMessage,
    type OtlpProfile,
    type OtlpSample,
    type OtlpScope,
    type OtlpTables,
} from "./otlp_tables.js";
import { createProtobufWriter, type ProtobufWriter } from "./protobuf.js";
import { sdkName, sdkVersion } from "./version.js";

export function encodeOtlp(batch: Batch): Buffer {
    return writeOtlp(buildOtlp(batch));
}

export function writeOtlp({ resource, scopes, tables }: OtlpMessage): Buffer {
    const w = createProtobufWriter();
    w.message(1, () => {
        w.message(1, () => {
            for (const [key, value] of Object.entries(resource)) {
                writeKeyValue(w, 1, key, value);
            }
        });
        for (const scope of scopes) {
            w.message(2, () => writeScope(w, scope));
        }
    });
    w.message(2, () => writeTables(w, tables));
    return w.finish();
}

// ---- Values. Those of the resource stand there themselves: not every receiver looks up texts.

function writeKeyValue(w: ProtobufWriter, field: number, key: string, value: AttributeValue): void {
    w.message(field, () => {
        w.text(1, key);
        w.message(2, () => writeValue(w, value));
    });
}

function writeValue(w: ProtobufWriter, value: AttributeValue | number[]): void {
    if (typeof value === "string") {
        w.text(1, value);
    } else if (typeof value === "boolean") {
        w.signed(2, value ? 1n : 0n);
    } else if (Array.isArray(value)) {
        w.message(5, () => {
            for (const item of value) {
                w.message(1, () => writeValue(w, item));
            }
        });
    } else if (Number.isSafeInteger(value)) {
        w.signed(3, BigInt(value));
    } else {
        w.double(4, value);
    }
}

// ---- Profiles

function writeScope(w: ProtobufWriter, scope: OtlpScope): void {
    w.message(1, () => {
        w.text(1, sdkName);
        w.text(2, sdkVersion);
        if (scope.order.length > 1) {
            w.message(3, () => {
                w.text(1, "pprof.scope.sample_type_order");
                w.message(2, () => writeValue(w, scope.order));
            });
        }
        writeKeyValue(w, 3, "pprof.scope.default_sample_type", scope.defaultType);
    });
    for (const profile of scope.profiles) {
        w.message(2, () => writeProfile(w, profile));
    }
}

function writeType(w: ProtobufWriter, field: number, type: number, unit: number): void {
    w.message(field, () => {
        w.number(1, type);
        w.number(2, unit);
    });
}

function writeProfile(w: ProtobufWriter, profile: OtlpProfile): void {
    writeType(w, 1, profile.type, profile.unit);
    for (const sample of profile.samples) {
        w.message(2, () => writeSample(w, sample));
    }
    w.fixed64(3, profile.timeUnixNanos);
    w.big(4, profile.durationNanos);
    if (profile.periodType) {
        writeType(w, 5, ...profile.periodType);
    }
    w.number(6, profile.period);
    if (profile.id) {
        w.bytes(7, profile.id);
    }
    w.packed(11, profile.attributes);
}

function writeSample(w: ProtobufWriter, sample: OtlpSample): void {
    w.number(1, sample.stack);
    w.packed(2, sample.attributes);
    w.number(3, sample.link);
    w.packed(4, sample.values);
    w.packedFixed64(5, sample.times);
}

// ---- The dictionary

function writeTables(w: ProtobufWriter, tables: OtlpTables): void {
    w.message(1, () => {}); // mappings: V8's code lies in none
    for (const location of tables.locations) {
        w.message(2, () => {
            if (location.function > 0) {
                w.message(3, () => {
                    w.number(1, location.function);
                    w.number(2, location.line);
                    w.number(3, location.column);
                });
            }
            w.packed(4, location.attributes);
        });
    }
    for (const of of tables.functions) {
        w.message(3, () => {
            w.number(1, of.name);
            w.number(3, of.file);
            w.number(4, of.startLine);
        });
    }
    for (const link of tables.links) {
        w.message(4, () => {
            w.bytes(1, Buffer.from(link.traceId, "hex"));
            w.bytes(2, Buffer.from(link.spanId, "hex"));
        });
    }
    for (const text of tables.strings) {
        w.text(5, text);
    }
    tables.attributes.forEach(({ key, value }, i) => {
        w.message(6, () => {
            w.number(1, key);
            if (i > 0) {
                w.message(2, () => writeValue(w, value));
            }
        });
    });
    for (const stack of tables.stacks) {
        w.message(7, () => w.packed(1, stack));
    }
}
