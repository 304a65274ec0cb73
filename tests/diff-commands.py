#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Prints a list of I/O commands at random, always the same for the same
arguments, that both qemu-io and qio take.

    diff-commands.py write SEED SIZE CLUSTER [COUNT] [packed|packed-first]
    diff-commands.py read  SEED SIZE CLUSTER [COUNT]

write: writes of all alignments with patterns, zeroes, discards, flushes. With
packed there are compressed clusters anywhere; with packed-first they all come
first, since the reference does not compress over what is allocated. read:
dumps of ranges."""
import random
import sys

mode, seed, size, cluster = sys.argv[1], *map(int, sys.argv[2:5])
count = int(sys.argv[5]) if len(sys.argv) > 5 else 40
packed = "packed" in sys.argv[6:]
r = random.Random(seed)
most = min(3 * cluster, 3 << 20, size)


def span(unit):
    """A range, aligned to unit, mostly near the start so that ranges meet."""
    off = r.randrange(size if r.random() < 0.5 else max(size // 3, 1)) // unit * unit
    length = (r.randrange(r.choice((unit, 4096, cluster, most))) // unit + 1) * unit
    return off, min(length, size - off)


def pack(cluster_index):
    off = cluster_index * cluster
    print(f"write -c -P {r.randrange(256)} {off} {min(cluster, size - off)}")


def write():
    if "packed-first" in sys.argv[6:]:
        clusters = (size + cluster - 1) // cluster
        for i in r.sample(range(clusters), min(clusters // 2, count // 2)):
            pack(i)
    for i in range(count):
        off, length = span(r.choice((1, 512, 512, 4096, cluster)))
        dice = r.random()
        if dice < 0.10:
            print("flush")
        elif dice < 0.20:
            print(f"write -z {off} {length}")
        elif dice < 0.28:
            print(f"write -z -u {off} {length}")
        elif dice < 0.40:
            print(f"discard {off} {length}")
        elif packed and dice < 0.60:
            pack(off // cluster)
        else:
            print(f"write -P {1 + i % 255} {off} {length}")


def read():
    for _ in range(count):
        off, length = span(r.choice((1, 512)))
        print(f"read -v {off} {min(length, 3000)}")


{"write": write, "read": read}[mode]()
