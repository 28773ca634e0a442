"""Retained sizes of V8 heap snapshots: every node's must be what memlab, an independent
implementation, computes, on the corpus file and on snapshots that node writes here and now."""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, npm_install

HERE = pathlib.Path(__file__).resolve().parent

# Lists, cycles, maps, weak maps and references, closures, buffers, registries.
PROGRAM = """
const v8 = require('v8');
class Link { constructor(i) { this.i = i; this.next = null; this.name = 'secret-' + i; } }
class Holder {
  constructor() { this.map = new Map(); this.weak = new WeakMap(); this.self = () => this; }
}
const holders = [];
let head = null;
for (let i = 0; i < 2000; i++) {
  const link = new Link(i);
  link.next = head;
  head = link;
  if (i % 10) continue;
  const holder = new Holder();
  holder.map.set(link, {i});
  holder.weak.set(link, holder);
  holders.push(holder);
}
globalThis.holders = holders;
globalThis.head = head;
globalThis.refs = holders.slice(0, 5).map(h => new WeakRef(h));
globalThis.registry = new FinalizationRegistry(() => {});
holders.forEach(h => globalThis.registry.register(h, 1));
globalThis.others = [new ArrayBuffer(1e6), Buffer.alloc(5e5), /secret/g, Symbol('secret'), 10n ** 30n,
                     function bound() {}.bind(holders)];
{ const a = {}, b = {a}; a.b = b; }
v8.writeHeapSnapshot(process.argv[2]);
"""


def dumper():
    tool = BUILD / "tests" / "heap_retained"
    if not tool.exists():
        pytest.skip(f"{tool} is not built")
    return tool


@pytest.fixture(scope="session")
def memlab():
    """The folder that holds memlab; installed once, into the build folder."""
    return npm_install("npm", "@memlab/core@2.0.5")


def retained_sizes(memlab, snapshot):
    theirs = subprocess.run(["node", str(HERE / "retained_sizes.js"), str(memlab), str(snapshot)],
                            capture_output=True, timeout=120)
    assert theirs.returncode == 0, theirs.stderr.decode(errors="replace")
    ours = subprocess.run([str(dumper()), str(snapshot)], capture_output=True, timeout=60)
    assert ours.returncode == 0, ours.stderr.decode(errors="replace")
    return [int(n) for n in ours.stdout.split()], [int(n) for n in theirs.stdout.split()]


def check_equal(ours, theirs):
    assert len(ours) == len(theirs) > 1000
    different = [(i, a, b) for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    assert not different, different[:10]


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    folder = tmp_path_factory.mktemp("heap")
    program = folder / "program.js"
    program.write_text(PROGRAM)
    snapshot = folder / "fresh.heapsnapshot"
    subprocess.run(["node", str(program), str(snapshot)], check=True, timeout=60)
    return snapshot


def test_retained_sizes_of_the_corpus_file_equal_memlabs(memlab, corpus, tmp_path):
    plain = tmp_path / "node20.heapsnapshot"
    plain.write_bytes(gzip.decompress((corpus / "heapsnapshot" / "node20.heapsnapshot.gz").read_bytes()))
    check_equal(*retained_sizes(memlab, plain))


def test_retained_sizes_of_a_fresh_snapshot_equal_memlabs(memlab, fresh):
    check_equal(*retained_sizes(memlab, fresh))


def test_the_corpus_file_has_its_facts(vesta, corpus, facts):
    want = facts["heapsnapshot/node20.heapsnapshot.gz"]
    got = vesta("info", "--json", corpus / "heapsnapshot" / "node20.heapsnapshot.gz", check=0).json
    totals = {t["type"]: t["total"] for t in got["sample_types"]}
    assert got["format"] == "heapsnapshot"
    assert totals["inuse_objects"] == want["node_count"] == want["nodes_seen"]
    assert totals["inuse_space"] == want["self_size_sum"]


def test_a_fresh_snapshot_shows_what_the_program_made_and_none_of_its_strings(vesta, fresh):
    raw = json.loads(fresh.read_bytes())
    fields = raw["snapshot"]["meta"]["node_fields"]
    n = len(fields)
    sizes = raw["nodes"][fields.index("self_size")::n]
    got = vesta("info", "--json", fresh, check=0).json
    totals = {t["type"]: t["total"] for t in got["sample_types"]}
    assert totals["inuse_objects"] == len(sizes)
    assert totals["inuse_space"] == sum(sizes)

    out = fresh.with_suffix(".pb.gz")
    vesta("convert", fresh, "-o", out, check=0)
    text = gzip.decompress(out.read_bytes())
    assert b"Holder" in text and b"Link" in text
    assert b"secret" not in text


def test_info_lists_constructors(vesta, fresh):
    got = {(r["name"], r["type"]): r for r in vesta("info", "--json", fresh, check=0).json["constructors"]}
    links, holders = got["Link", "object"], got["Holder", "object"]
    assert links["count"] == 2000 and holders["count"] == 200
    # The list holds all of its links and nothing else does, but for what the holders' maps key.
    assert links["retained"] >= links["shallow"] > 0
    assert holders["retained"] > holders["shallow"]
    assert got["(string)", "string"]["retained"] >= got["(string)", "string"]["shallow"]
    text = vesta("info", fresh, check=0).text
    assert re.search(r"^ +\d+ +\d+ +\d+ +\d+  \(root\)$", text, re.M)


def test_the_constructors_retained_size_is_the_cum_of_its_frames(vesta, fresh):
    """Stacks are dominator paths, so both ways of asking must agree."""
    rows = vesta("info", "--json", fresh, check=0).json["constructors"]
    by_name = {}
    for row in rows:
        by_name.setdefault(row["name"], []).append(row)
    out = fresh.with_suffix(".collapsed")
    vesta("convert", fresh, "-o", out, check=0)
    cum = {}
    for line in out.read_text().splitlines():
        stack, value = line.rsplit(" ", 1)
        for frame in set(stack.split(";")):
            cum[frame] = cum.get(frame, 0) + int(value)
    checked = 0
    for name, same in by_name.items():
        # One constructor, one type: names of two types are one frame in a stack.
        if len(same) == 1 and same[0]["retained"] and ";" not in name:
            assert cum[name] == same[0]["retained"], name
            checked += 1
    assert checked > 50


def test_a_cut_snapshot_is_refused_with_its_place(vesta, fresh, tmp_path):
    cut = tmp_path / "cut.heapsnapshot"
    cut.write_bytes(fresh.read_bytes()[: os.path.getsize(fresh) // 2])
    result = vesta("info", cut, check=1)
    assert b"heapsnapshot at byte" in result.err


def test_a_snapshot_beyond_the_memory_limit_is_refused_by_name(vesta, fresh):
    result = vesta("info", "--max-memory", "1MiB", fresh, check=1)
    assert b"memory limit of 1.0 MiB" in result.err
