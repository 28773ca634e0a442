"""The store's exactly-once logic, and nothing else: no columns, no bytes, no sockets.

Threads are generators. Between two yields the store's lock is held; at every yield another thread
may run, or the machine may die. `yield CONDITION` waits until CONDITION() holds.

`bugs` names deliberate mistakes (see BUGS), so that the model can show that it notices them.
"""

from disk_model import TORN, SyncFailed, WriteFailed

MINUTE, HOUR, DAY = 4, 16, 64  # in ticks, the smallest step of time here

BUGS = {
    # the log
    "ack-before-fsync": "an append is answered after the write, before the fsync",
    "ack-pending-duplicate": "a copy of a profile still in the queue is answered at once",
    "retry-failed-fsync": "a failed fsync is tried again, and believed",
    "sees-own-fsync-only": "one thread's failed fsync does not fail what another is syncing",
    "no-fsync-after-truncate": "a failed write is cut off the log, but the cut is not synced",
    "append-after-torn-tail": "the log goes on behind a torn record after recovery",
    "no-dir-sync-of-log": "a new log file is used before its directory entry is durable",
    # duplicates
    "no-dedup-at-link": "duplicates are looked for before the log write only",
    "link-dedup-memory-only": "the second look ignores what was flushed since the first one",
    "no-dedup-at-replay": "replay links every record it finds",
    "dedup-skips-day-files": "duplicates are looked for in hour files only",
    "dedup-sees-deleted": "a deleted profile counts as a duplicate of itself",
    # rotation, flush, manifest
    "rotate-inside-group": "the memtable changes between the log write and the link",
    "flush-any-order": "a younger memtable is flushed first",
    "log-deleted-before-manifest": "the log goes before the manifest that replaces it is durable",
    "no-sync-of-segment": "a segment is named before its bytes are durable",
    "no-sync-of-manifest": "the manifest is renamed before its bytes are durable",
    "no-dir-sync-before-manifest": "files are named before their directory entries are durable",
    "no-dir-sync-after-manifest": "files are deleted before the manifest's rename is durable",
    "manifest-lost-update": "two manifest writers start from the same state",
    "publish-in-two-steps": "the flushed memtable goes before its segments come",
    # recovery
    "recovery-deletes-first": "files not named are deleted before the manifest is written anew",
    "recovery-trusts-cache": "what replay read is served without being written again",
    "recovery-syncs-log": "what replay read is synced, but not written again",
    "replay-stamps-newest": "replayed rows count as younger than every known delete",
    # rollups and compaction
    "rollup-spans-files": "a rollup covers rows of other files too",
    "rollup-at-the-edge": "a bucket that lies partly outside the range is used",
    "rollup-ignores-deletes": "a bucket touched by a pending delete is used",
    "group-rollup-ignores-deletes": "as above, for the sum over all series only",
    "last-by-file-order": "of two rows of one time, the first file read has the last one",
    "compaction-keeps-no-eye": "inputs may have been replaced while the output was written",
    "compaction-deletes-first": "inputs go before the manifest that replaces them is durable",
    "snapshot-opens-late": "a snapshot keeps names of files, not the open files",
    "snapshot-borrows-epochs": "a snapshot does not keep the dictionaries of its files alive",
    # deletes
    "delete-without-rotation": "a delete shares a memtable with rows before and after it",
    "flush-stamps-newest": "a flush says that deletes were applied which were not",
    "compaction-stamps-newest": "so does a compaction",
    "delete-forgotten-early": "a delete is dropped while an older memtable is not flushed",
    "delete-not-in-manifest": "a delete lives in the log only",
    "sequence-forgotten": "the delete sequence starts again when no delete is left",
    # deletes that stand in the manifest only
    "erase-flushes-frozen-only": "a memtable left by a failed flush is flushed instead of the head",
    "erase-keeps-log-without-rows": "a log without rows is kept: it may hold dropped duplicates",
    "erase-without-pause": "appends go on between the last flush and the delete",
    # retention
    "retention-without-floor": "files go, but the floor of what is kept is not recorded",
    "floor-follows-clock": "the floor is computed from the clock of the moment",
    # dictionary
    "entry-carried-once": "only the first record that uses a dictionary entry carries it",
    "epoch-dies-with-files": "an epoch dies with its last file, whatever memory refers to it",
    "epoch-ignores-duplicates": "a dropped duplicate in the log does not keep its epoch alive",
}


