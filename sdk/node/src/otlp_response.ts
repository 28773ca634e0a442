// What an OTLP receiver answers: profiles that it did not take, or why it took none. Read leniently,
// since it comes from outside: what is not understood says nothing.

export interface PartialSuccess {
    rejected: number;
    message: string;
}

interface Field {
    number: number;
    value: number; // of a varint
    bytes: Buffer; // of what has a length
}

function readVarint(data: Buffer, from: number): { value: number; end: number } {
    let value = 0;
    for (let i = 0; i < 10; i++) {
        const byte = data[from + i] ?? 0;
        value += (byte & 0x7f) * 2 ** (7 * i);
        if (byte < 0x80) {
            return { value, end: from + i + 1 };
        }
    }
    return { value: 0, end: data.length };
}

function readFields(data: Buffer): Field[] {
    const fields: Field[] = [];
    const none = Buffer.alloc(0);
    for (let at = 0; at < data.length; ) {
        const tag = readVarint(data, at);
        const number = Math.floor(tag.value / 8);
        const kind = tag.value % 8;
        at = tag.end;
        if (kind === 0) {
            const { value, end } = readVarint(data, at);
            fields.push({ number, value, bytes: none });
            at = end;
        } else if (kind === 2) {
            const length = readVarint(data, at);
            const bytes = data.subarray(length.end, length.end + length.value);
            fields.push({ number, value: 0, bytes });
            at = length.end + length.value;
        } else if (kind === 1 || kind === 5) {
            at += kind === 1 ? 8 : 4;
        } else {
            return fields;
        }
    }
    return fields;
}

function parseJson(body: Buffer): Record<string, unknown> {
    try {
        const json: unknown = JSON.parse(body.toString());
        return typeof json === "object" && json !== null ? (json as Record<string, unknown>) : {};
    } catch {
        return {};
    }
}

/** Of an answer with status 200; undefined when all was taken and nothing said. */
export function readPartialSuccess(body: Buffer, isJson: boolean): PartialSuccess | undefined {
    let rejected = 0;
    let message = "";
    if (isJson) {
        const partial = parseJson(body).partialSuccess as Record<string, unknown> | undefined;
        rejected = Number(partial?.rejectedProfiles ?? 0) || 0;
        message = String(partial?.errorMessage ?? "");
    } else {
        const partial = readFields(body).find((field) => field.number === 1);
        for (const field of partial ? readFields(partial.bytes) : []) {
            rejected = field.number === 1 ? field.value : rejected;
            message = field.number === 2 ? field.bytes.toString() : message;
        }
    }
    return rejected > 0 || message !== "" ? { rejected, message: short(message) } : undefined;
}

/** The message of a google.rpc.Status, or the text itself, or nothing. */
export function readErrorMessage(body: Buffer, contentType: string): string {
    if (contentType.includes("json")) {
        return short(String(parseJson(body).message ?? ""));
    }
    if (contentType.includes("protobuf")) {
        const message = readFields(body).find((field) => field.number === 2);
        return short(message?.bytes.toString() ?? "");
    }
    return contentType.startsWith("text/plain") ? short(body.toString()) : "";
}

function short(text: string): string {
    const line = text.replace(/\s+/g, " ").trim();
    return line.length > 200 ? `${line.slice(0, 197)}...` : line;
}
