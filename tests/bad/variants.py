# SPDX-License-Identifier: BSD-2-Clause
"""The same few defects in images of all kinds: version 2, which cannot be marked
as corrupt, zstd, entries of 16 bytes, clusters of 2M, an external data file."""
import image
from content import bad_packed, bad_stream
from damage import defect, in_data_file, plain
from overlaps import data_over
from pointers import set_l1, set_l2
from sound import Sound


def used(img):
    """A guest cluster that has data; the next is one that has nothing."""
    return 1 if img.bits == 21 else 20


def free(img):
    return 3 if img.bits == 21 else 30


def old(d, snapshots=False):
    s = Sound(4 << 20, 12, version=2)
    s.data(0, 1, 2, 3, 4)
    s.packed(8, 9, 10, 11)
    s.data(20, 21)
    s.data(*range(s.per_l2, s.per_l2 + 12))
    return snapshot(s) if snapshots else s


def snapshot(s):
    s.snapshot("1", "first")
    s.data(1, 2)
    return s


def zstd(d, snapshots=False):
    s = plain(12, zstd=True)
    return snapshot(s) if snapshots else s


def extended(d, snapshots=False):
    s = plain(14, extended=True)
    return snapshot(s) if snapshots else s


def large(d, snapshots=False):
    s = Sound(8 << 20, 21)
    s.data(1, 2)
    return snapshot(s) if snapshots else s


def small(d, snapshots=False):
    s = plain()
    return snapshot(s) if snapshots else s


def data_file(d):
    return in_data_file(d)


def low(d, kind):
    img = d.start(kind(d))
    host = img.l2_table(0) if img.external else img.host(used(img))
    img.set_refcount(host // img.cluster, 0)
    d.finds("refcount", host)
    d.may("copied")


def leak(d, kind):
    img = d.start(kind(d))
    behind = image.up(len(img.b), img.cluster)
    img.write(behind, b"\x11" * 512)
    img.set_refcount(behind // img.cluster, 1)
    d.finds("leak", behind)


def counts_zero(d, kind):
    img = d.start(kind(d))
    img.write(img.block_of(0)[1], bytes(img.cluster))
    d.finds("refcount", 0)
    d.finds("refcount", img.l2_table(0))
    d.may("refcount", "copied")


def table_lost(d, kind):
    img = d.start(kind(d))
    lost = image.up(len(img.b), img.cluster) + img.cluster
    img.put(img.rt_off, 8, lost)
    d.finds("refcount-entry", img.rt_off, to=lost, detail="end")
    d.may("refcount", "leak", "copied")


def l1_end(d, kind):
    set_l1(d, kind(d), lambda img, entry: entry + (1 << 40), "end")


def l2_end(d, kind):
    s = kind(d)
    set_l2(d, s, used(s), lambda img, entry: entry + (1 << 40), "end")


def snapshot_l2_end(d, kind):
    set_l2(d, kind(d, True), 2, lambda img, entry: entry + (1 << 40), "end", view="snapshot 1")
    d.may("refcount", "leak", "copied")


def reserved(d, kind):
    set_l2(d, kind(d), 2, lambda img, entry: entry | 1 << 3, "reserved", hurts=False)


def twice(d, kind):
    img = d.start(kind(d))
    for n in range(0, img.entry_len, 8):
        img.put(img.l2_at(free(img)) + n, 8, img.get(img.l2_at(used(img)) + n, 8))
    d.finds("refcount", img.host(used(img)))
    d.may_at("overlap", img.host(used(img)))
    d.may("copied")
    d.hurts(free(img))


def over_l2(d, kind):
    s = kind(d)
    data_over(d, lambda: s, lambda img: img.l2_table(0), guest=free(s))


def over_block(d, kind):
    s = kind(d)
    data_over(d, lambda: s, lambda img: img.block_of(0)[1], guest=free(s))


def stream_end(d, kind):
    bad_packed(d, kind(d), 9, lambda img, entry: entry + (1 << 40))


def stream_noise(d, kind):
    bad_stream(d, kind(d), 10, lambda data: b"\xff" * 64)


KINDS = {
    "v2": (old, "version 2"), "zstd": (zstd, "zstd"), "extended": (extended, "entries of 16 bytes"),
    "2m": (large, "clusters of 2M"), "512": (small, "clusters of 512 bytes"),
    "data-file": (data_file, "an external data file"),
}
for name, function, about, kinds in (
        ("low", low, "a cluster in use counts as free", "v2 zstd extended 2m data-file"),
        ("leak", leak, "a cluster that nobody uses is counted", "v2 zstd extended 2m"),
        ("counts-zero", counts_zero, "every cluster counts as free", "v2 zstd extended 2m data-file"),
        ("block-lost", table_lost, "the refcount block lies beyond the end of the file", "v2 extended 2m data-file"),
        ("l1-end", l1_end, "an L1 entry points beyond the end of the file", "v2 extended 2m data-file"),
        ("l2-end", l2_end, "an L2 entry points beyond the end of the file", "v2 zstd extended 2m"),
        ("snapshot-l2-end", snapshot_l2_end, "an L2 entry of a snapshot points beyond the end of the file",
         "v2 zstd extended 512"),
        ("l2-reserved", reserved, "reserved bits are set in an L2 entry", "v2 extended 2m"),
        ("twice", twice, "two guest clusters refer to one host cluster that is counted once", "v2 zstd extended 2m"),
        ("over-l2", over_l2, "a guest cluster lies over its own L2 table", "v2 zstd 2m"),
        ("over-block", over_block, "a guest cluster lies over a refcount block", "v2 extended 2m"),
        ("packed-end", stream_end, "a compressed cluster is said to lie beyond the end of the file",
         "v2 zstd extended"),
        ("packed-noise", stream_noise, "compressed data is noise: only --deep can see it", "v2 zstd extended")):
    for key in kinds.split():
        defect(f"{name}-{key}", f"{KINDS[key][1]}: {about}")(
            lambda d, function=function, kind=KINDS[key][0]: function(d, kind))
