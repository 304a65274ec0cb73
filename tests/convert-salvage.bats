#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert --salvage: what cannot be read becomes zeros, the rest is copied.

load helpers

setup() {
	helpers_setup
	need qemu-img
	yes 'some text' | head -c 4M >in.raw
}

@test 'a broken compressed cluster' {
	qemu-img convert -c -f raw -O qcow2 in.raw c.qcow2
	pattern_file junk 100
	# the compressed data starts at 0x50000: one of the clusters in there
	dd if=junk of=c.qcow2 bs=1 seek=$((0x50800)) conv=notrunc status=none
	refused out.raw qimg convert -O raw c.qcow2 out.raw
	qimg convert --salvage -O raw c.qcow2 out.raw 2>log
	contains "$(cat log)" 'Zeros are written for'
	python3 -c '
a, b = open("in.raw", "rb").read(), open("out.raw", "rb").read()
assert len(a) == len(b)
bad = {i >> 16 for i in range(0, len(a), 512) if a[i:i + 512] != b[i:i + 512]}
assert 1 <= len(bad) <= 2, bad
for n in bad:
    assert not any(b[n << 16:(n + 1) << 16])'
	equal "$(wc -l <log)" 1
}

@test 'a broken L2 table' {
	qemu-img convert -f raw -O qcow2 -o cluster_size=4k in.raw t.qcow2
	# an L1 entry that is not aligned: 512 clusters of 4 KiB hang on it
	local l1
	l1=$((0x$(peek t.qcow2 40 8)))
	poke t.qcow2 $((l1 + 8)) 8000000000012345
	refused out.raw qimg convert -O raw t.qcow2 out.raw
	qimg convert --salvage -O raw t.qcow2 out.raw 2>log
	cmp -n $((2 << 20)) in.raw out.raw
	equal "$(tail -c 2M out.raw | tr -d '\0' | wc -c)" 0
	equal "$(wc -l <log)" 1
	contains "$(cat log)" 2097152
}

@test 'a sound source: no warnings, nothing lost' {
	equal "$(qimg convert --salvage -f raw -O raw in.raw out.raw 2>&1)" ''
	cmp in.raw out.raw
	refused x.raw qimg convert --salvage -C -f raw -O raw in.raw x.raw
}
