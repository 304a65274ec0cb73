# SPDX-License-Identifier: BSD-2-Clause
"""What the header says of itself and of where the tables are."""
from damage import defect, plain, rich, with_bitmaps, with_snapshots


def put(d, base, at, n, value, kind="header", **more):
    img = d.start(base)
    img.put(at, n, value(img, img.get(at, n)) if callable(value) else value)
    d.finds(kind, at, n, **more)
    # Who wants to read such an image refuses it; tables behind the end are looked at.
    if "to" not in more:
        d.exits(1)
    return img


# ----------------------------------------------------------- refcount table

def no_counts(d):
    """Without the table nothing counts."""
    d.may("refcount", "copied")


@defect("header-table-zero", "the header says that there is a refcount table at offset 0")
def header_table_zero(d):
    put(d, rich(), 48, 8, 0)
    no_counts(d)


@defect("header-table-unaligned", "the refcount table is said not to start at a cluster")
def header_table_unaligned(d):
    put(d, rich(12), 48, 8, lambda img, off: off + 8)
    no_counts(d)


@defect("header-table-end", "the refcount table is said to be beyond the end of the file")
def header_table_end(d):
    img = put(d, plain(16), 48, 8, 1 << 40, to=1 << 40)
    d.may("leak")
    assert img.rt_clusters
    no_counts(d)


@defect("header-table-far", "the refcount table is said to be beyond the largest file offset")
def header_table_far(d):
    put(d, plain(12, refcount_bits=1), 48, 8, 0xFFFF_FFFF_FFFF_F000)
    no_counts(d)


@defect("header-table-none", "the refcount table is said to have no cluster")
def header_table_none(d):
    img = put(d, with_snapshots(12), 56, 4, 0)
    d.exits(2)
    d.must[0]["to"] = img.rt_off
    no_counts(d)


@defect("header-table-huge", "the refcount table is said to have more clusters than one can have")
def header_table_huge(d):
    put(d, plain(12, refcount_bits=64), 56, 4, 0x7FFF_FFFF)
    no_counts(d)


@defect("header-order", "refcounts are said to be wider than they can be")
def header_order(d):
    put(d, rich(), 96, 4, 7)
    no_counts(d)


@defect("header-order-and-table", "neither the width of refcounts nor the place of their table can be")
def header_order_and_table(d):
    img = put(d, plain(12, refcount_bits=8), 96, 4, 0xFF04)
    img.put(48, 8, 0x123)
    d.may("header")
    no_counts(d)


# ------------------------------------------------------------- all the rest

@defect("header-length-zero", "the header is said to have no length")
def header_length_zero(d):
    put(d, rich(12), 100, 4, 0)


@defect("header-length-odd", "the length of the header is no multiple of 8")
def header_length_odd(d):
    put(d, with_bitmaps(9), 100, 4, lambda img, n: n + 1)


@defect("header-length-huge", "the header is said to be longer than a cluster")
def header_length_huge(d):
    put(d, plain(16), 100, 4, 1 << 24)


@defect("header-raw", "external data are said to be raw, and there are no external data")
def header_raw(d):
    put(d, plain(12), 88, 8, lambda img, bits: bits | 2)


@defect("header-backing", "the name of the backing file is said to lie behind the first cluster")
def header_backing(d):
    img = put(d, plain(12), 8, 8, 1 << 20)
    img.put(16, 4, 10)
    d.stays()


@defect("header-backing-long", "the name of the backing file is said to be longer than one can be")
def header_backing_long(d):
    img = put(d, plain(16), 8, 8, 4096)
    img.put(16, 4, 5000)
    d.stays()


def no_l1(d):
    d.may("leak", "copied")
    d.hurts(0, d.sound.size // d.cluster)
    d.stays()


@defect("header-l1-end", "the L1 table is said to be beyond the end of the file")
def header_l1_end(d):
    put(d, plain(12), 40, 8, 1 << 40, to=1 << 40)
    no_l1(d)


@defect("header-l1-unaligned", "the L1 table is said not to start at a cluster")
def header_l1_unaligned(d):
    put(d, plain(12), 40, 8, lambda img, off: off + 8)
    no_l1(d)


@defect("header-l1-zero", "the L1 table is said to be at offset 0")
def header_l1_zero(d):
    put(d, plain(), 40, 8, 0)
    no_l1(d)


@defect("header-l1-short", "the L1 table is said to be too short for the disk")
def header_l1_short(d):
    img = d.start(plain())
    img.put(36, 4, 1)
    d.finds("header", 36, 4)
    d.exits(1)
    d.may("leak", "copied")
    d.hurts(img.per_l2, 12)
    d.stays()


@defect("header-size", "the disk is said to be larger than its L1 table can map")
def header_size(d):
    put(d, plain(12), 24, 8, 1 << 26)
    d.stays()


@defect("header-snapshots-unaligned", "the snapshot table is said not to start at a cluster")
def header_snapshots_unaligned(d):
    put(d, with_snapshots(12), 64, 8, lambda img, off: off + 8, kind="snapshot-table")
    d.may("leak", "copied", "snapshot-table", "snapshot-l1")


@defect("header-snapshots-zero", "the snapshot table is said to be at offset 0")
def header_snapshots_zero(d):
    put(d, with_snapshots(), 64, 8, 0, kind="snapshot-table")
    d.may("leak", "copied", "snapshot-table", "snapshot-l1")