# The stamp of memtables where deletes stand in the manifest only: a delete empties them first.
NEVER_HIDDEN = float("inf")


class Violation(Exception):
    """The store did what it must never do."""


class Profile:
    """What a client sends; two with one key are one profile."""

    def __init__(self, series, start, ident, symbol):
        self.key = (series, start, ident)
        self.series, self.start, self.symbol = series, start, symbol

    def __repr__(self):
        return "series %d start %d %s" % self.key


class Row:
    """A stored profile; ref = (epoch, id) into the dictionaries."""

    def __init__(self, profile, ref):
        self.profile, self.ref = profile, ref
        self.key, self.series, self.start = profile.key, profile.series, profile.start


class Tombstone:
    """A delete of [low, high) of one series, or of all (None)."""

    def __init__(self, seq, series, low, high):
        self.seq, self.series, self.low, self.high = seq, series, low, high

    def hits(self, row):
        return self.series in (None, row.series) and self.low <= row.start < self.high


class Slot:
    """A record in the queue, and the answer its client waits for."""

    def __init__(self, row, entries, version):
        self.row, self.entries, self.version = row, entries, version
        self.answer = None


class Part:
    """Rows that one stamp `seq` is true for: the newest delete already applied to them."""

    low, high, rollups = None, None, None

    def __init__(self, seq):
        self.seq = seq
        self.rows = []
        self.epochs = set()

    def alive(self, tombstones, rows):
        newer = [t for t in tombstones if t.seq > self.seq]
        return [r for r in rows if not any(t.hits(r) for t in newer)]


class Memtable(Part):
    """The rows of one log file."""

    def __init__(self, seq, number, log):
        super().__init__(seq)
        self.number, self.log = number, log


class Segment(Part):
    """An immutable file of one window, open."""

    def __init__(self, meta, file):
        super().__init__(meta["seq"])
        self.meta, self.name, self.file = meta, meta["name"], file
        self.low, self.high = meta["low"], meta["high"]
        if len(file.cells) != 2 or TORN in file.cells:
            raise Violation("the manifest names %s, which is torn" % self.name)
        self.rows, self.rollups = file.cells
        self.epochs = {r.ref[0] for r in self.rows}


def roll_up(rows, low, high):
    """{(level, series or None for all, bucket start): rows}: from exactly these rows."""
    rollups = {}
    for level in (MINUTE, HOUR, DAY):
        if level > high - low:
            break
        for row in rows:
            for series in (row.series, None):
                key = (level, series, row.start - row.start % level)
                rollups.setdefault(key, []).append(row)
    return rollups


