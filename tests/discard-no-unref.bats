#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# discard-no-unref: what is discarded or zeroed keeps its place in the image, so
# that a disk which is trimmed and written again does not scatter over its file.

load helpers

on=discard=unmap,discard-no-unref=on

# places FILE: guest offset and host offset of each run
places() {
	qio -r -f qcow2 -c extents "$1" | sed -n 's/^\([0-9]*\) .* host=\([0-9]*\) .*/\1:\2/p'
}

setup() {
	helpers_setup
	qimg create -q -f qcow2 image 8M
	# Backwards, so that the place of each cluster tells something.
	qio -f qcow2 -c 'write -P 5 192k 64k' -c 'write -P 5 128k 64k' -c 'write -P 5 64k 64k' -c 'write -P 5 0 64k' \
		image >out
	before=$(places image)
}

@test "discards keep the clusters" {
	local used
	qio -f qcow2 -o $on -c 'discard 0 256k' -c 'read -P 0 0 256k' image >out
	qio -r -f qcow2 -c 'read -P 0 0 256k' image >out
	equal "$(places image)" "$before"
	contains "$(qio -r -f qcow2 -c extents image)" zero
	is_clean image
	# The space is given back all the same.
	used=$(allocated image)
	[ "$used" -le $((5 * 65536)) ] || fail "$used"
	# What is written again is where it was, and the file does not grow.
	size=$(stat -c %s image)
	qio -f qcow2 -c 'write -P 6 0 10k' -c 'write -P 6 64k 192k' -c 'read -P 0 10k 54k' image >out
	equal "$(places image | head -n 1)" "$(echo "$before" | head -n 1)"
	equal "$(stat -c %s image)" "$size"
	is_clean image
	# Without the option the clusters are given up.
	qio -f qcow2 -o discard=unmap -c 'discard 0 256k' image >out
	equal "$(places image)" ''
}

@test "the space is kept where discards are not passed on" {
	used=$(allocated image)
	qio -f qcow2 -o $on,pass-discard-request=off -c 'discard 0 256k' -c 'read -P 0 0 256k' image >out
	equal "$(places image)" "$before"
	equal "$(allocated image)" "$used"
	is_clean image
}

@test "so do zeroes that may give space back" {
	qio -f qcow2 -o $on -c 'write -z -u 0 256k' -c 'read -P 0 0 256k' image >out
	equal "$(places image)" "$before"
	[ "$(allocated image)" -le $((5 * 65536)) ]
	qio -f qcow2 -c 'write -P 5 0 256k' image >out
	equal "$(places image | head -n 1)" "$(echo "$before" | head -n 1)"
	qio -f qcow2 -o $on,detect-zeroes=unmap -c 'write -P 0 0 256k' image >out
	equal "$(places image)" "$before"
	is_clean image
	qio -f qcow2 -o discard=unmap -c 'write -z -u 0 256k' image >out
	equal "$(places image)" ''
}

@test "extended entries, parts of clusters, a backing file" {
	qimg create -q -f raw base 8M
	qio -f raw -c 'write -P 9 0 8M' base >out
	qimg create -q -f qcow2 -o extended_l2=on,cluster_size=64k -b base -F raw image
	qio -f qcow2 -c 'write -P 5 64k 64k' -c 'write -P 5 0 6k' image >out
	before=$(places image | cut -d: -f2 | sort | head -n 1)
	qio -f qcow2 -o $on -c 'discard 0 128k' -c 'read -P 0 0 128k' -c 'read -P 9 128k 64k' image >out
	equal "$(places image | cut -d: -f2 | sort | head -n 1)" "$before"
	is_clean image
	qio -f qcow2 -o $on -c 'write -P 6 0 128k' -c 'write -z -u 4k 2k' -c 'read -P 6 0 4k' -c 'read -P 0 4k 2k' \
		-c 'read -P 6 6k 122k' image >out
	is_clean image
	qio -r -f qcow2 -c 'read -P 6 0 4k' -c 'read -P 0 4k 2k' -c 'read -P 6 6k 122k' image >out
}

@test "what a snapshot shares is not taken from it" {
	need qemu-img
	qemu-img snapshot -c s image
	qio -f qcow2 -o $on -c 'discard 0 256k' -c 'read -P 0 0 256k' image >out
	is_clean image
	qemu-img snapshot -a s image
	qio -r -f qcow2 -c 'read -P 5 0 256k' image >out
	is_clean image
}

@test "compressed clusters have no place to keep; a data file gives space back" {
	qimg create -q -f qcow2 image 8M
	qio -f qcow2 -c 'write -c -P 5 0 64k' image >out
	qio -f qcow2 -o $on -c 'discard 0 64k' -c 'read -P 0 0 64k' image >out
	is_clean image
	qimg create -q -f qcow2 -o data_file=data image 8M
	qio -f qcow2 -c 'write -P 5 0 1M' image >out
	qio -f qcow2 -o $on -c 'discard 0 1M' -c 'read -P 0 0 1M' image >out
	equal "$(places image)" 0:0
	[ "$(allocated data)" -lt 65536 ]
	qio -f qcow2 -o $on -c 'write -P 6 4k 4k' -c 'read -P 6 4k 4k' -c 'read -P 0 8k 1000k' image >out
	is_clean image
}
