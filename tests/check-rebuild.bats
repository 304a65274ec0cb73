#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# check -r all where refcounts cannot be mended in place: they are written anew,
# where nothing else is, and the disk reads as before.

load helpers

# image BITS [FILE]: clusters of 4K, data here and there; the refcount table is in
# cluster 1, the first block in cluster 2
image() {
	local file=${2:-image}
	need python3
	[ -e want ] || {
		pattern_file part 3M
		dd if=part of=want bs=64K conv=sparse status=none
		dd if=part of=want bs=64K seek=200 conv=notrunc status=none
		truncate -s 20M want
	}
	qimg convert -f raw -O qcow2 -o "cluster_size=4k,refcount_bits=$1" want "$file"
}

# mended FILE: -r all leaves nothing to complain of, and the same disk
mended() {
	local status=0
	qimg check -r all -f qcow2 "$1" >out 2>err || status=$?
	[ "$status" -eq 0 ] || fail "status $status: $(cat out err)"
	qimg convert -f qcow2 -O raw "$1" got
	cmp got want
	qimg check -q -f qcow2 "$1"
	! command -v qemu-img >/dev/null || is_clean "$1"
	# It can be written to.
	qio -f qcow2 -c 'write -P 9 8M 300k' "$1" >out
	qimg check -q -f qcow2 "$1"
}

zeros() { printf '%0*d' $(($1 * 2)) 0; }

# The blocks that the refcount table has
blocks() {
	local at
	at=$(peek "$1" 48 8)
	peek "$1" "0x$at" 4096 | fold -w16 | grep -v '^0*$' || true
}

@test "every width: the table is zeros" {
	local bits
	for bits in 1 2 4 8 16 32 64; do
		image "$bits"
		poke image 4096 "$(zeros 4096)"
		mended image
	done
}

@test "every width: the header says that there is none" {
	local bits
	for bits in 1 2 4 8 16 32 64; do
		image "$bits"
		poke image 48 "$(zeros 12)"
		run qimg check image
		equal "$status" 1
		contains "$output" 'Refcount table offset 0'
		mended image
	done
}

@test "the table is noise, or beyond the end, or at no cluster" {
	image 16
	cp image sound
	dd if=part of=image bs=4096 seek=1 count=1 conv=notrunc status=none
	mended image
	for place in 0000000100000000 0000000000001008 ffffffffffff0000; do
		cp sound image
		poke image 48 "$place"
		mended image
	done
	# So many clusters that they reach into everything
	cp sound image
	poke image 56 00000040
	mended image
}

@test "the width of refcounts is one that does not exist: 16 bits then" {
	image 4
	poke image 96 00000009
	mended image
	equal "$(peek image 96 4)" 00000004
}

@test "a block is where the L1 table is, or a cluster of data, or the table" {
	local l1
	image 16
	cp image sound
	l1=$(peek image 40 8)
	for place in "$l1" 0000000000040000 0000000000001000; do
		cp sound image
		poke image 4096 "$place"
		mended image
	done
	# Two entries name one block.
	cp sound image
	poke image 4104 0000000000002000
	mended image
}

@test "all refcounts are 0: they are raised where they are" {
	local before
	image 16
	poke image 8192 "$(zeros 4096)"
	before=$(peek image 48 12)
	qimg check -q -r all image 2>err
	equal "$(peek image 48 12)" "$before"
	mended image
}

@test "a block that is missing, others that are there" {
	# Of 64 bits, 512 counts a block: several
	image 64
	[ "$(blocks image | wc -l)" -gt 2 ]
	poke image 4104 "$(zeros 8)"
	mended image
}

@test "regions without references get no block" {
	image 64
	truncate -s 1G image
	poke image 4096 "$(zeros 4096)"
	qimg check -q -r all image 2>err
	[ "$(blocks image | wc -l)" -lt 10 ] || fail "$(blocks image)"
	qimg check image
}

@test "snapshots keep their counts" {
	need qemu-img
	local name
	image 8
	for name in a b c; do
		qemu-img snapshot -c "$name" image
		qio -c "write -P ${#name} 100k 30k" image >/dev/null
	done
	qimg convert -f qcow2 -O raw image want
	poke image 4096 "$(zeros 4096)"
	mended image
	qemu-img snapshot -d b image
	is_clean image
}

