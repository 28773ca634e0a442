// What must not leave the process is hidden, as the server hides it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createMask, maskBatch } from "../dist/esm/mask.js";
import { makeBatch } from "./lib/batch.mjs";
import { builtInCases, ownCases } from "./lib/mask_cases.mjs";

const maskOf = (mask, maskBuiltIn = false) => createMask({ mask, maskBuiltIn });

test("the built-in rules hide secrets and leave the rest alone", () => {
    const mask = maskOf([], true);
    for (const [text, want] of builtInCases) {
        assert.equal(mask.apply("labels", text), want);
        assert.equal(mask.apply("paths", text), want);
        assert.equal(mask.apply("functions", text), text);
    }
    assert.equal(maskOf([]).apply("labels", "token=abc"), "token=abc");
});

test("own rules, in PCRE's words", () => {
    for (const [rule, role, text, want] of ownCases) {
        const mask = maskOf([rule]);
        assert.deepEqual(mask.problems, [], rule);
        assert.equal(mask.apply(role, text), want, rule);
        assert.equal(mask.apply("labels", text), text);
    }
});

test("all rules apply, in order, also where they match nothing", () => {
    const mask = maskOf(["labels: /(\\w+)@(\\w+)/$2 at $1$$/", "labels: /x*/-/"]);
    assert.equal(
        mask.apply("labels", "bob@home,al@work"),
        "-h-o-m-e- -a-t- -b-o-b-$-,-w-o-r-k- -a-t- -a-l-$-",
    );
    assert.equal(mask.apply("labels", "ä"), "-ä-");
    assert.equal(mask.apply("labels", ""), "");
    assert.equal(maskOf(["labels: /$/!/"]).apply("labels", "a😀b"), "a😀b!");
});

test("faults name the rule, and the others stay in force", () => {
    const cases = [
        ["label: /a/b/", 'mask rule "label: /a/b/" does not begin with "paths", "functions" or'],
        ["nothing", 'mask rule "nothing" does not begin with'],
        ["labels: /a", 'mask rule "labels: /a" is not /PATTERN/REPLACEMENT/'],
        ["labels: /a/b", 'mask rule "labels: /a/b" is not /PATTERN/REPLACEMENT/'],
        ["labels: /a/b/c", 'mask rule "labels: /a/b/c" is not /PATTERN/REPLACEMENT/'],
        ["labels:", 'mask rule "labels:" is not /PATTERN/REPLACEMENT/'],
        ["labels: //b/", 'mask rule "labels: //b/" has an empty pattern'],
        ["labels: /(/b/", 'mask rule "labels: /(/b/": bad regular expression "("'],
        ["labels: /a\\Kb/c/", '"\\K" cannot be said in JavaScript'],
        ["labels: /(?R)/c/", "cannot be said in JavaScript"],
        ["labels: /a)/c/", "was not opened"],
        ["labels: /[z-a]/c/", "goes backwards"],
        ["labels: /*/c/", "repeats nothing"],
    ];
    for (const [rule, words] of cases) {
        const mask = maskOf([rule, "labels: /x/y/"]);
        assert.equal(mask.problems.length, 1, rule);
        assert.ok(mask.problems[0].includes(words), mask.problems[0]);
        assert.equal(mask.apply("labels", "x"), "y");
    }
    const many = maskOf(Array.from({ length: 65 }, () => "labels: /a/b/"));
    assert.match(many.problems[0], /65 mask rules are more than 64/);
});

test("what cannot be looked at is hidden", () => {
    const mask = maskOf(["functions: /^(a+)+$/-/"], true);
    assert.equal(mask.apply("paths", "a".repeat(50_000)), "***");
    assert.equal(mask.apply("paths", "ä".repeat(20_000)), "***", "bytes count");
    assert.equal(mask.apply("functions", `${"a".repeat(44)}!`), "***");
    assert.equal(mask.apply("functions", "aaa"), "-");
    assert.equal(mask.apply("functions", "b"), "b");
});

test("a rule that is slow again and again is not waited for", () => {
    const mask = maskOf(["functions: /^(a+)+$/-/"]);
    const texts = Array.from({ length: 200 }, (_, i) => `${"a".repeat(44)}!${i}`);
    const from = performance.now();
    mask.prepare("functions", ["fine", ...texts, "last"]);
    assert.ok(performance.now() - from < 2000);
    assert.equal(mask.apply("functions", "fine"), "fine");
    assert.ok(texts.every((text) => mask.apply("functions", text) === "***"));
    assert.equal(mask.apply("functions", "last"), "***", "nobody looked at it");
    assert.match(mask.problems[0], /too slow/);
});

test("a batch: names, files, labels, attributes, and nothing else changes", () => {
    const batch = makeBatch();
    batch.resource["db.url"] = "postgres://bob:hunter2@db/shop";
    batch.resource["process.command_args"] = ["node", "--token=abc"];
    batch.profiles[0].frames[0].file = "/home/bob/app/main.js";
    batch.profiles[0].frames[1].name = "secretWork";
    batch.profiles[0].samples[0].attributes["http.route"] = "/cb?token=abc";
    batch.profiles[0].attributes.note = "password=x";
    const before = structuredClone(batch);
    const masked = maskBatch(batch, maskOf(["functions: /secret/public/"], true));
    assert.deepEqual(batch, before);
    assert.equal(masked.resource["db.url"], "postgres://bob:***@db/shop");
    assert.deepEqual(masked.resource["process.command_args"], ["node", "--token=***"]);
    assert.equal(masked.resource["process.pid"], 7);
    const [cpu] = masked.profiles;
    assert.equal(cpu.frames[0].file, "/home/*/app/main.js");
    assert.equal(cpu.frames[1].name, "publicWork");
    assert.equal(cpu.samples[0].attributes["http.route"], "/cb?token=***");
    assert.equal(cpu.attributes.note, "password=***");
    assert.deepEqual(cpu.samples[1], batch.profiles[0].samples[1]);
    assert.deepEqual(masked.profiles[1], batch.profiles[1]);
});
