// Where batches go. Masking happens here, so that no way out can forget it.
import type { Config } from "./config.js";
import { createMask, maskBatch } from "./mask.js";
import type { Batch, Exporter } from "./model.js";
import type { StatsKeeper } from "./stats.js";

/** Never throws, and what it returns never rejects: failures are counted. */
export function createExporter(config: Config, stats: StatsKeeper): Exporter {
    const rules = createMask(config);
    const target = targetOf(config);
    return {
        async export(batch) {
            try {
                await target.export(maskBatch(batch, rules));
            } catch (error) {
                stats.drop("refused");
                stats.error("export", error);
            }
        },
        async shutdown(timeoutMillis) {
            try {
                await target.shutdown(timeoutMillis);
            } catch (error) {
                stats.error("shutdown of the exporter", error);
            }
        },
    };
}

function targetOf(config: Config): Exporter {
    const { exporter } = config;
    if (typeof exporter === "function") {
        return { export: async (batch: Batch) => exporter(batch), shutdown: async () => {} };
    }
    if (typeof exporter === "object") {
        return exporter;
    }
    return { export: async () => {}, shutdown: async () => {} };
}
