import { describe, expect, it } from "vitest";
import { RULES, matches, severityOf } from "../src/core/insight_rules";
import { readMuted, writeMuted } from "../src/core/muted";

const rule = (id: string) => RULES.find((r) => r.id === id)!;
const hits = (id: string, ...names: string[]) => matches(rule(id), names).map((i) => names[i]);

describe("rules", () => {
    it("are whole and unique", () => {
        expect(new Set(RULES.map((r) => r.id)).size).toBe(RULES.length);
        for (const r of RULES) {
            expect(r.title && r.why && r.fix).toBeTruthy();
            expect(r.from).toBeGreaterThan(0);
            expect(r.high).toBeGreaterThan(r.from);
            expect(r.high).toBeLessThan(1);
            expect(() => new RegExp(r.match)).not.toThrow();
        }
    });

    it("stay within what both regex engines read alike", () => {
        for (const r of RULES) {
            expect(r.match).not.toMatch(/\(\?[=!<]/); // no looking around
            expect(r.match).not.toMatch(/\\[1-9]/); // no references back
        }
    });

    it("know the functions they are about", () => {
        expect(
            hits("gc", "runtime.gcBgMarkWorker", "runtime.scanobject", "main.work"),
        ).toHaveLength(2);
        expect(
            hits(
                "malloc",
                "malloc",
                "runtime.mallocgc",
                "operator new(unsigned long)",
                "my_malloc_stats",
            ),
        ).toEqual(["malloc", "runtime.mallocgc", "operator new(unsigned long)"]);
        expect(
            hits("memcpy", "__memcpy_avx_unaligned_erms", "runtime.memmove", "memo"),
        ).toHaveLength(2);
        expect(
            hits(
                "regex-compile",
                "regexp.MustCompile",
                "java/util/regex/Pattern.compile",
                "compile",
            ),
        ).toHaveLength(2);
        expect(hits("json", "encoding/json.(*decodeState).object", "JSON.parse")).toHaveLength(2);
        expect(
            hits(
                "logging",
                "log.(*Logger).Output",
                "catalog.Print",
                "org/apache/log4j/Logger.info",
            ),
        ).toHaveLength(2);
        expect(hits("tls", "crypto/tls.(*Conn).clientHandshake", "SSL_do_handshake")).toHaveLength(
            2,
        );
        expect(
            hits("exceptions", "__cxa_throw", "java/lang/Throwable.fillInStackTrace"),
        ).toHaveLength(2);
        expect(
            hits("locks-cpu", "runtime.semacquire1", "pthread_mutex_lock", "__futex_wait"),
        ).toHaveLength(3);
        expect(hits("page-faults", "asm_exc_page_fault", "handle_mm_fault")).toHaveLength(2);
        expect(
            hits("unnamed", "libfoo.so+0x12ab", "0x7f001", "[unknown]", "main", "a+0xzz"),
        ).toHaveLength(3);
        expect(hits("cut-stacks", "[cut: no unwind table]", "cut: x")).toHaveLength(1);
        expect(hits("starved", "[wants to run]")).toHaveLength(1);
    });

    it("tell a finding from a severe one", () => {
        const gc = rule("gc");
        expect(severityOf(gc, 0.05)).toBeNull();
        expect(severityOf(gc, 0.1)).toBe("medium");
        expect(severityOf(gc, 0.3)).toBe("high");
        expect(severityOf(gc, Number.NaN)).toBeNull();
    });
});

describe("muted findings", () => {
    it("survive being stored", () => {
        const muted = new Set(["shop/gc", "shop/json"]);
        expect(readMuted(writeMuted(muted))).toEqual(muted);
    });

    it("are none where nonsense is stored", () => {
        for (const text of [null, "", "{", "{}", "3", '[1,{"a":2}]'])
            expect(readMuted(text).size).toBe(0);
    });
});
