# SPDX-License-Identifier: BSD-2-Clause
"""Finds what is wrong with a qcow2 file: a small checker by the specification
alone, slow and short. It judges the generators: each must have made just the
defect that it describes. A finding is a dict with

  kind      header, leak, refcount (lower than the references), overlap, copied, l1-entry,
            l2-entry, refcount-entry, bitmap-entry, subclusters, packed, data-file,
            snapshot-table, snapshot-l1, bitmap-directory, crypt-header, inflate (--deep)
  host      [offset, length]: the clusters; for an entry, its own place
  to        what the entry points to, where it points somewhere
  guest     [offset, length], where the finding is about guest data
  view      active, snapshot ID or bitmap NAME
  detail    unaligned, end (beyond the end of the file), reserved and so on"""
import image
from image import COPIED, OFFSET, PACKED

# What may be referred to more than once. Packed data in a data cluster makes no sense and no harm.
SHARED = {"l2"}, {"data"}, {"packed"}, {"data", "packed"}
DEEP = {"inflate", "read"}


def nothing(entry):
    """What is wrong with an entry without an offset."""
    return "only copied" if entry == COPIED else "reserved"


class Judge:
    def __init__(self, img):
        self.img = img
        self.found, self.refs, self.flags = {}, {}, []
        # Asked for very often.
        self.size, self.version, self.entry_len = img.cluster, img.version, img.entry_len
        self.extended, self.external, self.end = img.extended, img.external, img.end
        self.counted = self.mapped = True        # the header can say so

    def add(self, kind, at=None, n=8, **more):
        entry = {"kind": kind, **{k: v for k, v in more.items() if v is not None}}
        if at is not None:
            entry["host"] = [at, n]
        self.found.setdefault(repr(entry), entry)

    def ref(self, off, length, kind, owner=None):
        for c in range(off // self.size, -(-(off + length) // self.size)):
            self.refs.setdefault(c, []).append((kind, owner))

    def fault(self, off, n=0):
        """What is wrong with a pointer to n bytes (a cluster, if 0)."""
        if off % self.size:
            return "unaligned"
        if not off and n:
            return "header"
        return "end" if off + (n or self.size) > self.end else None

    def pointer(self, kind, at, off, reserved, **more):
        """Reports what is wrong with an entry; whether it can be followed."""
        fault = self.fault(off)
        if fault:
            self.add(kind, at, to=off, detail=fault, **more)
            return False
        if reserved:
            self.add(kind, at, to=off, detail="reserved", **more)
        return True

    def findings(self):
        img = self.img
        self.ref(0, 1, "header")
        self.header()
        if self.counted:
            self.ref(img.rt_off, img.rt_clusters * self.size, "refcount-table")
        for i, entry in self.blocks():
            if entry and self.pointer("refcount-entry", img.rt_off + i * 8, entry & ~image.LOW,
                                      entry & image.LOW) and entry & ~image.LOW:
                self.ref(entry & ~image.LOW, 1, "refcount-block", i)
        if self.mapped:
            self.ref(img.l1_off, img.l1_size * 8, "l1")
            self.walk("active", img.l1_off, img.l1_size)
        self.snapshots()
        self.bitmaps()
        crypt = img.crypt_header()
        if crypt:
            at, off, n = crypt
            if self.fault(off, n):
                self.add("crypt-header", at, 16, to=off, detail=self.fault(off, n))
            else:
                self.ref(off, n, "crypt-header")
        self.compare()
        return list(self.found.values())

    # ---- header

    def table_fault(self, off, n, most):
        """What is wrong with a table of n bytes that the header names."""
        return "header" if not off else self.fault(off, n) or ("size" if not 0 < n <= most else None)

    def header(self):
        img = self.img
        fault = self.table_fault(img.rt_off, img.rt_clusters * self.size, 8 << 20)
        self.counted, self.mapped = not fault and img.order <= 6, True
        if fault:
            self.add("header", 48, 12, to=img.rt_off, detail=fault)
        if img.order > 6:
            self.add("header", 96, 4, detail="width")
        if img.version > 2 and (not 104 <= img.header_len <= self.size or img.header_len % 8):
            self.add("header", 100, 4, detail="length")
        if img.autoclear & image.RAW and not img.external:
            self.add("header", 88, detail="raw")
        backing, n = img.get(8, 8), img.get(16, 4)
        if backing and (n > 1023 or backing < img.header_len or backing + n > self.size):
            self.add("header", 8, 12, detail="backing")
        need = -(-img.size // (self.size * img.per_l2))
        fault = self.table_fault(img.l1_off, img.l1_size * 8, 32 << 20) if img.l1_size or img.l1_off else None
        if fault:
            self.add("header", 36, 12, to=img.l1_off, detail=fault)
            self.mapped = False
        elif img.l1_size < need:
            self.add("header", 24, 16, detail="size")

    def blocks(self):
        img = self.img
        return enumerate(img.table(img.rt_off, img.rt_clusters * self.size // 8) if self.counted else [])

    # ---- mapping

    def walk(self, view, l1, l1_size):
        img, span = self.img, self.size * self.img.per_l2
        for i, entry in enumerate(img.table(l1, l1_size)):
            at, table, guest = l1 + i * 8, entry & OFFSET, [i * span, span]
            if not table:
                if entry:
                    self.add("l1-entry", at, guest=guest, view=view, detail=nothing(entry))
                continue
            if not self.pointer("l1-entry", at, table, entry & ~(OFFSET | COPIED), guest=guest, view=view):
                continue
            self.ref(table, 1, "l2", table)
            self.flags.append((at, entry, table, guest, view))
            self.l2(view, table, i * span)

    def l2(self, view, table, start):
        img = self.img
        words, step = img.table(table, self.size // 8), self.entry_len // 8
        for k in range(0, len(words), step):
            entry, bitmap = words[k], words[k + 1] if self.extended else 0
            if entry or bitmap:
                self.entry(view, table + k * 8, entry, bitmap, [start + k // step * self.size, self.size])

    def entry(self, view, at, entry, bitmap, guest):
        where = {"guest": guest, "view": view}
        if entry & PACKED:
            return self.packed(at, entry, bitmap, where)
        host = entry & OFFSET
        allowed = OFFSET | COPIED | (self.version > 2 and not self.extended)
        if bitmap & bitmap >> 32 & 0xFFFF_FFFF:
            self.add("subclusters", at, self.entry_len, detail="both", **where)
        if bitmap & 0xFFFF_FFFF and not host and not self.external:
            self.add("subclusters", at, self.entry_len, detail="nowhere", **where)
        if self.external:
            if entry & ~int(allowed):
                self.add("l2-entry", at, to=host, detail="reserved", **where)
            return self.in_data_file(at, entry, host, where)
        if not host:
            if entry & ~int(allowed) or entry & COPIED:
                self.add("l2-entry", at, detail=nothing(entry), **where)
            return None
        if self.pointer("l2-entry", at, host, entry & ~int(allowed), **where):
            self.ref(host, 1, "data", guest[0])
            self.flags.append((at, entry, host, guest, view))
        return None

    def in_data_file(self, at, entry, host, where):
        if not host and not entry & COPIED:
            return
        if host != where["guest"][0]:
            self.add("data-file", at, to=host, detail="elsewhere", **where)
        if not entry & COPIED:
            self.add("copied", at, to=host, detail="missing", **where)

    def packed(self, at, entry, bitmap, where):
        img = self.img
        off, end = img.stream(entry)
        if bitmap:
            self.add("subclusters", at, self.entry_len, detail="packed", **where)
        if entry & COPIED and where["view"] == "active":
            self.add("copied", at, to=off, detail="packed", **where)
        if self.external:
            self.add("data-file", at, to=off, detail="packed", **where)
        elif off >> 56 or off >= len(img.b) or end > self.end:
            self.add("packed", at, to=off, detail="end", **where)
        else:
            self.ref(off & ~511, end - (off & ~511), "packed", where["guest"][0])
            if img.read_entry(entry, bitmap, where["guest"][0]) is None:
                self.add("inflate", off, end - off, **where)

    # ---- snapshots and bitmaps

    def snapshots(self):
        img = self.img
        found, ids = img.snapshots(), set()
        if not img.nb_snapshots:
            return
        if self.fault(img.snapshots_off) in ("unaligned", "header") or not img.snapshots_off:
            self.add("snapshot-table", 64, detail="place")
            return
        end = found[-1].end if found else img.snapshots_off
        self.ref(img.snapshots_off, max(end - img.snapshots_off, 1), "snapshot-table")
        if len(found) < img.nb_snapshots:
            self.add("snapshot-table", end, 40, detail="truncated")
        for s in found:
            view, n = "snapshot " + s.id, s.end - s.at
            if s.id in ids:
                self.add("snapshot-table", s.at, n, view=view, detail="duplicate")
            ids.add(s.id)
            if img.version > 2 and s.extra < 16:
                self.add("snapshot-table", s.at, n, view=view, detail="short")
            if s.extra > 1024:
                self.add("snapshot-table", s.at, n, view=view, detail="long")
            need = -(-s.size // (self.size * img.per_l2))
            if s.l1_size < need or s.l1_size > (32 << 20) // 8:
                self.add("snapshot-l1", s.at, n, to=s.l1_off, view=view, detail="size")
                if s.l1_size > need:
                    continue
            fault = self.fault(s.l1_off, s.l1_size * 8)
            if fault:
                self.add("snapshot-l1", s.at, n, to=s.l1_off, view=view, detail=fault)
                continue
            self.ref(s.l1_off, s.l1_size * 8, "snapshot-l1", s.at)
            self.walk(view, s.l1_off, s.l1_size)

    def bitmaps(self):
        img, names = self.img, set()
        known = img.bitmaps_extension()
        if not known:
            if img.autoclear & image.BITMAPS:
                self.add("bitmap-directory", 88, detail="missing")
            return None
        at, count, length, off = known
        if img.get(at + 4, 4):
            self.add("bitmap-directory", at, 24, detail="reserved")
        if self.fault(off, length):
            return self.add("bitmap-directory", at, 24, to=off, detail=self.fault(off, length))
        self.ref(off, max(length, 1), "bitmap-directory")
        found = img.bitmaps()
        if len(found) != count or (found[-1].end if found else off) != off + length:
            self.add("bitmap-directory", at, 24, to=off, detail="size")
        for b in found:
            view = "bitmap " + b.name
            for bad, detail in ((not 0 < b.name_len < 1024, "name"), (b.name in names, "duplicate"),
                                (b.type != 1, "type"), (b.flags & ~7, "flags"),
                                (b.granularity > 63, "granularity")):
                if bad:
                    self.add("bitmap-directory", b.at, b.end - b.at, view=view, detail=detail)
            names.add(b.name)
            need = -(-img.size // (8 * self.size << min(b.granularity, 63)))
            if b.count != need and b.granularity < 64 and not b.flags & 1:
                self.add("bitmap-directory", b.at, b.end - b.at, view=view, detail="table size")
            fault = self.fault(b.table, b.count * 8)
            if fault:
                self.add("bitmap-directory", b.at, b.end - b.at, to=b.table, view=view, detail=fault)
                continue
            self.ref(b.table, b.count * 8, "bitmap-table", b.at)
            for i, entry in enumerate(img.table(b.table, b.count)):
                reserved = entry & ~(OFFSET | (not entry & OFFSET))
                host = entry & OFFSET
                if not self.pointer("bitmap-entry", b.table + i * 8, host, reserved, view=view):
                    continue
                if host:
                    self.ref(host, 1, "bitmap-data", (b.at, i))
        return None

    # ---- counts

    def compare(self):
        img = self.img
        counts = {}
        for i, entry in self.blocks():
            block = entry & ~image.LOW
            if block and not self.fault(block):
                first = i * img.per_block
                counts.update((first + k, n) for k, n in enumerate(img.block(block)) if n)
        for c in counts.keys() | self.refs.keys():
            refs, count = self.refs.get(c, []), counts.get(c, 0)
            if count != len(refs):
                self.add("leak" if count > len(refs) else "refcount", c * self.size, self.size)
            kinds = {kind for kind, _ in refs}
            if len(refs) > 1 and kinds not in SHARED:
                self.add("overlap", c * self.size, self.size)
        for at, entry, host, guest, view in self.flags:
            if view == "active" and bool(entry & COPIED) != (len(self.refs[host // self.size]) == 1):
                self.add("copied", at, to=host, guest=guest, view=view,
                         detail="wrong" if entry & COPIED else "missing")


def judge(img):
    """The findings, and those of --deep alone."""
    found = Judge(img).findings()
    return [f for f in found if f["kind"] not in DEEP], [f for f in found if f["kind"] in DEEP]
