# SPDX-License-Identifier: BSD-2-Clause
"""COPIED bits, and entries of L1, L2 and bitmap tables that point to nothing."""
import image
from damage import defect, plain, rich, with_bitmaps, with_snapshots
from image import COPIED
from sound import Sound

# ------------------------------------------------------------------- COPIED


def flip(d, base, where, detail, guest, **place):
    img = d.start(base)
    at = where(img)
    img.put(at, 8, img.get(at, 8) ^ COPIED)
    d.finds("copied", at, to=img.get(at, 8) & image.OFFSET, guest=guest, view="active", detail=detail, **place)


@defect("copied-missing-l1", "an L1 entry lacks COPIED although its L2 table is used once")
def copied_missing_l1(d):
    flip(d, plain(12), lambda img: img.l1_at(0), "missing", [0, 2 << 20])


@defect("copied-missing-l2", "an L2 entry lacks COPIED although its cluster is used once")
def copied_missing_l2(d):
    flip(d, plain(), lambda img: img.l2_at(20), "missing", [20 * 512, 512])


@defect("copied-missing-zero", "the entry of a zero cluster with a place of its own lacks COPIED")
def copied_missing_zero(d):
    flip(d, plain(16), lambda img: img.l2_at(7), "missing", [7 << 16, 1 << 16])


@defect("copied-wrong-l1", "an L1 entry has COPIED although a snapshot has the same L2 table")
def copied_wrong_l1(d):
    flip(d, with_snapshots(), lambda img: img.l1_at(1), "wrong", [32 << 10, 32 << 10])


@defect("copied-wrong-l2", "an L2 entry has COPIED although a snapshot has the same cluster: writes reach the snapshot")
def copied_wrong_l2(d):
    flip(d, with_snapshots(12), lambda img: img.l2_at(0), "wrong", [0, 4096])


@defect("copied-wrong-extended", "an extended L2 entry has COPIED although a snapshot has the same cluster")
def copied_wrong_extended(d):
    flip(d, with_snapshots(14, extended=True), lambda img: img.l2_at(0), "wrong", [0, 1 << 14], n=16)


@defect("copied-packed", "the entry of a compressed cluster has COPIED")
def copied_packed(d):
    img = d.start(plain(12))
    at = img.l2_at(9)
    img.put(at, 8, img.get(at, 8) | COPIED)
    d.finds(["copied", "l2-entry", "packed"], at, to=img.host(9), guest=d.guest(9), view="active")


@defect("copied-nothing", "an L2 entry without an offset has COPIED, which only a data file gives a meaning")
def copied_nothing(d):
    img = d.start(plain(12))
    img.put(img.l2_at(30), 8, COPIED)
    d.finds(["l2-entry", "copied"], img.l2_at(30), guest=d.guest(30), view="active")


@defect("copied-nothing-l1", "an L1 entry without an offset has COPIED")
def copied_nothing_l1(d):
    img = d.start(plain())
    img.put(img.l1_at(3), 8, COPIED)
    d.finds(["l1-entry", "copied"], img.l1_at(3), guest=d.guest(192, 64), view="active")


@defect("copied-all-wrong", "COPIED is wrong in every entry of one L2 table")
def copied_all_wrong(d):
    img = d.start(plain())
    for guest in range(64, 76):
        at = img.l2_at(guest)
        img.put(at, 8, img.get(at, 8) & ~COPIED)
        d.finds("copied", at, to=img.host(guest), guest=d.guest(guest), view="active", detail="missing")


@defect("sound-copied-snapshot", "no defect: COPIED in the tables of a snapshot says nothing")
def sound_copied_snapshot(d):
    img = d.start(with_snapshots())
    at = img.l1_at(0, "snapshot 1")
    img.put(at, 8, img.get(at, 8) | COPIED)
    at = img.l2_at(1, "snapshot 1")
    img.put(at, 8, img.get(at, 8) | COPIED)


# ------------------------------------------------------------- L1 and L2

def set_l1(d, base, value, detail, index=0, view="active", hurts=True):
    img = d.start(base)
    at = img.l1_at(index, view)
    img.put(at, 8, value(img, img.get(at, 8)))
    span = [index * img.per_l2, img.per_l2]
    d.finds("l1-entry", at, to=img.get(at, 8) & image.OFFSET, guest=d.guest(*span), view=view, detail=detail)
    if hurts:
        d.hurts(*span, view=view)
        d.may("leak", "copied", "overlap", "refcount")
    return img


