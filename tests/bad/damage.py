# SPDX-License-Identifier: BSD-2-Clause
"""What the generators of damaged images have in common: the list of them, and
the proof that each has made the defect that it says and no other."""
import image
from expect import differences
from judge import judge
from sound import Sound

DEFECTS = {}                     # name -> (what it is, function)
SOUND = {}                       # the findings in sound images that were judged already


def defect(name, about):
    """Registers the function below it as the generator of that name."""
    def register(function):
        assert name not in DEFECTS, f"two generators are called {name}"
        DEFECTS[name] = about, function
        return function
    return register


# ------------------------------------------------------------- sound images

def plain(bits=9, **how):
    """Data, zero clusters with and without a place, compressed clusters; where
    the clusters are small, also a second L2 table with 12 entries."""
    size = {9: 128 << 10, 12: 4 << 20}.get(bits, 2 << 20)
    s = Sound(size, bits, **how)
    s.data(0, 1, 2, 3, 4)
    s.zero(6)
    s.zero(7, host=True)
    s.packed(8, 9, 10, 11, 12)
    s.data(20, 21)
    if bits < 14:
        s.data(*range(s.per_l2, s.per_l2 + 12))
    return s


def rich(bits=9, **how):
    """plain() with two snapshots and two bitmaps."""
    s = with_snapshots(bits, **how)
    s.bitmap("b0", granularity=9)
    s.bitmap("b1", ones=(0,))
    return s


def with_snapshots(bits=9, **how):
    s = plain(bits, **how)
    s.snapshot("1", "first")
    s.data(1, 2)
    s.snapshot("2", "second")
    s.data(3, 22)
    return s


def with_bitmaps(bits=9, **how):
    s = plain(bits, **how)
    s.bitmap("b0", granularity=9)
    s.bitmap("b1", granularity=9)
    return s


def encrypted():
    """LUKS, which nobody needs to unlock to check."""
    s = Sound(2 << 20, 16, luks=True)
    s.data(0, 1, 5)
    return s


def in_data_file(d, bits=12, **how):
    """With an external data file."""
    s = Sound(1 << 20, bits, external=d.name + ".data", **how)
    s.data(0, 1, 2, 20, 21)
    s.zero(6)
    return s


# ------------------------------------------------------------------- damage

