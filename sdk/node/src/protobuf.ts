// Writes protobuf: the few kinds of fields that OTLP and pprof have. Values of 0 are left out where
// the format takes them for unset.

export interface ProtobufWriter {
    /** A number from 0 on; negative ones and parts are for nobody here. */
    number(field: number, value: number): void;
    big(field: number, value: bigint): void;
    fixed64(field: number, value: bigint): void;
    double(field: number, value: number): void;
    text(field: number, value: string): void;
    bytes(field: number, value: Uint8Array): void;
    /** Also when it is empty. */
    message(field: number, fill: () => void): void;
    packed(field: number, values: readonly number[]): void;
    packedFixed64(field: number, values: readonly bigint[]): void;
    /** A value within a oneof: written though it is 0. May be negative. */
    signed(field: number, value: bigint): void;
    finish(): Buffer;
}

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;

/** As it is written: what is no number from 0 on is 0. */
function varintSize(value: number): number {
    let size = 1;
    const known = value <= Number.MAX_SAFE_INTEGER ? value : 0;
    for (let rest = known; rest >= 0x80; rest = Math.floor(rest / 128)) {
        size++;
    }
    return size;
}

export function createProtobufWriter(): ProtobufWriter {
    let buffer = Buffer.allocUnsafe(64 << 10);
    let at = 0;

    function reserve(bytes: number): void {
        if (at + bytes > buffer.length) {
            const larger = Buffer.allocUnsafe(Math.max(buffer.length * 2, at + bytes));
            buffer.copy(larger, 0, 0, at);
            buffer = larger;
        }
    }
    function varint(value: number): void {
        if (at + 10 > buffer.length) {
            reserve(10);
        }
        let rest = value > 0 && value <= Number.MAX_SAFE_INTEGER ? value : 0;
        for (; rest >= 0x80; rest = Math.floor(rest / 128)) {
            buffer[at++] = (rest % 128) | 0x80;
        }
        buffer[at++] = rest;
    }
    function bigVarint(value: bigint): void {
        reserve(10);
        let rest = BigInt.asUintN(64, value);
        for (; rest >= 0x80n; rest >>= 7n) {
            buffer[at++] = Number(rest & 0x7fn) | 0x80;
        }
        buffer[at++] = Number(rest);
    }
    const tag = (field: number, kind: number): void => varint(field * 8 + kind);

    /** The length goes before what it is of: one byte is kept for it, and more are made room for. */
    function delimited(field: number, fill: () => void): void {
        tag(field, LENGTH);
        reserve(1);
        const start = ++at;
        fill();
        const length = at - start;
        const extra = varintSize(length) - 1;
        if (extra > 0) {
            reserve(extra);
            buffer.copyWithin(start + extra, start, at);
        }
        at = start - 1;
        varint(length);
        at += length;
    }

    return {
        number(field, value) {
            if (value > 0) {
                tag(field, VARINT);
                varint(value);
            }
        },
        big(field, value) {
            if (value !== 0n) {
                tag(field, VARINT);
                bigVarint(value);
            }
        },
        signed(field, value) {
            tag(field, VARINT);
            bigVarint(value);
        },
        fixed64(field, value) {
            tag(field, FIXED64);
            reserve(8);
            at = buffer.writeBigUInt64LE(BigInt.asUintN(64, value), at);
        },
        double(field, value) {
            tag(field, FIXED64);
            reserve(8);
            at = buffer.writeDoubleLE(value, at);
        },
        text(field, value) {
            const length = Buffer.byteLength(value);
            tag(field, LENGTH);
            varint(length);
            reserve(length);
            at += buffer.write(value, at);
        },
        bytes(field, value) {
            tag(field, LENGTH);
            varint(value.length);
            reserve(value.length);
            buffer.set(value, at);
            at += value.length;
        },
        message: delimited,
        packed(field, values) {
            if (values.length > 0) {
                let length = 0;
                for (const value of values) {
                    length += varintSize(value);
                }
                tag(field, LENGTH);
                varint(length);
                for (const value of values) {
                    varint(value);
                }
            }
        },
        packedFixed64(field, values) {
            if (values.length > 0) {
                tag(field, LENGTH);
                varint(values.length * 8);
                reserve(values.length * 8);
                for (const value of values) {
                    at = buffer.writeBigUInt64LE(BigInt.asUintN(64, value), at);
                }
            }
        },
        finish: () => buffer.subarray(0, at),
    };
}
