#!/bin/sh
# Layout and static checks: clang-format, sizes of files, then clang-tidy on what the build compiles.
set -eu
cd "$(dirname "$0")/.."
git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror
# Headers of tests hold code, so they count as code.
git ls-files '*.c' '*.h' | xargs wc -l | awk '
    { limit = $2 ~ /^src\/.*\.h$/ ? 400 : 1000 }
    $2 != "total" && $1 > limit { print $2 ": " $1 " lines, the limit is " limit; bad = 1 }
    END { exit bad }'
[ -f build-lint/build.ninja ] || CC=clang meson setup build-lint >/dev/null
git ls-files 'src/*.c' | xargs -P "$(nproc)" -n 4 clang-tidy -quiet -p build-lint
echo "lint: clean"
