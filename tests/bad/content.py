# SPDX-License-Identifier: BSD-2-Clause
"""Compressed clusters, subclusters, external data files, files that are too long
or too short, lost L2 tables, and the marks of the header."""
import random

import image
from damage import defect, in_data_file, plain, rich, with_bitmaps, with_snapshots
from image import COPIED
from sound import Sound

# --------------------------------------------------------------- compressed


def stream(img, guest):
    return img.stream(img.get(img.l2_at(guest), 8))


def bad_stream(d, base, guest, change):
    img = d.start(base)
    off, end = stream(img, guest)
    img.write(off, change(img.bytes(off, end - off)))
    d.deep("inflate", off, end - off, guest=d.guest(guest), view="active")
    d.hurts(guest)


@defect("packed-noise", "compressed data is noise: only --deep can see it")
def packed_noise(d):
    bad_stream(d, plain(12), 10, lambda old: b"\xff" * 64)


@defect("packed-flip", "one byte of compressed data is zeroed: only --deep can see it")
def packed_flip(d):
    bad_stream(d, plain(16), 9, lambda old: b"\0")


@defect("packed-short", "compressed data ends before it has made a whole cluster: only --deep can see it")
def packed_short(d):
    # A last block without compression that holds 5 bytes.
    bad_stream(d, plain(12), 8, lambda old: bytes([1, 5, 0, 0xFA, 0xFF]) + b"short")


@defect("packed-hole", "compressed data reads as zeros: only --deep can see it")
def packed_hole(d):
    bad_stream(d, plain(), 12, lambda old: bytes(len(old)))


def bad_packed(d, base, guest, value, **more):
    img = d.start(base)
    at, old = img.l2_at(guest), stream(img, guest)
    img.put(at, 8, value(img, img.get(at, 8)))
    d.finds("packed", at, to=stream(img, guest)[0], guest=d.guest(guest), view="active", detail="end", **more)
    first = old[0] // d.cluster * d.cluster
    d.may_at("leak", first, image.up(old[1], d.cluster) - first)
    d.may_at("inflate", stream(img, guest)[0])
    d.hurts(guest)


@defect("packed-end", "a compressed cluster is said to lie beyond the end of the file")
def packed_end(d):
    bad_packed(d, plain(12), 9, lambda img, entry: entry + (1 << 30))


@defect("packed-end-64k", "a compressed cluster of 64K is said to lie beyond the end of the file")
def packed_end_64k(d):
    bad_packed(d, plain(16), 9, lambda img, entry: entry + (1 << 40))


@defect("packed-sectors", "a compressed cluster is said to have more sectors than the file")
def packed_sectors(d):
    s = Sound(1 << 20, 12)
    s.data(0, 1)
    s.packed(2)
    bad_packed(d, s, 2, lambda img, entry: entry | 15 << 58)
    d.may("refcount")


@defect("packed-far", "clusters of 512 bytes: the place of a compressed one has bits above 2^56")
def packed_far(d):
    bad_packed(d, plain(), 9, lambda img, entry: entry | 1 << 58)


@defect("packed-more-sectors", "a compressed cluster claims a host cluster more than is counted for it")
def packed_more_sectors(d):
    img = d.start(plain())
    at = img.l2_at(8)
    end = stream(img, 8)[1]
    img.put(at, 8, img.get(at, 8) + (1 << 61))
    assert stream(img, 8)[1] == end + 512
    d.finds("refcount", end)
    d.may_at("overlap", end)


