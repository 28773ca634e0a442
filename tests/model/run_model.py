#!/usr/bin/env python3
"""Runs the store model under random schedules, faults and crashes, and checks what readers see.

    run_model.py --seeds 10000           the design: no seed may fail
    run_model.py --bugs --seeds 2000     every deliberate mistake must be noticed
    run_model.py --seed 17 --trace       what happened in one run
    run_model.py --bug NAME --seeds N    one mistake

A run is decided by its seed alone.
"""

import argparse
import random
import sys
import time

from disk_model import Disk, SyncFailed, WriteFailed
from store_model import (BUGS, DAY, HOUR, MINUTE, Profile, Snapshot, Violation, format_disk,
                         recover)


# Some mistakes show only in a rare turn of events: what makes it less rare.
PROVOKE = {
    "retry-failed-fsync": {"faults": (0, 0.1, 0)},
    "recovery-syncs-log": {"faults": (0, 0.1, 0)},
    "sees-own-fsync-only": {"faults": (0, 0, 0.1), "p_power": 1.0, "p_crash": 0.005,
                            "p_crash_open": 0},
    "no-fsync-after-truncate": {"faults": (0.1, 0, 0), "p_power": 1.0, "p_crash": 0.01,
                                "p_crash_open": 0, "clients": 12, "fast": "client"},
    "link-dedup-memory-only": {"recent": 1, "clients": 8, "p_crash": 0.002, "p_delete": 0,
                               "faults": (0, 0, 0)},
    "recovery-deletes-first": {"p_crash": 0.015, "p_crash_open": 0.15, "p_power": 0.5},
    "compaction-stamps-newest": {"p_delete": 0.9},
    "erase-flushes-frozen-only": {"logs_deletes": False, "p_delete": 0.3, "keepers": 3,
                                  "clients": 2, "p_retain": 0, "p_crash": 0.0005, "fast": "",
                                  "faults": (0, 0, 0)},
    "delete-forgotten-early": {"p_delete": 0.4, "faults": (0, 0, 0)},
    "sequence-forgotten": {"p_delete": 0.4, "p_crash": 0.01, "faults": (0, 0, 0)},
}
# Or so rare that the schedule is written down: class Script.
SCRIPTED = ("erase-without-pause", "erase-keeps-log-without-rows", "epoch-ignores-duplicates")


class Fact:
    """What is known of one profile. base: the counts it may have once nothing is under way."""

    def __init__(self, profile):
        self.profile = profile
        self.base = {0}
        self.attempts = []  # under way; each [True when a delete of it ran meanwhile]
        self.changes = 0  # tells whether it is still what it was when a snapshot was taken


class PendingDelete:
    """A delete under way; touched: profiles appended meanwhile, which may come before or after."""

    def __init__(self, series, low, high):
        self.series, self.low, self.high = series, low, high
        self.touched = set()

    def hits(self, profile):
        return self.series in (None, profile.series) and self.low <= profile.start < self.high


