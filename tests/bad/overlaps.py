# SPDX-License-Identifier: BSD-2-Clause
"""Two things in one cluster."""
import image
from damage import defect, encrypted, plain, rich, with_bitmaps, with_snapshots
from image import COPIED

FREE = 30                        # a guest cluster that is not allocated in any base


def over(d, host):
    d.finds("overlap", host)
    d.may_at("refcount", host)
    d.may("copied")


# --------------------------------------------------- guest data over metadata

def data_over(d, base, where, packed=False, guest=FREE):
    """A guest cluster that was not allocated refers to a cluster of metadata."""
    img = d.start(base())
    host = where(img) // img.cluster * img.cluster
    img.put(img.l2_at(guest), 8, host | COPIED)
    if img.extended:
        img.put(img.l2_at(guest) + 8, 8, 0xFFFF_FFFF)
    if packed:
        # Not with metadata: the count is all that tells.
        d.finds("refcount", host)
        d.may_at("overlap", host)
    else:
        over(d, host)
        d.may_at("l2-entry", img.l2_at(guest))
    d.may("copied")
    if not d.secret:
        d.hurts(guest)


TARGETS = {
    "table": (plain, lambda img: img.rt_off),
    "block": (plain, lambda img: img.block_of(0)[1]),
    "l1": (plain, lambda img: img.l1_off),
    "l2": (lambda: plain(12), lambda img: img.l2_table(1)),
    "own-l2": (plain, lambda img: img.l2_table(0)),
    "extended-l2": (lambda: plain(14, extended=True), lambda img: img.l2_table(0)),
    "snapshot-table": (with_snapshots, lambda img: img.snapshots_off),
    "snapshot-l1": (lambda: with_snapshots(12), lambda img: img.snapshots()[1].l1_off),
    "snapshot-l2": (with_snapshots, lambda img: img.l2_table(0, "snapshot 1")),
    "bitmap-directory": (rich, lambda img: img.bitmaps_extension()[3]),
    "bitmap-table": (lambda: rich(12), lambda img: img.bitmaps()[1].table),
    "bitmap-data": (rich, lambda img: img.get(img.bitmaps()[0].table, 8)),
    "luks": (encrypted, lambda img: img.crypt_header()[1] + 3 * 65536),
    "packed": (lambda: plain(12), lambda img: img.host(8)),
}
for name in TARGETS:
    defect("overlap-data-" + name, f"a guest cluster lies over metadata or compressed data: {name}")(
        lambda d, name=name: data_over(d, *TARGETS[name], packed=name == "packed"))


@defect("overlap-data-header", "the L1 table of a snapshot is said to be where the header is")
def data_header(d):
    img = d.start(with_snapshots())
    s = img.snapshots()[0]
    img.put(s.at, 8, 0)
    d.finds(["snapshot-l1", "overlap"], s.at, s.end - s.at, to=0, view="snapshot 1")
    d.may("leak", "refcount", "copied", "l1-entry", "overlap")
    d.hurts(0, 256, view="snapshot 1")


# --------------------------------------------------- one cluster, two guests

@defect("data-twice", "two guest clusters refer to one host cluster that is counted once")
def data_twice(d):
    img = d.start(plain())
    img.put(img.l2_at(FREE), 8, img.get(img.l2_at(20), 8))
    d.finds("refcount", img.host(20))
    d.may_at("overlap", img.host(20))
    d.may("copied")
    d.hurts(FREE)


@defect("data-twice-leak", "a guest cluster refers to that of another one, its own is lost")
def data_twice_leak(d):
    img = d.start(plain(16))
    own = img.host(21)
    img.put(img.l2_at(21), 8, img.get(img.l2_at(20), 8))
    d.finds("refcount", img.host(20))
    d.finds("leak", own)
    d.may_at("overlap", img.host(20))
    d.may("copied")
    d.hurts(21)


