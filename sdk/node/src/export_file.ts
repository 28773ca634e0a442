// Writes every profile as a file of its own, in pprof, and beside it what else is known of it. Files
// are there whole or not at all. `vesta push` reads both.
import { randomBytes } from "node:crypto";
import { link, mkdir, rename, unlink, writeFile } from "node:fs/promises";
import * as path from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { isoTime } from "./clock.js";
import { encodePprof } from "./encode_pprof.js";
import type { Batch, Exporter, Profile, ProfileKind, Resource } from "./model.js";
import type { StatsKeeper } from "./stats.js";

const compress = promisify(gzip);

const names: Record<ProfileKind, string> = {
    cpu: "cpu",
    wall: "wall",
    alloc: "alloc",
    heap: "heap",
    event_loop: "event-loop",
    heap_summary: "heap-summary",
};

export function createFileExporter(folder: string, stats: StatsKeeper): Exporter {
    const pending = new Set<Promise<void>>();

    async function write(batch: Batch): Promise<void> {
        let bytes = 0;
        await mkdir(folder, { recursive: true });
        for (const profile of batch.profiles) {
            const raw = stats.timed(() => encodePprof(profile, batch.resource));
            bytes += await writeProfile(folder, profile, await compress(raw), batch.resource);
        }
        stats.exported(bytes);
    }
    return {
        async export(batch) {
            const work = write(batch).catch((error: unknown) => {
                stats.drop("refused");
                stats.error(`writing to "${folder}"`, error);
            });
            pending.add(work);
            await work;
            pending.delete(work);
        },
        async shutdown() {
            await Promise.all(pending);
        },
    };
}

/** The sidecar goes first: whoever finds the profile finds it, too. */
async function writeProfile(
    folder: string,
    profile: Profile,
    content: Buffer,
    resource: Resource,
): Promise<number> {
    const sidecar = Buffer.from(`${JSON.stringify(sidecarOf(profile, resource), null, 2)}\n`);
    const sidecarTemp = await writeTemp(folder, sidecar);
    const temp = await writeTemp(folder, content).catch(async (error: unknown) => {
        await unlink(sidecarTemp);
        throw error;
    });
    const base = `${names[profile.kind]}-${timeOf(profile.startUnixNanos)}`;
    try {
        const name = await takeName(folder, base, sidecarTemp);
        await rename(temp, path.join(folder, `${name}.pb.gz`));
    } catch (error) {
        await unlink(temp);
        await unlink(sidecarTemp).catch(() => {});
        throw error;
    }
    return content.length;
}

async function writeTemp(folder: string, content: Buffer): Promise<string> {
    const temp = path.join(folder, `.${randomBytes(8).toString("hex")}.tmp`);
    try {
        await writeFile(temp, content, { flag: "wx" });
    } catch (error) {
        await unlink(temp).catch(() => {});
        throw error;
    }
    return temp;
}

/** Numbers that are tried; after them, names by chance. */
const numbersMax = 100;
const triesMax = numbersMax + 10;

function nameOf(base: string, attempt: number): string {
    if (attempt === 1) return base;
    const isCounted = attempt <= numbersMax;
    return `${base}-${isCounted ? attempt : randomBytes(6).toString("hex")}`;
}

/** Puts the sidecar in its place under a name that no other process or thread has. */
async function takeName(folder: string, base: string, sidecarTemp: string): Promise<string> {
    for (let i = 1; i <= triesMax; i++) {
        const name = nameOf(base, i);
        const file = path.join(folder, `${name}.pb.gz.json`);
        try {
            await link(sidecarTemp, file);
            await unlink(sidecarTemp);
            return name;
        } catch (error) {
            const { code } = error as NodeJS.ErrnoException;
            if (code === "EEXIST") {
                continue;
            }
            if (code !== "EPERM" && code !== "ENOSYS" && code !== "ENOTSUP") {
                throw error;
            }
            await rename(sidecarTemp, file); // a file system without links
            return name;
        }
    }
    throw new Error(`no name for "${base}" is free`);
}

/** As in 2026-03-01T12-00-00.000Z: no colons, which some file systems refuse. */
function timeOf(unixNanos: bigint): string {
    return isoTime(unixNanos).replaceAll(":", "-");
}

/** What names a run and not the thing that runs would make too many labels. */
const ofTheRun = /^(service\.name$|process\.pid$|telemetry\.)/;

function sidecarOf(profile: Profile, resource: Resource) {
    const labels = Object.entries(resource)
        .filter(([key]) => !ofTheRun.test(key))
        .map(([key, value]) => [key, String(value)]);
    return {
        service: String(resource["service.name"] ?? ""),
        labels: Object.fromEntries(labels),
        from: isoTime(profile.startUnixNanos),
        until: isoTime(profile.startUnixNanos + profile.durationNanos),
        moment: profile.kind === "heap" || profile.kind === "heap_summary",
        types: profile.sampleTypes.map(({ type, unit }) => `${type}/${unit}`),
        period: profile.period ?? 0,
    };
}
