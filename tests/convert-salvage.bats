#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert --salvage.

load helpers

# broken_image: c.qcow2 of 4 MiB of text, in.raw, with one compressed cluster that is junk;
# prints its guest offset
broken_image() {
	need qemu-img python3
	yes text | head -c 4M >in.raw
	qemu-img convert -c -f raw -O qcow2 in.raw c.qcow2
	# compressed clusters lie one behind the other
	pattern_file junk 100
	dd if=junk of=c.qcow2 bs=1 seek=$((0x50800)) count=100 conv=notrunc status=none
}

@test 'what cannot be read becomes zeros, the rest is copied' {
	broken_image
	refused out.raw qimg convert -O raw c.qcow2 out.raw
	qimg convert --salvage -O raw c.qcow2 out.raw 2>log
	contains "$(cat log)" 'could not be read'
	python3 -c '
a, b = open("in.raw", "rb").read(), open("out.raw", "rb").read()
assert len(a) == len(b)
bad = [i for i in range(0, len(a), 65536) if a[i:i + 65536] != b[i:i + 65536]]
assert 1 <= len(bad) <= 3, bad
for i in bad:
    assert not any(b[i:i + 65536]), i'
}

@test 'a broken L2 table' {
	need qemu-img
	yes text | head -c 4M >in.raw
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

@test 'into compressed qcow2, and with nothing to salvage' {
	broken_image
	qimg convert --salvage -O raw c.qcow2 want.raw 2>log
	qimg convert --salvage -c -O qcow2 c.qcow2 out.qcow2 2>log
	contains "$(cat log)" 'could not be read'
	is_clean out.qcow2
	same raw want.raw qcow2 out.qcow2
	qimg convert --salvage -f raw -O qcow2 in.raw out.qcow2 2>log
	equal "$(cat log)" ''
	same raw in.raw qcow2 out.qcow2
}

@test 'a device whose end is gone, and what --verify says of it' {
	need_loop
	local dev
	pattern_file disk.img 8M
	cp disk.img want.raw
	dev=$(loop_device disk.img)
	truncate -s 3M disk.img
	truncate -s 3M want.raw
	truncate -s 8M want.raw
	refused out.raw qimg convert --verify -f raw -O raw "$dev" out.raw
	for _ in 1 2 3; do
		qimg convert --salvage --verify -f raw -O raw "$dev" out.raw 2>log
		cmp want.raw out.raw
		contains "$(cat log)" 'offset 0x300000'
	done
	qimg convert --salvage --verify -c -f raw -O qcow2 "$dev" out.qcow2 2>log
	same raw want.raw qcow2 out.qcow2
}

@test 'a device with bad sectors' {
	need_root
	need dmsetup losetup blockdev
	pattern_file disk.img 8M
	local dev
	dev=$(loop_device disk.img)
	printf '0 8000 linear %s 0\n8000 16 error\n8016 8368 linear %s 8016\n' "$dev" "$dev" |
		dmsetup create "qimg-salvage-$$" 2>/dev/null || skip 'no device mapper here'
	undo dmsetup remove "qimg-salvage-$$"
	qimg convert --salvage -f raw -O raw "/dev/mapper/qimg-salvage-$$" out.raw 2>log
	cp disk.img want.raw
	dd if=/dev/zero of=want.raw bs=512 seek=8000 count=16 conv=notrunc status=none
	cmp want.raw out.raw
}