class Snapshot:
    """A consistent view; it holds what it needs open."""

    def __init__(self, store):
        self.store = store
        self.parts = [(s, s.rows) for s in store.segments]
        self.parts += [(m, list(m.rows)) for m in store.frozen + [store.memtable]]
        self.tombstones = list(store.tombstones)
        self.floor = store.floor
        self.dictionaries = store.dictionaries
        if not store.has("snapshot-borrows-epochs"):
            self.dictionaries = {epoch: dict(ids) for epoch, ids in store.dictionaries.items()}
        self.late = "snapshot-opens-late" in store.bugs

    def usable(self, part, series, at, level):
        """Whether the bucket [at, at + level) of the part may answer in place of its rows."""
        if "rollup-ignores-deletes" in self.store.bugs:
            return True
        for t in self.tombstones:
            if t.seq > part.seq and t.low < at + level and t.high > at:
                if series is None and "group-rollup-ignores-deletes" in self.store.bugs:
                    continue
                if series is None or t.series in (None, series):
                    return False
        return True

    def bucket(self, part, series, at, high):
        """The largest level that answers for `at` on, or 0: look at the rows."""
        slack = 2 if "rollup-at-the-edge" in self.store.bugs else 0
        for level in (DAY, HOUR, MINUTE):
            fits = at % level == 0 and at + level <= high + slack
            if fits and level <= part.high - part.low and self.usable(part, series, at, level):
                return level
        return 0

    def read_segment(self, part, series, low, high):
        if self.late and part.name not in self.store.disk.names:
            raise Violation("a snapshot reads %s, which is gone" % part.name)
        found = []
        at, high = max(low, part.low), min(high, part.high)
        while at < high:
            level = self.bucket(part, series, at, high)
            if level:
                found += part.rollups.get((level, series, at), [])
            else:
                rows = [r for r in part.rows if r.start == at and series in (None, r.series)]
                found += part.alive(self.tombstones, rows)
            at += level or 1
        return found

    def read(self, series, low, high, raw=False):
        """Generator: the rows of [low, high) and the last of them, through rollups or not."""
        low = max(low, self.floor)
        found = []
        for part, rows in self.parts:
            yield
            if part.rollups is not None and not raw:
                found += self.read_segment(part, series, low, high)
                continue
            wanted = [r for r in rows if low <= r.start < high and series in (None, r.series)]
            found += part.alive(self.tombstones, wanted)
        for row in found:
            if self.dictionaries.get(row.ref[0], {}).get(row.ref[1]) != row.profile.symbol:
                raise Violation("%r resolves to another symbol" % row.profile)
        by_time = "last-by-file-order" in self.store.bugs
        last = max(found, key=lambda r: r.start if by_time else (r.start, r.key), default=None)
        return sorted(r.key for r in found), last and last.key


