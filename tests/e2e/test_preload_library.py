"""libvesta-preload.so inside real programs: that they go on as before, with every allocator that is
there, and that what it hands over stands for what they did."""

import math
import mmap
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import time

import pytest
from conftest import BUILD, ROOT

SOURCES = ROOT / "tests" / "preload"
GLIBC = BUILD / "libvesta-preload.so"
MUSL = BUILD / "libvesta-preload-musl.so"
ALLOCATORS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc.so.4",
              "mimalloc": "libmimalloc.so.[23]"}
WORLDS = ["glibc", *ALLOCATORS, "musl"]
MAGIC = 0x52504154534556
ALLOC, LIVE, LOCK, THREAD = 1, 2, 3, 4
SMALL = {"VESTA_PRELOAD_TEXTS_MAX": "256K", "VESTA_PRELOAD_LIVE_MAX": "4096"}
RECORD = struct.Struct("<IBBHIIIIIIQQQ16s8s")


class Segment:
    """One .ring file, or the same bytes from elsewhere: src/abi/preload.h."""

    def __init__(self, data):
        (self.magic, self.version, _, self.size, self.pid, self.is_musl, _, _
         ) = struct.unpack_from("<QIIQIIQQ", data, 0)
        assert self.magic == MAGIC and self.size == len(data)
        areas = [struct.unpack_from("<QQ", data, 48 + 16 * i) for i in range(5)]
        self.wanted, self.alloc_rate, self.lock_rate = struct.unpack_from("<III", data, 128)
        self.head, self.texts_used, self.modules_used, self.live_count = struct.unpack_from(
            "<4Q", data, 192)
        self.lost = struct.unpack_from("<8Q", data, 224)
        self.sampled = struct.unpack_from("<6Q", data, 288)
        self.is_over = struct.unpack_from("<I", data, 336)[0]
        (ring, ring_size), texts, (keys, keys_size), (live, _), (at, _) = areas
        self.texts = data[texts[0]:sum(texts)]
        self.modules = []
        while (size := struct.unpack_from("<I", data, at)[0]) > 0:
            path_len, start, end = struct.unpack_from("<4xHxxQQ", data, at)
            self.modules.append((start, end, data[at + 72:at + 72 + path_len].decode()))
            at += size
        self.records = [RECORD.unpack_from(data, ring + RECORD.size * i)
                        for i in range(min(self.head, ring_size // RECORD.size))]
        self.live = [struct.unpack_from("<QII12xB", data, live + 32 * i)
                     for i in range(keys_size // 8)
                     if struct.unpack_from("<Q", data, keys + 8 * i)[0] > 1]

    def is_whole(self):
        """Every record is there, and of a known kind."""
        return all(r[0] in (0, i + 1) and (r[0] == 0 or r[1] in range(1, 6))
                   for i, r in enumerate(self.records))

    def stack(self, record):
        """Its modules, from the innermost."""
        size, = struct.unpack_from("<I", self.texts, 8 * record[6])
        return [next((path for start, end, path in reversed(self.modules)
                      if start <= address & ~(1 << 63) < end), None)
                for address in struct.unpack_from(f"<{size // 8}Q", self.texts, 8 * record[6] + 16)]

    def allocated(self, what=1):
        return totals((r[11], r[9]) for r in self.records if (r[1], r[2]) == (ALLOC, what))

    def alive(self):
        return totals((size, rate) for size, _, rate, _ in self.live)


def totals(samples):
    """Objects and bytes that samples stand for."""
    objects = size = 0
    for value, rate in samples:
        p = -math.expm1(-max(value, 1) / rate)
        objects += 1 / p
        size += value / p
    return objects, size


def segments(folder):
    return [Segment(path.read_bytes()) for path in sorted(folder.glob("*.ring"))]


def find_allocator(name):
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                   "/usr/lib", "/usr/local/lib"):
        for path in pathlib.Path(folder).glob(ALLOCATORS[name]):
            return path
    return pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Compiles a source for a world; each once."""
    folder = tmp_path_factory.mktemp("programs")
    made = {}

    def make(source, world="glibc", *more):
        compiler = "g++" if source.endswith(".cpp") else "musl-gcc" if world == "musl" else "gcc"
        if not shutil.which(compiler) or (world == "musl" and not MUSL.exists()):
            pytest.skip(f"{compiler} is not installed")
        key = (source, compiler, more)
        if key not in made:
            made[key] = folder / f"{source.split('.')[0]}-{len(made)}"
            subprocess.run([compiler, "-D_GNU_SOURCE", "-O1", "-g", "-o", made[key],
                            SOURCES / source, "-pthread", "-ldl", *more], check=True)
        return made[key]
    return make


@pytest.fixture
def inside(tmp_path):
    """Runs a program with the library in it; gives what it printed, and its segments."""
    def run(command, world="glibc", timeout=60, **env):
        folder = tmp_path / f"rings-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        library = MUSL if world == "musl" else GLIBC
        preload = f"{library}:{find_allocator(world)}" if world in ALLOCATORS else str(library)
        if world in ALLOCATORS:
            env["TORTURE_ALLOCATOR"] = world
        done = subprocess.run(
            [str(c) for c in command], capture_output=True, timeout=timeout, text=True,
            env={**os.environ, **SMALL, "VESTA_PRELOAD_DIR": str(folder), **env,
                 "LD_PRELOAD": preload})
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        return done.stdout, segments(folder)
    return run


def truth_of(text):
    _, objects, size, _, live_objects, live_size = text.split()
    return (int(objects), int(size)), (int(live_objects), int(live_size))


def is_near(got, wanted, rate, runs=1, slack=0):
    """Whether bytes are as near as their sampling allows; slack is what others did."""
    return abs(got - wanted) < 4.5 * math.sqrt(rate * wanted / runs) + slack


@pytest.mark.parametrize("world", WORLDS)
def test_torture(programs, inside, world):
    program = programs("torture.c", world)
    # mimalloc 2.0 dies of this by itself, once in 40 times.
    for is_last in [False, False, True] if world == "mimalloc" else [True]:
        try:
            text, rings = inside([program, "0.3"], world, VESTA_PRELOAD_INTERVAL="64",
                                 VESTA_PRELOAD_LOCK_INTERVAL="1")
            break
        except AssertionError:
            if is_last:
                raise
    assert text == "torture: fine\n"
    assert all(ring.is_whole() for ring in rings)
    # The program, its children and theirs, and what they executed.
    assert len({ring.pid for ring in rings}) >= 10
    assert all(ring.is_musl == (world == "musl") for ring in rings)
    kinds = [sum(ring.sampled[kind] for ring in rings) for kind in range(6)]
    assert kinds[ALLOC] > 1000 and kinds[THREAD] >= 3


@pytest.mark.parametrize("world", WORLDS)
def test_totals_are_the_truth(programs, inside, world):
    program, rate, runs = programs("alloc_known.c", world), 8192, 4
    sums = [0, 0]
    for seed in range(runs):
        text, (ring,) = inside([program], world, VESTA_PRELOAD_INTERVAL=str(rate),
                               VESTA_PRELOAD_SEED=str(seed + 1), VESTA_PRELOAD_TYPES="live")
        (_, size), (_, live_size) = truth_of(text)
        assert ring.is_over and ring.lost == (0,) * 8 and ring.live_count == len(ring.live)
        sums[0] += ring.allocated()[1]
        sums[1] += ring.alive()[1]
    assert is_near(sums[0] / runs, size, rate, runs, slack=100_000)
    # libc, and allocators, keep a few KiB of their own (C++'s reserve is 72 KiB).
    assert is_near(sums[1] / runs, live_size, rate, runs, slack=90_000)


def test_totals_are_unbiased_over_many_seeds(programs, inside):
    program, rate, runs = programs("alloc_known.c"), 16384, 25
    objects, sizes, live = [], [], []
    for seed in range(runs):
        text, (ring,) = inside([program, "5000"], VESTA_PRELOAD_INTERVAL=str(rate),
                               VESTA_PRELOAD_SEED=str(1000 + seed), VESTA_PRELOAD_TYPES="live")
        (true_objects, size), (_, live_size) = truth_of(text)
        got = ring.allocated()
        objects.append(got[0] / true_objects)
        sizes.append(got[1])
        live.append(ring.alive()[1])
    assert is_near(sum(sizes) / runs, size, rate, runs, slack=20_000)
    assert is_near(sum(live) / runs, live_size, rate, runs, slack=20_000)
    # An object of one byte stands for 16384, so objects scatter by what is smallest.
    assert abs(sum(objects) / runs - 1) < 0.25
    # They scatter as they should, and other seeds are other samples.
    spread = sum((s - size) ** 2 for s in sizes) / runs / (rate * size)
    assert 0.4 < spread < 2 and len(set(sizes)) == runs


def test_a_seed_gives_the_same_samples(programs, inside):
    runs = [inside([programs("alloc_known.c"), "3000"], VESTA_PRELOAD_INTERVAL="4K",
                   VESTA_PRELOAD_SEED="7")[1][0] for _ in range(2)]
    assert runs[0].allocated() == runs[1].allocated()


@pytest.mark.parametrize("world", [w for w in WORLDS if w != "musl"])
def test_operator_new_of_every_kind(programs, inside, world):
    program = programs("new_known.cpp", world, "-std=c++17")
    text, (ring,) = inside([program], world, VESTA_PRELOAD_INTERVAL="8K")
    (_, size), (_, live_size) = truth_of(text)
    assert is_near(ring.allocated()[1], size, 8192, slack=200_000)
    assert is_near(ring.alive()[1], live_size, 8192, slack=100_000)


@pytest.mark.parametrize("world", WORLDS)
def test_mappings_that_go_in_parts(programs, inside, world):
    program = programs("maps_known.c", world)
    text, (ring,) = inside([program], world, VESTA_PRELOAD_INTERVAL="64")  # all are sampled
    (objects, size), (live_objects, live_size) = truth_of(text)
    maps = [r for r in ring.records if (r[1], r[2]) == (ALLOC, 2)]
    assert ring.allocated(what=2)[1] >= size and len(maps) >= objects
    if world == "tcmalloc":
        return  # its libunwind maps memory too
    assert ring.allocated(what=2) == (objects, size)
    mapped = [size for size, _, _, what in ring.live if what == 2]
    assert (len(mapped), sum(mapped)) == (live_objects, live_size)


def test_a_plugin_with_a_runtime_of_its_own(programs, inside):
    plugin = programs("new_known.cpp", "glibc", "-std=c++17", "-DAS_PLUGIN", "-shared", "-fPIC")
    text, (ring,) = inside([programs("opens_plugin.c"), plugin], VESTA_PRELOAD_INTERVAL="8K")
    (_, size), _ = truth_of(text)
    assert is_near(ring.allocated()[1], size, 8192, slack=200_000)


@pytest.mark.parametrize("ways", [
    ["STARTS_THREAD"],
    ["global", "close", "HAS_POOL", "PLAIN"],
    ["global", "HAS_POOL", "PLAIN"],
    ["-static-libstdc++"],
], ids=" ".join)
def test_plugins_find_what_they_would_without_it(programs, inside, ways):
    """Their own operators and runtime, which throws; not after they are gone, and without a lock."""
    command = [programs("opens_plugin.c")]
    for way in ways:
        if way in ("global", "close"):
            command.append(way)
        else:
            how = [way] if way.startswith("-") else [f"-D{way}"]
            if way == "HAS_POOL":
                how += ["-nodefaultlibs", "-lc"]
            command.append(programs("plugin_ways.cpp", "glibc", "-shared", "-fPIC", *how))
    _, [ring] = inside(command, timeout=20, VESTA_PRELOAD_INTERVAL="1")
    assert ring.is_whole() and ring.sampled[ALLOC] > 0


def test_plugins_that_take_turns_are_told_apart(programs, inside):
    """Twins in the same place, one after the other: each is told when it comes."""
    twins = [programs("plugin_ways.cpp", "glibc", "-shared", "-fPIC", "-DPLAIN",
                      f"-Wl,-soname,twin{i}.so") for i in range(2)]
    _, [ring] = inside([programs("opens_plugin.c"), "close", *twins, *twins, twins[1]],
                       VESTA_PRELOAD_INTERVAL="1")
    told = [path for _, _, path in ring.modules if path in map(str, twins)]
    assert told == [str(twins[i]) for i in (0, 1, 0, 1)]


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_an_allocator_that_is_linked(programs, inside, allocator):
    """Its operators are counted, as where it is preloaded."""
    program = programs("new_known.cpp", "glibc", "-std=c++17", str(find_allocator(allocator)))
    text, (ring,) = inside([program], VESTA_PRELOAD_INTERVAL="8K", TORTURE_ALLOCATOR=allocator)
    (_, size), _ = truth_of(text)
    assert is_near(ring.allocated()[1], size, 8192, slack=200_000)


@pytest.mark.parametrize("command", [
    [sys.executable, "-c", "import json, threading; t = threading.Thread(target=lambda: [json.dumps("
     "list(range(n))) for n in range(300)]); t.start(); t.join(); print('done')"],
    ["node", "-e", "const m = []; for (let i = 0; i < 1e4; i++) m.push(Buffer.alloc(100000 * (i % 2)));"
     "console.log('done')"],
    ["bash", "-c", "for i in 1 2 3; do echo $(echo done) | cat > /dev/null; done; echo done"],
    ["git", "-C", str(ROOT), "log", "-1", "--format=tformat:done"],
], ids=lambda c: pathlib.Path(c[0]).name)
def test_programs_go_on_as_before(inside, command):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    text, rings = inside(command, VESTA_PRELOAD_INTERVAL="4K")
    assert text == "done\n"
    assert rings and all(ring.is_whole() for ring in rings)
    assert sum(ring.sampled[ALLOC] for ring in rings) > 5


def test_aarch64(tmp_path):
    """Another machine, where stacks are walked by frame pointers: the site is the innermost frame,
    nothing is of the library itself, and all can be named."""
    compiler, machine = map(shutil.which, ("aarch64-linux-gnu-gcc", "qemu-aarch64-static"))
    if not compiler or not machine:
        pytest.skip("there is no compiler for aarch64, or no machine")
    sources = [s for s in (ROOT / "src" / "preload").glob("*.c") if s.name != "context_alone.c"]
    flags = ["-std=gnu17", "-D_GNU_SOURCE", "-O1", "-fno-omit-frame-pointer"]
    library, program = tmp_path / "library.so", tmp_path / "program"
    subprocess.run([compiler, *flags, "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,now",
                    "-fno-builtin", "-ftls-model=initial-exec", f"-I{ROOT}/src",
                    f"-I{ROOT}/include", "-o", library, *sources, "-Wl,--hash-style=both",
                    "-Wl,-z,separate-code"], check=True)
    subprocess.run([compiler, *flags, "-o", program, SOURCES / "odd_ways.c"], check=True)
    settings = {**SMALL, "VESTA_PRELOAD_DIR": tmp_path, "VESTA_PRELOAD_INTERVAL": "16K",
                "LD_PRELOAD": library}
    subprocess.run([machine, "-L", "/usr/aarch64-linux-gnu",
                    *(word for name, value in settings.items() for word in ("-E", f"{name}={value}")),
                    program, "no-environment"], check=True, timeout=60)
    [ring] = segments(tmp_path)
    stacks = [ring.stack(r) for r in ring.records if (r[1], r[11]) == (ALLOC, 100000)]
    assert len(stacks) > 900
    assert all(s[0] == s[1] == s[2] == s[-1] == str(program) and None not in s for s in stacks)


@pytest.mark.parametrize("world", ["glibc", "musl"])
def test_small_stacks(programs, inside, world):
    """A walk needs more than musl's smallest: then there is none, but the sample is there."""
    _, [ring] = inside([programs("odd_ways.c", world), "small-stack"], world,
                       VESTA_PRELOAD_INTERVAL="1")
    assert ring.sampled[ALLOC] >= 200 and ring.is_whole()


def test_an_environment_that_is_gone(programs, inside):
    _, [ring] = inside([programs("odd_ways.c"), "no-environment"], VESTA_PRELOAD_INTERVAL="4K")
    assert ring.sampled[ALLOC] > 900


@pytest.mark.parametrize("world", ["glibc", "musl"])
def test_what_was_not_found_is_no_error(programs, inside, world):
    inside([programs("odd_ways.c", world), "no-error"], world)


def test_dormant_children_call_nothing(programs, inside):
    """A sandbox that ends who makes a call that it does not know."""
    _, rings = inside([programs("odd_ways.c"), "sandbox"], VESTA_PRELOAD_OFF="1")
    assert len(rings) == 1


def test_ps(inside, tmp_path):
    """Its first malloc() is within a constructor, where libc holds the lock of its catalogues."""
    if not shutil.which("ps"):
        pytest.skip("ps is not installed")
    assert " ps\n" in inside(["ps", "-A"], timeout=20)[0]
    subprocess.run([BUILD / "vesta", "run", "-o", tmp_path / "profiles", "--", "ps"], check=True,
                   stdout=subprocess.DEVNULL, timeout=30)


def ring_in(folder):
    """The file of a process, once it has made one and written its header."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for path in folder.glob("*.ring"):
            file = open(path, "r+b")
            if os.pread(file.fileno(), 8, 0) == MAGIC.to_bytes(8, "little"):
                return file
            file.close()
        time.sleep(0.01)
    raise AssertionError("no file was found")


def test_on_and_off_at_run_time(programs, tmp_path):
    """Dormant at first; a reader writes what it wants. In a folder, where no agent looks."""
    env = {**os.environ, "LD_PRELOAD": str(GLIBC), "VESTA_PRELOAD_OFF": "1",
           "VESTA_PRELOAD_INTERVAL": "4K", "VESTA_PRELOAD_DIR": str(tmp_path)}
    process = subprocess.Popen([programs("alloc_known.c"), "3000", "wait"], env=env,
                               stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        file = ring_in(tmp_path)

        def works_until(condition):
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                process.stdin.write(b"x")
                process.stdin.flush()
                ring = Segment(os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0))
                if condition(ring):
                    return ring
                time.sleep(0.005)
            raise AssertionError((ring.wanted, ring.sampled))

        with file, mmap.mmap(file.fileno(), 4096) as header:
            ring = works_until(lambda r: True)
            assert ring.wanted == 0 and ring.head == 0
            header[128:132] = struct.pack("<I", 1 << ALLOC | 1 << LIVE)
            ring = works_until(lambda r: r.sampled[ALLOC] > 100)
            assert ring.alloc_rate == 4096 and ring.live_count > 0
            header[128:132] = struct.pack("<I", 0)
            counts = [works_until(lambda r: True).sampled[ALLOC]]
            # Those that are under way still come; then it is quiet, but frees are still seen.
            works_until(lambda r: counts.append(r.sampled[ALLOC]) or counts[-1] == counts[-20:][0]
                        and len(counts) > 20)
            assert works_until(lambda r: r.live_count < 40).sampled[ALLOC] == counts[-1]
    finally:
        process.stdin.close()
        assert process.wait(20) == 0


def test_where_it_cannot_be_it_is_not(programs, inside, tmp_path):
    """No folder: a memfd, and no file is left. No memory to map: nothing at all."""
    text, rings = inside([programs("alloc_known.c"), "1000"],
                         VESTA_PRELOAD_DIR=str(tmp_path / "nowhere"))
    assert text.startswith("allocated") and rings == []
    text, rings = inside(["bash", "-c", f"ulimit -f 8; exec {programs('alloc_known.c')} 1000"])
    assert text.startswith("allocated") and all(r.pid for r in rings)
