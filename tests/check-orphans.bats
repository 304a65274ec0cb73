#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Leaked clusters that look like L2 tables which something has lost: named, and kept until the user decides.

load helpers

# lost_table: x.qcow2 has lost the L2 table of its first 512M, which has 16 entries; before.raw is what it read
lost_table() {
	need python3
	qimg create -q -f qcow2 x.qcow2 1G
	qio -f qcow2 -c "write -P 5 0 1M" -c "write -P 6 600M 64k" x.qcow2 >/dev/null
	python3 - <<-'PY'
	import struct
	f = open("x.qcow2", "r+b")
	f.seek(40)
	l1 = struct.unpack(">Q", f.read(8))[0]
	f.seek(l1)
	print(struct.unpack(">Q", f.read(8))[0] & ~(1 << 63), file=open("table", "w"))
	f.seek(l1)
	f.write(bytes(8))
	PY
	cp x.qcow2 before
}

# leaks WANT ARGS...: the status
leaks() {
	local want=$1 status=0
	shift
	qimg check "$@" x.qcow2 >out 2>err || status=$?
	equal "$status" "$want" "status of check $* ($(cat err))"
}

@test "without a decision they are kept: named, status 3, and the commands that decide" {
	lost_table
	leaks 3 -r leaks
	grep -q "^ERROR the leaked cluster at 0x$(printf %x "$(cat table)") looks like an L2 table" err
	grep -q -- '-r leaks --backup=FILE x.qcow2' err
	grep -q -- '-r leaks --drop-orphans x.qcow2' err
	cmp x.qcow2 before
	leaks 3 -r all
	grep -q -- '-r all --drop-orphans x.qcow2' err
	leaks 3
}

@test "--drop-orphans names and frees them" {
	lost_table
	leaks 0 -r leaks --drop-orphans
	grep -q 'looks like an L2 table that was lost: it is freed' err
	leaks 0
	[ "$(stat -c %s x.qcow2)" -lt "$(stat -c %s before)" ] || [ "$(stat -c %b x.qcow2)" -lt "$(stat -c %b before)" ]
	qio -f qcow2 -c "read -P 6 600M 64k" x.qcow2 >/dev/null
}

@test "--backup saves them, frees them, and undo brings them back" {
	lost_table
	leaks 0 -r leaks --backup=b
	equal "$(grep -c -- --drop-orphans err || true)" 0 hints
	leaks 0
	qimg check -q --undo=b x.qcow2
	cmp x.qcow2 before
	python3 - <<-'PY'
	table = int(open("table").read())
	image = open("before", "rb").read()
	if image[table:table + 65536] not in open("b", "rb").read():
	    raise SystemExit("the table is not in the backup")
	PY
}

@test "a table with fewer than 8 entries is no table" {
	need python3
	lost_table
	python3 - <<-'PY'
	table = int(open("table").read())
	f = open("x.qcow2", "r+b")
	f.seek(table + 7 * 8)
	f.write(bytes(9 * 8))
	PY
	leaks 0 -r leaks
	equal "$(grep -c 'L2 table' err || true)" 0 orphans
}

@test "snapshots that the header does not count any more are kept" {
	need python3 qemu-img
	qimg create -q -f qcow2 x.qcow2 1M
	qio -f qcow2 -c "write -P 5 0 256k" x.qcow2 >/dev/null
	qemu-img snapshot -c s x.qcow2
	qio -f qcow2 -c "write -P 6 0 256k" x.qcow2 >/dev/null
	qemu-img convert -l s -O raw x.qcow2 want
	python3 -c "f = open('x.qcow2', 'r+b'); f.seek(60); f.write(bytes(4))"
	cp x.qcow2 before
	leaks 3 -r leaks
	grep -q 'kept, since the header counts no snapshots, but says where their table is' err
	cmp x.qcow2 before
	leaks 3 -r all
	python3 -c "f = open('x.qcow2', 'r+b'); f.seek(60); f.write(bytes([0, 0, 0, 1]))"
	qemu-img convert -l s -O raw x.qcow2 got
	cmp want got
	cp before x.qcow2
	leaks 0 -r leaks --drop-orphans
}