class Oracle:
    """Knows what may be read, from what clients sent and were told."""

    def __init__(self):
        self.facts = {}
        self.delete = None
        self.floor = 0

    def touch(self, fact):
        fact.changes += 1
        if self.delete:
            self.delete.touched.add(fact.profile.key)

    def append_begins(self, profile):
        fact = self.facts.setdefault(profile.key, Fact(profile))
        attempt = [bool(self.delete and self.delete.hits(profile))]
        fact.attempts.append(attempt)
        self.touch(fact)
        return attempt

    def append_ends(self, profile, attempt, answer):
        fact = self.facts[profile.key]
        if answer == "unknown":
            return  # under way until the store is opened again
        fact.attempts = [a for a in fact.attempts if a is not attempt]
        self.touch(fact)
        if answer in ("stored", "duplicate"):
            fact.base = {0, 1} if attempt[0] else {1}

    def delete_begins(self, series, low, high):
        self.delete = PendingDelete(series, low, high)
        for key, fact in self.facts.items():
            if self.delete.hits(fact.profile):
                fact.changes += 1
                for attempt in fact.attempts:
                    attempt[0] = True
                    self.delete.touched.add(key)

    def delete_ends(self, answer):
        if answer == "unknown":
            return
        delete, self.delete = self.delete, None
        for key, fact in self.facts.items():
            if delete.hits(fact.profile):
                fact.changes += 1
                if answer == "done":
                    fact.base = fact.base | {0} if key in delete.touched else {0}

    def may_be(self, fact):
        counts = set(fact.base)
        if fact.attempts:
            counts.add(1)
        if self.delete and self.delete.hits(fact.profile):
            counts.add(0)
        return counts

    def crash(self):
        """Nothing is under way any more; what was may have happened or not."""
        for fact in self.facts.values():
            fact.base = self.may_be(fact)
            fact.attempts = []
            fact.changes += 1


class View:
    """What the oracle expects of one snapshot, noted at the moment it was taken."""

    def __init__(self, oracle, snapshot):
        if snapshot.floor < oracle.floor:
            raise Violation("the floor fell from %d to %d" % (oracle.floor, snapshot.floor))
        oracle.floor = snapshot.floor
        self.oracle, self.floor = oracle, snapshot.floor
        self.may_be = {k: oracle.may_be(f) for k, f in oracle.facts.items()}
        self.noted = {k: (f.changes, len(f.attempts)) for k, f in oracle.facts.items()}
        self.delete = oracle.delete
        self.together = set()
        if self.delete:
            for key, fact in oracle.facts.items():
                if self.delete.hits(fact.profile) and key not in self.delete.touched:
                    if fact.base == {1}:
                        self.together.add(key)

    def check(self, keys, last, series, low, high):
        """Each profile once, where it must be; deletes all at once; the last row the last."""
        low = max(low, self.floor)
        counts = dict.fromkeys(keys, 0)
        for key in keys:
            counts[key] += 1
        for key in counts:
            if key not in self.may_be or not low <= key[1] < high or series not in (None, key[0]):
                raise Violation("%s does not belong to the answer" % (key,))
        torn = set()
        for key, allowed in self.may_be.items():
            if low <= key[1] < high and series in (None, key[0]):
                count = counts.get(key, 0)
                if count not in allowed:
                    raise Violation("%s was counted %d times, may be %s" % (key, count, allowed))
                if key in self.together:
                    torn.add(count)
                self.learn(key, count)
        if len(torn) > 1:
            raise Violation("a delete was seen half done")
        if last != max(counts, key=lambda k: (k[1], k), default=None):
            raise Violation("%s is not the last row" % (last,))

    def learn(self, key, count):
        """What was seen stays so."""
        fact = self.oracle.facts[key]
        deleting = self.delete and self.delete.hits(fact.profile)
        if self.noted[key][0] == fact.changes and not deleting:
            if count or not self.noted[key][1]:
                fact.base = {count}


class Thread:
    """A generator that may wait for something."""

    def __init__(self, work):
        self.work, self.waits, self.result = work, None, None

    def ready(self):
        return self.work is not None and (self.waits is None or bool(self.waits()))

    def step(self):
        try:
            self.waits = next(self.work)
        except StopIteration as done:
            self.work, self.result = None, done.value

    def run(self, until=lambda: False):
        """Alone, to its end or as far as it comes; its result."""
        while self.ready() and not until():
            self.step()
        return self.result


