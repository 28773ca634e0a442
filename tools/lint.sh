#!/bin/sh
# Layout and static checks: clang-format, then clang-tidy on what the build compiles.
set -eu
cd "$(dirname "$0")/.."
git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror
[ -f build-lint/build.ninja ] || CC=clang meson setup build-lint >/dev/null
git ls-files 'src/*.c' | xargs -P "$(nproc)" -n 4 clang-tidy -quiet -p build-lint
echo "lint: clean"
