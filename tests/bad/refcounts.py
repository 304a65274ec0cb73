# SPDX-License-Identifier: BSD-2-Clause
"""Refcounts that differ from the references: of each kind of cluster, in each
width, at high counts, and the structures that hold them."""
import random

import image
from damage import defect, encrypted, plain, rich, with_snapshots
from sound import Sound


def border(img):
    """The last cluster of a stream that crosses from one into the next."""
    for guest in range(8, 13):
        off, end = img.stream(img.get(img.l2_at(guest), 8))
        if off // img.cluster != (end - 1) // img.cluster:
            return end - 1
    raise AssertionError("no stream crosses a border")


def long_tables(**how):
    """All tables that may be are longer than one cluster."""
    s = Sound(4 << 20, 9, rt_clusters=3, **how)
    s.data(0, 1, 5000)
    s.snapshot("1", "first" * 90)
    s.data(1)
    s.snapshot("2", "second" * 70)
    s.bitmap("b0" * 200, granularity=9, data=(0, 1))
    s.bitmap("b1" * 200, granularity=12)
    return s


def vm_state(bits=9):
    """A snapshot with machine state, which lies behind the disk, in L1 entries that the disk does not need."""
    s = plain(bits, l1_spare=2)
    behind = s.size // s.cluster
    s.data(*range(behind, behind + 10))
    s.snapshot("1", "running")
    s.drop(*range(behind, behind + 10))
    s.data(1)
    return s