class World:
    """One run: clients, readers, maintenance, and a disk and a machine that fail."""

    def __init__(self, seed, bugs=(), trace=False):
        self.rng = rng = random.Random(seed)
        self.bugs, self.trace = bugs, trace
        self.steps = rng.randint(500, 3000)
        self.p_crash = rng.choice((0.0007, 0.002, 0.01))
        self.p_power = rng.choice((0.3, 0.6, 0.9))
        self.p_delete = rng.choice((0, 0.1, 0.4))
        self.clients = rng.choice((2, 3, 5))
        self.starts = rng.choice((3, 12, 40))  # few start times: many meet
        self.recent = rng.choice((1, 3, 8))  # retries pick from so many profiles
        self.p_crash_open = rng.choice((self.p_crash, 0.05, 0.15))
        self.p_epoch = rng.choice((0.02, 0.3))
        self.p_retain, self.symbols, self.keepers = 0.1, 6, 2
        self.logs_deletes = rng.random() < 0.5
        self.fast = rng.choice(("client", "reader", "compactor", "keeper", "deleter", ""))
        self.disk = Disk(rng)
        format_disk(self.disk)
        self.faults = (rng.choice((0, 0.01, 0.04)), rng.choice((0, 0, 0.01, 0.03)),
                       rng.choice((0, 0, 0.01, 0.03)))
        self.oracle = Oracle()
        self.sent = []
        self.now = 2 * DAY
        self.store, self.threads = None, []
        for bug in bugs:
            self.__dict__.update(PROVOKE.get(bug, {}))

    def say(self, *words):
        if self.trace:
            print(*words)

    # -- the threads --------------------------------------------------------------------------

    def pick_profile(self):
        rng = self.rng
        if self.sent and rng.random() < 0.45:
            return rng.choice(self.sent[-self.recent :] if rng.random() < 0.6 else self.sent)
        late = rng.choice((0, 0, 0, MINUTE, HOUR, DAY))
        start = max(0, self.now - late - rng.randrange(self.starts))
        ident = rng.choice(("id-a", "id-b", "hash-a", "hash-b"))
        profile = Profile(rng.randrange(2), start, ident, rng.randrange(self.symbols))
        known = self.oracle.facts.get(profile.key)
        if known:
            return known.profile
        self.sent.append(profile)
        return profile

    def client(self):
        """Sends, and sends again, for the answer may be lost."""
        while True:
            profile = self.pick_profile()
            for _ in range(self.rng.choice((1, 1, 2, 3))):
                yield
                attempt = self.oracle.append_begins(profile)
                self.say("append", profile)
                answer = yield from self.store.append(profile)
                self.say("append", profile, "->", answer)
                self.oracle.append_ends(profile, attempt, answer)

    def deleter(self):
        while True:
            yield
            if self.oracle.delete or self.rng.random() >= self.p_delete:
                continue
            low = max(0, self.now - self.rng.choice((1, MINUTE, HOUR, DAY + HOUR)))
            if self.sent and self.rng.random() < 0.7:
                low = self.rng.choice(self.sent[-self.recent :]).start
            high = low + self.rng.choice((1, 3, MINUTE, HOUR, DAY))
            series = self.rng.choice((None, 0, 1))
            self.oracle.delete_begins(series, low, high)
            self.say("delete", series, low, high)
            answer = yield from self.store.delete(series, low, high)
            self.say("delete", series, low, high, "->", answer)
            self.oracle.delete_ends(answer)

    def keeper(self):
        """Rotates and flushes."""
        while True:
            yield
            if self.rng.random() < 0.3:
                self.say("rotate")
                yield from self.store.rotate()
            if self.store.frozen and self.rng.random() < 0.5:
                done = yield from self.store.flush()
                self.say("flush ->", done)
            if self.rng.random() < self.p_epoch:
                yield from self.store.next_epoch()

    def compactor(self):
        while True:
            yield
            segments = self.store.segments
            if not segments:
                continue
            size = self.rng.choice((HOUR, HOUR, DAY))
            low = self.rng.choice(segments).low
            self.say("compact", low - low % size, size)
            yield from self.store.compact(low - low % size, size)

    def retainer(self):
        """By age, with a clock that jumps, or by size: the oldest window goes."""
        while True:
            yield
            if self.rng.random() >= self.p_retain:
                continue
            floor = self.now - self.now % HOUR - self.rng.choice((1, 2, 3)) * DAY // 2
            if self.store.segments and self.rng.random() < 0.3:
                floor = min(s.high for s in self.store.segments)
            self.say("retain", floor)
            yield from self.store.retain(max(0, floor))

    def reader(self):
        while True:
            yield
            yield from self.read_twice()

    def read_twice(self):
        """One snapshot, read by rows, through rollups and in steps: all must agree."""
        rng = self.rng
        snapshot = Snapshot(self.store)
        view = View(self.oracle, snapshot)
        series = rng.choice((None, 0, 1))
        low = max(0, self.now - rng.choice((2, MINUTE, HOUR, DAY, 3 * DAY)) - rng.randrange(3))
        size = rng.choice((3, MINUTE, HOUR, DAY, 4 * DAY))
        if rng.random() < 0.5:
            low -= low % rng.choice((MINUTE, HOUR, DAY))
        answers = []
        for raw in (False, True):
            keys, last = yield from snapshot.read(series, low, low + size, raw)
            view.check(keys, last, series, low, low + size)
            answers.append(keys)
        step = rng.choice((MINUTE, HOUR, DAY))
        stepped = []
        at = low
        while at < low + size:
            end = min(low + size, at - at % step + step)
            keys, _ = yield from snapshot.read(series, at, end)
            stepped += keys
            at = end
        if not answers[0] == answers[1] == sorted(stepped):
            raise Violation("rows, rollups and steps of one snapshot differ")

    # -- the machine --------------------------------------------------------------------------

    def spawn(self):
        makers = [self.client] * self.clients + [self.reader] * 2 + [self.compactor] * 2
        makers += [self.keeper] * self.keepers + [self.deleter, self.retainer]
        self.threads = [Thread(maker()) for maker in makers]
        self.weights = [8 if maker.__name__ == self.fast else 1 for maker in makers]

    def step(self):
        """One thread goes one step; now and then nobody who was drawn can."""
        thread = self.rng.choices(self.threads, self.weights)[0]
        if thread.ready():
            thread.step()
        elif not any(t.ready() for t in self.threads):
            raise Violation("nobody can go on")

    def crash(self):
        power = self.rng.random() < self.p_power
        self.say("--- power cut" if power else "--- killed")
        if power:
            self.disk.power_cut()

    def check_all(self, store):
        """Everything there is, at once."""
        snapshot = Snapshot(store)
        view = View(self.oracle, snapshot)
        for raw in (True, False):
            answer = Thread(snapshot.read(None, 0, self.now + DAY, raw)).run()
            view.check(*answer, None, 0, self.now + DAY)

    def dies_opening(self):
        return self.rng.random() < self.p_crash_open

    def open(self):
        """Recovers, dying on the way now and then; the first look settles what was open."""
        for attempt in range(8):
            calm = attempt >= 5
            self.disk.p_write, self.disk.p_sync, self.disk.p_dir = (
                (0, 0, 0) if calm else self.faults)
            thread = Thread(recover(self.disk, self.rng, self.bugs, self.logs_deletes))
            try:
                self.store = thread.run(lambda c=calm: not c and self.dies_opening())
            except (WriteFailed, SyncFailed) as error:
                self.say("recovery failed:", error)
            if not thread.work:
                break
            thread.work.close()
            self.crash()
        self.say("--- open; floor", self.store.floor)
        self.check_all(self.store)
        # A delete that was under way is now done or not.
        self.oracle.delete = None

    def restart(self):
        self.oracle.crash()
        for thread in self.threads:
            thread.work.close()
        self.crash()
        self.open()
        self.spawn()

    def run(self):
        self.open()
        self.spawn()
        for _ in range(self.steps):
            if self.rng.random() < 0.1:
                self.now += 1
            self.step()
            stuck = self.store.stopped and self.rng.random() < 0.02
            if stuck or self.rng.random() < self.p_crash:
                self.restart()
        self.restart()
        self.disk.power_cut()
        self.restart()