class Store:
    """One life of the process. `recover` makes it; `stopped` says why it no longer writes."""

    def __init__(self, disk, rng, bugs=(), logs_deletes=True):
        self.disk, self.rng, self.bugs = disk, rng, frozenset(bugs)
        self.logs_deletes = logs_deletes
        self.stopped = None
        self.queue, self.group = [], []
        self.committing = self.manifest_busy = self.upkeep = False
        self.segments, self.frozen, self.memtable = [], [], None
        self.tombstones, self.seq, self.floor = [], 0, 0
        self.dictionaries, self.durable, self.epoch = {}, {}, 0
        self.chunks = {}  # epoch -> names of the files that hold its entries
        self.flushed, self.next_number, self.flushes = 0, 1, 0
        self.removable = []

    def has(self, bug):
        return bug in self.bugs

    def number(self):
        self.next_number += 1
        return self.next_number

    def stop(self, why):
        """Read-only until reopened; whoever waits is told that nobody knows."""
        self.stopped = str(why)
        for slot in self.group + self.queue:
            slot.answer = slot.answer or "unknown"
        self.queue = []

    def check_stopped(self):
        """One failed fsync may have been another thread's, and have swallowed our data."""
        if self.stopped and not self.has("sees-own-fsync-only"):
            raise SyncFailed(self.stopped)

    def sync(self, file):
        self.disk.sync(file)
        self.check_stopped()

    def sync_dir(self):
        self.disk.sync_dir()
        self.check_stopped()

    # -- appends ------------------------------------------------------------------------------

    def find(self, key, since=None):
        """Whether a living row has this key; since: in memory or flushed since only."""
        for part in [self.memtable] + self.frozen + self.segments:
            if part is None:
                continue
            if isinstance(part, Segment):
                if since is not None and part.meta["flush"] <= since:
                    continue
                if not part.low <= key[1] < part.high:
                    continue
                if self.has("dedup-skips-day-files") and part.high - part.low > HOUR:
                    continue
            rows = [r for r in part.rows if r.key == key]
            if rows and self.has("dedup-sees-deleted"):
                return True
            if part.alive(self.tombstones, rows):
                return True
        return False

    def intern(self, symbol):
        """The (epoch, id) of a symbol, and the entries that its record has to carry."""
        ids = self.dictionaries.setdefault(self.epoch, {})
        known = [i for i, s in ids.items() if s == symbol]
        ident = known[0] if known else max(ids, default=0) + 1
        ids[ident] = symbol
        carried = {} if ident in self.durable.get(self.epoch, ()) else {ident: symbol}
        if known and self.has("entry-carried-once"):
            carried = {}
        return (self.epoch, ident), carried

    def append(self, profile):
        """Generator: stored | duplicate | rejected | failed (surely not there) | unknown."""
        yield
        if self.stopped:
            return "failed"
        if profile.start < self.floor:
            return "rejected"
        if self.find(profile.key):
            return "duplicate"
        if self.has("ack-pending-duplicate"):
            if any(s.row.key == profile.key for s in self.queue + self.group):
                return "duplicate"
        ref, entries = self.intern(profile.symbol)
        slot = Slot(Row(profile, ref), entries, self.flushes)
        self.queue.append(slot)
        while not slot.answer:
            if self.committing or self.stopped:
                yield lambda: slot.answer or not self.committing
                continue
            self.committing = True
            yield from self.commit_group()
            self.committing = False
        return slot.answer

    def log_write(self, log, cells):
        """Generator: cells to the log, durable; a failed write leaves the log as it was."""
        length = len(log.cells)
        try:
            for cell in cells:
                yield
                self.disk.append(log, cell)
        except WriteFailed:
            try:
                yield
                self.disk.truncate(log, length)
                yield
                if not self.has("no-fsync-after-truncate"):
                    self.sync(log)
            except WriteFailed as error:
                raise SyncFailed(error) from error
            raise
        if self.has("ack-before-fsync"):
            self.link(self.memtable)
        yield
        try:
            self.sync(log)
        except SyncFailed:
            if not self.has("retry-failed-fsync"):
                raise
            self.sync(log)

    def commit_group(self):
        """Generator: the leader's part: log, fsync, link, answer."""
        count = self.rng.choice((1, len(self.queue)))
        self.group, self.queue = self.queue[:count], self.queue[count:]
        try:
            yield from self.log_write(self.memtable.log, [(s.row, s.entries) for s in self.group])
        except WriteFailed:
            for slot in self.group + self.queue:
                slot.answer = "failed"
            self.group, self.queue = [], []
            return
        except SyncFailed as error:
            self.stop(error)
            self.group = []
            return
        yield
        self.link(self.memtable)
        self.group = []

    def link(self, memtable):
        """Makes the group visible, each profile once."""
        for slot in self.group:
            if slot.answer:
                continue
            row, found = slot.row, False
            if self.has("link-dedup-memory-only"):
                found = self.find(row.key, since=self.flushes)
            elif not self.has("no-dedup-at-link"):
                found = self.find(row.key, since=slot.version)
            if not found:
                memtable.rows.append(row)
            if not found or not self.has("epoch-ignores-duplicates"):
                memtable.epochs.add(row.ref[0])
            slot.answer = "duplicate" if found else "stored"

    # -- rotation and deletes -----------------------------------------------------------------

    def new_memtable(self):
        """Generator: a new log file, durable with its stamp, and its empty memtable."""
        number = self.number()
        seq = self.seq
        yield
        log = self.disk.create("log-%06d" % number)
        yield
        self.disk.append(log, seq)
        yield
        self.sync(log)
        yield
        if not self.has("no-dir-sync-of-log"):
            self.sync_dir()
        return Memtable(seq if self.logs_deletes else NEVER_HIDDEN, number, log)

    def swap_memtable(self):
        """Generator: the caller holds the commit token, so no group is half done."""
        fresh = yield from self.new_memtable()
        self.frozen.append(self.memtable)
        self.memtable = fresh

    def rotate(self):
        """Generator: freezes the memtable at a group boundary."""
        yield lambda: not self.upkeep
        self.upkeep = True
        try:
            yield from self.rotate_between_groups()
        except WriteFailed:
            pass
        except SyncFailed as error:
            self.stop(error)
        self.upkeep = False

    def rotate_between_groups(self):
        if not self.has("rotate-inside-group"):
            yield lambda: not self.committing
            self.committing = True
        try:
            if not self.stopped:
                yield from self.swap_memtable()
        finally:
            if not self.has("rotate-inside-group"):
                self.committing = False

    def delete(self, series, low, high):
        """Generator: done | failed | unknown."""
        answer = "failed"
        yield lambda: not self.upkeep
        self.upkeep = True
        try:
            if not self.stopped:
                work = self.delete_in_log if self.logs_deletes else self.delete_in_manifest
                answer = yield from work(Tombstone(0, series, low, high))
        except WriteFailed:
            pass
        except SyncFailed as error:
            self.stop(error)
            answer = "unknown"
        self.upkeep = False
        return answer

    def delete_in_log(self, tombstone):
        """Generator: rotates, so that a memtable is wholly older or younger, then logs it."""
        yield lambda: not self.committing
        self.committing = True
        try:
            if not self.has("delete-without-rotation"):
                yield from self.swap_memtable()
            tombstone.seq = self.seq + 1
            yield from self.log_write(self.memtable.log, [tombstone])
            self.seq = tombstone.seq
            self.tombstones.append(tombstone)
            self.memtable.seq = tombstone.seq
            return "done"
        finally:
            self.committing = False

    def delete_in_manifest(self, tombstone):
        """Generator: flushes all there is, first while appends go on, then, with appends held
        back, the little that came meanwhile and every log, so that no record older than the
        delete will be replayed."""
        if self.has("erase-flushes-frozen-only") and self.frozen:
            yield from self.flush_one(self.frozen[0])
        else:
            yield from self.flush_all(self.rotate_between_groups)
        yield lambda: not self.committing
        self.committing = True
        try:
            if not self.bugs & {"erase-without-pause", "erase-flushes-frozen-only"}:
                yield from self.flush_all(self.swap_memtable)
            tombstone.seq = self.seq + 1
            done = yield from self.commit(lambda segments: {"tombstone": tombstone})
            return "done" if done else "unknown" if self.stopped else "failed"
        finally:
            self.committing = False

    def flush_all(self, rotate):
        if self.memtable.rows or not self.has("erase-keeps-log-without-rows"):
            yield from rotate()
        while self.frozen:
            if self.stopped or not (yield from self.flush_one(self.frozen[0])):
                raise WriteFailed("flush")

    # -- manifest -----------------------------------------------------------------------------

    def living_epochs(self, segments):
        """The epochs that a file, a log or a record in flight refers to."""
        living = set().union(*(s.epochs for s in segments))
        if not self.has("epoch-dies-with-files"):
            living.add(self.epoch)
            living.update(*(m.epochs for m in self.frozen + [self.memtable] if m))
            living.update(s.row.ref[0] for s in self.queue + self.group)
        return living

    def wanted_tombstones(self, parts):
        """A delete is kept while something older than it is left."""
        oldest = min((p.seq for p in parts), default=self.seq)
        return [t for t in self.tombstones if t.seq > oldest]

    def commit(self, change):
        """Generator: writes and publishes a manifest; False when it could not be written.

        change(segments) -> dict of what becomes different, or None to give up; it runs under the
        manifest's lock. Keys: segments, done (memtables flushed), chunks, entries, floor.
        """
        yield lambda: not self.manifest_busy
        self.manifest_busy = not self.has("manifest-lost-update")
        try:
            new = None if self.stopped else change(self.segments)
            if new is None:
                return False
            new = {"segments": self.segments, "done": [], "chunks": [], "entries": {},
                   "floor": self.floor, "tombstone": None, **new}
            content = self.draft(new)
            if self.has("publish-in-two-steps"):
                self.frozen = [m for m in self.frozen if m not in new["done"]]
            yield from self.write_manifest(content)
            self.publish(new, content)
            return True
        except WriteFailed:
            return False
        except SyncFailed as error:
            self.stop(error)
            return False
        finally:
            self.manifest_busy = False

    def draft(self, new):
        """The manifest after the change; `new` also learns what it makes superfluous, for that
        is decided here: what comes after is younger."""
        older = list(new["segments"])
        if not self.has("delete-forgotten-early"):
            older += [m for m in self.frozen + [self.memtable] if m and m not in new["done"]]
        tombstones = self.wanted_tombstones(older)
        new["forgotten"] = [t for t in self.tombstones if t not in tombstones]
        if new["tombstone"]:
            tombstones = tombstones + [new["tombstone"]]
        living = self.living_epochs(new["segments"])
        new["doomed"] = [e for e in self.dictionaries if e not in living and e != self.epoch]
        chunks = {e: list(names) for e, names in self.chunks.items()}
        for epoch, name in new["chunks"]:
            chunks.setdefault(epoch, []).append(name)
        seq = new["tombstone"].seq if new["tombstone"] else self.seq
        if self.has("sequence-forgotten"):
            seq = max((t.seq for t in tombstones), default=0)
        return {
            "segments": [s.meta for s in new["segments"]],
            "chunks": {e: names for e, names in chunks.items() if e in living},
            "flushed": max([self.flushed] + [m.number for m in new["done"]]),
            "tombstones": [] if self.has("delete-not-in-manifest") else tombstones,
            "seq": seq,
            "floor": 0 if self.has("retention-without-floor") else new["floor"],
            "epoch": self.epoch,
            "next": self.next_number,
        }

    def publish(self, new, content):
        """In one step for readers: the manifest is durable."""
        self.removable += [s.name for s in self.segments if s not in new["segments"]]
        self.removable += ["log-%06d" % m.number for m in new["done"]]
        for epoch in new["doomed"]:
            self.removable += self.chunks.get(epoch, [])
            del self.dictionaries[epoch]
            self.durable.pop(epoch, None)
        for epoch, ids in new["entries"].items():
            if epoch in content["chunks"]:
                self.durable.setdefault(epoch, set()).update(ids)
        self.segments, self.floor = new["segments"], new["floor"]
        self.chunks, self.flushed = content["chunks"], content["flushed"]
        self.flushes += 1 if new["done"] else 0
        self.tombstones = [t for t in self.tombstones if t not in new["forgotten"]]
        self.frozen = [m for m in self.frozen if m not in new["done"]]
        if new["tombstone"]:
            self.tombstones.append(new["tombstone"])
            self.seq = new["tombstone"].seq

    def write_manifest(self, content):
        yield
        file = self.disk.create("MANIFEST.tmp")
        yield
        self.disk.append(file, content)
        yield
        if not self.has("no-sync-of-manifest"):
            self.sync(file)
        yield
        self.disk.rename("MANIFEST.tmp", "MANIFEST")
        yield
        if not self.has("no-dir-sync-after-manifest"):
            self.sync_dir()

    def remove_files(self):
        """Generator: unlinks what no durable manifest names; snapshots hold them open."""
        while self.removable:
            name = self.removable.pop()
            yield
            self.disk.unlink(name)

    # -- flush, compaction, retention ---------------------------------------------------------

    def write_segment(self, rows, low, high, seq, flush):
        name = "seg-%06d" % self.number()
        covered = rows
        if self.has("rollup-spans-files"):
            covered = rows + [r for s in self.segments for r in s.rows if low <= r.start < high]
        yield
        file = self.disk.create(name)
        for cell in (rows, roll_up(covered, low, high)):
            yield
            self.disk.append(file, cell)
        yield
        if not self.has("no-sync-of-segment"):
            self.sync(file)
        meta = {"name": name, "low": low, "high": high, "seq": seq, "flush": flush}
        if TORN in file.cells:
            raise Violation("a torn cell was written as good")
        return Segment(meta, file)

    def write_chunk(self, epoch, ids):
        name = "dict-%06d" % self.number()
        yield
        file = self.disk.create(name)
        yield
        self.disk.append(file, dict(ids))
        yield
        self.sync(file)
        return epoch, name

    def flush(self):
        """Generator: the oldest frozen memtable becomes one segment per hour window."""
        yield lambda: not self.upkeep
        if not self.frozen or self.stopped:
            return False
        self.upkeep = True
        try:
            return (yield from self.flush_one(self.frozen[0]))
        except WriteFailed:
            return False
        except SyncFailed as error:
            self.stop(error)
            return False
        finally:
            self.upkeep = False

    def flush_one(self, memtable):
        if self.has("flush-any-order"):
            memtable = self.frozen[-1]
        entries = {}
        for epoch, ids in self.dictionaries.items():
            fresh = {i: s for i, s in ids.items() if i not in self.durable.get(epoch, ())}
            if fresh:
                entries[epoch] = fresh
        chunks, made = [], []
        for epoch, ids in entries.items():
            chunks.append((yield from self.write_chunk(epoch, ids)))
        newest = self.has("flush-stamps-newest") or not self.logs_deletes
        seq = self.seq if newest else memtable.seq
        for low in sorted({r.start - r.start % HOUR for r in memtable.rows}):
            rows = [r for r in memtable.rows if low <= r.start < low + HOUR]
            made.append((yield from self.write_segment(rows, low, low + HOUR, seq, None)))
        yield
        if not self.has("no-dir-sync-before-manifest"):
            self.sync_dir()
        if self.has("log-deleted-before-manifest"):
            self.disk.unlink("log-%06d" % memtable.number)

        def change(segments):
            for segment in made:
                segment.meta["flush"] = self.flushes + 1
            return {"segments": segments + made, "done": [memtable], "chunks": chunks,
                    "entries": entries}

        done = yield from self.commit(change)
        yield from self.remove_files()
        return done

    def compact(self, low, size):
        """Generator: all files within [low, low + size) become one; pending deletes applied."""
        inputs = [s for s in self.segments if low <= s.low and s.high <= low + size]
        tombstones, seq = list(self.tombstones), self.seq
        pending = any(t.seq > s.seq for t in tombstones for s in inputs)
        if self.stopped or len(inputs) < (1 if pending else 2):
            return
        rows = [r for s in inputs for r in s.alive(tombstones, s.rows)]
        flush = max(s.meta["flush"] for s in inputs)
        try:
            made = []
            if rows:
                made.append((yield from self.write_segment(rows, low, low + size, seq, flush)))
            yield
            if not self.has("no-dir-sync-before-manifest"):
                self.sync_dir()
        except WriteFailed:
            return
        except SyncFailed as error:
            self.stop(error)
            return
        if self.has("compaction-deletes-first"):
            for segment in inputs:
                self.disk.unlink(segment.name)

        def change(segments):
            if any(s not in segments for s in inputs) and not self.has("compaction-keeps-no-eye"):
                return None
            if self.has("compaction-stamps-newest") and made:
                made[0].seq = made[0].meta["seq"] = self.seq
            return {"segments": [s for s in segments if s not in inputs] + made}

        yield from self.commit(change)
        yield from self.remove_files()

    def retain(self, floor):
        """Generator: raises the floor, for ever, and drops the files that lie below it."""

        def change(segments):
            kept = [s for s in segments if s.high > floor]
            if floor <= self.floor and len(kept) == len(segments):
                return None
            if self.has("floor-follows-clock"):
                return {"segments": kept, "floor": floor}
            return {"segments": kept, "floor": max(floor, self.floor)}

        yield from self.commit(change)
        yield from self.remove_files()

    def next_epoch(self):
        """Generator: later records use a fresh dictionary."""
        yield
        self.epoch += 1


