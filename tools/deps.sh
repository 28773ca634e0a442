#!/bin/sh
# Installs what is missing to build, test, measure or lint Vesta on Debian 12 or 13, and says what and why.
# usage: tools/deps.sh build|test|bench|lint     (test includes build, the others include both)
# Where it may not install, it prints the one command to run and fails.
set -eu

# group | how to tell that it is there | package | why
table='
build|cmd gcc|gcc|compiles C
build|file /usr/include/stdio.h|libc6-dev|the C library headers
build|cmd meson|meson|describes the build
build|cmd ninja|ninja-build|runs the build
build|cmd pkg-config|pkg-config|finds libraries
build|pc libdeflate|libdeflate-dev|fast gzip
build|pc zlib|zlib1g-dev|gzip as a stream
build|pc libzstd|libzstd-dev|zstd
build|pc libpcre2-8|libpcre2-dev|regular expressions of users
build|pc libxxhash|libxxhash-dev|checksums of what is stored
build|pc sqlite3|libsqlite3-dev|what people edit (tokens, tenants, deployments)
build|pc openssl|libssl-dev|profiles from https URLs
build|pc libnghttp2|libnghttp2-dev|HTTP/2
build|pc yaml-0.1|libyaml-dev|configuration files
build|pc libedit|libedit-dev|history and completion at the prompt
build|pc libdw|libdw-dev|DWARF lines and inlined functions
build|pc libelf|libelf-dev|ELF files
build|pc liblzma|liblzma-dev|compressed symbol tables (minidebuginfo)
build|file /usr/include/bzlib.h|libbz2-dev|what libdw needs to be linked in
build|pc capstone|libcapstone-dev|disassembly
build|file /usr/include/libiberty/demangle.h|libiberty-dev|names of C++, Rust and D functions
build|pc libbpf|libbpf-dev|loads programs into the kernel
build|cmd clang|clang|compiles programs for the kernel; second compiler, and the fuzzers
build|cmd node|nodejs|bundles and packs the web UI; in tests, makes fresh heap snapshots
build|cmd npm|npm|fetches what the web UI is built with; in tests, programs to compare with
build|cmd python3|python3|puts files into programs; runs the end-to-end tests
test|py pytest|python3-pytest|runs the end-to-end tests
test|py ensurepip|python3-venv|programs in Python to compare with
test|fuzzer|FUZZER_RUNTIME|what fuzz targets link
test|cmd go|golang-go|go tool pprof, to compare with
test|cmd chromium|chromium|opens flame graphs in a real browser
test|cmd curl|curl|sends what users send
test|cmd h2load|nghttp2-client|an independent HTTP/2 client
test|cmd zstd|zstd|packs what is sent
test|cmd openssl|openssl|makes certificates
test|cmd dot|graphviz|draws call graphs
test|cmd callgrind_annotate|valgrind|reads what is written for it
test|cmd gdb|gdb|an independent view of stacks
test|cmd g++|g++|programs to profile
test|cmd rustc|rustc|programs to profile
test|cmd musl-gcc|musl-tools|programs without glibc to profile
test|cmd perf|linux-perf|costs to compare with
test|cmd ps|procps|a program to profile, and what tests look at processes with
test|cmd objdump|binutils|an independent view of binaries
test|lib libjemalloc.so|libjemalloc-dev|an allocator that programs bring
test|lib libtcmalloc.so|libgoogle-perftools-dev|another
test|lib libmimalloc|libmimalloc-dev|and another
bench|cmd redis-benchmark|redis-server|a real program to slow down
bench|cmd heaptrack|heaptrack|another heap profiler, to compare with
bench|cmd wrk|wrk|load for a Node service
lint|cmd clang-format|clang-format|checks the layout of code
lint|cmd clang-tidy|clang-tidy|checks code
lint|cmd shellcheck|shellcheck|checks shell scripts
lint|cmd gcovr|gcovr|reports coverage
'

have() {
    case $1 in
    cmd) command -v "$2" >/dev/null 2>&1 ;;
    file) [ -e "$2" ] ;;
    lib) ls /usr/lib/*/"$2"* >/dev/null 2>&1 ;;
    pc) command -v pkg-config >/dev/null 2>&1 && pkg-config --exists "$2" ;;
    py) command -v python3 >/dev/null 2>&1 && python3 -c "import $2" 2>/dev/null ;;
    fuzzer) command -v clang >/dev/null 2>&1 &&
        [ -e "$(clang -print-file-name=libclang_rt.fuzzer-"$(uname -m)".a)" ] ;;
    esac
}

# The fuzzer's runtime is packaged per version of clang.
package_name() {
    if [ "$1" != FUZZER_RUNTIME ]; then
        echo "$1"
        return
    fi
    # shellcheck source=/dev/null
    case $(. /etc/os-release && echo "${VERSION_ID:-}") in
    12) echo libclang-rt-14-dev ;;
    *) echo libclang-rt-19-dev ;;
    esac
}

case ${1:-} in
build) wanted="build" ;;
test) wanted="build test" ;;
bench) wanted="build test bench" ;;
lint) wanted="build test lint" ;;
*)
    echo "usage: tools/deps.sh build|test|bench|lint" >&2
    exit 2
    ;;
esac

missing=""
while IFS='|' read -r group how package why; do
    case " $wanted " in *" $group "*) ;; *) continue ;; esac
    # shellcheck disable=SC2086
    if [ -z "$group" ] || have $how; then continue; fi
    package=$(package_name "$package")
    echo "missing: $package ($why)"
    missing="$missing $package"
done <<EOF
$table
EOF
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "This is not Debian; install what corresponds to:$missing" >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" != 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "Not allowed to install. Run this once, then try again:" >&2
        echo "    sudo apt-get install -y$missing" >&2
        exit 1
    fi
    as_root="sudo"
fi
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
echo "installed:$missing"
