#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Reading the snapshot table: unknown extra data, old entries without any, and
# tables that are broken.

load helpers

# image: two snapshots, of 1M of pattern 1 and of 2M of pattern 2; table at $table
image() {
	need qemu-img qemu-io
	qimg create -q -f qcow2 image 4M
	qio -c 'write -P 1 0 1M' image >/dev/null
	qemu-img snapshot -c first image
	qio -c 'write -P 2 0 2M' image >/dev/null
	qemu-img snapshot -c second image
	qio -c 'write -P 3 0 4M' image >/dev/null
	table=$((0x$(peek image 64 8)))
}

# entry OFFSET: bytes of one entry, rounded up
entry() {
	local extra id name
	extra=$((0x$(peek image $(($1 + 36)) 4)))
	id=$((0x$(peek image $(($1 + 12)) 2)))
	name=$((0x$(peek image $(($1 + 14)) 2)))
	echo $(((40 + extra + id + name + 7) / 8 * 8))
}

reads() { # SNAPSHOT PATTERN LENGTH
	rm -f out
	qimg convert -l "$1" -O raw image out
	qio -r -f raw -c "read -P $2 0 $3" out >/dev/null
}

@test "content of snapshots" {
	image
	reads first 1 1M
	reads second 2 2M
	reads 1 1 1M
	reads snapshot.name=second 2 2M
	reads snapshot.id=2,snapshot.name=second 2 2M
	fails qimg convert -l snapshot.id=1,snapshot.name=second -O raw image out2
	says second
	fails qimg convert -l third -O raw image out2
	says third
}

@test "entries without and with unknown extra data" {
	need python3
	image
	# first: no extra data at all; second: 40 bytes of it
	python3 - "$table" <<-'PY'
	import struct, sys
	at = int(sys.argv[1])
	f = open("image", "r+b")
	f.seek(at)
	data = f.read(65536)
	def parse(p):
	    idl, namel = struct.unpack(">HH", data[p+12:p+16])
	    extra, = struct.unpack(">I", data[p+36:p+40])
	    head = data[p:p+36]
	    x = data[p+40:p+40+extra]
	    rest = data[p+40+extra:p+40+extra+idl+namel]
	    return head, x, rest, p + (40 + extra + idl + namel + 7) // 8 * 8
	h1, x1, r1, p = parse(0)
	h2, x2, r2, p = parse(p)
	def make(h, x, r):
	    b = h + struct.pack(">I", len(x)) + x + r
	    return b + bytes(-len(b) % 8)
	f.seek(at)
	f.write((make(h1, b"", r1) + make(h2, x2[:24] + b"unknown extra..!", r2)).ljust(4096, b"\0"))
	PY
	equal "$(qimg info --output=json image | json - '[s["name"] for s in d["snapshots"]]')" '["first", "second"]'
	equal "$(qimg info --output=json image | json - '"icount" in d["snapshots"][0]')" false
	reads first 1 1M
	reads second 2 2M
}

@test "a snapshot at another size" {
	image
	qemu-img resize -q image 8M
	qimg convert -l first -O raw image out
	equal "$(stat -c %s out)" 4194304
	qimg convert -O raw image out2
	equal "$(stat -c %s out2)" 8388608
}

@test "one broken snapshot does not hide the others" {
	need python3
	image
	poke image "$table" 0000000000000001
	qimg info image >/dev/null
	reads second 2 2M
	fails qimg convert -l first -O raw image out2
	says '0x1'
	poke image "$table" 0000010000000000
	fails qimg convert -l first -O raw image out2
	says '0x10000000000'
	poke image $((table + 8)) 7fffffff
	fails qimg convert -l first -O raw image out2
	says 2147483647
	poke image $((table + 8)) 00000000
	fails qimg convert -l first -O raw image out2
	says 'too small'
	reads second 2 2M
	qimg convert -O raw image out2
}

@test "a table that makes no sense" {
	need python3
	image
	poke image $((table + 36)) 7fffffff
	fails qimg info image
	says 'snapshot table'
	qimg convert -O raw image out
	poke image $((table + 36)) 03ffff00
	fails qimg info image
	poke image $((table + 36)) 00000018
	qimg info image >/dev/null
	# more of them than there are: the rest of the cluster is taken for empty entries
	poke image 60 00010000
	truncate -s 20M image
	poke image 64 0000000000f00000
	qimg info image >/dev/null
	poke image 60 00010001
	fails qimg info image
	says 65537
}
