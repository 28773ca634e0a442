#!/usr/bin/env python3
"""Turns any file into a C array of bytes, aligned to 8.

usage: embed_bytes.py INPUT OUTPUT.c NAME"""

import sys

with open(sys.argv[1], "rb") as f:
    data = f.read()
name = sys.argv[3]
with open(sys.argv[2], "w") as out:
    out.write("#include <stddef.h>\n\n")
    out.write(f"extern const unsigned char {name}[];\nextern const size_t {name}_len;\n\n")
    out.write(f"__attribute__((aligned(8))) const unsigned char {name}[] = {{\n")
    for at in range(0, len(data), 20):
        out.write("    " + ",".join(map(str, data[at:at + 20])) + ",\n")
    out.write(f"}};\nconst size_t {name}_len = sizeof({name});\n")