def state(img):
    """The first cluster of the machine state."""
    return img.host(img.size // img.cluster, "snapshot 1")


# What can be counted: a sound image, where the cluster is in it.
CLUSTERS = {
    "header": (plain, lambda img: 0),
    "table": (plain, lambda img: img.rt_off),
    "block": (plain, lambda img: img.block_of(0)[1]),
    "l1": (plain, lambda img: img.l1_off),
    "l2": (plain, lambda img: img.l2_table(0)),
    "data": (lambda: plain(16), lambda img: img.host(2)),
    "zero": (lambda: plain(12), lambda img: img.host(7)),
    "packed": (lambda: plain(12), lambda img: img.host(8)),
    "packed-border": (lambda: plain(12), border),
    "snapshot-table": (lambda: rich(12), lambda img: img.snapshots_off),
    "snapshot-l1": (rich, lambda img: img.snapshots()[0].l1_off),
    "snapshot-l2": (rich, lambda img: img.l2_table(0, "snapshot 1")),
    "snapshot-data": (rich, lambda img: img.host(1, "snapshot 1")),
    "shared-l2": (rich, lambda img: img.l2_table(1)),
    "shared-data": (lambda: rich(12), lambda img: img.host(0)),
    "bitmap-directory": (rich, lambda img: img.bitmaps_extension()[3]),
    "bitmap-table": (lambda: rich(12), lambda img: img.bitmaps()[0].table),
    "bitmap-data": (rich, lambda img: img.get(img.bitmaps()[0].table, 8)),
    "table-last": (long_tables, lambda img: img.rt_off + 1024),
    "l1-last": (long_tables, lambda img: img.l1_off + 512),
    "snapshot-table-last": (long_tables, lambda img: img.snapshots()[-1].end - 1),
    "snapshot-l1-last": (long_tables, lambda img: img.snapshots()[1].l1_off + 512),
    "bitmap-directory-last": (long_tables, lambda img: img.bitmaps()[-1].end - 1),
    "vm-state": (vm_state, state),
    "luks": (encrypted, lambda img: img.crypt_header()[1]),
    "luks-end": (encrypted, lambda img: sum(img.crypt_header()[1:]) - 1),
}
# An implementation may judge COPIED by the count on disk as well.
FLAGGED = ("l2", "data", "zero", "snapshot-l2", "snapshot-data", "shared-l2", "shared-data", "vm-state")


def change(d, what, by):
    base, where = CLUSTERS[what]
    img = d.start(base())
    cluster = where(img) // img.cluster
    img.set_refcount(cluster, img.refcount(cluster) + by)
    assert img.refcount(cluster) == d.sound.refcount(cluster) + by
    d.finds("leak" if by > 0 else "refcount", cluster * img.cluster)
    if what in FLAGGED:
        d.may("copied")


for name in CLUSTERS:
    defect("refcount-low-" + name, f"refcount of a cluster one too low: {name}")(
        lambda d, name=name: change(d, name, -1))
    defect("refcount-high-" + name, f"refcount of a cluster one too high: {name}")(
        lambda d, name=name: change(d, name, 1))


@defect("sound-vm-state", "no defect but the mark: a snapshot with machine state")
def sound_vm_state(d):
    img = d.start(vm_state())
    img.incompatible |= image.DIRTY


@defect("sound-long-tables", "no defect but the mark: tables of several clusters")
def sound_long_tables(d):
    img = d.start(long_tables())
    img.incompatible |= image.CORRUPT


# ------------------------------------------------------------------- widths

def leak_of_width(d, width):
    img = d.start(plain(refcount_bits=width))
    free = len(img.b) // img.cluster
    img.write(free * img.cluster, bytes(img.cluster))
    img.set_refcount(free, 1)
    d.finds("leak", free * img.cluster)


def low_of_width(d, width):
    img = d.start(plain(refcount_bits=width))
    img.set_refcount(img.host(20) // img.cluster, 0)
    d.finds("refcount", img.host(20))
    d.may("copied")


def most_of_width(d, width):
    img = d.start(plain(refcount_bits=width))
    img.set_refcount(img.host(20) // img.cluster, (1 << width) - 1)
    assert img.refcount(img.host(20) // img.cluster) == (1 << width) - 1
    d.finds("leak", img.host(20))
    d.may("copied")


for bits in (1, 2, 4, 8, 16, 32, 64):
    defect(f"leak-width-{bits}", f"a cluster that nobody uses is counted, refcounts of {bits} bits")(
        lambda d, bits=bits: leak_of_width(d, bits))
    defect(f"refcount-low-width-{bits}", f"a data cluster in use counts as free, refcounts of {bits} bits")(
        lambda d, bits=bits: low_of_width(d, bits))
    if bits > 1:
        defect(f"refcount-most-width-{bits}", f"the largest count that {bits} bits hold")(
            lambda d, bits=bits: most_of_width(d, bits))


# -------------------------------------------------------------- high counts

def shared(count, refcount_bits=32):
    """One host cluster that `count` guest clusters refer to, rightly counted;
    L1 refers to one full L2 table again and again."""
    s = Sound(count * 512, 9, refcount_bits=refcount_bits)
    whole, rest = divmod(count, s.per_l2)
    s.data(0)
    host, content = s.table(0).entries[0], s.content[0]
    for guest in range(1, min(count, s.per_l2)):
        s.put(guest, host, content)
    for i in range(1, whole):
        s.tables[i] = s.tables[0]
    for guest in range(whole * s.per_l2, whole * s.per_l2 + rest):
        s.put(guest, host, content)
    s.content = {guest: content for guest in range(count)}
    return s


def shared_by(d, count, by):
    img = d.start(shared(count))
    cluster = img.host(0) // img.cluster
    assert img.refcount(cluster) == count
    img.set_refcount(cluster, count + by)
    d.finds("leak" if by > 0 else "refcount", cluster * img.cluster)


for refs in (4, 5, 300, 65535):
    defect(f"refcount-low-of-{refs}", f"{refs} references to one cluster, counted as one less")(
        lambda d, refs=refs: shared_by(d, refs, -1))
    if refs < 65535:
        defect(f"refcount-high-of-{refs}", f"{refs} references to one cluster, counted as one more")(
            lambda d, refs=refs: shared_by(d, refs, 1))


# -------------------------------------------------------------------- leaks

@defect("leak-run", "a run of 300 leaked clusters that crosses from one refcount block into the next")
def leak_run(d):
    s = plain()
    s.take(300)
    img = d.start(s)
    first = next(c for c in range(300, 0, -1) if img.refcount(c)) - 1
    free = [c for c in range(len(img.b) // 512) if not img.refcount(c)]
    assert first and len(free) == 300 and free[0] < img.per_block < free[-1]
    for c in free:
        img.set_refcount(c, 1)
    d.finds("leak", free[0] * 512, 300 * 512)


@defect("leak-beyond-end", "a cluster beyond the end of the file is counted")
def leak_beyond_end(d):
    img = d.start(plain(12))
    beyond = len(img.b) // img.cluster + 10
    img.set_refcount(beyond, 1)
    d.finds("leak", beyond * img.cluster)


@defect("leaks-and-errors", "leaks beside refcounts that are too low: each is to be repaired alone")
def leaks_and_errors(d):
    img = d.start(with_snapshots(12))
    img.set_refcount(len(img.b) // img.cluster - 1, img.refcount(len(img.b) // img.cluster - 1) + 1)
    img.set_refcount(0, 2)
    img.set_refcount(img.host(20) // img.cluster, 1)
    d.finds("leak", 0)
    d.finds("leak", len(img.b) - img.cluster)
    d.finds("refcount", img.host(20))
    d.may("copied")


# --------------------------------------------------------------- structures

def two_blocks():
    """More clusters than the first refcount block can count."""
    s = plain(refcount_bits=64)
    s.data(*range(22, 64))
    return s


def second_block(img):
    block = img.block_of(img.per_block)[1]
    assert block
    return block


@defect("every-refcount-zero", "the only refcount block is zeros: every cluster counts as free")
def every_zero(d):
    img = d.start(rich(12))
    img.write(img.block_of(0)[1], bytes(img.cluster))
    d.finds("refcount", 0, len(img.b))
    d.may("copied")


@defect("block-zero", "the second refcount block is zeros")
def block_zero(d):
    img = d.start(two_blocks())
    img.write(second_block(img), bytes(512))
    used = [c for c in range(len(img.b) // 512) if d.sound.refcount(c) and c // img.per_block == 1]
    assert len(used) > 3
    for c in used:
        d.finds("refcount", c * 512)
    d.may("copied")


@defect("block-noise", "a refcount block is overwritten with noise")
def block_noise(d):
    img = d.start(two_blocks())
    img.write(second_block(img), random.Random(1).randbytes(512))
    d.finds("leak", 64 * 512, 512)
    d.may("leak", "refcount", "copied")


@defect("table-zero", "the refcount table is zeros")
def table_zero(d):
    img = d.start(plain(12))
    img.write(img.rt_off, bytes(img.cluster))
    d.finds("refcount", 0)
    d.finds("refcount", img.host(0))
    d.may("refcount", "copied", "refcount-entry")


@defect("table-noise", "the refcount table is overwritten with noise")
def table_noise(d):
    img = d.start(rich())
    img.write(img.rt_off, random.Random(2).randbytes(img.cluster))
    d.finds("refcount-entry")
    d.finds("refcount", img.host(0))
    d.may("refcount-entry", "refcount", "copied", "leak", "overlap")


@defect("table-data", "the refcount table was overwritten with guest data")
def table_data(d):
    img = d.start(plain(16))
    img.write(img.rt_off, b"guest data was here. " * 3000)
    d.finds("refcount-entry")
    d.finds("refcount", img.host(0))
    d.may("refcount-entry", "refcount", "copied")


def bad_table_entry(d, base, index, value, detail):
    img = d.start(base)
    at = img.rt_off + index * 8
    img.put(at, 8, value(img, img.get(at, 8)))
    d.finds("refcount-entry", at, to=img.get(at, 8) & ~image.LOW, detail=detail)
    return img


@defect("table-entry-unaligned", "a refcount table entry does not point to the start of a cluster")
def table_entry_unaligned(d):
    img = bad_table_entry(d, plain(12), 0, lambda img, entry: entry + 512, "unaligned")
    d.finds("refcount", img.host(0))
    d.may("refcount", "copied", "overlap")


@defect("table-entry-end", "the only refcount table entry points beyond the end of the file")
def table_entry_end(d):
    img = bad_table_entry(d, rich(12), 0, lambda img, entry: entry + (1 << 30), "end")
    d.finds("refcount", 0)
    d.finds("refcount", img.host(0))
    d.may("refcount", "copied")


@defect("table-entry-dangling", "a refcount table entry for space that the file does not have points beyond its end")
def table_entry_dangling(d):
    bad_table_entry(d, plain(12), 5, lambda img, entry: 1 << 40, "end")


@defect("table-entry-far", "a refcount table entry points beyond the largest file offset")
def table_entry_far(d):
    bad_table_entry(d, plain(16), 3, lambda img, entry: 0xFFFF_FFFF_FFFF_0000, "end")


@defect("table-entry-reserved", "reserved bits are set in a refcount table entry")
def table_entry_reserved(d):
    bad_table_entry(d, plain(12), 0, lambda img, entry: entry | 0x21, "reserved")
    d.may("refcount", "copied", "leak")


@defect("table-entry-missing", "a refcount block is there and counted, but the table has no entry for it")
def table_entry_missing(d):
    img = d.start(two_blocks())
    block = second_block(img)
    img.put(img.rt_off + 8, 8, 0)
    used = [c for c in range(len(img.b) // 512) if d.sound.refcount(c) and c // img.per_block == 1
            and c != block // 512]
    for c in used:
        d.finds("refcount", c * 512)
    d.may("copied", "leak")
