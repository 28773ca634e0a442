#!/usr/bin/env python3
"""Turns a text file into a C string constant.

usage: embed.py INPUT OUTPUT.c NAME"""

import sys

with open(sys.argv[1], "rb") as f:
    data = f.read()
with open(sys.argv[2], "w") as out:
    out.write("#include <stddef.h>\n\n")
    out.write(f"extern const char {sys.argv[3]}[];\nextern const size_t {sys.argv[3]}_len;\n\n")
    out.write(f"const char {sys.argv[3]}[] =\n")
    for line in data.decode().splitlines(keepends=True):
        text = line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("?", "\\?")
        out.write(f'    "{text}"\n')
    out.write(f";\nconst size_t {sys.argv[3]}_len = sizeof({sys.argv[3]}) - 1;\n")
