#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# `qimg compare`: what it says, and with which status. diff-compare compares it
# with the reference.

load helpers

# says STATUS LINE ARGS...: the status, and the only line on stdout
says() {
	local want=$1 line=$2 status=0
	shift 2
	qimg compare "$@" >out 2>err || status=$?
	equal "$status" "$want" "status of compare $* ($(cat err))" || return
	equal "$(cat out)" "$line" "what compare $* prints"
}

# Random bytes in a.raw (1M), the same in a.qcow2.
two_images() {
	head -c 1M /dev/urandom >a.raw
	qimg convert -f raw -O qcow2 a.raw a.qcow2
}

# put FILE OFFSET BYTE
put() {
	printf '%b' "\\x$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

@test "the same in two formats" {
	two_images
	says 0 "Images are identical." -f raw -F qcow2 a.raw a.qcow2
	says 0 "Images are identical." -F raw a.qcow2 a.raw
	says 0 "" -q -f raw -F qcow2 a.raw a.qcow2
	says 0 "Images are identical." --image-opts driver=raw,file.filename=a.raw driver=qcow2,file.filename=a.qcow2
}

@test "one byte: the sector on stdout, the byte on stderr, wherever it is" {
	two_images
	for at in 0 511 512 71000 524288 1048575; do
		cp a.raw b.raw
		old=$(od -An -tx1 -j $at -N 1 a.raw)
		put b.raw $at "$(printf %02x $((0x${old# } ^ 1)))"
		says 1 "Content mismatch at offset $((at / 512 * 512))!" -f raw -F raw a.raw b.raw
		[ $((at % 512)) = 0 ] || grep -q " $at (" err
		says 1 "Content mismatch at offset $((at / 512 * 512))!" -f qcow2 -F raw a.qcow2 b.raw
		equal "$(qimg compare --output=json -f raw -F raw a.raw b.raw | jq '."byte-offset"')" $at "byte-offset"
	done
}

@test "a longer disk: zeros are the same, anything else is not" {
	two_images
	cp a.raw long.raw
	truncate -s 3M long.raw
	says 0 "Warning: Image size mismatch!
Images are identical." -f raw -F raw a.raw long.raw
	says 1 "Strict mode: Image size mismatch!" -s -f raw -F raw a.raw long.raw
	put long.raw 3000000 01
	says 1 "Warning: Image size mismatch!
Content mismatch at offset 2999808!" -f raw -F raw a.raw long.raw
	says 1 "Warning: Image size mismatch!
Content mismatch at offset 2999808!" -f raw -F raw long.raw a.raw
}

@test "--all lists the ranges, in sectors, joined" {
	two_images
	cp a.raw b.raw
	head -c 2048 /dev/zero | tr '\0' 'x' | dd of=b.raw bs=512 seek=10 conv=notrunc status=none
	head -c 512 /dev/zero | tr '\0' 'x' | dd of=b.raw bs=512 seek=2047 conv=notrunc status=none
	status=0
	qimg compare --all -f raw -F raw a.raw b.raw >out || status=$?
	equal $status 1 status
	diff - out <<-'X'
	Offset          Length
	0x1400          0x800
	0xffe00         0x200
	Content mismatch at offset 5120!
	X
	qimg compare --all --output=json -f raw -F raw a.raw b.raw >out || status=$?
	equal "$(jq -c '[.result, ."sizes-differ", .offset, .differences, ."differing-bytes"]' out)" \
		'["content",false,5120,[{"start":5120,"length":2048},{"start":1048064,"length":512}],2560]' JSON
	qimg compare --all --output=json -f raw -F raw a.raw a.raw >out
	equal "$(jq -c '[.result, .differences]' out)" '["identical",[]]' JSON
}

@test "status 2: wrong usage, what does not open" {
	two_images
	says 2 "" -f raw -F raw a.raw missing.raw
	says 2 "" -f qcow2 -F raw a.raw a.raw
	says 2 "" a.raw
	says 2 "" --no-such-option a.raw a.raw
	says 2 "" -T nonsense a.raw a.raw
	says 2 "" --image-opts -F raw driver=raw,file.filename=a.raw driver=raw,file.filename=a.raw
}

@test "status 4, and 3: what cannot be read, unless a difference comes before" {
	need python3
	qimg create -q -f qcow2 a.qcow2 2G
	qio -f qcow2 -c "write -P 1 0 64k" -c "write -P 1 1G 64k" a.qcow2 >/dev/null
	cp a.qcow2 b.qcow2
	python3 - <<-'PY'
	import struct
	with open("b.qcow2", "r+b") as f:
	    f.seek(40)
	    l1 = struct.unpack(">Q", f.read(8))[0]
	    f.seek(l1 + 8 * 2)          # the table of 1G
	    f.write(struct.pack(">Q", 0x8000000000000200))
	PY
	says 3 "" a.qcow2 b.qcow2
	grep -q "'b.qcow2'" err
	qio -f qcow2 -c "write -P 2 0 1k" a.qcow2 >/dev/null
	says 1 "Content mismatch at offset 0!" a.qcow2 b.qcow2
	qimg create -q -f qcow2 c.qcow2 1M
	qio -f qcow2 -c "write -c -P 1 64k 64k" c.qcow2 >/dev/null
	cp c.qcow2 d.qcow2
	put d.qcow2 $((0x50003)) ff
	put d.qcow2 $((0x50004)) ff
	status=0
	qimg compare --output=json c.qcow2 d.qcow2 >out 2>err || status=$?
	equal $status 4 "status ($(cat err))"
	equal "$(jq -r .result out)" failed result
}

@test "what both have in one place is not read" {
	two_images
	qimg create -q -f qcow2 -b a.raw -F raw o1.qcow2
	qimg create -q -f qcow2 -b a.raw -F raw o2.qcow2
	qio -f qcow2 -c "write -P 1 128k 64k" o1.qcow2 >/dev/null
	qio -f qcow2 -c "write -P 1 128k 64k" o2.qcow2 >/dev/null
	equal "$(qimg compare --output=json o1.qcow2 o2.qcow2 | jq '."compared-bytes"')" 65536 "bytes compared"
	qimg create -q -f qcow2 e1.qcow2 64T
	qimg create -q -f qcow2 e2.qcow2 64T
	equal "$(qimg compare --output=json e1.qcow2 e2.qcow2 | jq '."compared-bytes"')" 0 "bytes compared"
}
