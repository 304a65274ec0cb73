#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# check -r: broken entries of L1 and L2 tables. What has lost a bit of its place gets it back, the rest goes, and
# what can be read stays.

load helpers

# The header, refcount table, block, L1, an L2 table at 0x40000, 16 clusters of data from 0x50000 on
setup() {
	helpers_setup
	need python3
	qimg create -q -f qcow2 image 64M
	qio -c 'write -P 7 0 1M' image >/dev/null
	qimg convert -O raw image want
}

# entry I VALUE, with what else is behind it: the I-th of the L2 table
entry() { poke image $((0x40000 + 8 * $1)) "$2"; }

# reads_zeros FIRST COUNT: these clusters of `want` are given up
reads_zeros() { dd if=/dev/zero of=want bs=64k seek="$1" count="$2" conv=notrunc status=none; }

mended() {
	qimg check -r all image >out 2>err || fail "status $?: $(cat out err)"
	qimg check image
	is_clean image
	qimg convert -f qcow2 -O raw image got
	cmp want got
}

@test "an offset that has lost one bit, or has got one, gets its cluster back" {
	entry 1 8000000000060200	# not aligned
	entry 2 8000010000070000	# behind the end of the file
	poke image 0x30000 8000000000041000	# the table of these
	mended
	contains "$(cat err)" 'one bit away, is what it gets back'
	equal "$(peek image 0x30000 8)" 8000000000040000
	equal "$(peek image $((0x40000 + 8)) 16)" 80000000000600008000000000070000
}

@test "with -r leaks what it may have lost is not freed, other leaks are" {
	entry 1 8000000000060200
	entry 2 8000000000070200
	entry 3 8123000000080000	# not one bit away: gone, its cluster with it
	poke image $((0x20000 + 2 * 40)) 0001
	run qimg check -r leaks image
	equal "$status" 2
	contains "$output" 'may be what it has lost, and is kept'
	equal "$(peek image $((0x20000 + 2 * 6)) 6)" 000100010000
	equal "$(peek image $((0x20000 + 2 * 40)) 2)" 0000
	reads_zeros 3 1
	mended
}

@test "a table that an L1 entry has lost is kept by -r leaks, with its data, and comes back with -r all" {
	poke image 0x30000 8000000000040200
	run qimg check -r leaks image
	equal "$status" 2
	equal "$(peek image $((0x20000 + 2 * 4)) 8)" 0001000100010001
	mended
}

@test "a cluster that two entries may have lost is given to none" {
	entry 1 8000000000060200
	entry 2 8000000000060400
	run qimg check -r all image
	equal "$(peek image $((0x40000 + 8)) 16)" 00000000000000000000000000000000
	reads_zeros 1 2
	qimg convert -f qcow2 -O raw image got
	cmp want got
	qimg check image
}

@test "what cannot be told is removed, with its guest range named" {
	entry 1 8000000000050200	# the cluster is one of another entry
	entry 2 80aa000000070000
	reads_zeros 1 2
	run qimg check -r all --output=json image
	equal "$status" 0
	mended
	entry 1 8000000000050200
	qimg check -r all image >out 2>err
	contains "$(cat err)" 'at guest offset 0x10000'
	contains "$(cat err)" 'it is removed'
}

@test "bits that mean nothing are cleared, and the data stays" {
	entry 1 a000000000060006
	poke image 0x30000 9000000000040003
	entry 40 8000000000000000
	mended
	equal "$(peek image $((0x40000 + 8)) 8)" 8000000000060000
	equal "$(peek image 0x30000 8)" 8000000000040000
	equal "$(peek image $((0x40000 + 8 * 40)) 8)" 0000000000000000
}

@test "zeros stay zeros when their place is wrong; the flag of version 3 goes in version 2" {
	entry 1 8000000000050201
	reads_zeros 1 1
	mended
	equal "$(peek image $((0x40000 + 8)) 8)" 0000000000000001
	qimg create -q -f qcow2 -o compat=0.10 image 64M
	qio -c 'write -P 7 0 1M' image >/dev/null
	qimg convert -O raw image want
	entry 1 8000000000060001
	mended
	equal "$(peek image $((0x40000 + 8)) 8)" 8000000000060000
}

@test "behind the end of the file all is zeros, also where a backing file has something else" {
	pattern_file base 4M
	qimg create -q -f qcow2 -b base -F raw image
	qio -c 'write -P 7 0 1M' image >/dev/null
	entry 5 80ff000000000000
	qimg convert -O raw image want
	mended
	equal "$(peek image $((0x40000 + 8 * 5)) 8)" 0000000000000001
}

@test "compressed data stays as long as it inflates" {
	yes text | head -c 1M >raw
	qimg convert -c -f raw -O qcow2 raw image
	qimg convert -O raw image want
	local last
	# The last one is given all sectors that can be said
	last=$(peek image $((0x40000 + 8 * 15)) 8)
	entry 15 "$(printf %016x $((0x$last | 0x3fc0000000000000)))"
	mended
	# A place far behind the end, one bit away
	last=$(peek image $((0x40000 + 8 * 3)) 8)
	entry 3 "$(printf %016x $((0x$last | 0x10000000000)))"
	mended
	equal "$(peek image $((0x40000 + 8 * 3)) 8)" "$last"
	entry 3 "$(printf %016x $((0x$last | 0x13000000000)))"
	reads_zeros 3 1
	mended
}

@test "subclusters: what is allocated is kept, and nothing else than before reads as zeros" {
	qimg create -q -f qcow2 -o extended_l2=on image 64M
	qio -c 'write -P 7 0 1M' image >/dev/null
	qimg convert -O raw image want
	poke image $((0x40000 + 16 + 8)) 00ff00ffffffffff
	poke image $((0x40000 + 16 * 40 + 8)) ffff00000000ffff
	mended
	equal "$(peek image $((0x40000 + 16 + 8)) 8)" 00000000ffffffff
	equal "$(peek image $((0x40000 + 16 * 40 + 8)) 8)" ffff000000000000
}

@test "in a data file each cluster has the guest's place" {
	qimg create -q -f qcow2 -o data_file=data,data_file_raw=on image 64M
	qio -c 'write -P 7 0 1M' image >/dev/null
	qimg convert -O raw image want
	local table
	table=$(peek image 0x30000 8)
	equal "$table" 8000000000040000
	entry 1 8000000000020000
	entry 2 8000000000020200
	entry 3 4000000000020000
	entry 4 0000000000040000
	mended
}
