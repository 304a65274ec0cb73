#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Feature bits of qcow2 images: what may be read, what may be written, and what
# becomes of the bits of others.

load helpers

# image NAME: 1 MiB of pattern 5
image() {
	qimg create -q -f qcow2 "$1" 4M
	qio -c 'write -P 5 0 1M' "$1" >/dev/null
}

reads() {
	qio -r -c 'read -P 5 0 1M' "$1" >/dev/null
}

@test "a dirty image is read, but not written before it is repaired" {
	image a
	poke a 72 0000000000000001
	reads a
	qimg convert -f qcow2 -O raw a out
	equal "$(qimg info --output=json a | json - 'd["dirty-flag"]')" true
	kept a qio -c 'write 0 64k' a
	says 'qemu-img check -r all a'
	kept a qimg convert -n -f raw -O qcow2 out a
	says 'qemu-img check -r all a'
}

@test "a corrupt image is read, but not written" {
	image a
	poke a 72 0000000000000002
	reads a
	equal "$(qimg info --output=json a | json - 'd["format-specific"]["data"]["corrupt"]')" true
	kept a qio -c 'write 0 64k' a
	says corrupt
}

@test "unknown incompatible bits are named" {
	image a
	poke a 72 0000000000000020
	fails qimg info a
	says "Could not open 'a': Unsupported qcow2 feature(s): Unknown incompatible feature: 20"
	fails qimg convert -O raw a out
	# The reference's table knows bit 4 of the incompatible features as this.
	poke a 72 1000000000000000
	poke a 124 "3c$(printf wobbly | od -An -tx1 | tr -d ' ')00"
	poke a 120 00
	poke a 121 3c
	poke a 122 "$(printf wobbly | od -An -tx1 | tr -d ' ')00"
	fails qimg info a
	says "Unsupported qcow2 feature(s): wobbly"
}

@test "unknown compatible bits are kept" {
	image a
	poke a 80 ff00000000000000
	qio -c 'write -P 6 1M 64k' a >/dev/null
	equal "$(peek a 80 8)" ff00000000000000
}

@test "unknown autoclear bits are cleared by the first write, not by reading" {
	image a
	poke a 88 8000000000000000
	reads a
	qimg info a >/dev/null
	qio -c 'read 0 1M' -c flush a >/dev/null
	equal "$(peek a 88 8)" 8000000000000000
	qio -c 'write -P 6 1M 64k' a >/dev/null
	equal "$(peek a 88 8)" 0000000000000000
	is_clean a
}

@test "bitmaps are marked as out of date by the first write" {
	need qemu-img
	image a
	qemu-img bitmap --add a b0
	equal "$(peek a 88 8)" 0000000000000001
	qio -c 'read 0 1M' a 2>warnings >/dev/null
	equal "$(cat warnings)" ''
	equal "$(peek a 88 8)" 0000000000000001
	qio -c 'write -P 6 1M 64k' a 2>warnings >/dev/null
	contains "$(cat warnings)" bitmaps
	equal "$(peek a 88 8)" 0000000000000000
	qio -c 'write -P 6 1M 64k' a 2>warnings >/dev/null
	equal "$(cat warnings)" ''
	is_sound a
}

@test "extensions and header fields of others survive" {
	image a
	qimg create -q -f qcow2 -b a -F qcow2 b
	# An extension behind the backing format and the feature table: where the end mark was.
	off=$((112 + 16 + 8 + 384))
	equal "$(peek b $off 8)" 0000000000000000
	name=$(peek b $((off + 8)) 1)
	poke b $off "123456780000000461626364000000000000000000000000$name"
	poke b 8 "$(printf %016x $((off + 24)))"
	before=$(peek b 0 600)
	qio -c 'write -P 6 0 64k' b >/dev/null
	equal "$(peek b 0 600)" "$before"
	is_clean b
	reads a
}

@test "lazy refcounts: the dirty bit is set while writing and gone afterwards" {
	need qemu-img
	qimg create -q -f qcow2 -o lazy_refcounts=on a 4M
	qio -c 'write -P 5 0 1M' a >/dev/null
	equal "$(peek a 72 8)" 0000000000000000
	is_clean a
	qio -c 'write -P 5 1M 1M' -c flush -c abort a >/dev/null 2>&1 || true
	equal "$(peek a 72 8)" 0000000000000001
	qemu-img check -q -r all a || true
	is_clean a
	qio -r -c 'read -P 5 0 2M' a >/dev/null
}
