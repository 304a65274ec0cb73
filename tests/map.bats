#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# `qimg map` as a command: its forms, ranges, and what it cannot tell. diff-map
# compares it with the reference.

load helpers

# A disk of 1M: 64K of data, 64K of zeros, compressed 64K at 512K.
small_image() {
	qimg create -q -f qcow2 a.qcow2 1M
	qio -f qcow2 -c "write -P 1 0 64k" -c "write -P 3 64k 64k" -c "write -z 64k 64k" -c "write -c -P 2 512k 64k" a.qcow2 >/dev/null
}

@test "JSON: one run a line, keys in order" {
	small_image
	qimg map --output=json a.qcow2 >out
	diff - out <<-'X'
	[{ "start": 0, "length": 65536, "depth": 0, "present": true, "zero": false, "data": true, "compressed": false, "offset": 327680},
	{ "start": 65536, "length": 65536, "depth": 0, "present": true, "zero": true, "data": false, "compressed": false, "offset": 393216},
	{ "start": 131072, "length": 393216, "depth": 0, "present": false, "zero": true, "data": false, "compressed": false},
	{ "start": 524288, "length": 65536, "depth": 0, "present": true, "zero": false, "data": true, "compressed": true},
	{ "start": 589824, "length": 458752, "depth": 0, "present": false, "zero": true, "data": false, "compressed": false}]
	X
}

@test "CSV: a header, then a line for each run" {
	small_image
	qimg create -q -f qcow2 -b a.qcow2 -F qcow2 'b,"1".qcow2'
	qio -f qcow2 -c "write -P 1 128k 64k" 'b,"1".qcow2' >/dev/null
	qimg map --output=csv 'b,"1".qcow2' >out
	diff - out <<-'X'
	start,length,depth,present,zero,data,compressed,offset,file
	0,65536,1,1,0,1,0,327680,a.qcow2
	65536,65536,1,1,1,0,0,393216,a.qcow2
	131072,65536,0,1,0,1,0,327680,"b,""1"".qcow2"
	196608,327680,1,0,1,0,0,,
	524288,65536,1,1,0,1,1,,
	589824,458752,1,0,1,0,0,,
	X
}

@test "text: what has data in a file" {
	small_image
	qimg map -l 512k a.qcow2 >out
	diff - out <<-'X'
	Offset          Length          Mapped to       File
	0               0x10000         0x50000         a.qcow2
	X
}

@test "text ends with an error where bytes are in no file as they are" {
	small_image
	status=0
	qimg map a.qcow2 >out 2>err || status=$?
	equal "$status" 1 status
	equal "$(wc -l <out)" 2 "lines printed before"
	grep -q "compressed clusters, at 0x80000" err
}

@test "ranges: any start and length, clipped to the disk" {
	small_image
	equal "$(qimg map --output=json -s 65535 -l 2 a.qcow2 | tr -d '\n')" '[{ "start": 65535, "length": 1, "depth": 0, "present": true, "zero": false, "data": true, "compressed": false, "offset": 393215},{ "start": 65536, "length": 1, "depth": 0, "present": true, "zero": true, "data": false, "compressed": false, "offset": 393216}]' "two bytes"
	equal "$(qimg map --output=json --start-offset=1023k --max-length=1T a.qcow2)" '[{ "start": 1047552, "length": 1024, "depth": 0, "present": false, "zero": true, "data": false, "compressed": false}]' "clipped"
	equal "$(qimg map --output=json -s 2M a.qcow2)" '[{ "start": 2097152, "length": 0, "depth": 0, "present": false, "zero": false, "data": false, "compressed": false}]' "behind the end"
	equal "$(qimg map --output=csv -l 0 a.qcow2 | wc -l)" 1 "an empty CSV"
}

@test "what was preallocated is data that reads as zeros" {
	qimg create -q -f qcow2 -o preallocation=metadata p.qcow2 8M
	qimg map --output=json p.qcow2 >out
	equal "$(grep -c '"zero": true, "data": true' out)" "$(wc -l <out)" "runs"
	qio -f qcow2 -c "write -P 1 1M 64k" p.qcow2 >/dev/null
	qimg map p.qcow2 >out
	tail -1 out | grep -q '^0x100000  *0x10000 '
	equal "$(wc -l <out)" 2 lines
}

@test "it changes nothing, and works on files that can only be read" {
	small_image
	chmod 444 a.qcow2
	before=$(sha256sum <a.qcow2)
	qimg map --output=json a.qcow2 >/dev/null
	equal "$(sha256sum <a.qcow2)" "$before" hash
}

@test "an L2 table that cannot be read: what was found, then an error" {
	need python3
	small_image
	python3 - <<-'PY'
	import struct
	f = open("a.qcow2", "r+b")
	f.seek(40)
	l1 = struct.unpack(">Q", f.read(8))[0]
	f.seek(l1)
	f.write(struct.pack(">Q", 0x8000000000000200))
	PY
	status=0
	qimg map --output=json a.qcow2 >out 2>err || status=$?
	equal "$status" 1 status
	grep -q "0x0 of 'a.qcow2'" err
}

@test "64T, empty: one run, and little memory" {
	qimg create -q -f qcow2 h.qcow2 64T
	[ -z "$VARIANT" ] && limit="ulimit -v 200000" || limit=:
	bash -c "$limit; exec '$QIMG' map --output=json h.qcow2" >out
	equal "$(wc -l <out)" 1 lines
	grep -q '"length": 70368744177664,' out
}

# strokes SVG COLOUR: how many lines of that colour are in the picture's grid and strip
strokes() {
	python3 - "$1" "$2" <<-'PY'
	import re, sys, xml.dom.minidom
	n = 0
	for p in xml.dom.minidom.parse(sys.argv[1]).getElementsByTagName("path"):
	    if p.getAttribute("stroke") == sys.argv[2]:
	        n += len(re.findall("M", p.getAttribute("d")))
	print(n)
	PY
}

@test "--plot draws a picture, also of what the text cannot tell" {
	need python3
	small_image
	status=0
	qimg map --plot=a.svg a.qcow2 >/dev/null 2>&1 || status=$?
	equal "$status" 1 status
	# 1/16 of 368 columns has data, one row a column or less, and the strip below.
	[ "$(strokes a.svg '#0072b2')" -ge 23 ]
	[ "$(strokes a.svg '#56b4e9')" -ge 23 ]
	equal "$(strokes a.svg '#d55e00')" 0 "of a backing file"
	qimg create -q -f qcow2 -b a.qcow2 -F qcow2 b.qcow2 3M
	qimg map --output=json -s 1000 -l 2M --plot=b.svg b.qcow2 >/dev/null
	[ "$(strokes b.svg '#d55e00')" -ge 11 ]
	equal "$(strokes b.svg '#0072b2')" 0 "of the top"
	qimg map --output=json -l 0 --plot=c.svg b.qcow2 >/dev/null
	strokes c.svg x
	fails qimg map --plot=none/c.svg --output=json b.qcow2
	says none/c.svg
}
