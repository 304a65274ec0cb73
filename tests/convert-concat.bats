#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert puts several sources one behind the other.

load helpers

@test 'raw sources of odd sizes' {
	pattern_file a.raw 100000 1
	pattern_file b.raw 5M 2
	: >empty.raw
	truncate -s 3000000 hole.raw
	pattern_file c.raw 512 3
	for f in a b empty hole c; do
		cp $f.raw padded
		truncate -s %512 padded
		cat padded
	done >want.raw
	qimg convert -f raw -O raw a.raw b.raw empty.raw hole.raw c.raw out.raw
	cmp want.raw out.raw
	qimg convert -f raw -O qcow2 a.raw b.raw empty.raw hole.raw c.raw out.qcow2
	is_clean out.qcow2
	same raw want.raw qcow2 out.qcow2
	qimg convert -c -f raw -O qcow2 a.raw b.raw empty.raw hole.raw c.raw out.qcow2
	is_clean out.qcow2
	same raw want.raw qcow2 out.qcow2
}

@test 'an image twice, and one over a backing file' {
	need qemu-img qemu-io
	qemu-img create -q -f qcow2 a.qcow2 1M
	qemu-io -c 'write -P 1 100k 300k' a.qcow2 >/dev/null
	qemu-img create -q -f qcow2 -b a.qcow2 -F qcow2 b.qcow2 1500160
	qemu-io -c 'write -P 2 0 64k' -c 'write -P 3 1400k 512' b.qcow2 >/dev/null
	qimg convert -O qcow2 a.qcow2 b.qcow2 a.qcow2 out.qcow2
	is_clean out.qcow2
	qemu-img convert -O raw a.qcow2 b.qcow2 a.qcow2 want.raw
	same raw want.raw qcow2 out.qcow2
}

@test 'into an existing target' {
	pattern_file a.raw 1M 1
	pattern_file b.raw 1M 2
	pattern_file t.raw 3M 3
	cp t.raw want.raw
	cat a.raw b.raw | dd of=want.raw conv=notrunc status=none
	qimg convert -n -f raw -O raw a.raw b.raw t.raw
	cmp want.raw t.raw
	kept t.raw qimg convert -n -f raw -O raw a.raw b.raw a.raw b.raw t.raw
}