class Damage:
    def __init__(self, name):
        self.name, (self.about, self.function) = name, DEFECTS[name]
        self.must, self.allowed, self.deep_must = [], [], []
        self.hurt, self.orphans, self.exits_with = {}, [], None
        self.remains = False
        self.function(self)

    # ---- for the generators

    def start(self, s):
        """The sound image to damage."""
        self.expected = dict(s.expected())
        self.secret = bool(s.luks)
        self.img = s.finish()
        self.sound = image.Image(self.img.b, s.data_file)
        self.data_file = s.external
        return self.img

    @property
    def cluster(self):
        return self.sound.cluster

    def finds(self, kind, host=None, n=None, **more):
        """A finding that check must report; n bytes at host, by default 8 of an
        entry or a cluster."""
        self.must.append(self.pattern(kind, host, n, more))

    def may(self, *kinds):
        """Findings that follow from the defect, wherever they are."""
        self.allowed += [{"kind": kind} for kind in kinds]

    def may_at(self, kind, host, n=None, **more):
        self.allowed.append(self.pattern(kind, host, n, more))

    def deep(self, kind, host=None, n=None, **more):
        """A finding of check --deep alone."""
        self.deep_must.append(self.pattern(kind, host, n, more))

    def hurts(self, first, count=1, view="active"):
        """Guest clusters that do not read as before any more, or only by luck."""
        self.hurt.setdefault(view, []).append([first * self.cluster, count * self.cluster])

    def lost(self, table):
        """An orphaned L2 table that is to be named before it is freed."""
        self.orphans.append(table)

    def exits(self, *statuses):
        """Other statuses than follow from the findings, the preferred one first."""
        self.exits_with = list(statuses)

    def stays(self):
        """Nobody can know what it was: it is named, and all is left as it is."""
        self.remains = True

    def guest(self, first, count=1):
        return [first * self.cluster, count * self.cluster]

    def pattern(self, kind, host, n, more):
        p = {"kind": kind, **more}
        if host is not None:
            entry = kind not in ("leak", "refcount", "overlap", "inflate")
            p["host"] = [host, n or (8 if entry else self.cluster)]
        return p

    # ---- what follows

    def statuses(self, deep=False):
        if self.exits_with:
            return self.exits_with
        found = {"leak" if p["kind"] == "leak" else "corruption"
                 for p in self.must + (self.deep_must if deep else [])}
        if "corruption" in found:
            return [2]
        # COPIED may be judged by the true count or by that on disk.
        return [3, 2] if found and {"kind": "copied"} in self.allowed else [3] if found else [0]

    def changed(self):
        """Runs of bytes in which the damaged file differs from the sound one."""
        old, new, unit, page = self.sound.b, self.img.b, 8, 4096
        runs = []
        for first in range(0, max(len(old), len(new)), page):
            if old[first:first + page] == new[first:first + page]:
                continue
            for off in range(first, first + page, unit):
                if old[off:off + unit] != new[off:off + unit]:
                    if runs and sum(runs[-1]) == off:
                        runs[-1][1] += unit
                    else:
                        runs.append([off, unit])
        return runs

    def prove(self):
        """Yields what is not as this generator says."""
        key = bytes(self.sound.b), bytes(self.sound.data_file or b"")
        if key not in SOUND:
            SOUND[key] = judge(self.sound)
        found, deep = SOUND[key]
        if found or deep and not self.secret:
            yield f"the sound image is not: {found + deep}"
        if self.img.b == self.sound.b and self.img.data_file == self.sound.data_file:
            yield "nothing is damaged"
        found, deep = judge(self.img)
        yield from differences(self.must, self.allowed, found, self.cluster)
        if not self.secret:
            yield from differences(self.deep_must, self.allowed, deep, self.cluster)
            yield from self.prove_content()

    def prove_content(self):
        for view in self.sound.views():
            content, bad = self.sound.read(view)
            if bad or content != self.expected[view[0]]:
                yield f"{view[0]} of the sound image does not read as written"
        for view, before, now, bad in self.contents():
            hurt = {c for off, n in bad for c in range(off // self.cluster, -(-(off + n) // self.cluster))}
            if before != now:
                hurt |= {off // self.cluster for off in range(0, len(before), self.cluster)
                         if before[off:off + self.cluster] != now[off:off + self.cluster]}
            for off, n in self.hurt.get(view, []):
                here = set(range(off // self.cluster, (off + n) // self.cluster))
                if not here & hurt:
                    yield f"{view} is not hurt at {off:#x}"
                hurt -= here
            if hurt:
                yield f"{view} is hurt in clusters {sorted(hurt)}"

    def contents(self):
        """(view, bytes before, bytes now, unreadable ranges) of what the sound
        image has; a view that is gone reads as nothing."""
        now = {view[0]: view for view in reversed(self.img.views())}
        for view, before in self.expected.items():
            if view not in now:
                yield view, before, before, []
                continue
            content, bad = self.img.read(now[view])
            content = content[:len(before)].ljust(len(before), b"\0")
            yield view, before, content, bad

    def expectations(self):
        """What NAME.json holds."""
        return {
            "name": self.name, "about": self.about, "cluster-size": self.cluster,
            "exit": self.statuses(), "deep-exit": self.statuses(True),
            "findings": [self.graded(p) for p in self.must],
            "deep-findings": [self.graded(p) for p in self.deep_must],
            "may-find": self.allowed, "orphans": self.orphans, "secret": self.secret,
            "data-file": self.data_file or None, "changed": self.changed(),
            "stays": self.remains,
            "hurt": [{"view": view, "range": r} for view, ranges in self.hurt.items() for r in ranges],
        }

    @staticmethod
    def graded(p):
        return {**p, "severity": "leak" if p["kind"] == "leak" else "corruption"}
