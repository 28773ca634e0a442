"""A disk that forgets: files of cells (a cell is one checksummed record) in one directory.

What a program reads is the cache. What survives a power cut is less: every cell, truncation and
directory entry that was not synced since is kept, lost or torn, each by itself, in any order.
A killed process loses nothing of the cache, and that is the trap: the next process reads what is
not on the disk yet. After a failed fsync the cache still shows the data, but no later fsync will
write it (as Linux does): only writing it again does.
"""


class Torn:
    """A cell whose checksum does not match."""

    def __repr__(self):
        return "TORN"


TORN = Torn()


class WriteFailed(Exception):
    """Nothing is lost: the caller may give up this piece of work and go on."""


class SyncFailed(Exception):
    """Nobody knows what is on the disk."""


class File:
    """One inode: `cells` is the cache, `disk` what is durable, `dirty` what a sync will write."""

    def __init__(self):
        self.cells = []
        self.disk = []
        self.dirty = set()
        self.size_dirty = False

    def persist(self, indexes):
        for i in sorted(indexes):
            if i < len(self.cells):
                while len(self.disk) <= i:
                    self.disk.append(TORN)
                self.disk[i] = self.cells[i]

    def power_cut(self, rng):
        low, high = sorted((len(self.disk), len(self.cells)))
        kept = []
        for i in range(rng.choice((low, high, rng.randint(low, high)))):
            old = self.disk[i] if i < len(self.disk) else TORN
            new = self.cells[i] if i < len(self.cells) else old
            kept.append(old if old is new else rng.choice((old, new, TORN)))
        self.cells, self.disk, self.dirty, self.size_dirty = kept, list(kept), set(), False


class Disk:
    """One directory, with faults by chance: `p_write`, `p_sync` and `p_dir` per call."""

    def __init__(self, rng, p_write=0.0, p_sync=0.0, p_dir=0.0):
        self.rng = rng
        self.p_write, self.p_sync, self.p_dir = p_write, p_sync, p_dir
        self.names = {}
        self.durable = {}
        self.history = {}  # name -> what it was since the last sync of the directory

    def calm(self):
        """No more faults."""
        self.p_write = self.p_sync = self.p_dir = 0.0

    def hit(self, chance):
        return chance > 0 and self.rng.random() < chance

    def bind(self, name, file):
        self.history.setdefault(name, []).append(file)
        if file is None:
            self.names.pop(name, None)
        else:
            self.names[name] = file

    def create(self, name):
        if self.hit(self.p_write):
            raise WriteFailed("create " + name)
        file = File()
        self.bind(name, file)
        return file

    def append(self, file, cell):
        if self.hit(self.p_write):
            if self.rng.random() < 0.5:
                self.put(file, TORN)
            raise WriteFailed("write")
        self.put(file, cell)

    def put(self, file, cell):
        file.cells.append(cell)
        file.dirty.add(len(file.cells) - 1)
        if self.rng.random() < 0.3:  # the kernel writes back when it likes
            file.persist(set(file.dirty))

    def truncate(self, file, count):
        if self.hit(self.p_write):
            raise WriteFailed("truncate")
        del file.cells[count:]
        file.dirty = {i for i in file.dirty if i < count}
        file.size_dirty = True

    def sync(self, file):
        failed = self.hit(self.p_sync)
        done = {i for i in file.dirty if not failed or self.rng.random() < 0.5}
        file.persist(done)
        if not failed:
            if file.size_dirty:
                del file.disk[len(file.cells) :]
            file.size_dirty = False
        file.dirty = set()
        if failed:
            raise SyncFailed("fsync")

    def rename(self, old, new):
        if self.hit(self.p_write):
            raise WriteFailed("rename " + old)
        if old not in self.names:
            raise WriteFailed("rename " + old)
        self.bind(new, self.names[old])
        self.bind(old, None)

    def unlink(self, name):
        if name in self.names and not self.hit(self.p_write):
            self.bind(name, None)

    def sync_dir(self):
        failed = self.hit(self.p_dir)
        for name in self.history:
            if not failed or self.rng.random() < 0.5:
                self.durable[name] = self.names.get(name)
        self.history = {}
        if failed:
            raise SyncFailed("fsync of the directory")

    def power_cut(self):
        after = {}
        for name in sorted(set(self.durable) | set(self.names)):
            now, old = self.names.get(name), self.durable.get(name)
            if now is not old or name in self.history:
                now = self.rng.choice([old, now] + self.history.get(name, []))
            if now is not None:
                after[name] = now
        for file in {id(f): f for f in after.values()}.values():
            file.power_cut(self.rng)
        self.names, self.durable, self.history = after, dict(after), {}
