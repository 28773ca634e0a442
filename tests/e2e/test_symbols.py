"""`vesta symbolize` against what llvm-symbolizer and `go tool addr2line` say of the corpus ELFs."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import CORPUS

EXPECTED = CORPUS / "elf" / "own" / "expected"

TABLES = sorted(p.name[: -len(".symbolized.tsv")] for p in EXPECTED.glob("*.symbolized.tsv"))

# Where we know more than llvm-symbolizer 14 does, by design:
# - a label inside an assembler or linker-relaxed function (.LBB2_2) is no function;
# - strict DWARF 2 does not say where an inlined call was made, but in which file its caller is;
# - it does not look into the symbol table of a separate debug file for code without DWARF;
# - it finds only some of the inlined calls that a DWARF package (.dwp) describes; the others show as
#   their innermost place in the outermost function.
# And where we know less: libdw before 0.191 cannot read such packages, so all of them do.
LOCAL_LABEL = re.compile(r"^\.L")


def read_table(name):
    """{address: [(function, file, line, column)], innermost first}"""
    table = {}
    with open(EXPECTED / f"{name}.symbolized.tsv") as f:
        next(f)
        for row in f:
            address, _, function, file, line, column = row.rstrip("\n").split("\t")
            table.setdefault(address, []).append((function, file, int(line), int(column)))
    return table


def symbolize(vesta, binary, addresses, *options):
    return vesta("symbolize", "--json", *options, binary, *addresses, check=0).json


def demangled_by_llvm(names):
    """What llvm-cxxfilt makes of linker names: the demangler behind the expected tables."""
    names = sorted(names)
    done = subprocess.run(
        ["llvm-cxxfilt"], input="\n".join(names).encode(), capture_output=True, check=True
    )
    return dict(zip(names, done.stdout.decode().split("\n")))


def places(answer, want):
    """(file, line, column) per frame; "??" where nothing is known."""
    got = [
        (os.path.basename(f["file"]) or "??", f["line"], f["column"]) for f in answer["frames"]
    ] or [("??", 0, 0)]
    # A caller without a line: see above.
    return [
        w[1:] if i > 0 and w[1:] == ("??", 0, 0) and g[1:] == (0, 0) else g
        for i, (g, w) in enumerate(zip(got, want))
    ] + got[len(want):]


def is_package_unread(name, want, got):
    """By either."""
    frames = got["frames"]
    return (
        "splitdwarf" in name
        and 1 in (len(frames), len(want))
        and frames[-1]["function"] == want[-1][0]
        and (frames[0]["line"], frames[0]["column"]) == want[0][2:]
    )


def is_better(want, got):
    """True where the reference says less, for one of the reasons above."""
    names = [f["system_name"] for f in got["frames"]]
    if LOCAL_LABEL.match(want[0][0]):
        return bool(names)
    return want == [("??", "??", 0, 0)] and names == ["_start"]


@pytest.mark.parametrize("name", TABLES)
def test_functions_files_and_lines_are_those_of_llvm_symbolizer(vesta, corpus, name):
    table = read_table(name)
    got = symbolize(vesta, corpus / "elf" / "own" / name, list(table), "-symbolize=demangle=none")
    names = None
    if shutil.which("llvm-cxxfilt"):
        names = demangled_by_llvm({f["function"] for a in got for f in a["frames"]})
    assert [a["address"] for a in got] == list(table)
    for answer in got:
        want = table[answer["address"]]
        if is_better(want, answer) or is_package_unread(name, want, answer):
            continue
        assert places(answer, want) == [w[1:] for w in want], answer["address"]
        if names:
            functions = [names[f["function"]] or "??" for f in answer["frames"]] or ["??"]
            assert functions == [w[0] for w in want], answer["address"]


def test_stripped_go_programs_have_names_and_lines(vesta, corpus):
    rows = [
        line.split("\t")
        for line in (EXPECTED / "go119-stripped.addr2line.tsv").read_text().splitlines()[1:]
    ]
    got = symbolize(
        vesta, corpus / "elf" / "own" / "go119-stripped", [r[0] for r in rows],
        "-symbolize=demangle=none",
    )
    for (address, function, place), answer in zip(rows, got):
        frames = answer["frames"]
        # addr2line names the outermost function, and the innermost file and line.
        assert frames[-1]["function"] == function, address
        line = frames[0]["line"]
        file = os.path.basename(frames[0]["file"])
        # Where the table gives no line Go prints -1, which is 0 here.
        assert f"{file}:{line if line or file else -1}" == place, address


def test_mini_debug_info_names_what_stripping_took_away(vesta, corpus):
    symbols = re.findall(
        r"^\s*\d+: ([0-9a-f]+)\s+([1-9]\d*) FUNC .* (\S+)$",
        (EXPECTED / "work-minidebuginfo.symbols.txt").read_text(),
        re.M,
    )
    assert len(symbols) > 10
    addresses = [f"0x{int(start, 16) + int(size) // 2:x}" for start, size, _ in symbols]
    got = symbolize(vesta, corpus / "elf" / "own" / "work-minidebuginfo", addresses)
    assert [a["frames"][-1]["function"] for a in got] == [name for _, _, name in symbols]


def test_text_output_puts_inlined_calls_first(vesta, corpus):
    out = vesta("symbolize", corpus / "elf" / "own" / "shapes-gxx12", "0x21d4", check=0).text
    lines = out.splitlines()
    assert lines[0].startswith("0x21d4  std::__new_allocator::~__new_allocator  ")
    assert lines[0].endswith("new_allocator.h:90:7  (inlined)")
    assert "(inlined)" not in lines[-1] and "describe" in lines[-1]


def test_unknown_addresses_stay_unknown(vesta, corpus):
    out = vesta("symbolize", corpus / "elf" / "own" / "work", "0xdeadbeef", check=0).text
    assert out == "0xdeadbeef  ??\n"


def test_refuses_what_is_no_binary_and_no_address(vesta, corpus, tmp_path):
    (tmp_path / "text").write_text("hello, this is not a program but some text in a file\n" * 3)
    result = vesta("symbolize", tmp_path / "text", "0x10", check=1)
    assert b"not an ELF file" in result.err
    assert b"could not open" in vesta("symbolize", tmp_path / "none", "0x10", check=1).err
    assert b"not an address" in vesta("symbolize", tmp_path / "text", "main", check=2).err
    vesta("symbolize", tmp_path / "text", check=2)


def test_reports_find_names_for_addresses(vesta, corpus, tmp_path):
    """The functions of our program, with what pprof gives them when it symbolizes this profile."""
    out = vesta(
        "top", "-cum", "-noinlines", f"-binary-path={corpus / 'elf' / 'own'}",
        corpus / "pprof" / "c" / "gperf-cpu.unsymbolized.pb.gz",
        env={"XDG_CACHE_HOME": str(tmp_path)}, check=0,
    ).text
    rows = {line.split()[-1]: line.split() for line in out.splitlines() if "%" in line}
    want = {"inline_hot": "372ms", "thr": "376ms", "sorter": "268ms", "cmp": "100ms",
            "ins": "72ms", "alloc_some": "72ms", "leak": "12ms", "lib_work": "4ms"}
    assert {name: rows[name][3] for name in want} == want
    # What was looked up is kept, by build id.
    kept = {p.name for p in (tmp_path / "vesta" / "symbols").iterdir()}
    assert kept


def test_a_program_may_be_given_before_the_profile(vesta, corpus, tmp_path):
    own = corpus / "elf" / "own"
    out = vesta(
        "top", own / "work", corpus / "pprof" / "c" / "gperf-cpu.unsymbolized.pb.gz",
        env={"XDG_CACHE_HOME": str(tmp_path), "PPROF_BINARY_PATH": "/nonexistent"}, check=0,
    ).text
    assert "inline_hot" in out
    assert "lib_inner" not in out


def test_disasm_finds_the_binary(vesta, corpus, tmp_path):
    own = corpus / "elf" / "own"
    profile = corpus / "pprof" / "c" / "gperf-cpu.unsymbolized.pb.gz"
    env = {"XDG_CACHE_HOME": str(tmp_path), "PPROF_BINARY_PATH": "/nonexistent"}
    by_path = vesta("disasm", f"-binary-path={own}", "^cmp$", profile, env=env, check=0).text
    by_hand = vesta("disasm", "^cmp$", own / "work", profile, env=env, check=0).text
    assert "ROUTINE ======================== cmp" in by_path
    assert "100ms      100ms (flat, cum) 13.59% of Total" in by_path
    assert "ret" in by_path and "work.c:18" in by_path
    assert by_hand == by_path


def test_symbolize_none_looks_nothing_up(vesta, corpus):
    out = vesta(
        "top", "-symbolize=none", f"-binary-path={corpus / 'elf' / 'own'}",
        corpus / "pprof" / "c" / "gperf-cpu.unsymbolized.pb.gz", check=0,
    ).text
    assert "inline_hot" not in out and "work" in out
    result = vesta("top", "-symbolize=sometimes",
                   corpus / "pprof" / "c" / "gperf-cpu.unsymbolized.pb.gz", check=2)
    assert b"-symbolize takes none, local, force or demangle=" in result.err


def cumulative(text):
    """{function: cum} of a top report."""
    rows = (line.split() for line in text.splitlines() if "%" in line and ":" not in line)
    return {row[5]: row[3] for row in rows if len(row) > 5}


@pytest.mark.parametrize("name", ["perf.fp", "perf.multi"])
def test_perf_data_gets_the_names_that_perf_gave(vesta, corpus, tmp_path, name):
    """perf script printed the same recording with perf's own symbolization."""
    options = ["-noinlines", "-nodefraction=0", "-nodecount=1000", "-sample_index=cpu-clock"]
    ours = cumulative(vesta(
        "top", *options, f"-binary-path={corpus / 'elf' / 'own'}",
        corpus / "perf-data" / "own" / f"{name}.data",
        env={"XDG_CACHE_HOME": str(tmp_path)}, check=0).text)
    perfs = cumulative(vesta(
        "top", *options, corpus / "perf-script" / "own" / f"{name}.script.txt", check=0).text)
    program = ["inline_hot", "cmp", "ins", "thr", "alloc_some", "lib_inner", "main", "sorter",
               "freetree", "leak", "deep", "fib", "lib_work", "_start"]
    known = [f for f in program if f in perfs]
    assert len(known) > 6
    assert {f: ours.get(f) for f in known} == {f: perfs[f] for f in known}