@test "more references than the width can tell of: what is left of that is said" {
	# A bit each; the second guest cluster is where the first is.
	local table
	image 1
	table=$(peek image "0x$(peek image 40 8)" 8)
	table=$(printf '%x' $((0x$table & 0xffffffffffffff)))
	poke image $((0x$table + 8)) "$(peek image "0x$table" 8)"
	qimg convert -f qcow2 -O raw image want
	poke image 48 "$(zeros 12)"
	run qimg check -r all image
	[ "$status" -eq 0 ] || [ "$status" -eq 2 ]
	if [ "$status" -eq 0 ]; then
		is_clean image
	else
		contains "$output" 'refcount=1 reference=2'
	fi
	qimg convert -f qcow2 -O raw image got
	cmp got want
}

@test "on a device, where there is room" {
	need_loop
	local dev
	image 16
	pattern_file disk 8M 5
	dev=$(loop_device disk)
	dd if=image of="$dev" conv=notrunc status=none
	poke "$dev" 4096 "$(zeros 4096)"
	mended "$dev"
	qimg convert -f qcow2 -O raw "$dev" want
	poke "$dev" 48 "$(zeros 12)"
	mended "$dev"
}

@test "a device that is full: nothing changes" {
	need_loop
	local dev before
	image 16
	truncate -s $((($(stat -c %s image) + 4095) / 4096 * 4096)) image
	dev=$(loop_device image)
	# The block that the table has lost is free, and two clusters are needed.
	poke "$dev" 4096 "$(zeros 4096)"
	before=$(sha256sum <"$dev")
	run qimg check -r all -f qcow2 "$dev"
	equal "$status" 1
	contains "$output" 'has no room for'
	equal "$(sha256sum <"$dev")" "$before"
}

@test "a file system that is full: an error, and the image as it was" {
	need_root
	local before
	image 64
	mount_fs tmpfs 8M fs
	cp image fs/image
	poke fs/image 4096 "$(zeros 4096)"
	dd if=/dev/zero of=fs/rest bs=4096 status=none 2>/dev/null || true
	before=$(sha256sum <fs/image)
	run qimg check -r all fs/image
	equal "$status" 1
	contains "$output" 'Writing refcounts anew'
	equal "$(sha256sum <fs/image)" "$before"
	rm fs/rest
	mended fs/image
}

@test "a block that cannot be read" {
	need_loop
	local dev
	image 16
	# The block is moved to the end of the file, of which the device then has lost some.
	truncate -s 8M image
	dd if=image of=image bs=4096 skip=2 count=1 seek=2047 conv=notrunc status=none
	poke image 4096 00000000007ff000
	dev=$(loop_device image)
	truncate -s $((4096 * 2047)) image
	run qimg check -T none -f qcow2 "$dev"
	[ "$status" -eq 1 ] || skip 'the device reads all the same'
	contains "$output" 'cannot be read'
	qimg check -q -T none -r all -f qcow2 "$dev" 2>err
	qimg convert -T none -f qcow2 -O raw "$dev" got
	cmp got want
}

@test "the table and an L2 table are lost: what the latter names is kept" {
	local table
	image 16
	table=$(peek image "0x$(peek image 40 8)" 8)
	poke image "0x$(peek image 40 8)" "$(zeros 8)"
	poke image 48 "$(zeros 12)"
	run qimg check -r all image
	equal "$status" 3
	contains "$output" 'looks like an L2 table'
	# Whoever knows where it was has all of it again.
	poke image "0x$(peek image 40 8)" "$table"
	qimg check -q image
	qimg convert -f qcow2 -O raw image got
	cmp got want
}

@test "an old table with many blocks is not taken for an L2 table" {
	# 64 bits, 512 clusters a block
	image 64
	[ "$(blocks image | wc -l)" -lt 8 ] || fail 'more blocks than thought'
	pattern_file want 20M
	image 64
	[ "$(blocks image | wc -l)" -ge 8 ]
	poke image 48 "$(zeros 12)"
	mended image
}
