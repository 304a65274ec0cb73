# SPDX-License-Identifier: BSD-2-Clause
"""A qcow2 file in memory, by the specification alone: decodes and patches any
structure and reads the guest's bytes. Made for damaged files: nothing that it
finds in one makes it raise, what lies beyond the end reads as zeros, reserved
bits are passed over, and what has no meaning is None. It shares nothing with the library under test."""
import struct
import zlib

COPIED = 1 << 63
PACKED = 1 << 62
OFFSET = 0x00FF_FFFF_FFFF_FE00   # bits 9 to 55
LOW = 0x1FF                      # bits 0 to 8

DIRTY, CORRUPT, EXTERNAL, ZSTD, EXTENDED = (1 << i for i in range(5))
BITMAPS, RAW = 1, 2              # autoclear
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
EXT_BITMAPS, EXT_CRYPT, EXT_DATA_FILE = 0x23852875, 0x0537BE77, 0x44415441


def up(n, unit):
    return (n + unit - 1) // unit * unit


def unzstd(data, size):
    """`size` bytes of a zstd frame that has only blocks of plain bytes and of one
    byte repeated, as sound.py makes them; None: it is not one."""
    if data[:5] != ZSTD_MAGIC + b"\xa0":
        return None
    out, at, last = b"", 9, 0
    while not last and len(data) >= at + 4 and len(out) < size:
        head = int.from_bytes(data[at:at + 3], "little")
        last, kind, n = head & 1, head >> 1 & 3, head >> 3
        if kind > 1:
            return None
        out += data[at + 3:at + 3 + n] if kind == 0 else data[at + 3:at + 4] * n
        at += 3 + (n if kind == 0 else 1)
    return out if len(out) == size else None


class Field:
    """A number of the header."""
    def __init__(self, off, n):
        self.off, self.n = off, n

    def __get__(self, img, owner):
        value = img.header.get(self.off)
        if value is None:
            value = img.header[self.off] = img.get(self.off, self.n)
        return value

    def __set__(self, img, value):
        img.put(self.off, self.n, value)


class NewField(Field):
    """One that version 2 lacks; there it has a fixed value."""
    def __init__(self, off, n, old=0):
        super().__init__(off, n)
        self.old = old

    def __get__(self, img, owner):
        return self.old if img.version == 2 else super().__get__(img, owner)