class Script:
    """Schedules too rare to be met by chance. Of two copies of a profile the first is stored, and
    flushed before the second one is logged and dropped as a duplicate."""

    def __init__(self, bugs):
        self.disk, self.bugs = Disk(random.Random(1)), bugs
        format_disk(self.disk)
        self.reopen()

    def reopen(self):
        self.store = Thread(recover(self.disk, self.disk.rng, self.bugs, False)).run()

    def flush(self):
        Thread(self.store.rotate()).run()
        Thread(self.store.flush()).run()

    def read(self):
        return Thread(Snapshot(self.store).read(None, 0, DAY)).run()

    def two_copies(self):
        """The first is stored, the second waits in the queue."""
        store, profile = self.store, Profile(0, 5, "id-a", 0)
        first, second = Thread(store.append(profile)), Thread(store.append(profile))
        first.run(lambda: store.group)
        second.run(lambda: store.queue)
        first.run()
        return second

    def delete_meets_duplicate(self, late):
        """Then it is deleted. late: the second is logged while the delete is under way."""
        second = self.two_copies()
        delete = Thread(self.store.delete(None, 0, DAY))
        if late:
            delete.run(lambda: self.store.segments)
        else:
            self.flush()
        second.run()
        delete.run()
        second.run()
        seen = self.read()
        self.reopen()
        if self.read() != seen:
            raise Violation("what was deleted came back")

    def epoch_meets_duplicate(self):
        """Then retention takes the last file of its epoch."""
        Thread(self.store.append(Profile(0, 6, "id-a", 0))).run()
        self.flush()
        second = self.two_copies()
        self.flush()
        second.run()
        Thread(self.store.next_epoch()).run()
        Thread(self.store.retain(DAY)).run()
        self.reopen()