# -- recovery -------------------------------------------------------------------------------------


def format_disk(disk):
    """An empty store."""
    file = disk.create("MANIFEST")
    disk.append(file, {"segments": [], "chunks": {}, "flushed": 0, "tombstones": [], "seq": 0,
                       "floor": 0, "epoch": 0, "next": 1})
    disk.sync(file)
    disk.sync_dir()


def load_manifest(store):
    disk = store.disk
    file = disk.names.get("MANIFEST")
    if file is None or len(file.cells) != 1 or file.cells[0] is TORN:
        raise Violation("the manifest is gone or torn")
    manifest = file.cells[0]
    for meta in manifest["segments"]:
        if meta["name"] not in disk.names:
            raise Violation("the manifest names %s, which is gone" % meta["name"])
        # The order of flushes matters within one life only.
        store.segments.append(Segment({**meta, "flush": 0}, disk.names[meta["name"]]))
    for epoch, names in manifest["chunks"].items():
        for name in names:
            chunk = disk.names.get(name)
            if chunk is None or chunk.cells[:1] in ([], [TORN]):
                raise Violation("the manifest names %s, which is gone or torn" % name)
            store.dictionaries.setdefault(epoch, {}).update(chunk.cells[0])
            store.durable.setdefault(epoch, set()).update(chunk.cells[0])
    store.chunks = {e: list(names) for e, names in manifest["chunks"].items()}
    store.tombstones, store.seq = list(manifest["tombstones"]), manifest["seq"]
    store.floor, store.flushed = manifest["floor"], manifest["flushed"]
    store.epoch = manifest["epoch"] + 1
    used = [int(n.rsplit("-", 1)[1]) for n in disk.names if "-" in n]
    store.next_number = max([manifest["next"]] + used)