@defect("packed-in-data", "compressed data is said to lie in the midst of a data cluster that is counted twice")
def packed_in_data(d):
    img = d.start(plain(12))
    at = img.l2_at(9)
    old = stream(img, 9)
    host = img.host(20)
    img.put(at, 8, image.PACKED | host + 700)
    img.set_refcount(host // 4096, 2)
    for cluster in range(old[0] // 4096, (old[1] - 1) // 4096 + 1):
        d.finds("leak", cluster * 4096)
    d.may_at("overlap", host)
    d.finds("copied", img.l2_at(20), to=host, guest=d.guest(20), view="active", detail="wrong")
    d.deep("inflate", host + 700, guest=d.guest(9))
    d.hurts(9)


# -------------------------------------------------------------- subclusters

def bad_bitmap(d, guest, value, detail, hurts=True):
    s = plain(14, extended=True)
    s.sub(25, 0x0000FF0F, 0xFF0000F0)
    s.zero(26)
    img = d.start(s)
    at = img.l2_at(guest)
    img.put(at + 8, 8, value(img.get(at + 8, 8)))
    d.finds("subclusters", at, 16, to=img.host(guest), guest=d.guest(guest), view="active", detail=detail)
    if hurts:
        d.hurts(guest)


@defect("subclusters-both", "a subcluster is both allocated and zero")
def subclusters_both(d):
    bad_bitmap(d, 25, lambda bitmap: bitmap | 1 << 32, "both")


@defect("subclusters-both-all", "all subclusters are both allocated and zero")
def subclusters_both_all(d):
    bad_bitmap(d, 20, lambda bitmap: (1 << 64) - 1, "both")


@defect("subclusters-nowhere", "subclusters are allocated although their cluster is not")
def subclusters_nowhere(d):
    bad_bitmap(d, 27, lambda bitmap: 0xFF, "nowhere")


@defect("subclusters-nowhere-zero", "a zero cluster without a place has allocated subclusters")
def subclusters_nowhere_zero(d):
    bad_bitmap(d, 26, lambda bitmap: 0xFFFF_0000_0000_FFFF, "nowhere")


@defect("subclusters-packed", "a compressed cluster has a bitmap of subclusters")
def subclusters_packed(d):
    bad_bitmap(d, 9, lambda bitmap: 0xFFFF_FFFF, "packed", hurts=False)


@defect("sound-subclusters", "no defect: subclusters that are neither allocated nor zero, with and without a place")
def sound_subclusters(d):
    img = d.start(plain(14, extended=True))
    img.put(img.l2_at(7) + 8, 8, 0)
    img.put(img.l2_at(6) + 8, 8, 0xFF << 40)


# ------------------------------------------------------- external data file

def bad_offset(d, guest, value, detail, kinds=("data-file",), **how):
    img = d.start(in_data_file(d, **how))
    at = img.l2_at(guest)
    img.put(at, 8, value(img.get(at, 8)))
    d.finds(kinds, at, to=img.host(guest), guest=d.guest(guest), view="active", detail=detail)
    d.hurts(guest)
    return img


@defect("data-file-elsewhere", "a cluster is said to lie elsewhere in the data file than in the guest")
def data_file_elsewhere(d):
    bad_offset(d, 20, lambda entry: entry + 4096, "elsewhere")


@defect("data-file-elsewhere-64k", "clusters of 64K: one lies where another one should")
def data_file_elsewhere_64k(d):
    bad_offset(d, 2, lambda entry: COPIED | 1 << 16, "elsewhere", bits=16)


@defect("data-file-unaligned", "a place in the data file is not the start of a cluster")
def data_file_unaligned(d):
    bad_offset(d, 21, lambda entry: entry + 512, "elsewhere", ["data-file", "l2-entry"])


@defect("data-file-packed", "a compressed cluster in an image with a data file")
def data_file_packed(d):
    bad_offset(d, 1, lambda entry: image.PACKED | 4096, "packed", ["data-file", "packed"])
    d.may_at("refcount", 4096)
    del d.must[-1]["host"], d.must[-1]["to"]


@defect("data-file-copied", "an entry lacks COPIED although the data file has no counts")
def data_file_copied(d):
    img = d.start(in_data_file(d))
    at = img.l2_at(20)
    img.put(at, 8, img.get(at, 8) & ~COPIED)
    d.finds(["copied", "data-file"], at, guest=d.guest(20), view="active")


@defect("data-file-leak", "an image with a data file, in which a cluster is leaked")
def data_file_leak(d):
    img = d.start(in_data_file(d))
    free = len(img.b) // 4096
    img.write(free * 4096, bytes(4096))
    img.set_refcount(free, 1)
    d.finds("leak", free * 4096)


@defect("sound-data-file-short", "no defect: the data file ends early, the rest reads as zeros")
def sound_data_file_short(d):
    img = d.start(in_data_file(d))
    img.data_file = img.data_file[:20 * 4096]
    d.hurts(20, 2)


# -------------------------------------------- files of another length, holes

@defect("sound-longer", "no defect: the file is longer than its tables say")
def sound_longer(d):
    img = d.start(plain(12))
    img.b += b"\x55" * 50000


@defect("sound-half", "no defect: the file ends in the midst of its last cluster")
def sound_half(d):
    s = plain(12)
    s.data(40, fill=0)
    img = d.start(s)
    del img.b[-3000:]


@defect("sound-hole", "no defect: a data cluster is a hole in the file and reads as zeros")
def sound_hole(d):
    s = plain(16)
    img = d.start(s)
    img.write(img.host(20), bytes(65536))
    d.hurts(20)


@defect("shorter-data", "the file ends before the last two data clusters")
def shorter_data(d):
    s = plain()
    s.data(40, 41)
    img = d.start(s)
    end = img.host(40)
    assert img.host(41) == end + 512 and len(img.b) == end + 1024
    del img.b[end:]
    for guest in 40, 41:
        d.finds("l2-entry", img.l2_at(guest), to=img.host(guest), guest=d.guest(guest), view="active", detail="end")
    d.may_at("leak", end, 1024)
    d.hurts(40, 2)


@defect("shorter-l2", "the file ends before the last L2 table")
def shorter_l2(d):
    s = plain(16, l1_spare=1)
    s.table(s.per_l2)
    img = d.start(s)
    del img.b[img.l2_table(1):]
    d.finds("l1-entry", img.l1_at(1), to=img.l2_table(1), view="active", detail="end")
    d.may_at("leak", img.l2_table(1))


@defect("shorter-half", "the file was cut in its middle")
def shorter_half(d):
    img = d.start(with_snapshots())
    del img.b[img.l2_table(1):]
    for i in 0, 1:
        d.finds("l1-entry", img.l1_at(i), to=img.l2_table(i), view="active", detail="end")
    d.finds("snapshot-table", img.snapshots_off, 40)
    d.may("snapshot-l1", "l2-entry", "l1-entry", "packed", "leak", "refcount", "copied")
    d.exits(2, 1)
    d.hurts(0, 256)


# ------------------------------------------------------------ lost L2 tables

def unlink(d, img, index):
    """Zeroes an L1 entry; all below it is leaked."""
    table = img.l2_table(index)
    d.finds("leak", table)
    for k in range(img.per_l2):
        entry = img.get(table + k * img.entry_len, 8)
        if entry & image.OFFSET and not entry & image.PACKED:
            d.finds("leak", entry & image.OFFSET)
    img.put(img.l1_at(index), 8, 0)
    d.hurts(index * img.per_l2, img.per_l2)
    return table


@defect("lost-l2", "an L1 entry is gone: its L2 table with 12 entries is leaked and can be told for what it is")
def lost_l2(d):
    img = d.start(plain())
    d.lost(unlink(d, img, 1))


@defect("lost-l2-extended", "an extended L2 table is lost")
def lost_l2_extended(d):
    s = plain(14, extended=True)
    s.data(*range(30, 40))
    img = d.start(s)
    for guest in range(8, 13):
        off, end = stream(img, guest)
        d.may_at("leak", off >> 14 << 14, image.up(end, 1 << 14) - (off >> 14 << 14))
    d.lost(unlink(d, img, 0))


@defect("lost-l2-two", "two L2 tables are lost")
def lost_l2_two(d):
    s = plain()
    s.data(*range(128, 138))
    img = d.start(s)
    d.lost(unlink(d, img, 1))
    d.lost(unlink(d, img, 2))


@defect("lost-l2-few", "a lost L2 table has 3 entries: too few to be sure")
def lost_l2_few(d):
    s = plain()
    s.data(130, 131, 150)
    img = d.start(s)
    unlink(d, img, 2)


@defect("lost-l2-spoilt", "a lost L2 table was overwritten: nothing tells it from data")
def lost_l2_spoilt(d):
    img = d.start(plain())
    table = unlink(d, img, 1)
    img.write(table + 96, random.Random(5).randbytes(300))


@defect("lost-l2-old", "a leaked L2 table refers to clusters that are in use: it is an old one")
def lost_l2_old(d):
    img = d.start(plain())
    table = len(img.b)
    img.write(table, img.bytes(img.l2_table(1), 512))
    img.set_refcount(table // 512, 1)
    d.finds("leak", table)


@defect("lost-snapshot", "the header has forgotten its snapshots")
def lost_snapshot(d):
    s = with_snapshots(12)
    img = d.start(s)
    img.nb_snapshots = 0
    d.finds("leak", img.snapshots_off)
    d.finds("leak", d.sound.snapshots()[0].l1_off)
    d.may("leak", "copied")


# ------------------------------------------------------ marks in the header

@defect("sound-dirty", "no defect but the mark: the image is marked dirty, its counts are right")
def sound_dirty(d):
    s = plain(lazy=True)
    img = d.start(s)
    img.incompatible |= image.DIRTY


@defect("dirty-stale", "lazy refcounts after a crash: marked dirty, the last clusters and a new L2 table are not counted")
def dirty_stale(d):
    s = plain(12, lazy=True)
    img = d.start(s)
    img.incompatible |= image.DIRTY
    for off in [img.l2_table(1)] + [img.host(guest) for guest in range(512, 524)]:
        img.set_refcount(off // 4096, 0)
        d.finds("refcount", off)
    d.may("copied")


@defect("dirty-all-zero", "lazy refcounts after a crash: marked dirty, every count is 0")
def dirty_all_zero(d):
    s = plain(16, lazy=True)
    img = d.start(s)
    img.incompatible |= image.DIRTY
    img.write(img.block_of(0)[1], bytes(65536))
    d.finds("refcount", 0, len(img.b))
    d.may("copied")


@defect("sound-corrupt", "no defect but the mark: the image is marked corrupt, its tables are sound")
def sound_corrupt(d):
    img = d.start(rich())
    img.incompatible |= image.CORRUPT


@defect("corrupt-leak", "an image marked corrupt with a leak")
def corrupt_leak(d):
    img = d.start(plain(12))
    img.incompatible |= image.CORRUPT
    img.set_refcount(img.host(0) // 4096, 3)
    d.finds("leak", img.host(0))
    d.may("copied")


@defect("corrupt-low", "an image marked corrupt and dirty with a refcount too low")
def corrupt_low(d):
    img = d.start(plain(12, lazy=True))
    img.incompatible |= image.CORRUPT | image.DIRTY
    img.set_refcount(img.host(0) // 4096, 0)
    d.finds("refcount", img.host(0))
    d.may("copied")


@defect("autoclear-bitmaps", "another program has written to the image: its bitmaps count no more and are leaked")
def autoclear_bitmaps(d):
    img = d.start(with_bitmaps())
    _, _, length, off = img.bitmaps_extension()
    bitmaps = img.bitmaps()
    img.autoclear = 0
    d.finds("leak", off, length)
    for b in bitmaps:
        d.finds("leak", b.table)
        d.finds("leak", img.get(b.table, 8))
    d.may("bitmap-directory")


@defect("autoclear-no-extension", "the bit for bitmaps is set, but there is no bitmaps extension")
def autoclear_no_extension(d):
    img = d.start(plain(12))
    img.autoclear = image.BITMAPS
    d.finds("bitmap-directory")
    d.exits(2, 1)


@defect("sound-autoclear-unknown", "no defect: unknown autoclear and compatible bits")
def sound_autoclear_unknown(d):
    img = d.start(plain(12))
    img.autoclear, img.compatible = 1 << 40, 1 << 50
