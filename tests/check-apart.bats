#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# check -r all: what two entries refer to, or lies over metadata, is copied apart, and reads as before.

load helpers

# Clusters of 4K: the header, refcount table, block, L1 at 0x3000, an L2 table at 0x4000, 16 clusters of data
setup() {
	helpers_setup
	need python3
	qimg create -q -f qcow2 -o cluster_size=4k image 16M
	qio -c 'write -P 7 0 32k' -c 'write -P 9 32k 32k' image >/dev/null
}

entry() { poke image $((0x4000 + 8 * $1)) "$2"; }

mended() {
	qimg convert -f qcow2 -O raw image want
	qimg check -r all image >out 2>err || fail "status $?: $(cat out err)"
	qimg check image
	is_clean image
	qimg convert -f qcow2 -O raw image got
	cmp want got
}

# clusters I...: how many different ones these entries of the L2 table refer to
clusters() {
	local i
	for i; do peek image $((0x4000 + 8 * i)) 8; done | sort -u | wc -l
}

@test "guest data that is referred to twice but counted once" {
	entry 1 8000000000005000
	entry 30 8000000000005000
	mended
	equal "$(clusters 0 1 30)" 3
	equal "$(peek image 0x4000 1)$(peek image $((0x4000 + 8)) 1)" 8080
	qio -c 'write -P 3 0 4k' -c 'read -P 7 4k 4k' -c 'read -P 7 120k 4k' image >out
	lacks "$(cat out)" failed
}

@test "what is counted as often as it is referred to stays shared" {
	entry 0 0000000000005000
	entry 30 0000000000005000
	poke image $((0x2000 + 2 * 5)) 0002
	qimg check image
	mended
	equal "$(clusters 0 30)" 1
}

@test "guest data over the L1 table, an L2 table, the refcounts" {
	entry 30 8000000000003000
	entry 31 8000000000004000
	entry 32 8000000000002000
	entry 33 8000000000001000
	entry 34 8000000000004000
	qimg check image >out 2>&1 || true
	contains "$(cat out)" 'lies where metadata is'
	# The table itself is one of the clusters: as the guest reads it now
	mended
	equal "$(peek image $((0x4000 + 8 * 32)) 8 | cut -c 1)" 8
	equal "$(clusters 30 31 34)" 3
}

@test "an L2 table that two parts of the disk have, or that is no L2 table at all" {
	poke image $((0x3000 + 8)) 8000000000004000
	mended
	qio -c 'write -P 3 0 4k' -c 'read -P 7 2M 4k' image >out
	lacks "$(cat out)" failed
	# The L1 table as an L2 table, of itself, too
	poke image $((0x3000 + 8 * 2)) 8000000000003000
	mended
}

@test "compressed data where an L2 table is said to be" {
	local l1 l2 host
	seq 200000 | head -c 1M >raw
	truncate -s 4M raw
	qimg convert -c -f raw -O qcow2 -o cluster_size=4k raw image
	l1=$((0x$(peek image 40 8)))
	l2=$((0x$(peek image $l1 8) & 0xfffffffffff000))
	host=$((0x$(peek image $((l2 + 8 * 9)) 8) & 0x3fffffffffff000))
	poke image $((l1 + 8)) "$(printf %016x $host)"
	run qimg check image
	equal "$status" 2
	qimg check -r all image >out 2>err || fail "status $?: $(cat out err)"
	qimg check --deep image
	qimg convert -f qcow2 -O raw image got
	cmp -n 1048576 raw got
}

@test "more references than refcounts of one bit can say" {
	qimg create -q -f qcow2 -o cluster_size=4k,refcount_bits=1 image 16M
	qio -c 'write -P 7 0 32k' image >/dev/null
	local l2
	l2=$((0x$(peek image 0x3000 8 | cut -c 2-)))
	poke image $((l2 + 8 * 20)) "$(peek image $l2 8)"
	poke image $((l2 + 8 * 21)) "$(peek image $l2 8)"
	mended
	equal "$(for i in 0 20 21; do peek image $((l2 + 8 * i)) 8; done | sort -u | wc -l)" 3
}

@test "tables of a snapshot: each disk reads on what it has read" {
	need qemu-img
	qemu-img snapshot -c one image
	qio -c 'write -P 5 0 4k' image >/dev/null
	qimg convert -l one -f qcow2 -O raw image snap.want
	local l2
	l2=$((0x$(peek image 0x3000 8 | cut -c 2-)))
	# The active disk refers to a cluster of the snapshot's for two of its own
	poke image $((l2 + 8 * 40)) "$(peek image $((l2 + 8)) 8)"
	poke image $((l2 + 8 * 41)) "$(peek image $((l2 + 8)) 8)"
	mended
	qimg convert -l one -f qcow2 -O raw image snap.got
	cmp snap.want snap.got
}
