#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# A backing chain that comes back to itself is found at once, under whatever
# name, and the error has both names. A chain is at most 1,000 images deep.

load helpers

# links COUNT: l0000.qcow2 ... each on the one before
links() {
	python3 - "$1" <<'END'
import struct, sys
count = int(sys.argv[1])
img = bytearray(open("link.qcow2", "rb").read())
at = struct.unpack(">Q", img[8:16])[0]
for i in range(1, count):
    img[at:at + 11] = b"l%04d.qcow2" % (i - 1)
    open("l%04d.qcow2" % i, "wb").write(img)
END
}

chain_of() { # COUNT
	qimg create -q -f qcow2 -o cluster_size=512 l0000.qcow2 64k
	qimg create -q -u -f qcow2 -o cluster_size=512 -b l0000.qcow2 -F qcow2 link.qcow2 64k
	links "$1"
}

on() { # NAME BACKING
	qimg create -q -u -f qcow2 -b "$2" -F qcow2 "$1" 1M
}

# loops IMAGE NAME NAME: all that follow the chain say so
loops() {
	local command
	for command in "info --backing-chain $1" "convert -O raw $1 out.raw"; do
		# shellcheck disable=SC2086 # words
		run timeout 5 "$QIMG" $command
		equal "$status" 1 "status of $command"
		contains "$output" loops
		contains "$output" "'$2'"
		contains "$output" "'$3'"
		[ ! -e out.raw ]
	done
	run timeout 5 "$QIO" -r -c 'read 0 512' "$1"
	[ "$status" -ne 0 ]
	contains "$output" loops
	run timeout 5 "$QIO" -c 'write 0 512' "$1"
	[ "$status" -ne 0 ]
	contains "$output" loops
}

@test 'an image on itself' {
	on b.qcow2 a.qcow2
	mv b.qcow2 a.qcow2
	loops a.qcow2 a.qcow2 a.qcow2
	qimg info a.qcow2 | grep -q '^backing file: a.qcow2'
}

@test 'two and three images on each other' {
	on a.qcow2 b.qcow2
	on b.qcow2 a.qcow2
	loops a.qcow2 b.qcow2 a.qcow2
	on b.qcow2 c.qcow2
	on c.qcow2 b.qcow2
	loops a.qcow2 b.qcow2 c.qcow2
}

@test 'through symbolic and hard links and other folders' {
	mkdir d
	on a.qcow2 d/b.qcow2
	on d/b.qcow2 ../s.qcow2
	ln -s a.qcow2 s.qcow2
	loops a.qcow2 a.qcow2 d/../s.qcow2
	rm s.qcow2
	ln a.qcow2 s.qcow2
	loops a.qcow2 a.qcow2 d/../s.qcow2
}

@test 'creating over a chain that holds the target is refused' {
	qimg create -q -f qcow2 a.qcow2 1M
	qimg create -q -f qcow2 -b a.qcow2 -F qcow2 b.qcow2
	qimg create -q -f qcow2 -b b.qcow2 -F qcow2 c.qcow2
	before=$(hash a.qcow2)
	run qimg create -f qcow2 -b c.qcow2 -F qcow2 a.qcow2
	equal "$status" 1
	contains "$output" a.qcow2
	run qimg create -f qcow2 -b a.qcow2 -F qcow2 ./a.qcow2
	equal "$status" 1
	run qimg create -u -f qcow2 -b ./a.qcow2 -F qcow2 a.qcow2 1M
	equal "$status" 1
	run qimg create -u -f qcow2 -b a.qcow2 -F qcow2 a.qcow2 1M
	equal "$status" 1
	equal "$(hash a.qcow2)" "$before"
}

@test 'a thousand images are read, one more is refused' {
	need_no_sanitizer
	[ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge 1100 ] || skip 'too few file descriptors'
	chain_of 1001
	qio -f qcow2 -c 'write -P 7 0 64k' l0000.qcow2
	(ulimit -Sn 64 && qimg convert -O raw l0999.qcow2 out.raw)
	qio -r -f raw -c 'read -P 7 0 64k' out.raw
	rm out.raw
	run qimg convert -O raw l1000.qcow2 out.raw
	equal "$status" 1
	contains "$output" 'deeper than 1000'
	[ ! -e out.raw ]
	equal "$(qimg info --backing-chain l0999.qcow2 | grep -c '^image:')" 1000
	run qimg info --backing-chain l1000.qcow2
	equal "$status" 1
	contains "$output" 'deeper than 1000'
}

@test 'two hundred images need few file descriptors for info' {
	chain_of 200
	(ulimit -n 20 && qimg info --backing-chain --output=json l0199.qcow2) >chain.json
	equal "$(json chain.json 'len(d)')" 200
	equal "$(json chain.json 'd[0]["filename"]')" l0199.qcow2
	equal "$(json chain.json 'd[199]["filename"]')" l0000.qcow2
}
