#!/bin/sh
# Layout and static checks: clang-format, shellcheck, sizes of files, then clang-tidy on what the build
# compiles.
# Takes three minutes on two idle cores; the clang-analyzer checks cost all but ten seconds of it.
set -eu
cd "$(dirname "$0")/.."
git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror
shellcheck tools/*.sh .ci/run
# Headers of tests hold code, so they count as code.
git ls-files '*.c' '*.h' | xargs wc -l | awk '
    { limit = $2 ~ /^src\/.*\.h$/ ? 400 : 1000 }
    $2 != "total" && $1 > limit { print $2 ": " $1 " lines, the limit is " limit; bad = 1 }
    END { exit bad }'
if [ -f build-lint/build.ninja ]; then # files may have come since
    meson setup --reconfigure -Dweb=disabled build-lint >/dev/null
else
    CC=clang meson setup -Dweb=disabled build-lint >/dev/null
fi
tidy() {
    xargs -P "$(nproc)" -n 4 clang-tidy -quiet -p build-lint "$@"
}
git ls-files 'src/*.c' ':!*.bpf.c' | tidy
# Tests and measurements keep the limits of size and naming; they may run shells and fork.
git ls-files 'tests/*.c' 'bench/*.c' |
    tidy -checks='-bugprone-*,-cert-*,-clang-analyzer-*,-concurrency-*'
echo "lint: clean"