def set_l2(d, base, guest, value, detail, view="active", hurts=True):
    img = d.start(base)
    at, old = img.l2_at(guest, view), img.host(guest, view)
    img.put(at, 8, value(img, img.get(at, 8)))
    d.finds("l2-entry", at, to=img.get(at, 8) & image.OFFSET, guest=d.guest(guest), view=view, detail=detail)
    if hurts:
        d.hurts(guest, view=view)
        if old:
            d.may_at("leak", old // d.cluster * d.cluster)
    return img


@defect("l1-unaligned", "an L1 entry does not point to the start of a cluster")
def l1_unaligned(d):
    set_l1(d, plain(12), lambda img, entry: entry + 512, "unaligned")


@defect("l1-end", "an L1 entry points beyond the end of the file")
def l1_end(d):
    set_l1(d, plain(), lambda img, entry: COPIED | img.end + (1 << 20), "end", index=1)


@defect("l1-end-at-once", "an L1 entry points to the first cluster behind the file")
def l1_end_at_once(d):
    set_l1(d, plain(16), lambda img, entry: COPIED | img.end, "end")


@defect("l1-far", "an unused L1 entry points to the last offset that it can hold")
def l1_far(d):
    set_l1(d, plain(12), lambda img, entry: 0x00FF_FFFF_FFFF_F000, "end", index=1)


@defect("l1-reserved-low", "low reserved bits are set in an L1 entry")
def l1_reserved_low(d):
    set_l1(d, plain(), lambda img, entry: entry | 0x0A, "reserved", hurts=False)


@defect("l1-reserved-high", "high reserved bits are set in an L1 entry")
def l1_reserved_high(d):
    set_l1(d, plain(12), lambda img, entry: entry | 1 << 60, "reserved", hurts=False)


@defect("l1-reserved-unused", "reserved bits are set in an L1 entry without a table")
def l1_reserved_unused(d):
    set_l1(d, plain(), lambda img, entry: 1, "reserved", index=3, hurts=False)


@defect("l2-unaligned", "an L2 entry does not point to the start of a cluster")
def l2_unaligned(d):
    set_l2(d, plain(12), 20, lambda img, entry: entry + 512, "unaligned")
    d.may("overlap", "refcount")


@defect("l2-unaligned-64k", "an L2 entry points into a cluster of 64K")
def l2_unaligned_64k(d):
    set_l2(d, plain(16), 3, lambda img, entry: entry - 4096, "unaligned")
    d.may("overlap", "refcount", "copied")


@defect("l2-unaligned-zero", "the entry of a zero cluster has an unaligned place: the place goes, the zeros stay")
def l2_unaligned_zero(d):
    set_l2(d, plain(12), 7, lambda img, entry: entry + 1024, "unaligned")
    d.may("overlap", "refcount")


@defect("l2-unaligned-extended", "an extended L2 entry points into a cluster")
def l2_unaligned_extended(d):
    set_l2(d, plain(14, extended=True), 20, lambda img, entry: entry + 512, "unaligned")
    d.may("overlap", "refcount")


@defect("l2-end", "an L2 entry points beyond the end of the file")
def l2_end(d):
    set_l2(d, plain(), 20, lambda img, entry: entry + (1 << 30), "end")


@defect("l2-end-at-once", "an L2 entry points to the first cluster behind the file")
def l2_end_at_once(d):
    set_l2(d, plain(12), 21, lambda img, entry: COPIED | img.end, "end")
    d.may_at("refcount", len(d.img.b))


@defect("l2-end-counted", "an L2 entry points beyond the end of the file to a cluster that is counted")
def l2_end_counted(d):
    img = set_l2(d, plain(16), 21, lambda img, entry: COPIED | img.end + (5 << 16), "end")
    beyond = img.end + (5 << 16)
    img.set_refcount(beyond // d.cluster, 1)
    d.may_at("leak", beyond)


@defect("l2-far", "an unused L2 entry points to the last offset that it can hold")
def l2_far(d):
    set_l2(d, plain(12), 40, lambda img, entry: 0x00FF_FFFF_FFFF_F000, "end")
    d.may("refcount")


@defect("l2-reserved-low", "low reserved bits are set in an L2 entry")
def l2_reserved_low(d):
    set_l2(d, plain(), 20, lambda img, entry: entry | 0x24, "reserved", hurts=False)


@defect("l2-reserved-high", "high reserved bits are set in an L2 entry")
def l2_reserved_high(d):
    set_l2(d, plain(16), 20, lambda img, entry: entry | 1 << 57, "reserved", hurts=False)


@defect("l2-reserved-unused", "reserved bits are set in an L2 entry without an offset")
def l2_reserved_unused(d):
    set_l2(d, plain(12), 41, lambda img, entry: 2, "reserved", hurts=False)


@defect("l2-zero-version-2", "the zero flag is set in an image of version 2, which has no such flag")
def l2_zero_version_2(d):
    s = Sound(1 << 20, 12, version=2)
    s.data(0, 1, 2)
    set_l2(d, s, 1, lambda img, entry: entry | 1, "reserved")


@defect("l2-zero-extended", "the zero flag is set in an extended L2 entry, where the bitmap says what is zero")
def l2_zero_extended(d):
    set_l2(d, plain(14, extended=True), 2, lambda img, entry: entry | 1, "reserved", hurts=False)


# ----------------------------------------------------- of a snapshot alone

@defect("snapshot-l1-entry-unaligned", "an L1 entry of a snapshot does not point to the start of a cluster")
def snapshot_entry_unaligned(d):
    set_l1(d, with_snapshots(12), lambda img, entry: entry + 1024, "unaligned", view="snapshot 1")


@defect("snapshot-l1-entry-end", "an L1 entry of a snapshot points beyond the end of the file")
def snapshot_entry_end(d):
    set_l1(d, with_snapshots(), lambda img, entry: entry + (1 << 30), "end", index=1, view="snapshot 2")


@defect("snapshot-l1-entry-reserved", "reserved bits are set in an L1 entry of a snapshot")
def snapshot_entry_reserved(d):
    set_l1(d, with_snapshots(), lambda img, entry: entry | 1 << 56, "reserved", view="snapshot 1", hurts=False)


@defect("snapshot-l2-unaligned", "an L2 entry that only a snapshot has is not aligned")
def snapshot_l2_unaligned(d):
    set_l2(d, with_snapshots(12), 1, lambda img, entry: entry + 512, "unaligned", view="snapshot 1")
    d.may("overlap", "refcount")


@defect("snapshot-l2-end", "an L2 entry that only a snapshot has points beyond the end of the file")
def snapshot_l2_end(d):
    set_l2(d, with_snapshots(), 3, lambda img, entry: entry + (1 << 40), "end", view="snapshot 2")
    d.may("refcount", "leak", "copied")


@defect("shared-l2-end", "an entry beyond the end of the file, in an L2 table that snapshots share with the disk")
def shared_l2_end(d):
    img = set_l2(d, with_snapshots(), 70, lambda img, entry: entry + (1 << 40), "end")
    for view in "snapshot 1", "snapshot 2":
        d.may_at("l2-entry", img.l2_at(70), to=img.host(70), guest=d.guest(70), view=view, detail="end")
        d.hurts(70, view=view)


# ------------------------------------------------------------- bitmap tables

def set_bitmap(d, base, value, detail, name="b0", hurts=True):
    img = d.start(base)
    at = next(b.table for b in img.bitmaps() if b.name == name)
    old = img.get(at, 8) & image.OFFSET
    img.put(at, 8, value(img, img.get(at, 8)))
    d.finds("bitmap-entry", at, to=img.get(at, 8) & ~1, view="bitmap " + name, detail=detail)
    if hurts and old:
        d.may_at("leak", old)


@defect("bitmap-entry-unaligned", "an entry of a bitmap table does not point to the start of a cluster")
def bitmap_entry_unaligned(d):
    set_bitmap(d, with_bitmaps(12), lambda img, entry: entry + 512, "unaligned")
    d.may("overlap", "refcount")


@defect("bitmap-entry-end", "an entry of a bitmap table points beyond the end of the file")
def bitmap_entry_end(d):
    set_bitmap(d, rich(), lambda img, entry: entry + (1 << 30), "end")


@defect("bitmap-entry-reserved", "high reserved bits are set in an entry of a bitmap table")
def bitmap_entry_reserved(d):
    set_bitmap(d, with_bitmaps(), lambda img, entry: entry | 1 << 63, "reserved")


@defect("bitmap-entry-ones", "an entry of a bitmap table has both an offset and the bit for all ones")
def bitmap_entry_ones(d):
    set_bitmap(d, with_bitmaps(12), lambda img, entry: entry | 1, "reserved")


@defect("bitmap-entry-low", "a reserved bit is set in an entry of a bitmap table without an offset")
def bitmap_entry_low(d):
    set_bitmap(d, rich(), lambda img, entry: entry | 2, "reserved", name="b1")