@defect("data-twice-marked", "two guest clusters refer to one host cluster that is counted twice, but both have COPIED")
def data_twice_marked(d):
    img = d.start(plain(12))
    img.put(img.l2_at(FREE), 8, img.get(img.l2_at(20), 8))
    img.set_refcount(img.host(20) // img.cluster, 2)
    for guest in 20, FREE:
        d.finds("copied", img.l2_at(guest), to=img.host(20), guest=d.guest(guest), view="active", detail="wrong")
    d.may_at("overlap", img.host(20))
    d.hurts(FREE)


@defect("data-many", "64 guest clusters refer to one host cluster that is counted once")
def data_many(d):
    s = plain(12)
    img = d.start(s)
    for guest in range(100, 164):
        img.put(img.l2_at(guest), 8, img.get(img.l2_at(20), 8))
    d.finds("refcount", img.host(20))
    d.may_at("overlap", img.host(20))
    d.may("copied")
    d.hurts(100, 64)


@defect("packed-twice", "two guest clusters refer to the same compressed data that is counted for one")
def packed_twice(d):
    img = d.start(plain())
    entry = img.get(img.l2_at(9), 8)
    img.put(img.l2_at(FREE), 8, entry)
    off, end = img.stream(entry)
    d.finds("refcount", off // 512 * 512, end - off // 512 * 512)
    d.may_at("overlap", off // 512 * 512, end - off // 512 * 512)
    d.hurts(FREE)


@defect("l2-twice", "two L1 entries refer to one L2 table that is counted once, as are its clusters")
def l2_twice(d):
    img = d.start(plain())
    img.put(img.l1_at(2), 8, img.get(img.l1_at(1), 8))
    d.finds("refcount", img.l2_table(1))
    for guest in range(64, 76):
        d.finds("refcount", img.host(guest))
    d.may_at("overlap", img.l2_table(1))
    d.may("copied")
    d.hurts(128, 64)


@defect("sound-shared", "no defect: two guest clusters share a host cluster that is counted twice, without COPIED")
def sound_shared(d):
    s = plain(12)
    img = d.start(s)
    img.put(img.l2_at(20), 8, img.get(img.l2_at(20), 8) & ~COPIED)
    img.put(img.l2_at(FREE), 8, img.get(img.l2_at(20), 8))
    img.set_refcount(img.host(20) // img.cluster, 2)
    d.hurts(FREE)


# ---------------------------------------------------- metadata over metadata

def empty_at(base, guest=31):
    """The base with a data cluster of zeros, which is a sound empty table."""
    base.data(guest, fill=0)
    return base


@defect("overlap-l2-data", "an L1 entry refers to a data cluster of zeros")
def l2_data(d):
    img = d.start(empty_at(plain()))
    img.put(img.l1_at(3), 8, img.host(31) | COPIED)
    over(d, img.host(31))


@defect("overlap-l2-l1", "an L1 entry refers to the L1 table")
def l2_l1(d):
    img = d.start(plain())
    img.put(img.l1_at(2), 8, img.l1_off | COPIED)
    over(d, img.l1_off)
    d.may("overlap", "refcount", "leak")
    d.hurts(128, 64)


@defect("overlap-l2-table", "an L1 entry refers to the refcount table")
def l2_table(d):
    img = d.start(plain(12))
    img.put(img.l1_at(1), 8, img.rt_off | COPIED)
    over(d, img.rt_off)
    d.may("overlap", "refcount", "leak")
    d.hurts(512, 512)


@defect("overlap-l2-block", "an L1 entry refers to a refcount block")
def l2_block(d):
    img = d.start(plain())
    img.put(img.l1_at(3), 8, img.block_of(0)[1] | COPIED)
    over(d, img.block_of(0)[1])
    d.may("overlap", "refcount", "leak", "l2-entry", "packed")
    d.hurts(192, 64)


@defect("overlap-l1-data", "the header says that L1 is where a data cluster is, which holds a copy of it")
def l1_data(d):
    s = plain()
    s.data(31)
    img = d.start(s)
    host, old = img.host(31), img.l1_off
    img.write(host, img.bytes(old, 512))
    img.l1_off = host
    over(d, host)
    d.finds("leak", old)
    d.hurts(31)


@defect("overlap-table-data", "the header says that the refcount table is where a data cluster is, with a copy of it")
def table_data(d):
    s = plain(12)
    s.data(31)
    img = d.start(s)
    host, old = img.host(31), img.rt_off
    img.write(host, img.bytes(old, 4096))
    img.rt_off = host
    over(d, host)
    d.finds("leak", old)
    d.hurts(31)


@defect("overlap-table-long", "the refcount table is said to be a cluster longer: it reaches over the refcount block")
def table_long(d):
    img = d.start(plain())
    img.rt_clusters = 2
    over(d, img.block_of(0)[1])
    d.may("refcount-entry", "leak", "refcount", "overlap")


@defect("overlap-block-twice", "two entries of the refcount table refer to one block")
def block_twice(d):
    img = d.start(plain(12))
    img.put(img.rt_off + 8, 8, img.get(img.rt_off, 8))
    over(d, img.block_of(0)[1])
    d.finds("leak", img.per_block * 4096)
    d.may("leak")


@defect("overlap-block-data", "an entry of the refcount table refers to a data cluster of zeros")
def block_data(d):
    img = d.start(empty_at(plain(16)))
    img.put(img.rt_off + 8, 8, img.host(31))
    over(d, img.host(31))


@defect("overlap-block-only", "the only entry of the refcount table refers to a data cluster: all counts are noise")
def block_only(d):
    img = d.start(plain(12))
    block = img.block_of(0)[1]
    img.put(img.rt_off, 8, img.host(20))
    over(d, img.host(20))
    d.may_at("leak", block)
    d.may("leak", "refcount")


@defect("overlap-block-l2", "an entry of the refcount table refers to an L2 table")
def block_l2(d):
    img = d.start(plain())
    img.put(img.rt_off + 8, 8, img.l2_table(1))
    over(d, img.l2_table(1))
    d.may("leak")


@defect("overlap-block-header", "an entry of the refcount table refers to the refcount table")
def block_header(d):
    img = d.start(plain())
    img.put(img.rt_off + 16, 8, img.rt_off)
    over(d, img.rt_off)
    d.may("leak")


# ------------------------------------------------------ snapshots and bitmaps

@defect("overlap-snapshot-l1-active", "a snapshot has its L1 table where the active one is")
def snapshot_l1_active(d):
    s = plain()
    s.snapshot("1", "first")
    img = d.start(s)
    own = img.snapshots()[0].l1_off
    img.put(img.snapshots()[0].at, 8, img.l1_off)
    over(d, img.l1_off)
    d.finds("leak", own)


@defect("overlap-snapshot-l1-twice", "two snapshots have one L1 table")
def snapshot_l1_twice(d):
    img = d.start(with_snapshots(12))
    one, two = img.snapshots()
    img.put(two.at, 8, one.l1_off)
    over(d, one.l1_off)
    d.finds("leak", two.l1_off)
    d.may("leak", "refcount")
    d.hurts(1, 2, view="snapshot 2")


@defect("overlap-snapshot-l1-data", "a snapshot has its L1 table where a data cluster of zeros is")
def snapshot_l1_data(d):
    s = empty_at(plain())
    s.snapshot("1", "first")
    img = d.start(s)
    old, s = img.snapshots()[0].l1_off, img.snapshots()[0]
    img.put(s.at, 8, img.host(31))
    over(d, img.host(31))
    d.finds("leak", old)
    d.may("leak")
    d.hurts(0, 256, view="snapshot 1")


@defect("overlap-snapshot-table-data", "the snapshot table is said to be where a data cluster is, with a copy of it")
def snapshot_table_data(d):
    s = plain(12)
    s.snapshot("1", "first")
    s.data(31)
    img = d.start(s)
    old, host = img.snapshots_off, img.host(31)
    img.write(host, img.bytes(old, 4096))
    img.snapshots_off = host
    over(d, host)
    d.finds("leak", old)
    d.hurts(31)


@defect("overlap-directory-data", "the bitmap directory is said to be where a data cluster is, with a copy of it")
def directory_data(d):
    s = with_bitmaps(12)
    s.data(31)
    img = d.start(s)
    at, _, length, old = img.bitmaps_extension()
    host = img.host(31)
    img.write(host, img.bytes(old, length))
    img.put(at + 16, 8, host)
    over(d, host)
    d.finds("leak", old)
    d.hurts(31)


@defect("overlap-bitmap-table-data", "a bitmap table is said to be where a data cluster of zeros is")
def bitmap_table_data(d):
    img = d.start(empty_at(with_bitmaps()))
    b = img.bitmaps()[0]
    img.put(b.at, 8, img.host(31))
    over(d, img.host(31))
    d.finds("leak", b.table)
    d.finds("leak", img.get(b.table, 8))


@defect("overlap-bitmap-tables", "two bitmaps have one table")
def bitmap_tables(d):
    img = d.start(with_bitmaps(12))
    one, two = img.bitmaps()
    img.put(two.at, 8, one.table)
    over(d, one.table)
    over(d, img.get(one.table, 8))
    d.finds("leak", two.table)
    d.finds("leak", img.get(two.table, 8))


@defect("overlap-bitmap-data-l2", "the data of a bitmap is said to be where an L2 table is")
def bitmap_data_l2(d):
    img = d.start(rich())
    table = img.bitmaps()[0].table
    old = img.get(table, 8)
    img.put(table, 8, img.l2_table(1))
    over(d, img.l2_table(1))
    d.finds("leak", old)


@defect("overlap-bitmap-data-data", "the data of a bitmap is said to be where guest data is")
def bitmap_data_data(d):
    img = d.start(with_bitmaps(16))
    table = img.bitmaps()[1].table
    old = img.get(table, 8)
    img.put(table, 8, img.host(20))
    over(d, img.host(20))
    d.finds("leak", old)


@defect("overlap-luks-l1", "the encryption header is said to be where the L1 table is")
def luks_l1(d):
    img = d.start(encrypted())
    at, old, length = img.crypt_header()
    # What is there now must remain an encryption header to those that read it.
    l1 = old + 8 * 65536
    img.write(l1, img.bytes(img.l1_off, 65536))
    freed, img.l1_off = img.l1_off, l1
    over(d, l1)
    d.finds("leak", freed)
    assert image.up(old + length, 65536) == l1 + 65536 and at
