#!/usr/bin/env python3
"""Checks that each room under src/ includes only what the table in ARCHITECTURE.md allows it.

Prints TAP, one line per room. The table's rows read: | room | holds | may use |."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)

# Third-party headers enter at one room each.
OUTSIDE = {
    "pcre2.h": "base", "xxhash.h": "base",
    "sqlite3.h": "catalog",
    "libdeflate.h": "wire", "zlib.h": "wire", "zstd.h": "wire",
    "zstd_errors.h": "wire",
    "openssl/": "net", "nghttp2/": "net", "yaml.h": "config",
    "elfutils/": "symbols", "dwarf.h": "symbols", "libelf.h": "symbols", "gelf.h": "symbols",
    "libiberty/": "symbols", "demangle.h": "symbols", "lzma.h": "symbols", "capstone/": "symbols",
    "bpf/": "probe",
    "editline/": "cli", "histedit.h": "cli",
}


def read_table():
    rooms = {}
    in_table = False
    for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if cells[:1] == ["room"] and cells[-1] == "may use":
            in_table = True
        elif in_table and line.startswith("|"):
            if not set(cells[0]) <= set("-: "):
                rooms[cells[0].strip("`")] = set(re.findall(r"[a-z_]+", cells[-1]))
        elif in_table:
            break
    return rooms


def complaints(room, allowed, rooms):
    for path in sorted((ROOT / "src" / room).rglob("*.[ch]")):
        where = path.relative_to(ROOT)
        for kind, name in INCLUDE.findall(path.read_text()):
            target = name.split("/")[0]
            if kind == '"' and "/" not in name:
                yield f'{where} includes "{name}" without its room'
            elif kind == '"' and target != room and target not in allowed:
                yield f"{where} includes {name}, but {room} may not use {target}"
            elif kind == "<":
                for prefix, owner in OUTSIDE.items():
                    if name.startswith(prefix) and owner != room:
                        yield f"{where} includes <{name}>, which belongs to {owner}"


def repeated_names():
    seen = {}
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        if path.name in seen:
            yield f"{path.relative_to(ROOT)} and {seen[path.name]} have one name"
        seen[path.name] = path.relative_to(ROOT)


def main():
    rooms = read_table()
    checks = []
    for room in sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir()):
        found = [f"{room} is not in the table of ARCHITECTURE.md"]
        if room in rooms:
            found = list(complaints(room, rooms[room], rooms))
        checks.append((f"{room} uses only what it may", found))
    checks.append(("file names are unique", list(repeated_names())))
    print(f"1..{len(checks)}")
    for number, (name, found) in enumerate(checks, 1):
        for text in found:
            print("# " + text)
        print(f"{'not ok' if found else 'ok'} {number} - {name}")
    return any(found for _, found in checks)


if __name__ == "__main__":
    sys.exit(main())
