// One profile as pprof, not yet compressed. Spans become the labels trace_id and span_id; times of
// single samples have no place there. What is known of the process stands in the comments.
import { mergeSamples, parentOf, wholeNumber } from "./merge.js";
import type { Attributes, Frame, Profile, Resource, ValueType } from "./model.js";
import { createProtobufWriter, type ProtobufWriter } from "./protobuf.js";

/** Interned texts: number 0 is the empty one. */
interface Strings {
    all: string[];
    id(text: string): number;
}

function createStrings(): Strings {
    const all = [""];
    const known = new Map([["", 0]]);
    return {
        all,
        id(text) {
            let at = known.get(text);
            if (at === undefined) {
                at = all.push(text) - 1;
                known.set(text, at);
            }
            return at;
        },
    };
}

export function encodePprof(profile: Profile, resource: Resource): Buffer {
    const w = createProtobufWriter();
    const strings = createStrings();
    const frames = createFrames(w, strings);
    const stackOf = stackReader(profile, frames.id);
    for (const type of profile.sampleTypes) {
        writeType(w, 1, type, strings);
    }
    for (const row of mergeSamples(profile, false)) {
        w.message(2, () => {
            w.packed(1, stackOf(row.stack));
            w.packed(
                2,
                row.values.map((value) => wholeNumber(value[0]!)),
            );
            if (row.link) {
                writeLabel(w, strings, "trace_id", row.link.traceId);
                writeLabel(w, strings, "span_id", row.link.spanId);
            }
            for (const [key, value] of Object.entries(row.attributes ?? {})) {
                writeLabel(w, strings, key, value);
            }
        });
    }
    frames.write();
    writeHeader(w, strings, profile, resource);
    for (const text of strings.all) {
        w.text(6, text);
    }
    return w.finish();
}

function writeHeader(
    w: ProtobufWriter,
    strings: Strings,
    profile: Profile,
    resource: Resource,
): void {
    w.big(9, profile.startUnixNanos);
    w.big(10, profile.durationNanos);
    if (profile.periodType) {
        writeType(w, 11, profile.periodType, strings);
        w.number(12, wholeNumber(profile.period ?? 0));
    }
    const comments = Object.entries({ ...resource, ...profile.attributes });
    w.packed(
        13,
        comments.map(([key, value]) => strings.id(`${key}=${textOf(value)}`)),
    );
    w.number(14, strings.id(profile.defaultType));
}

function textOf(value: Attributes[string]): string {
    return Array.isArray(value) ? value.join(",") : String(value);
}

function writeType(w: ProtobufWriter, field: number, type: ValueType, strings: Strings): void {
    w.message(field, () => {
        w.number(1, strings.id(type.type));
        w.number(2, strings.id(type.unit));
    });
}

function writeLabel(
    w: ProtobufWriter,
    strings: Strings,
    key: string,
    value: Attributes[string],
): void {
    w.message(3, () => {
        w.number(1, strings.id(key));
        if (typeof value === "number" && Number.isSafeInteger(value) && value !== 0) {
            w.signed(3, BigInt(value));
        } else {
            w.number(2, strings.id(textOf(value)));
        }
    });
}

/** Numbers of locations, leaf first. */
function stackReader({ frames, stacks }: Profile, idOf: (frame: Frame) => number) {
    const ids: number[] = []; // by frame
    return (stack: number): number[] => {
        const path: number[] = [];
        for (let at = stack; at > 0; at = parentOf(stacks, at)) {
            const frame = stacks.frame[at]!;
            ids[frame] ??= idOf(frames[frame]!);
            path.push(ids[frame]);
        }
        return path;
    };
}

/** Locations and functions, numbered from 1. */
function createFrames(w: ProtobufWriter, strings: Strings) {
    const functions = new Map<string, { id: number; name: number; file: number; line: number }>();
    const locations = new Map<string, { id: number; of: number; line: number; column: number }>();
    return {
        id(frame: Frame): number {
            const name = strings.id(frame.name || "(anonymous)");
            const file = strings.id(frame.file);
            const start = wholeNumber(frame.startLine);
            const key = `${name} ${file} ${start}`;
            let found = functions.get(key);
            if (!found) {
                found = { id: functions.size + 1, name, file, line: start };
                functions.set(key, found);
            }
            const line = wholeNumber(frame.line);
            const column = line > 0 ? wholeNumber(frame.column) : 0;
            const place = `${found.id} ${line} ${column}`;
            let location = locations.get(place);
            if (!location) {
                location = { id: locations.size + 1, of: found.id, line, column };
                locations.set(place, location);
            }
            return location.id;
        },
        write(): void {
            for (const location of locations.values()) {
                w.message(4, () => {
                    w.number(1, location.id);
                    w.message(4, () => {
                        w.number(1, location.of);
                        w.number(2, location.line);
                        w.number(3, location.column);
                    });
                });
            }
            for (const of of functions.values()) {
                w.message(5, () => {
                    w.number(1, of.id);
                    w.number(2, of.name);
                    w.number(3, of.name);
                    w.number(4, of.file);
                    w.number(5, of.line);
                });
            }
        },
    };
}