def replay(store, number, log):
    """The memtable of one log file, as it was; stops at a torn record."""
    if not log.cells or log.cells[0] is TORN:
        return None  # not even its header was synced: nothing in it was acknowledged
    stamp = store.seq if store.has("replay-stamps-newest") else log.cells[0]
    if not store.logs_deletes:
        stamp = NEVER_HIDDEN
    memtable = store.memtable = Memtable(stamp, number, log)
    for cell in log.cells[1:]:
        if cell is TORN:
            break
        if isinstance(cell, Tombstone):
            if all(t.seq != cell.seq for t in store.tombstones):
                store.tombstones.append(cell)
            store.seq = max(store.seq, cell.seq)
            memtable.seq = max(memtable.seq, cell.seq)
            continue
        row, entries = cell
        epoch, ident = row.ref
        ids = store.dictionaries.setdefault(epoch, {})
        for key, symbol in entries.items():
            if ids.setdefault(key, symbol) != symbol:
                raise Violation("two symbols have one id")
        if ident not in ids:
            raise Violation("a log record refers to a dictionary entry that is gone")
        memtable.epochs.add(epoch)
        if row.start >= store.floor:
            if store.has("no-dedup-at-replay") or not store.find(row.key):
                memtable.rows.append(row)
    store.memtable = None
    return memtable


