# SPDX-License-Identifier: BSD-2-Clause
"""The snapshot table, the bitmap directory and the encryption header."""
import image
from damage import defect, encrypted, plain, rich, with_bitmaps, with_snapshots
from sound import Sound


def entry_of(s):
    """Place and length of an entry of a table."""
    return s.at, s.end - s.at


# ------------------------------------------------------------ snapshot table

def bad_snapshot(d, base, index, off, n, value, detail, kind="snapshot-table"):
    img = d.start(base)
    s = img.snapshots()[index]
    img.put(s.at + off, n, value)
    d.finds(kind, *entry_of(s), to=img.get(s.at, 8), detail=detail)
    return img, s


def gone(d, index):
    """What a snapshot referred to may count as leaked once it cannot be read,
    but nothing else."""
    img, s = d.sound, d.sound.snapshots()[index]
    d.may_at("leak", s.l1_off, s.l1_size * 8)
    for i in range(s.l1_size):
        table = img.get(s.l1_off + i * 8, 8) & image.OFFSET
        if table:
            d.may_at("leak", table)
        for k in range(img.per_l2) if table else ():
            entry = img.get(table + k * img.entry_len, 8)
            if entry & image.PACKED:
                off, end = img.stream(entry)
                d.may_at("leak", off // d.cluster * d.cluster, end - off // d.cluster * d.cluster)
            elif entry & image.OFFSET:
                d.may_at("leak", entry & image.OFFSET)
    d.may("copied")


def dropped(d, index, more=()):
    """A snapshot whose entry cannot be read; more: those behind it."""
    for i in (index, *more):
        gone(d, i)
    # Any place in the table is good enough.
    d.must[-1]["host"] = [d.sound.snapshots_off, d.sound.snapshots()[-1].end - d.sound.snapshots_off]
    if len(d.img.views()) > index + 1:
        d.hurts(0, d.sound.size // d.cluster, view="snapshot " + d.sound.snapshots()[index].id)


@defect("snapshot-truncated", "the file ends in the midst of the snapshot table")
def snapshot_truncated(d):
    img = d.start(with_snapshots())
    second = img.snapshots()[1]
    del img.b[second.at + 30:]
    d.finds("snapshot-table", second.at, second.end - second.at)
    dropped(d, 1)
    d.exits(2, 1)


@defect("snapshot-name-long", "the name of the last snapshot is longer than the file")
def snapshot_name_long(d):
    bad_snapshot(d, with_snapshots(), 1, 14, 2, 0xFFFF, None)
    dropped(d, 1)


@defect("snapshot-id-long", "the ID of the first snapshot is longer than the file: the entries behind it are lost as well")
def snapshot_id_long(d):
    bad_snapshot(d, with_snapshots(), 0, 12, 2, 0xFF00, None)
    dropped(d, 0, (1,))


@defect("snapshot-extra-long", "the extra data of a snapshot is longer than the file")
def snapshot_extra_long(d):
    bad_snapshot(d, with_snapshots(12), 1, 36, 4, 0x7FFF_FFFF, None)
    dropped(d, 1)


@defect("snapshot-count", "the header counts a snapshot more than the table has: the entry there is zeros")
def snapshot_count(d):
    img = d.start(with_snapshots(12))
    end = img.snapshots()[-1].end
    img.nb_snapshots = 3
    d.finds(["snapshot-table", "snapshot-l1"], end, 40)
    d.may("snapshot-table", "snapshot-l1")


@defect("snapshot-count-many", "the header counts more snapshots than the file has room for")
def snapshot_count_many(d):
    s = plain()
    s.snapshot("1", "first")
    img = d.start(s)
    end = img.snapshots()[-1].end
    img.nb_snapshots = 60000
    d.finds(["snapshot-table", "snapshot-l1"])
    d.may("snapshot-table", "snapshot-l1")
    d.exits(2, 1)
    assert end


def rewrite_extra(d, base, extra, detail):
    """Gives the only snapshot extra data of another length."""
    img = d.start(base)
    s = img.snapshots()[0]
    head, data = img.bytes(s.at, 36), img.bytes(s.at + 40, s.extra)
    entry = head + extra.to_bytes(4, "big") + data[:extra].ljust(extra, b"\x77")
    entry += s.id.encode() + s.name.encode()
    img.write(s.at, entry + bytes(-len(entry) % 8))
    s = img.snapshots()[0]
    d.finds("snapshot-table", s.at, s.end - s.at, view="snapshot 1", detail=detail)
    return img


def one_snapshot(bits=12, **how):
    s = plain(bits, **how)
    s.snapshot("1", "first")
    s.data(1)
    return s


@defect("snapshot-extra-missing", "version 3: a snapshot has no extra data, which has to say the size of the disk")
def snapshot_extra_missing(d):
    rewrite_extra(d, one_snapshot(), 0, "short")


@defect("snapshot-extra-short", "version 3: the extra data of a snapshot has 8 bytes of the 16 it must have")
def snapshot_extra_short(d):
    rewrite_extra(d, one_snapshot(), 8, "short")


@defect("snapshot-extra-much", "a snapshot has 1104 bytes of extra data, more than the reference keeps")
def snapshot_extra_much(d):
    rewrite_extra(d, one_snapshot(), 1104, "long")


@defect("sound-snapshot-extra", "no defect: version 2 needs no extra data")
def sound_snapshot_extra(d):
    s = Sound(1 << 20, 12, version=2)
    s.data(0, 1, 2)
    s.snapshot("1", "first", extra=0)
    s.data(1)
    img = d.start(s)
    img.put(img.snapshots()[0].at + 16, 4, 7)


@defect("snapshot-id-twice", "two snapshots have one ID")
def snapshot_id_twice(d):
    img, s = bad_snapshot(d, with_snapshots(12), 1, 40 + 16, 1, ord("1"), "duplicate")
    assert [s.id for s in img.snapshots()] == ["1", "1"]


@defect("sound-snapshot-name-twice", "no defect: two snapshots have one name")
def sound_snapshot_name_twice(d):
    s = plain(12)
    s.snapshot("1", "one name")
    s.snapshot("2", "two name")
    img = d.start(s)
    img.write(img.snapshots()[1].at + 40 + 16 + 1, b"one")
    assert img.snapshots()[1].name == "one name"


@defect("sound-snapshot-id-empty", "no defect, strange as it is: a snapshot has an empty ID")
def sound_snapshot_id_empty(d):
    img = d.start(with_snapshots())
    s = img.snapshots()[1]
    img.put(s.at + 12, 4, len(s.name) + 1)
    assert img.snapshots()[1].id == ""


@defect("snapshot-l1-small", "the L1 table of a snapshot has fewer entries than its disk needs")
def snapshot_l1_small(d):
    bad_snapshot(d, with_snapshots(), 0, 8, 4, 1, "size", "snapshot-l1")
    gone(d, 0)
    d.hurts(64, 192, view="snapshot 1")


@defect("snapshot-l1-huge", "the L1 table of a snapshot is said to have 2^30 entries")
def snapshot_l1_huge(d):
    bad_snapshot(d, with_snapshots(12), 1, 8, 4, 1 << 30, "size", "snapshot-l1")
    dropped_view(d, 1)


@defect("snapshot-l1-unaligned", "the L1 table of a snapshot does not start at a cluster")
def snapshot_l1_unaligned(d):
    img, s = bad_snapshot(d, with_snapshots(12), 0, 0, 8, 0, "unaligned", "snapshot-l1")
    img.put(s.at, 8, s.l1_off + 512)
    d.must[-1]["to"] = s.l1_off + 512
    dropped_view(d, 0)
    d.may("overlap", "refcount")


@defect("snapshot-l1-end", "the L1 table of a snapshot is said to lie beyond the end of the file")
def snapshot_l1_end(d):
    bad_snapshot(d, with_snapshots(), 1, 0, 8, 1 << 40, "end", "snapshot-l1")
    dropped_view(d, 1)


@defect("snapshot-l1-beyond", "the L1 table of a snapshot reaches beyond the end of the file")
def snapshot_l1_beyond(d):
    img = d.start(with_snapshots())
    s = img.snapshots()[1]
    img.put(s.at + 8, 4, 100_000)
    d.finds("snapshot-l1", s.at, s.end - s.at, to=s.l1_off)
    d.may("snapshot-l1", "leak", "copied", "overlap", "refcount", "l1-entry", "l2-entry", "packed")


@defect("snapshot-size", "the disk of a snapshot is larger than its L1 table can map")
def snapshot_size(d):
    img = d.start(with_snapshots())
    s = img.snapshots()[0]
    img.put(s.at + 48, 8, 1 << 20)
    d.finds("snapshot-l1", s.at, s.end - s.at, to=s.l1_off, detail="size")


def dropped_view(d, index):
    """A snapshot whose L1 table cannot be used: what it alone has is leaked."""
    gone(d, index)
    d.may("refcount")
    d.hurts(0, d.sound.size // d.cluster, view="snapshot " + d.sound.snapshots()[index].id)


# ---------------------------------------------------------- bitmap directory

def bad_bitmap(d, base, off, n, value, detail, index=0):
    img = d.start(base)
    b = img.bitmaps()[index]
    img.put(b.at + off, n, value)
    d.finds("bitmap-directory", *entry_of(b), to=img.get(b.at, 8), detail=detail)
    return img, b


def given_up(d):
    """What becomes of a bitmap that cannot be used: its clusters are leaked."""
    d.may("leak", "bitmap-directory", "bitmap-entry")


@defect("bitmap-type", "a bitmap of an unknown type")
def bitmap_type(d):
    bad_bitmap(d, with_bitmaps(), 16, 1, 2, "type")
    given_up(d)


@defect("bitmap-type-zero", "a bitmap of type 0")
def bitmap_type_zero(d):
    bad_bitmap(d, with_bitmaps(12), 16, 1, 0, "type", 1)
    given_up(d)


@defect("bitmap-flags", "reserved flags of a bitmap are set")
def bitmap_flags(d):
    bad_bitmap(d, with_bitmaps(), 12, 4, 0x0001_0008, "flags")
    given_up(d)


@defect("sound-bitmap-in-use", "no defect: a bitmap in use, which was not saved correctly")
def sound_bitmap_in_use(d):
    img = d.start(with_bitmaps())
    img.put(img.bitmaps()[0].at + 12, 4, 1)


@defect("sound-bitmap-auto", "no defect: an enabled bitmap")
def sound_bitmap_auto(d):
    img = d.start(rich(12))
    img.put(img.bitmaps()[0].at + 12, 4, 2)


@defect("bitmap-granularity", "a bitmap with a bit for each 2^64 bytes")
def bitmap_granularity(d):
    bad_bitmap(d, with_bitmaps(), 17, 1, 64, "granularity")
    given_up(d)


def two_cluster_bitmap():
    """A bitmap whose data takes two clusters, and one that takes one."""
    s = Sound(4 << 20, 9)
    s.data(0, 1)
    s.bitmap("b0", granularity=9, data=(0, 1))
    s.bitmap("b1", granularity=12)
    return s


@defect("bitmap-table-long", "the table of a bitmap is longer than its granularity takes")
def bitmap_table_long(d):
    bad_bitmap(d, two_cluster_bitmap(), 8, 4, 2, "table size", 1)
    given_up(d)


@defect("bitmap-table-short", "the table of a bitmap is shorter than its granularity takes")
def bitmap_table_short(d):
    bad_bitmap(d, two_cluster_bitmap(), 8, 4, 1, "table size")
    given_up(d)


@defect("bitmap-granularity-other", "the granularity of a bitmap was changed and fits its table no more")
def bitmap_granularity_other(d):
    bad_bitmap(d, two_cluster_bitmap(), 17, 1, 10, "table size")
    given_up(d)


@defect("bitmap-table-huge", "the table of a bitmap is said to have 2^31 entries")
def bitmap_table_huge(d):
    bad_bitmap(d, with_bitmaps(12), 8, 4, 1 << 31, None)
    given_up(d)


@defect("bitmap-table-unaligned", "the table of a bitmap does not start at a cluster")
def bitmap_table_unaligned(d):
    img, b = bad_bitmap(d, with_bitmaps(12), 0, 8, 0, "unaligned")
    img.put(b.at, 8, b.table + 8)
    d.must[-1]["to"] = b.table + 8
    given_up(d)


@defect("bitmap-table-end", "the table of a bitmap is said to lie beyond the end of the file")
def bitmap_table_end(d):
    bad_bitmap(d, with_bitmaps(), 0, 8, 1 << 40, "end", 1)
    given_up(d)


@defect("bitmap-table-header", "the table of a bitmap is said to be where the header is")
def bitmap_table_header(d):
    bad_bitmap(d, with_bitmaps(), 0, 8, 0, None)
    d.must[-1]["kind"] = ["bitmap-directory", "overlap"]
    given_up(d)
    d.may("overlap", "refcount")


@defect("bitmap-name-empty", "a bitmap without a name")
def bitmap_name_empty(d):
    img = d.start(with_bitmaps())
    b = img.bitmaps()[1]
    at, _, length, off = img.bitmaps_extension()
    img.put(b.at + 18, 2, 0)
    img.put(at + 8, 8, length - 8)
    assert b.end - b.at == 32 and b.end == off + length
    d.finds("bitmap-directory", b.at, 24, detail="name")
    given_up(d)


@defect("bitmap-name-long", "the name of the last bitmap is longer than the directory")
def bitmap_name_long(d):
    img = d.start(with_bitmaps())
    b = img.bitmaps()[1]
    img.put(b.at + 18, 2, 1000)
    d.finds("bitmap-directory")
    given_up(d)


@defect("bitmap-name-1024", "a bitmap with a name of 1024 bytes, one more than allowed")
def bitmap_name_1024(d):
    img = d.start(with_bitmaps(12))
    b = img.bitmaps()[1]
    at, _, length, off = img.bitmaps_extension()
    img.put(b.at + 18, 2, 1024)
    img.write(b.at + 24, b"n" * 1024)
    img.put(at + 8, 8, b.at + 24 + 1024 - off)
    d.finds("bitmap-directory", b.at, 24 + 1024, detail="name")
    given_up(d)
    assert length


@defect("bitmap-name-bytes", "a bitmap whose name is no text, and which has an entry beyond the end of the file")
def bitmap_name_bytes(d):
    img = d.start(with_bitmaps())
    b = img.bitmaps()[0]
    img.write(b.at + 24, b"\xff\x1b")
    img.put(b.table, 8, 1 << 40)
    d.finds("bitmap-entry", b.table, to=1 << 40, detail="end")
    given_up(d)


@defect("snapshot-name-escape", "a snapshot whose name clears a terminal, and which has an entry beyond the end of the file")
def snapshot_name_escape(d):
    img = d.start(with_snapshots(12))
    s = img.snapshots()[0]
    img.write(s.at + 40 + s.extra + 1, b"\x1b[2J\n")
    img.put(s.l1_off, 8, 1 << 40)
    d.finds("l1-entry", s.l1_off, to=1 << 40, detail="end")
    gone(d, 0)
    d.hurts(0, 512, view="snapshot 1")


@defect("bitmap-name-twice", "two bitmaps have one name")
def bitmap_name_twice(d):
    bad_bitmap(d, with_bitmaps(12), 25, 1, ord("0"), "duplicate", 1)
    given_up(d)


@defect("bitmap-extra", "the extra data of a bitmap is longer than the directory")
def bitmap_extra(d):
    img = d.start(with_bitmaps())
    img.put(img.bitmaps()[0].at + 20, 4, 0x10000)
    d.finds("bitmap-directory")
    given_up(d)


def bad_directory(d, base, field, n, value, *exits):
    """A field of the bitmaps extension: 0 the number, 8 the size, 16 the offset."""
    img = d.start(base)
    at = img.bitmaps_extension()[0]
    img.put(at + field, n, value(img.get(at + field, n)))
    d.finds("bitmap-directory")
    given_up(d)
    if exits:
        d.exits(*exits)


@defect("directory-count-more", "the header counts a bitmap more than the directory has")
def directory_count_more(d):
    bad_directory(d, with_bitmaps(), 0, 4, lambda old: old + 1, 2, 1)


@defect("directory-count-less", "the header counts a bitmap less than the directory has")
def directory_count_less(d):
    bad_directory(d, with_bitmaps(12), 0, 4, lambda old: old - 1)


@defect("directory-count-zero", "the header has a bitmaps extension for no bitmap")
def directory_count_zero(d):
    bad_directory(d, with_bitmaps(), 0, 4, lambda old: 0, 2, 1)


@defect("directory-size-more", "the bitmap directory is said to be 32 bytes longer than its entries")
def directory_size_more(d):
    bad_directory(d, with_bitmaps(), 8, 8, lambda old: old + 32)


@defect("directory-size-less", "the bitmap directory is said to be shorter than its entries")
def directory_size_less(d):
    bad_directory(d, with_bitmaps(12), 8, 8, lambda old: old - 16)


@defect("directory-size-huge", "the bitmap directory is said to be larger than the file")
def directory_size_huge(d):
    bad_directory(d, with_bitmaps(12), 8, 8, lambda old: 1 << 20)


@defect("directory-unaligned", "the bitmap directory does not start at a cluster")
def directory_unaligned(d):
    bad_directory(d, with_bitmaps(12), 16, 8, lambda old: old + 8, 2, 1)


@defect("directory-end", "the bitmap directory is said to lie beyond the end of the file")
def directory_end(d):
    bad_directory(d, with_bitmaps(), 16, 8, lambda old: old + (1 << 30))


# --------------------------------------------------------- encryption header

@defect("crypt-end", "the encryption header is said to lie beyond the end of the file")
def crypt_end(d):
    img = d.start(encrypted())
    at, off, length = img.crypt_header()
    img.put(at, 8, 1 << 40)
    d.finds("crypt-header", at, 16, to=1 << 40)
    d.may_at("leak", off, -(-length // 65536) * 65536)
    d.exits(2, 1)


@defect("crypt-long", "the encryption header is said to be longer than the file")
def crypt_long(d):
    img = d.start(encrypted())
    at, off, length = img.crypt_header()
    img.put(at + 8, 8, 1 << 30)
    d.finds("crypt-header", at, 16, to=off)
    d.may_at("leak", off, -(-length // 65536) * 65536)
    d.may("overlap", "refcount")
    d.exits(2, 1)


@defect("crypt-longer", "the encryption header is said to be a cluster longer: it reaches over an L2 table")
def crypt_longer(d):
    img = d.start(encrypted())
    at, off, length = img.crypt_header()
    beyond = -(-(off + length) // 65536) * 65536
    assert img.l2_table(0) == beyond
    img.put(at + 8, 8, beyond + 512 - off)
    d.finds("overlap", beyond)
    d.may_at("refcount", beyond)
    d.may("copied")


@defect("crypt-unaligned", "the encryption header does not start at a cluster")
def crypt_unaligned(d):
    img = d.start(encrypted())
    at, off, length = img.crypt_header()
    img.put(at, 8, off + 512)
    d.finds("crypt-header", at, 16, to=off + 512, detail="unaligned")
    d.may_at("leak", off, -(-length // 65536) * 65536)
    d.exits(2, 1)
