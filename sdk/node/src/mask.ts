// Hides what must not leave the process: in names of functions, in paths, and in the values of labels
// and attributes. What was looked at once is remembered, so that a window costs little.
import { createContext, Script } from "node:vm";
import type { Config } from "./config.js";
import {
    applyRule,
    isTooLong,
    type MaskRole,
    type MaskRule,
    maskHidden,
    readMaskRules,
} from "./mask_rules.js";
import type { Attributes, Batch, Frame, Profile } from "./model.js";

export interface MaskRules {
    /** Rules that were refused, in words. Those that were not are in force. */
    problems: string[];
    /** Looks at many texts at once: much cheaper than one by one. */
    prepare(role: MaskRole, texts: Iterable<string>): void;
    /** The text with all rules of a role applied. */
    apply(role: MaskRole, text: string): string;
    /** More rules, in force from now on. */
    add(texts: string[]): void;
}

const memory = 20_000; // texts

/** A pattern of somebody's own may take for ever on some text. The app's thread waits meanwhile, so
 * the text is hidden soon; a rule that this happened to a few times is not tried any more. */
const patienceMillis = 50;
const slowMax = 3;

export function createMask(config: Pick<Config, "mask" | "maskBuiltIn">): MaskRules {
    const { rules, problems } = readMaskRules(config.mask, config.maskBuiltIn);
    const guardFor = (made: MaskRule[]): Guard | undefined =>
        made.some((rule) => !rule.isBuiltIn) ? createGuard() : undefined;
    let guard = guardFor(rules);
    const known: Record<MaskRole, Map<string, string>> = {
        functions: new Map(),
        paths: new Map(),
        labels: new Map(),
    };
    const prepare = (role: MaskRole, texts: Iterable<string>): void => {
        const seen = known[role];
        const fresh = [...new Set(texts)].filter((text) => !seen.has(text));
        if (seen.size + fresh.length > memory) {
            seen.clear();
        }
        const results = fresh.map((text) => (isTooLong(text) ? undefined : text));
        for (const rule of rules) {
            if (rule.roles.has(role)) {
                const wasTried = rule.slow < slowMax;
                applyToAll(rule, results, guard);
                if (wasTried && rule.slow >= slowMax) {
                    problems.push(`mask rule "${rule.text}" is too slow: its texts are hidden`);
                }
            }
        }
        const hidesLong = rules.some((rule) => rule.roles.has(role));
        fresh.forEach((text, i) => {
            seen.set(text, results[i] ?? (hidesLong ? maskHidden : text));
        });
    };
    return {
        problems,
        prepare,
        add(texts) {
            const more = readMaskRules(texts, false);
            rules.push(...more.rules);
            problems.push(...more.problems);
            guard ??= guardFor(more.rules);
            for (const seen of Object.values(known)) seen.clear();
        },
        apply(role, text) {
            if (text !== "" && !known[role].has(text)) {
                prepare(role, [text]);
            }
            return text === "" ? text : known[role].get(text)!;
        },
    };
}

type Guard = (work: () => void) => boolean;

/** Puts what a rule makes of the texts in their place: undefined where it was given up. */
function applyToAll(rule: MaskRule, texts: (string | undefined)[], guard: Guard | undefined): void {
    let at = 0;
    const work = (): void => {
        for (; at < texts.length; at++) {
            const text = texts[at];
            texts[at] = text && applyRule(rule, text);
        }
    };
    if (rule.isBuiltIn || !guard) {
        work();
        return;
    }
    while (at < texts.length && rule.slow < slowMax) {
        const first = at;
        // Many texts may take long, too: only one that had all the time to itself was slow.
        if (!guard(work) && at === first) {
            texts[at++] = undefined;
            rule.slow++;
        }
    }
    texts.fill(undefined, at);
}

/** Whether the work was done, and not given up. Only V8's own watchdog ends an expression. */
function createGuard(): Guard {
    const context = createContext({ work: undefined });
    const script = new Script("work()");
    return (work) => {
        context.work = work;
        try {
            script.runInContext(context, { timeout: patienceMillis });
            return true;
        } catch {
            return false;
        } finally {
            context.work = undefined;
        }
    };
}

// ---- Batches

/** What is to be sent. The batch itself stays as it is. */
export function maskBatch(batch: Batch, rules: MaskRules): Batch {
    return {
        resource: maskAttributes(batch.resource, rules),
        profiles: batch.profiles.map((profile) => maskProfile(profile, rules)),
    };
}

function maskProfile(profile: Profile, rules: MaskRules): Profile {
    rules.prepare(
        "functions",
        profile.frames.map((frame) => frame.name),
    );
    rules.prepare(
        "paths",
        profile.frames.map((frame) => frame.file),
    );
    const given = new Set(profile.samples.map((sample) => sample.attributes));
    rules.prepare("labels", [...given].flatMap(textsOf));
    const masked = new Map<Attributes, Attributes>(); // those of a span are often one object
    const attributesOf = (attributes: Attributes): Attributes => {
        let result = masked.get(attributes);
        if (!result) {
            result = maskAttributes(attributes, rules);
            masked.set(attributes, result);
        }
        return result;
    };
    return {
        ...profile,
        attributes: maskAttributes(profile.attributes, rules),
        frames: profile.frames.map((frame) => maskFrame(frame, rules)),
        samples: profile.samples.map((sample) =>
            sample.attributes ? { ...sample, attributes: attributesOf(sample.attributes) } : sample,
        ),
    };
}

function textsOf(attributes: Attributes | undefined): string[] {
    return attributes
        ? Object.values(attributes)
              .flat()
              .filter((value) => typeof value === "string")
        : [];
}

function maskFrame(frame: Frame, rules: MaskRules): Frame {
    const name = rules.apply("functions", frame.name);
    const file = rules.apply("paths", frame.file);
    return name === frame.name && file === frame.file ? frame : { ...frame, name, file };
}

function maskAttributes(attributes: Attributes, rules: MaskRules): Attributes {
    const masked: Attributes = {};
    for (const [key, value] of Object.entries(attributes)) {
        masked[key] =
            typeof value === "string"
                ? rules.apply("labels", value)
                : Array.isArray(value)
                  ? value.map((item) => rules.apply("labels", item))
                  : value;
    }
    return masked;
}
