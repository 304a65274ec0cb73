#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# What check -r frees is given back to the host: holes inside of the file, and
# its tail is cut off; and when it is not.

load helpers

# 4M of data in clusters of 64K: clusters 5 to 68, in order
setup() {
	helpers_setup
	need python3
	pattern_file want 4M
	qimg convert -f raw -O qcow2 want image
	size=$(stat -c %s image)
	l2=$((0x40000))
}

# forget FIRST N: the entries of guest clusters: theirs leak
forget() {
	poke image $((l2 + $1 * 8)) "$(printf '%0*d' $(($2 * 16)) 0)"
	qimg convert -f qcow2 -O raw image want
}

holes() {
	: >hole
	truncate -s 1M hole
	[ "$(stat -c %b hole)" -eq 0 ] || skip 'no holes here'
}

unchanged() {
	qimg convert -f qcow2 -O raw image got
	cmp got want
	qimg check -q image
}

@test "inside of the file holes are made" {
	holes
	local before
	forget 10 20
	before=$(allocated image)
	qimg check -q -r leaks image 2>err
	[ "$(allocated image)" -le $((before - 20 * 65536)) ]
	equal "$(stat -c %s image)" "$size"
	unchanged
}

@test "the tail is cut off" {
	forget 50 14
	qimg check -q -r leaks image 2>err
	equal "$(stat -c %s image)" $((size - 14 * 65536))
	unchanged
	is_clean image
}

@test "not beyond what is kept" {
	# The last cluster is in use
	forget 50 13
	qimg check -q -r all image 2>err
	equal "$(stat -c %s image)" "$size"
	unchanged
}

@test "leaked bytes are told, and then none are left" {
	forget 0 5
	qimg check --output=json image >out || true
	equal "$(json out 'd["leaked-bytes"]')" $((5 * 65536))
	qimg check -r leaks --output=json image >out 2>err
	equal "$(json out '(d["leaked-bytes"], d["leaks-fixed"], d["leaks"])')" '(0, 5, 0)'
}

@test "a table that was lost stays, and all that it names" {
	local before
	poke image 0x30000 0000000000000000
	before=$(allocated image)
	run qimg check -q -r leaks image
	equal "$status" 3
	equal "$(stat -c %s image)" "$size"
	[ "$(allocated image)" -ge "$before" ]
	poke image 0x30000 8000000000040000
	unchanged
}

@test "an image without leaks stays as long as it is" {
	truncate -s 8M image
	qimg check -q -r all image
	equal "$(stat -c %s image)" $((8 << 20))
}

@test "the old refcount table and its blocks are given back" {
	holes
	local before
	poke image 0x10000 0000000000000000
	before=$(allocated image)
	qimg check -q -r all image 2>err
	# As much as there was: the new ones are at the end.
	[ "$(allocated image)" -le $((before + 65536)) ] || fail "$before, now $(allocated image)"
	unchanged
}

@test "a dry run, and one with a backup, give back nothing" {
	local before
	qimg check --help | grep -q -e --dry-run || skip 'no --dry-run'
	forget 50 14
	before=$(stat -c '%s %b' image)
	qimg check -q -r leaks --dry-run image >out 2>err || true
	equal "$(stat -c '%s %b' image)" "$before"
	qimg check -q -r leaks --backup=saved image >out 2>err
	equal "$(stat -c %s image)" "$size"
	qimg check -q image
}

@test "on a device" {
	need_loop
	local dev
	forget 10 20
	dev=$(loop_device image)
	qimg check -q -r leaks -f qcow2 "$dev" 2>err
	losetup -d "$dev"
	equal "$(stat -c %s image)" "$size"
	unchanged
}
