// Reads a heap snapshot as it streams by and keeps of it a count and a size for each constructor. The
// contents of the heap (strings, numbers, what points to what) are never kept: of the snapshot's
// strings only those that name constructors are read at all. Objects may have a tag of their own
// (Symbol.toStringTag), which V8 then says in place of the constructor: what is no identifier is not
// kept either.

export interface ConstructorSummary {
    name: string;
    objects: number;
    bytes: number;
}

export interface SnapshotParser {
    write(chunk: string): void;
    /** Throws if the snapshot was not whole. */
    end(): ConstructorSummary[];
}

/** What the kinds of nodes are called. Names of other nodes than objects may be contents. */
const kinds: Record<string, string> = {
    array: "(array)",
    string: "(string)",
    "concatenated string": "(string)",
    "sliced string": "(string)",
    code: "(code)",
    closure: "(function)",
    regexp: "(regexp)",
    number: "(number)",
    bigint: "(bigint)",
    symbol: "(symbol)",
    native: "(native)",
    hidden: "(system)",
    "object shape": "(object shape)",
};

const maxHeader = 1 << 20;
const maxConstructors = 50_000;
const maxName = 128;

interface Meta {
    fields: number;
    type: number;
    name: number;
    size: number;
    objectType: number;
    types: string[];
}

interface Sum {
    objects: number;
    bytes: number;
}

type Step = (text: string) => string | undefined; // what is left for the next step, if it is done

export function createSnapshotParser(): SnapshotParser {
    const byName = new Map<number, Sum>(); // of objects, by the number of their name
    const byType = new Map<number, Sum>();
    const names = new Map<number, string>();
    let meta: Meta | undefined;
    const steps: Step[] = [
        headerStep((found) => {
            meta = found;
        }),
        numbersStep(
            (numbers) => addNode(meta as Meta, numbers, byName, byType),
            () => meta as Meta,
        ),
        skipStep('"strings":['),
        stringsStep((index) => byName.has(index), names),
    ];
    return {
        write(chunk) {
            let text: string | undefined = chunk;
            while (text && steps.length > 0) {
                text = (steps[0] as Step)(text);
                if (text !== undefined) steps.shift();
            }
        },
        end() {
            if (steps.length > 0 || !meta) throw new Error("the heap snapshot is not whole");
            return summaries(meta, byName, byType, names);
        },
    };
}

/** Up to the nodes. */
function headerStep(done: (meta: Meta) => void): Step {
    const mark = '"nodes":[';
    let header = "";
    return (text) => {
        header += text;
        const at = header.indexOf(mark);
        if (at < 0) {
            if (header.length > maxHeader) throw new Error("the heap snapshot has no nodes");
            return undefined;
        }
        const rest = header.slice(at + mark.length);
        done(metaOf(`${header.slice(0, at).trimEnd().replace(/,$/, "")}}`));
        header = "";
        return rest;
    };
}

function metaOf(json: string): Meta {
    const { meta } = (JSON.parse(json) as { snapshot: { meta: SnapshotMeta } }).snapshot;
    const field = (name: string): number => {
        const at = meta.node_fields.indexOf(name);
        if (at < 0) throw new Error(`nodes of the heap snapshot have no ${name}`);
        return at;
    };
    const types = meta.node_types[field("type")] as string[];
    return {
        fields: meta.node_fields.length,
        type: field("type"),
        name: field("name"),
        size: field("self_size"),
        objectType: types.indexOf("object"),
        types,
    };
}

interface SnapshotMeta {
    node_fields: string[];
    node_types: (string[] | string)[];
}

const zero = 48;
const nine = 57;
const comma = 44;
const closing = 93;

/** Numbers up to the closing bracket, a node at a time. */
function numbersStep(visit: (node: number[]) => void, meta: () => Meta): Step {
    const node: number[] = [];
    let value = 0;
    let hasDigits = false;
    const take = (): void => {
        if (!hasDigits) return;
        node.push(value);
        value = 0;
        hasDigits = false;
        if (node.length === meta().fields) {
            visit(node);
            node.length = 0;
        }
    };
    return (text) => {
        for (let i = 0; i < text.length; i++) {
            const code = text.charCodeAt(i);
            if (code >= zero && code <= nine) {
                value = value * 10 + code - zero;
                hasDigits = true;
            } else if (code === comma) {
                take();
            } else if (code === closing) {
                take();
                return text.slice(i + 1);
            }
        }
        return undefined;
    };
}

function addNode(
    meta: Meta,
    node: number[],
    byName: Map<number, Sum>,
    byType: Map<number, Sum>,
): void {
    const type = node[meta.type] as number;
    const isNamed = type === meta.objectType && byName.size < maxConstructors;
    const sums = isNamed ? byName : byType;
    const key = isNamed ? (node[meta.name] as number) : type;
    const sum = sums.get(key);
    if (sum) {
        sum.objects++;
        sum.bytes += node[meta.size] as number;
    } else {
        sums.set(key, { objects: 1, bytes: node[meta.size] as number });
    }
}

/** Numbers alone stand between the nodes and the strings, so the mark is the mark. */
function skipStep(mark: string): Step {
    let tail = "";
    return (text) => {
        const joined = tail + text;
        const at = joined.indexOf(mark);
        if (at >= 0) return joined.slice(at + mark.length);
        tail = joined.slice(-mark.length);
        return undefined;
    };
}

const quote = 34;
const backslash = 92;

/** Counts strings and reads those that are wanted. Others are passed over character by character. */
function stringsStep(wanted: (index: number) => boolean, names: Map<number, string>): Step {
    let index = 0;
    let inString = false;
    let escaped = false;
    let piece = "";
    return (text) => {
        let from = 0;
        for (let i = 0; i < text.length; i++) {
            const code = text.charCodeAt(i);
            if (!inString) {
                if (code === closing) return text.slice(i + 1);
                inString = code === quote;
                from = i + 1;
            } else if (escaped) {
                escaped = false;
            } else if (code === backslash) {
                escaped = true;
            } else if (code === quote) {
                if (wanted(index)) names.set(index, nameOf(piece + text.slice(from, i)));
                index++;
                piece = "";
                inString = false;
            }
        }
        if (inString && wanted(index) && piece.length < maxName * 6) piece += text.slice(from);
        return undefined;
    };
}

const identifier = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;
/** What V8 and Node call their own. */
const builtIn =
    /^(system \/ Context|[A-Z][A-Za-z]{0,20} Iterator|(Intl|WebAssembly)\.[A-Z][A-Za-z]*)$/;

function nameOf(json: string): string {
    try {
        const name = JSON.parse(`"${json}"`) as string;
        const isName = name.length <= maxName && (identifier.test(name) || builtIn.test(name));
        return isName || name === "" ? name : "(other)";
    } catch {
        return "(other)"; // longer than a name
    }
}

function summaries(
    meta: Meta,
    byName: Map<number, Sum>,
    byType: Map<number, Sum>,
    names: Map<number, string>,
): ConstructorSummary[] {
    const found = new Map<string, ConstructorSummary>();
    const add = (name: string, { objects, bytes }: Sum): void => {
        const known = found.get(name);
        if (known) {
            known.objects += objects;
            known.bytes += bytes;
        } else if (bytes > 0) {
            found.set(name, { name, objects, bytes });
        }
    };
    for (const [index, sum] of byName) add(names.get(index) || "(no constructor)", sum);
    for (const [type, sum] of byType) add(kinds[meta.types[type] ?? ""] ?? "(other)", sum);
    return [...found.values()].sort((a, b) => b.bytes - a.bytes);
}
