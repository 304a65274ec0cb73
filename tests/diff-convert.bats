#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# A raw image with data, holes and zeros converted into every kind of qcow2
# image, plain and compressed, by qimg and by the reference: clean and equal
# whoever reads it.

load helpers
load diff

# source_image SIZE: src.raw
source_image() {
	python3 -c '
import random, sys
r = random.Random(5)
size = int(sys.argv[1])
with open("src.raw", "wb") as f:
    f.truncate(size)
    while f.tell() < size:
        n = min(r.choice((512, 4096, 70000, 300000)), size - f.tell())
        what = r.randrange(4)
        if what == 0:
            f.seek(n, 1)
        elif what == 1:
            f.write(bytes(n))
        elif what == 2:
            f.write(r.randbytes(n))
        else:
            f.write((b"%08d" % r.randrange(10**8) * (n // 8 + 1))[:n])
' "$1"
}

converted() {
	local kind size
	need qemu-img python3
	size=$(image_size "$1")
	source_image "$size"
	while read -r kind; do
		for compress in '' -c; do
			echo "kind: $kind $compress" >&2
			rm -f ./*.qcow2
			# shellcheck disable=SC2086 # none or one
			qimg convert $compress -f raw -O qcow2 -o "$kind" src.raw a.qcow2
			is_clean a.qcow2
			same raw src.raw qcow2 a.qcow2
			# shellcheck disable=SC2086
			qemu-img convert -t unsafe $compress -f raw -O qcow2 -o "$kind" src.raw b.qcow2
			rm -f got.raw
			qimg convert -f qcow2 -O raw b.qcow2 got.raw
			cmp src.raw got.raw
		done
	done < <(kinds "$1")
}

@test "clusters of 512 bytes: converted both ways" { converted 512; }
@test "clusters of 4K: converted both ways" { converted 4096; }
@test "clusters of 64K: converted both ways" { converted 65536; }
@test "clusters of 128K: converted both ways" { converted 131072; }
@test "clusters of 2M: converted both ways" { converted 2097152; }
