// Where batches go. Masking happens here, so that no way out can forget it.
import * as path from "node:path";
import type { Config } from "./config.js";
import { createFileExporter } from "./export_file.js";
import { createOtlpExporter } from "./export_otlp.js";
import { createMask, maskBatch } from "./mask.js";
import type { Batch, Exporter } from "./model.js";
import type { OwnExporter } from "./options.js";
import type { StatsKeeper } from "./stats.js";

export interface MaskingExporter extends Exporter {
    addMask(rules: string[]): void;
}

/** Never throws, and what it returns never rejects: failures are counted. */
export function createExporter(config: Config, stats: StatsKeeper): MaskingExporter {
    const rules = createMask(config);
    const target = targetOf(config, stats);
    const tellProblems = (): void => {
        for (const problem of rules.problems.splice(0)) {
            stats.error("configuration", problem);
        }
    };
    tellProblems();
    return {
        addMask(texts) {
            rules.add(texts);
            tellProblems();
        },
        async export(batch) {
            if (batch.profiles.length === 0) {
                return;
            }
            try {
                const masked = stats.timed(() => maskBatch(batch, rules));
                tellProblems();
                await target.export(masked);
            } catch (error) {
                stats.drop("refused");
                stats.error("export", error);
            }
        },
        async shutdown(timeoutMillis) {
            try {
                await within(timeoutMillis, target.shutdown(timeoutMillis));
            } catch (error) {
                stats.error("shutdown of the exporter", error);
            }
        },
    };
}

function targetOf(config: Config, stats: StatsKeeper): Exporter {
    const { exporter } = config;
    if (exporter === "file") {
        return createFileExporter(path.resolve(config.outDir), stats);
    }
    if (typeof exporter === "string") {
        return createOtlpExporter(config.otlp, exporter === "otlp-json", stats);
    }
    return createOwnExporter(
        typeof exporter === "function" ? { export: exporter } : exporter,
        stats,
    );
}

/** Batches that somebody else's exporter has not said to be done. */
const maxPending = 16;

/** Somebody else's: it may throw, and it may never come back. */
function createOwnExporter(own: OwnExporter, stats: StatsKeeper): Exporter {
    const pending = new Set<Promise<void>>();
    async function send(batch: Batch): Promise<void> {
        try {
            await own.export(batch);
            stats.exported(0);
        } catch (error) {
            stats.drop("refused");
            stats.error("export", error);
        }
    }
    return {
        async export(batch) {
            if (pending.size >= maxPending) {
                stats.drop("buffer");
                stats.error("export", `${maxPending} batches wait for the app's exporter`);
                return;
            }
            const work = send(batch);
            pending.add(work);
            void work.then(() => pending.delete(work));
        },
        async shutdown(timeoutMillis) {
            await Promise.all(pending);
            await own.shutdown?.(timeoutMillis);
        },
    };
}

/** Waits for it, but no longer. Keeps the process alive meanwhile. */
async function within(millis: number, work: Promise<void>): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, millis + 50);
    });
    try {
        await Promise.race([work, late]);
    } finally {
        clearTimeout(timer);
    }
}
