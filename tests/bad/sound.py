# SPDX-License-Identifier: BSD-2-Clause
"""Writes sound qcow2 images of every kind, cluster by cluster, by the
specification alone. The same calls make the same bytes everywhere, and what the
guest reads is known (a dict of cluster to bytes for each view)."""
import functools
import hashlib
import random
import zlib

import image

VERSION = {2: 72, 3: 112}        # lengths of the header


def noise(*what, n):
    return random.Random(repr(what)).randbytes(n)


def text(*what, n):
    """Compresses to about a third."""
    r = random.Random(repr(what))
    words = [r.randbytes(3).hex() for _ in range(40)]
    return " ".join(r.choice(words) for _ in range(n // 6)).encode().ljust(n, b".")[:n]


@functools.lru_cache
def squeezed(guest, n):
    """Such a text and its compressed data."""
    content = text(guest, n=n)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -12)
    return content, deflate.compress(content) + deflate.flush()


@functools.lru_cache
def squeezed_zstd(guest, n):
    """Noise and a run of one byte, in blocks that are stored and repeated."""
    plain, block = noise("zstd", guest, n=n // 3), 1 << 16
    content = plain + bytes([guest & 255]) * (n - len(plain))
    out = image.ZSTD_MAGIC + b"\xa0" + n.to_bytes(4, "little")
    for kind, data in (0, plain), (1, content[len(plain):]):
        for at in range(0, len(data), block):
            piece = data[at:at + block]
            last = kind and at + block >= len(data)
            out += (len(piece) << 3 | kind << 1 | last).to_bytes(3, "little") + (piece[:1] if kind else piece)
    return content, out


class L2:
    def __init__(self, host, entries, bitmaps):
        self.host, self.entries, self.bitmaps, self.views = host, entries, bitmaps, 1


class Sound:
    """Set up, fill with data(), packed() and so on, then finish(). `external` is
    the name of the external data file."""

    def __init__(self, size, bits=16, refcount_bits=16, version=3, extended=False, external="",
                 luks=False, lazy=False, zstd=False, rt_clusters=1, l1_spare=0):
        self.size, self.bits, self.version, self.extended = size, bits, version, extended
        self.external, self.luks, self.lazy, self.zstd = external, luks, lazy, zstd
        self.refcount_bits, self.cluster = refcount_bits, 1 << bits
        self.per_l2 = self.cluster // (16 if extended else 8)
        self.rt_clusters = rt_clusters
        self.img = image.Image(b"")
        self.clusters = 0
        self.take(1)
        self.img.bits = bits           # what the helpers of Image need
        self.rt = self.take(rt_clusters)
        self.blocks = [self.take(1)]
        self.l1_size = -(-size // (self.cluster * self.per_l2)) + l1_spare
        self.l1 = self.take(-(-max(self.l1_size * 8, 1) // self.cluster))
        self.tables = [None] * self.l1_size
        self.content = {}              # guest cluster -> bytes
        self.views = []                # of snapshots: entry of the table, tables, content
        self.bitmaps = []              # entries of the directory, clusters they refer to
        self.pack_at = self.generation = 0
        self.data_file = bytearray(size) if external else None
        self.refs = {}
        self.extensions = []
        if luks:
            self.put_luks()

    def take(self, n):
        """n new clusters, one behind the other."""
        off = self.clusters * self.cluster
        self.clusters += n
        self.img.write(off, bytes(n * self.cluster))
        return off

    # ---- content

    def table(self, guest):
        """The L2 table of a guest cluster, to be changed: no snapshot has it."""
        i = guest // self.per_l2
        t = self.tables[i]
        if not t:
            t = L2(self.take(1), [0] * self.per_l2, [0] * self.per_l2)
        elif t.views > 1:
            t.views -= 1
            t = L2(self.take(1), list(t.entries), list(t.bitmaps))
        self.tables[i] = t
        return t

    def put(self, guest, entry, content, bitmap=0):
        t = self.table(guest)
        t.entries[guest % self.per_l2], t.bitmaps[guest % self.per_l2] = entry, bitmap
        self.content[guest] = content

    def data(self, *guests, fill=None):
        """Each gets a host cluster with bytes of its own (or `fill`)."""
        for guest in guests:
            self.generation += 1
            content = noise(guest, self.generation, n=self.cluster) if fill is None \
                else bytes([fill]) * self.cluster
            self.table(guest)
            if self.external:
                host = guest * self.cluster
                self.data_file[host:host + self.cluster] = content
                self.put(guest, host | image.COPIED, content)
                continue
            host = self.take(1)
            self.img.write(host, content)
            self.put(guest, host, content, 0xFFFF_FFFF if self.extended else 0)

    def sub(self, guest, alloc, zero):
        """Extended L2: bits of subclusters."""
        n = self.cluster // 32
        self.data(guest)
        t, whole = self.table(guest), self.content[guest]
        t.bitmaps[guest % self.per_l2] = zero << 32 | alloc
        self.content[guest] = b"".join(
            whole[i * n:(i + 1) * n] if alloc >> i & 1 else bytes(n) for i in range(32))

    def zero(self, *guests, host=False):
        for guest in guests:
            self.table(guest)
            at = 0
            if host:
                at = self.take(1)
                self.img.write(at, b"\xee" * self.cluster)
            if self.extended:
                self.put(guest, at, b"", 0xFFFF_FFFF << 32)
            else:
                self.put(guest, at | 1, b"")

    def drop(self, *guests):
        """Unallocated again; their clusters are another view's, or nobody's."""
        for guest in guests:
            self.put(guest, 0, b"")

    def packed(self, *guests):
        """Compressed, each right behind the one before."""
        for guest in guests:
            content, stream = (squeezed_zstd if self.zstd else squeezed)(guest, self.cluster)
            self.table(guest)
            room = -self.pack_at % self.cluster if self.refcount_bits > 2 else 0
            if not room or room + self.cluster < len(stream):
                self.pack_at = self.take(1)
            elif len(stream) > room and self.pack_at + room == self.clusters * self.cluster:
                self.take(1)
            elif len(stream) > room:
                self.pack_at = self.take(1)
            self.img.write(self.pack_at, stream)
            x = 62 - (self.bits - 8)
            sectors = (self.pack_at + len(stream) - 1) // 512 - self.pack_at // 512
            self.put(guest, image.PACKED | sectors << x | self.pack_at, content)
            self.pack_at += len(stream)

    def snapshot(self, id, name, extra=16):
        """What is there becomes a snapshot."""
        l1 = self.take(-(-max(self.l1_size * 8, 1) // self.cluster))
        for t in self.tables:
            if t:
                t.views += 1
        head = l1.to_bytes(8, "big") + self.l1_size.to_bytes(4, "big")
        head += len(id).to_bytes(2, "big") + len(name).to_bytes(2, "big")
        head += (1_700_000_000 + len(self.views)).to_bytes(4, "big") + bytes(4 + 8 + 4)
        head += extra.to_bytes(4, "big")
        head += (bytes(8) + self.size.to_bytes(8, "big") + b"\xff" * 8 + bytes(2000))[:extra]
        head += id.encode() + name.encode()
        self.views.append((l1, head + bytes(-len(head) % 8), list(self.tables), dict(self.content), id))

    def bitmap(self, name, granularity=16, flags=0, ones=(), data=(0,)):
        """`data`: clusters of the table that are there, `ones` those of ones."""
        bits = -(-self.size >> granularity)
        length = -(-bits // 8)
        count = -(-length // self.cluster)
        table = self.take(-(-count * 8 // self.cluster))
        entries = [0] * count
        for i in range(count):
            if i in ones:
                entries[i] = 1
            elif i in data:
                entries[i] = self.take(1)
                self.ref(entries[i])
                used = min(self.cluster, length - i * self.cluster)
                self.img.write(entries[i], noise(name, i, n=used - 1) or b"")
        for i, entry in enumerate(entries):
            self.img.put(table + i * 8, 8, entry)
        entry = table.to_bytes(8, "big") + count.to_bytes(4, "big") + flags.to_bytes(4, "big")
        entry += bytes([1, granularity]) + len(name).to_bytes(2, "big") + bytes(4) + name.encode()
        self.bitmaps.append((table, count, entry + bytes(-len(entry) % 8)))

    # ---- LUKS

    def put_luks(self):
        """A LUKS header version 1 for the passphrase "qimg". All key material
        is zeros; the digest below is that of the master key that such material
        stands for (aes-128, cbc-plain64, sha256)."""
        slot, first = 65536, 4096
        self.luks_len = first + 8 * slot
        at = self.take(-(-self.luks_len // self.cluster))
        head = b"LUKS\xba\xbe" + (1).to_bytes(2, "big")
        head += b"aes".ljust(32, b"\0") + b"cbc-plain64".ljust(32, b"\0") + b"sha256".ljust(32, b"\0")
        head += (self.luks_len // 512).to_bytes(4, "big") + (16).to_bytes(4, "big")
        head += LUKS_DIGEST + LUKS_SALT + LUKS_ITERATIONS.to_bytes(4, "big")
        head += b"8d0e7a0c-3f0b-4a53-9d1b-6f0a5c6f2d11".ljust(40, b"\0")
        for i in range(8):
            head += (0x0000DEAD if i else 0x00AC71F3).to_bytes(4, "big")
            head += (0 if i else LUKS_ITERATIONS).to_bytes(4, "big") + (bytes(32) if i else LUKS_SALT)
            head += ((first + i * slot) // 512).to_bytes(4, "big") + (4000).to_bytes(4, "big")
        self.img.write(at, head)
        self.luks_at = at
        self.extensions.append((image.EXT_CRYPT, at.to_bytes(8, "big") + self.luks_len.to_bytes(8, "big")))

    # ---- the end

    def ref(self, off, length=1):
        for c in range(off // self.cluster, -(-(off + length) // self.cluster)):
            self.refs[c] = self.refs.get(c, 0) + 1

    def ref_tables(self, tables):
        for t in tables:
            if not t:
                continue
            self.ref(t.host)
            for entry in t.entries:
                if entry & image.PACKED:
                    off, end = self.img.stream(entry)
                    self.ref(off & ~511, end - (off & ~511))
                elif entry & image.OFFSET and not self.external:
                    self.ref(entry & image.OFFSET)

    def write_table(self, t):
        n = 16 if self.extended else 8
        for i, entry in enumerate(t.entries):
            host = entry & image.OFFSET
            if host and not entry & image.PACKED and not self.external \
                    and self.refs[host // self.cluster] == 1:
                entry |= image.COPIED
            self.img.put(t.host + i * n, 8, entry)
            if self.extended:
                self.img.put(t.host + i * n + 8, 8, t.bitmaps[i])

    def finish(self):
        """Writes all metadata and counts. Returns the Image."""
        img, l1_len = self.img, max(self.l1_size * 8, 1)
        snapshots_at = dir_at = 0
        if self.views:
            table = b"".join(head for _, head, _, _, _ in self.views)
            snapshots_at = self.take(-(-len(table) // self.cluster))
            img.write(snapshots_at, table)
            self.ref(snapshots_at, len(table))
        if self.bitmaps:
            directory = b"".join(entry for _, _, entry in self.bitmaps)
            dir_at = self.take(-(-len(directory) // self.cluster))
            img.write(dir_at, directory)
            self.ref(dir_at, len(directory))
            self.extensions.append((image.EXT_BITMAPS, len(self.bitmaps).to_bytes(4, "big") + bytes(4) +
                                    len(directory).to_bytes(8, "big") + dir_at.to_bytes(8, "big")))
        self.ref(0)
        self.ref(self.rt, self.rt_clusters * self.cluster)
        self.ref(self.l1, l1_len)
        if self.luks:
            self.ref(self.luks_at, self.luks_len)
        for table, count, _ in self.bitmaps:
            self.ref(table, count * 8)
        self.ref_tables(self.tables)
        for l1, _, tables, _, _ in self.views:
            self.ref(l1, l1_len)
            self.ref_tables(tables)
        per_block = self.cluster * 8 // self.refcount_bits
        while len(self.blocks) * per_block < self.clusters:
            self.blocks.append(self.take(1))
        for block in self.blocks:
            self.ref(block)
        self.put_header(snapshots_at)
        for i, block in enumerate(self.blocks):
            img.put(self.rt + i * 8, 8, block)
        for c, n in self.refs.items():
            img.set_refcount(c, n)
        for tables in [self.tables] + [tables for _, _, tables, _, _ in self.views]:
            for t in tables:
                if t:
                    self.write_table(t)
        for l1, tables in [(self.l1, self.tables)] + [(l1, tables) for l1, _, tables, _, _ in self.views]:
            for i, t in enumerate(tables):
                own = l1 == self.l1 and t and self.refs[t.host // self.cluster] == 1
                img.put(l1 + i * 8, 8, (t.host if t else 0) | (image.COPIED if own else 0))
        return image.Image(img.b, self.data_file)

    def put_header(self, snapshots_at):
        img = self.img
        img.write(0, b"QFI\xfb")
        img.version, img.bits, img.size = self.version, self.bits, self.size
        img.crypt = 2 if self.luks else 0
        img.l1_size, img.l1_off = self.l1_size, self.l1
        img.rt_off, img.rt_clusters = self.rt, self.rt_clusters
        img.nb_snapshots, img.snapshots_off = len(self.views), snapshots_at
        at = VERSION[self.version]
        if self.version == 3:
            img.incompatible = bool(self.external) * image.EXTERNAL | self.extended * image.EXTENDED \
                | self.zstd * image.ZSTD
            img.put(104, 1, int(self.zstd))
            img.compatible = int(self.lazy)
            img.autoclear = image.BITMAPS if self.bitmaps else 0
            img.order, img.header_len = self.refcount_bits.bit_length() - 1, at
        if self.external:
            self.extensions.append((image.EXT_DATA_FILE, self.external.encode()))
        for kind, data in self.extensions:
            img.put(at, 4, kind)
            img.put(at + 4, 4, len(data))
            img.write(at + 8, data)
            at += 8 + image.up(len(data), 8)

    def expected(self):
        """(view, bytes) that the guest reads, in the order of Image.views()."""
        for name, content in [("active", self.content)] + \
                [("snapshot " + id, content) for _, _, _, content, id in self.views]:
            guest = bytearray(image.up(self.size, 512))
            for c, data in content.items():
                off = c * self.cluster
                n = max(min(len(data), len(guest) - off), 0)
                guest[off:off + n] = data[:n]
            yield name, guest


LUKS_ITERATIONS = 1000
LUKS_SALT = hashlib.sha256(b"qimg").digest()
LUKS_DIGEST = bytes.fromhex("f2ab84878e8f8502adafb416f289af28197b812e")