def scripted(bugs=()):
    """What goes wrong in the schedules that are written down, or None."""
    try:
        Script(bugs).delete_meets_duplicate(False)
        Script(bugs).delete_meets_duplicate(True)
        Script(bugs).epoch_meets_duplicate()
    except Violation as violation:
        return str(violation)
    return None


def fails(seed, bugs=(), trace=False):
    """What went wrong in the run, or None."""
    try:
        World(seed, bugs, trace).run()
    except Violation as violation:
        return str(violation)
    return None


def hunt(bug, seeds):
    """The first seed that notices the mistake, and what it saw."""
    if bug in SCRIPTED:
        return "script", scripted((bug,))
    for seed in range(seeds):
        seen = fails(seed, (bug,))
        if seen:
            return seed, seen
    return None, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=500, help="how many runs")
    parser.add_argument("--seed", type=int, help="one run")
    parser.add_argument("--from-seed", type=int, default=0, help="the first of the runs")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    parser.add_argument("--bug", action="append", default=[], choices=sorted(BUGS))
    parser.add_argument("--bugs", action="store_true", help="hunt every deliberate mistake")
    args = parser.parse_args()
    if args.bugs:
        missed = 0
        for bug, meaning in BUGS.items():
            seed, seen = hunt(bug, args.seeds)
            missed += seen is None
            print("%-30s %s" % (bug, "MISSED: " + meaning if seen is None
                                else "%s: %s" % (seed, seen)), flush=True)
        return 1 if missed else 0
    seeds = [args.seed] if args.seed is not None else range(args.from_seed,
                                                            args.from_seed + args.seeds)
    began, bad = time.monotonic(), 0
    for seed in seeds:
        seen = fails(seed, args.bug, args.trace)
        if seen:
            bad += 1
            print("seed %d: %s" % (seed, seen), flush=True)
    print("%d runs, %d failed, %.1f s" % (len(seeds), bad, time.monotonic() - began))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
