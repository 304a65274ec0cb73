#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# check -r: mends refcounts and COPIED bits, and never changes what is read.

load helpers

# The header, refcount table, block, L1, an L2 table, 16 clusters of data
setup() {
	helpers_setup
	need python3
	qimg create -q -f qcow2 image 64M
	qio -c 'write -P 7 0 1M' image >/dev/null
	qimg convert -O raw image want
}

# repair STATUS WHAT: with the output in out and err
repair() {
	local got=0
	qimg check -r "$2" image >out 2>err || got=$?
	[ "$got" -eq "$1" ] || fail "status $got, want $1; $(cat out err)"
	qimg convert -f qcow2 -O raw image got
	cmp want got
}

@test "leaks and corruptions, in the words that scripts know" {
	poke image $((0x20000 + 2 * 9)) 0000
	poke image $((0x20000 + 2 * 30)) 0001
	repair 0 all
	equal "$(sed -n 1,6p out)" "The following inconsistencies were found and repaired:

    1 leaked clusters
    2 corruptions

Double checking the fixed image now..."
	contains "$(cat out)" 'No errors were found on the image.'
	contains "$(cat err)" 'Repairing cluster 30 refcount=1 reference=0'
	contains "$(cat err)" 'Repairing cluster 9 refcount=0 reference=1'
	qimg check image
	is_clean image
}

@test "-r leaks mends leaks alone" {
	poke image $((0x20000 + 2 * 9)) 0000
	poke image $((0x20000 + 2 * 30)) 0001
	repair 2 leaks
	contains "$(cat out)" '    1 leaked clusters'
	contains "$(cat out)" '    0 corruptions'
	equal "$(peek image $((0x20000 + 2 * 9)) 2) $(peek image $((0x20000 + 2 * 30)) 2)" '0000 0000'
	need jq
	qimg check -r leaks --output=json image >out || true
	equal "$(jq -c '[.leaks, .corruptions, ."leaks-fixed", .result]' out)" '[0,2,0,"corrupt"]'
}

@test "a cluster that two guest clusters refer to gets its count and loses COPIED" {
	# The second entry of the L2 table refers to what the first one does
	poke image $((0x40000 + 8)) 8000000000050000
	qimg convert -f qcow2 -O raw image want
	repair 0 all
	qimg check image
	is_clean image
	# A write to one of them leaves the other alone.
	qio -c 'write -P 9 0 64k' -c 'read -P 7 64k 64k' image >out
	lacks "$(cat out)" failed
}

@test "marks: dirty goes when all is well, corrupt with all" {
	poke image 72 0000000000000003
	repair 0 leaks
	equal "$(peek image 72 8)" 0000000000000002
	poke image 72 0000000000000003
	repair 0 all
	equal "$(peek image 72 8)" 0000000000000000
	# Refcounts that are still too low: the image must not be written to.
	poke image 72 0000000000000001
	poke image $((0x20000 + 2 * 9)) 0000
	repair 2 leaks
	equal "$(peek image 72 8)" 0000000000000001
}

@test "a lost L2 table is kept, with its data" {
	need jq
	poke image 0x30000 0000000000000000
	poke image $((0x20000 + 2 * 40)) 0001
	run qimg check -r all --output=json image
	equal "$status" 3
	jq -c '.findings[] | select(.kind == "orphan")' <<<"$output" >out || true
	equal "$(peek image $((0x20000 + 2 * 40)) 2)" 0000	# a plain leak is gone
	equal "$(peek image $((0x20000 + 2 * 4)) 2)" 0001
	equal "$(peek image $((0x20000 + 2 * 20)) 2)" 0001
	poke image 0x30000 8000000000040000
	qimg convert -f qcow2 -O raw image got
	cmp want got
	qimg check image
}

@test "it needs to write, and says what it does not do" {
	run qimg check -r all -U image
	equal "$status" 1
	run qimg check -r image
	equal "$status" 1
	run qimg check -r bogus image
	equal "$status" 1
}

@test "a refcount table that is damaged is made anew, and COPIED bits stay" {
	local before
	# A reserved bit: the block behind it is not taken for one
	poke image $((0x10007)) 01
	before=$(peek image 0x40000 128)
	repair 0 all
	equal "$(peek image 0x40000 128)" "$before"
	qimg check image
	is_clean image
	# The old table and its block are free.
	equal "$(peek image 48 8)" "$(printf %016x $((0x150000)))"
}

@test "-r leaks leaves no other fault behind: a refcount of 1 comes with COPIED" {
	# As after a snapshot was deleted in part: counts of 2, no COPIED
	poke image $((0x20000 + 2 * 6)) 0002
	poke image $((0x40000 + 8)) 0000000000060000
	repair 0 leaks
	equal "$(peek image $((0x40000 + 8)) 8)" 8000000000060000
	is_clean image
}

@test "what says the same a million times takes no time" {
	# A refcount table of 128 clusters that all point to one block
	need python3
	python3 - <<-'END'
		import struct
		with open('image', 'r+b') as f:
		    f.seek(48)
		    f.write(struct.pack('>QI', 0x200000, 128))
		    f.seek(0x200000)
		    f.write(struct.pack('>Q', 0x20000) * (128 * 8192))
	END
	run timeout 20 "$QIMG" check -q image
	equal "$status" 2
}