class Entry:
    """Of the snapshot table or the bitmap directory: `at` is its place, `end`
    that of the next one; the numbers are attributes."""
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Image:
    version, bits, size = Field(4, 4), Field(20, 4), Field(24, 8)
    crypt, l1_size, l1_off = Field(32, 4), Field(36, 4), Field(40, 8)
    rt_off, rt_clusters = Field(48, 8), Field(56, 4)
    nb_snapshots, snapshots_off = Field(60, 4), Field(64, 8)
    incompatible, compatible, autoclear = NewField(72, 8), NewField(80, 8), NewField(88, 8)
    order, header_len = NewField(96, 4, 4), NewField(100, 4, 72)

    def __init__(self, data, data_file=None):
        self.b = bytearray(data)
        self.data_file = data_file       # bytes of the external data file
        self.header = {}                 # its fields that were asked for

    # ---- bytes

    def get(self, off, n):
        raw = self.b[off:off + n]
        return int.from_bytes(raw, "big") << 8 * (n - len(raw))

    def bytes(self, off, n):
        return bytes(self.b[off:off + n]).ljust(n, b"\0")

    def put(self, off, n, value):
        self.write(off, value.to_bytes(n, "big"))

    def write(self, off, data):
        if off < 112:
            self.header.clear()
        if off + len(data) > len(self.b):
            self.b.extend(bytes(off + len(data) - len(self.b)))
        self.b[off:off + len(data)] = data

    def table(self, off, count):
        return struct.unpack(f">{count}Q", self.bytes(off, count * 8))

    # ---- what the header says

    @property
    def cluster(self):
        return 1 << self.bits

    @property
    def extended(self):
        return bool(self.incompatible & EXTENDED)

    @property
    def zstd(self):
        return bool(self.incompatible & ZSTD) and self.header_len > 104 and self.b[104] == 1

    @property
    def external(self):
        return bool(self.incompatible & EXTERNAL)

    @property
    def entry_len(self):
        return 16 if self.extended else 8

    @property
    def per_l2(self):
        return self.cluster // self.entry_len

    @property
    def end(self):
        """Where the file ends, in whole clusters."""
        return up(len(self.b), self.cluster)

    def extension(self, kind):
        """(place, length) of the data of a header extension, or None."""
        off = self.header_len
        if self.version > 2 and (off % 8 or not 104 <= off <= self.cluster):
            # 112, unless what is behind 104 can only be an extension
            off = 104 if self.b[104] > 1 or any(self.bytes(105, 7)) else 112
        while off + 8 <= self.cluster:
            found, n = self.get(off, 4), self.get(off + 4, 4)
            if found == kind:
                return off + 8, n
            if not found:
                break
            off += 8 + up(n, 8)
        return None

    # ---- refcounts

    @property
    def refcount_bits(self):
        return 1 << self.order

    @property
    def per_block(self):
        return self.cluster * 8 // self.refcount_bits

    def block_of(self, cluster):
        """(place of the entry of the refcount table, its block or 0)."""
        index = cluster // self.per_block
        at = self.rt_off + index * 8
        if index >= self.rt_clusters * self.cluster // 8:
            return at, 0
        block = self.get(at, 8) & ~LOW
        return at, 0 if block % self.cluster or block >= self.end else block

    def refcount_place(self, cluster):
        """(byte, bits to shift, bytes) of the count in its block, or None."""
        _, block = self.block_of(cluster)
        if not block:
            return None
        bit = cluster % self.per_block * self.refcount_bits
        return block + bit // 8, bit % 8, max(self.refcount_bits // 8, 1)

    def refcount(self, cluster):
        place = self.refcount_place(cluster)
        if not place:
            return 0
        at, shift, n = place
        return self.get(at, n) >> shift & ((1 << self.refcount_bits) - 1)

    def set_refcount(self, cluster, value):
        at, shift, n = self.refcount_place(cluster)
        mask = (1 << self.refcount_bits) - 1
        assert 0 <= value <= mask
        self.put(at, n, self.get(at, n) & ~(mask << shift) | value << shift)

    def block(self, off):
        """All counts of a refcount block."""
        n = max(self.refcount_bits // 8, 1)
        words = struct.unpack(f">{self.cluster // n}{' BH I   Q'[n]}", self.bytes(off, self.cluster))
        if self.refcount_bits >= 8:
            return words
        mask = (1 << self.refcount_bits) - 1
        return [byte >> shift & mask for byte in words for shift in range(0, 8, self.refcount_bits)]

    # ---- snapshots, bitmaps, encryption

    def snapshots(self):
        """The entries of the snapshot table that lie within the file."""
        off, found = self.snapshots_off, []
        if off % self.cluster or not off:
            return found
        for _ in range(min(self.nb_snapshots, 100)):
            id_len, name_len, extra = self.get(off + 12, 2), self.get(off + 14, 2), self.get(off + 36, 4)
            end = off + 40 + extra + id_len + name_len
            if off + 40 > len(self.b) or end > len(self.b):
                break
            text = self.bytes(off + 40 + extra, id_len + name_len)
            found.append(Entry(
                at=off, end=up(end, 8), l1_off=self.get(off, 8), l1_size=self.get(off + 8, 4),
                id=text[:id_len].decode("latin-1"), name=text[id_len:].decode("latin-1"), extra=extra,
                size=self.get(off + 48, 8) if extra >= 16 else self.size))
            off = up(end, 8)
        return found

    def bitmaps_extension(self):
        """(place, number, bytes of the directory, its offset) or None; only
        while the autoclear bit says that it holds."""
        place = self.extension(EXT_BITMAPS)
        if not place or not self.autoclear & BITMAPS:
            return None
        at, _ = place
        return at, self.get(at, 4), self.get(at + 8, 8), self.get(at + 16, 8)

    def bitmaps(self):
        """The entries of the bitmap directory that lie within it."""
        known, found = self.bitmaps_extension(), []
        if not known:
            return found
        _, count, length, off = known
        stop = min(off + length, len(self.b))
        for _ in range(min(count, 100)):
            name_len, extra = self.get(off + 18, 2), self.get(off + 20, 4)
            end = off + 24 + extra + name_len
            if off + 24 > stop or end > stop:
                break
            found.append(Entry(
                at=off, end=min(up(end, 8), stop), table=self.get(off, 8), count=self.get(off + 8, 4),
                flags=self.get(off + 12, 4), type=self.b[off + 16], granularity=self.b[off + 17],
                name_len=name_len, extra=extra,
                name=self.bytes(off + 24 + extra, name_len).decode("latin-1")))
            off = up(end, 8)
        return found

    def crypt_header(self):
        """(place of the extension, offset, length) or None."""
        place = self.extension(EXT_CRYPT)
        return (place[0], self.get(place[0], 8), self.get(place[0] + 8, 8)) if place else None

    # ---- from the guest to the host

    def views(self):
        """(name, offset of L1, entries, virtual size): what can be read."""
        return [("active", self.l1_off, self.l1_size, self.size)] + \
            [("snapshot " + s.id, s.l1_off, s.l1_size, s.size) for s in self.snapshots()]

    def l1_at(self, index, view="active"):
        """The place of an L1 entry."""
        return next(l1 for name, l1, _, _ in self.views() if name == view) + index * 8

    def l2_table(self, index, view="active"):
        return self.get(self.l1_at(index, view), 8) & OFFSET

    def l2_at(self, guest, view="active"):
        """The place of the L2 entry of a guest cluster, which must have one."""
        table = self.l2_table(guest // self.per_l2, view)
        assert table, f"guest cluster {guest} of {view} has no L2 table"
        return table + guest % self.per_l2 * self.entry_len

    def host(self, guest, view="active"):
        """The host offset of the data of a guest cluster."""
        entry = self.get(self.l2_at(guest, view), 8)
        return self.stream(entry)[0] if entry & PACKED else entry & OFFSET

    def stream(self, entry):
        """(offset, end of the last sector) of a compressed cluster."""
        x = 62 - (self.bits - 8)
        off, more = entry & ((1 << x) - 1), (entry & (PACKED - 1)) >> x
        return off, (off & ~511) + (more + 1) * 512

    # ---- what the guest reads

    def read(self, view):
        """A bytearray of the guest's bytes of a view, and the list of ranges
        that cannot be read: (offset, length)."""
        _, l1, l1_size, size = view
        guest, bad = bytearray(up(size, 512)), []
        span = self.cluster * self.per_l2
        if l1 % self.cluster or l1_size > (32 << 20) // 8 or l1 >= self.end:
            return guest, [(0, len(guest))]
        for start in range(0, len(guest), span):
            i = start // span
            entry = self.get(l1 + i * 8, 8) if i < l1_size else 0
            table = entry & OFFSET
            if table and self.bad_pointer(table):
                bad.append((start, min(span, len(guest) - start)))
            elif table:
                self.read_l2(table, start, guest, bad)
        return guest, bad

    def bad_pointer(self, off):
        return off % self.cluster or off + self.cluster > self.end

    def read_l2(self, table, start, guest, bad):
        words, step, cluster = self.table(table, self.cluster // 8), self.entry_len // 8, self.cluster
        for i in range(0, len(words), step):
            off = start + i // step * cluster
            if off >= len(guest):
                break
            if not words[i] and (step == 1 or not words[i + 1]):
                continue
            n = min(cluster, len(guest) - off)
            data = self.read_entry(words[i], words[i + 1] if step > 1 else 0, off)
            if data is None:
                bad.append((off, n))
            elif data:
                guest[off:off + n] = data[:n]

    def read_entry(self, entry, bitmap, guest):
        """The bytes of a guest cluster by its L2 entry; b"" is zeros, None
        what cannot be read."""
        if entry & PACKED:
            off, end = self.stream(entry)
            if off >= len(self.b) or end > self.end or self.external:
                return None
            if self.zstd:
                return unzstd(self.bytes(off, end - off), self.cluster)
            try:
                data = zlib.decompressobj(-15).decompress(self.bytes(off, end - off), self.cluster)
            except zlib.error:
                return None
            return data if len(data) == self.cluster else None
        host = entry & OFFSET
        if host % self.cluster or entry & 1 and self.version == 2:
            return None
        if self.external:
            if not entry & COPIED and not host or entry & 1:
                return b""
            if host != guest:
                return None
            return self.data_file[host:host + self.cluster].ljust(self.cluster, b"\0")
        if entry & 1 and not self.extended:
            return b""
        if self.bad_pointer(host):
            return None
        if self.extended:
            return self.mix(host, bitmap)
        return self.bytes(host, self.cluster) if host else b""

    def mix(self, host, bitmap):
        """Extended L2: the subclusters that the bitmap takes from the host."""
        if bitmap & bitmap >> 32 & 0xFFFF_FFFF or bitmap & 0xFFFF_FFFF and not host:
            return None
        n = self.cluster // 32
        return b"".join(self.bytes(host + i * n, n) if bitmap >> i & 1 else bytes(n) for i in range(32))