def remove_unnamed(store):
    """Generator: deletes what the manifest does not name."""
    keep = {s.name for s in store.segments} | {"MANIFEST"}
    keep |= {n for names in store.chunks.values() for n in names}
    for name in sorted(store.disk.names):
        live_log = name.startswith("log-") and int(name[4:]) > store.flushed
        if name not in keep and not live_log:
            yield
            store.disk.unlink(name)


def recover(disk, rng, bugs=(), logs_deletes=True):
    """Generator: opens the store. What replay found is written again, as segments, and named by
    a newly written manifest before anyone is answered and before anything is deleted: what a
    killed process left in the cache, or a failed fsync did not write, is not durable."""
    store = Store(disk, rng, bugs, logs_deletes)
    yield
    load_manifest(store)
    if store.has("recovery-deletes-first"):
        yield from remove_unnamed(store)
    logs = sorted(n for n in disk.names if n.startswith("log-"))
    for name in logs:
        if int(name[4:]) > store.flushed:
            yield
            memtable = replay(store, int(name[4:]), disk.names[name])
            if memtable:
                store.frozen.append(memtable)
    # Never a number that a log has seen: its epoch may be about to die.
    store.epoch = max([store.epoch] + [e + 1 for e in store.dictionaries])
    if store.has("append-after-torn-tail") and store.frozen:
        store.memtable = store.frozen.pop()
    trusts = store.has("recovery-trusts-cache") or store.has("recovery-syncs-log")
    if store.has("recovery-syncs-log"):
        for memtable in store.frozen:
            yield
            disk.sync(memtable.log)
        disk.sync_dir()
    while store.frozen and not trusts:
        if not (yield from store.flush()):
            raise WriteFailed(store.stopped or "flush during recovery")
    if not trusts and not (yield from store.commit(lambda segments: {})):
        raise WriteFailed(store.stopped or "manifest during recovery")
    if not store.memtable:
        store.memtable = yield from store.new_memtable()
    yield from remove_unnamed(store)
    return store
