#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# A table that leaves the cache stays in compact form, if it has one: then it
# is not read again.

load helpers

# value KEY: of the L2 cache, from qio's counters in the file out
value() {
	sed -n "s/^image l2 .*\b$1=\([0-9]*\).*/\1/p" out
}

setup() {
	helpers_setup
	need_plain
	need qemu-img jq
}

# reads OPTIONS: reads a byte of each of 32 slices of the tables (each maps
# 2M), twice, in a cache that holds two; prints the counters into out
reads() {
	local i words=()
	for ((i = 0; i < 32; i++)); do words+=(-c "read $((i * 2))M 1"); done
	qio -r -o "l2-cache-size=8k${1:+,$1}" "${words[@]}" "${words[@]}" -c counters image >out
}

@test "clusters in a row, in entries of 8 and of 16 bytes" {
	qemu-img create -q -f qcow2 -o cluster_size=4k,preallocation=metadata image 64M
	reads
	equal "$(value loads) $(value compact)" '32 32'
	[ "$(value ram)" -le $((8192 + 16384)) ]
	reads l2-cache-compact=off
	equal "$(value loads) $(value compact)" '64 0'
	qemu-img create -q -f qcow2 -o cluster_size=32k,extended_l2=on,preallocation=metadata image 2G
	reads l2-cache-entry-size=512
	equal "$(value loads) $(value compact)" '32 32'
}

@test "no clusters at all" {
	qemu-img create -q -f qcow2 -o cluster_size=4k image 64M
	for ((i = 0; i < 32; i++)); do echo "write -q $((i * 2))M 4k"; done | qemu-io image >/dev/null
	reads
	equal "$(value loads) $(value compact)" '32 32'
}

@test "clusters in any order have none" {
	# 128 entries of each table's 1K, each second one in use and these shuffled: of
	# runs 8 would fit into an eighth of that
	qemu-img create -q -f qcow2 -o cluster_size=1k image 64M
	python3 - >commands <<-'END'
	for base in range(0, 64, 2):
	    for i in range(64):
	        print('write -q %d 1k' % ((base << 20) + (i * 37 % 64) * 2048))
	END
	qemu-io image <commands >/dev/null
	reads l2-cache-entry-size=1k
	equal "$(value compact)" 0
	equal "$(value loads)" 64
}

@test "the second level in a file takes its place, unless both are asked for" {
	qemu-img create -q -f qcow2 -o cluster_size=4k,preallocation=metadata image 64M
	reads l2-cache-file=.
	equal "$(value compact)" 0
	[ "$(value second)" -ge 24 ]
	reads l2-cache-file=.,l2-cache-compact=on
	equal "$(value compact)" 32
}

@test "what is changed is seen" {
	local i words=()
	qemu-img create -q -f qcow2 -o cluster_size=4k image 64M
	# Each table is brought in, turned out, changed, turned out, read.
	for ((i = 0; i < 32; i++)); do words+=(-c "write -q -P 7 $((i * 2))M 4k"); done
	for ((i = 0; i < 32; i++)); do words+=(-c "read -q -P 7 $((i * 2))M 4k"); done
	for ((i = 0; i < 32; i++)); do words+=(-c "write -q -P 8 $((i * 2 + 1))M 4k"); done
	for ((i = 0; i < 32; i++)); do words+=(-c "read -P 7 $((i * 2))M 4k" -c "read -P 8 $((i * 2 + 1))M 4k"); done
	for ((i = 0; i < 32; i++)); do words+=(-c "write -q -z -u $((i * 2))M 4k"); done
	for ((i = 0; i < 32; i++)); do words+=(-c "read -P 0 $((i * 2))M 4k"); done
	qio -o l2-cache-size=8k "${words[@]}" -c counters image >out || fail "$(cat out)"
	[ "$(value compact)" -gt 0 ]
	qemu-img check -q image
	for ((i = 0; i < 32; i++)); do
		echo "read -P 0 $((i * 2))M 4k"
		echo "read -P 8 $((i * 2 + 1))M 4k"
	done | qemu-io image >out
	lacks "$(cat out)" 'verification failed'
}

@test "info tells how much it may take, and what contradicts itself is refused" {
	qimg create -q -f qcow2 image 1T
	qimg info --cache --output=json image >out
	equal "$(jq '."l2-cache-compact-size"' out)" 262144
	qimg info --cache --output=json --image-opts driver=qcow2,file.filename=image,l2-cache-size=8M >out
	equal "$(jq '."l2-cache-compact-size"' out)" 1048576
	qimg info --cache --output=json --image-opts driver=qcow2,file.filename=image,cache-rule=2015 >out
	equal "$(jq '."l2-cache-compact-size"' out)" 0
	run qimg info --image-opts driver=qcow2,file.filename=image,metadata-cache=off,l2-cache-compact=on
	equal "$status" 1
	contains "$output" "'metadata-cache' (off) and 'l2-cache-compact' (on) contradict each other"
}
