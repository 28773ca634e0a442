// Reading one value: from an option or from a variable of the environment, checked alike.
import type { Attributes } from "./model.js";

/** What a value should be, in words, and how to make it of what was given; undefined: it is not. */
export interface Reader<T> {
    what: string;
    read(value: unknown): T | undefined;
    /** A value that cannot be used is not shown: it may hold keys and passwords. */
    isSecret?: true;
}

export interface Source {
    raw(name: string): unknown;
    option<T>(name: string, reader: Reader<T>): T | undefined;
    /** By its whole name. */
    variable<T>(name: string, reader: Reader<T>): T | undefined;
    /** The option, else the variable of this name behind the prefix. */
    find<T>(name: string, variable: string, reader: Reader<T>): T | undefined;
    tell(name: string, value: unknown, what: string): void;
}

export function sourceOf(
    options: object | null,
    label: string,
    prefix: string,
    env: Record<string, string | undefined>,
    problems: string[],
): Source {
    const own = (options ?? {}) as Record<string, unknown>;
    const tell = (where: string, value: unknown, what: string, isSecret = false): void => {
        const told = isSecret ? "" : `: ${shown(value)}`;
        problems.push(`${where} is not ${what}${told}; it is passed over`);
    };
    const source: Source = {
        raw: (name) => own[name],
        option(name, reader) {
            const value = own[name];
            if (value === undefined || value === null) {
                return undefined;
            }
            const result = reader.read(value);
            if (result === undefined) {
                tell(`option ${label}${name}`, value, reader.what, reader.isSecret);
            }
            return result;
        },
        variable(name, reader) {
            const value = env[name];
            if (value === undefined || value.trim() === "") {
                return undefined;
            }
            const result = reader.read(value.trim());
            if (result === undefined) {
                tell(name, value, reader.what, reader.isSecret);
            }
            return result;
        },
        find: (name, variable, reader) =>
            source.option(name, reader) ?? source.variable(prefix + variable, reader),
        tell: (name, value, what) => tell(`option ${label}${name}`, value, what),
    };
    return source;
}

function shown(value: unknown): string {
    const text = typeof value === "string" ? JSON.stringify(value) : typeof value;
    return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

const words: Record<string, boolean> = {
    "1": true,
    true: true,
    yes: true,
    on: true,
    "0": false,
    false: false,
    no: false,
    off: false,
};

export const aBoolean: Reader<boolean> = {
    what: "true or false",
    read: (value) =>
        typeof value === "boolean"
            ? value
            : typeof value === "string"
              ? words[value.toLowerCase()]
              : undefined,
};

export const aText: Reader<string> = {
    what: "a text",
    read: (value) => (typeof value === "string" && value !== "" ? value : undefined),
};

function numberOf(value: unknown): number {
    const isText = typeof value === "string" && /^[0-9.]+(e[0-9]+)?$/i.test(value);
    return typeof value === "number" ? value : isText ? Number(value) : Number.NaN;
}

/** Parts are dropped: half a microsecond is nothing anybody meant. */
export function integerOf(min: number, max: number): Reader<number> {
    return {
        what: `a number from ${min} to ${max}`,
        read(value) {
            const n = Math.floor(numberOf(value));
            return n >= min && n <= max ? n : undefined;
        },
    };
}

/** From 0 on, with parts. */
export function aFraction(max: number): Reader<number> {
    return {
        what: `a number from 0 to ${max}`,
        read(value) {
            const n = numberOf(value);
            return n >= 0 && n <= max ? n : undefined;
        },
    };
}

export function oneOf<T extends string>(...known: T[]): Reader<T> {
    return {
        what: `one of ${known.join(", ")}`,
        read: (value) => known.find((k) => k === value),
    };
}

/** An array, or lines of a text: rules have commas of their own. */
export const textList: Reader<string[]> = {
    what: "a list of texts",
    read(value) {
        const list = typeof value === "string" ? value.split("\n") : value;
        if (!Array.isArray(list) || list.some((item) => typeof item !== "string")) {
            return undefined;
        }
        return list.map((item: string) => item.trim()).filter((item) => item !== "");
    },
};

function decoded(text: string): string | undefined {
    try {
        return decodeURIComponent(text);
    } catch {
        return undefined;
    }
}

/** "key=value,key=value", percent-encoded: all of it or nothing, as OpenTelemetry says. */
export const attributeList: Reader<Record<string, string>> = {
    what: "a list of key=value, percent-encoded",
    isSecret: true,
    read(value) {
        const result: Record<string, string> = {};
        for (const item of typeof value === "string" ? value.split(",") : [undefined]) {
            if (item?.trim() === "") {
                continue;
            }
            const at = item?.indexOf("=") ?? -1;
            const key = item && at > 0 ? decoded(item.slice(0, at).trim()) : undefined;
            const text = item && at > 0 ? decoded(item.slice(at + 1).trim()) : undefined;
            if (!key || text === undefined) {
                return undefined;
            }
            result[key] = text;
        }
        return result;
    },
};

function isAttribute(value: unknown): boolean {
    return Array.isArray(value)
        ? value.every((item) => typeof item === "string")
        : ["string", "number", "boolean"].includes(typeof value);
}

/** Those without a value are left out. */
export const attributesOf: Reader<Attributes> = {
    what: "an object of texts, numbers, booleans or lists of texts",
    read(value) {
        if (typeof value !== "object" || value === null || Array.isArray(value)) {
            return undefined;
        }
        const given = Object.entries(value).filter(([, v]) => v !== undefined && v !== null);
        return given.every(([, v]) => isAttribute(v)) ? Object.fromEntries(given) : undefined;
    },
};

/** Header names and values that HTTP would refuse are never passed on. */
export const headersOf: Reader<Record<string, string>> = {
    what: "an object of header names and texts, or a list of name=text, percent-encoded",
    isSecret: true,
    read(value) {
        const list = typeof value === "string" ? attributeList.read(value) : value;
        if (typeof list !== "object" || list === null || Array.isArray(list)) {
            return undefined;
        }
        for (const [name, text] of Object.entries(list)) {
            const isName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name);
            if (!isName || typeof text !== "string" || !/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) {
                return undefined;
            }
        }
        return list as Record<string, string>;
    },
};
