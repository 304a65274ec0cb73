#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# `qimg info` as a command: its text is that of qemu-img 7.2, line for line, and
# its JSON document has the same keys and values, and `children`.

load helpers

# alike ARGS...: both print the same text
alike() {
	local status=0
	qemu-img info "$@" >theirs 2>theirs.err || fail "qemu-img info $*: $(cat theirs.err)" || return
	qimg info "$@" >ours 2>ours.err || status=$?
	equal "$status" 0 "status of info $* ($(cat ours.err))" || return
	diff theirs ours || fail "info $*" || return
	qemu-img info --output=json "$@" >theirs
	qimg info --output=json "$@" >ours
	python3 - <<-'PY' || fail "info --output=json $*"
	import json
	a = json.load(open("theirs")); b = json.load(open("ours"))
	for d in b if isinstance(b, list) else [b]:
	    if not isinstance(d.pop("children"), list):
	        raise SystemExit("children is no list")
	if a != b:
	    raise SystemExit("%s\nis not\n%s" % (json.dumps(b, indent=1, sort_keys=True), json.dumps(a, indent=1, sort_keys=True)))
	PY
}

@test "plain images" {
	need qemu-img python3
	qemu-img create -q -f qcow2 a 5M
	qemu-img create -q -f qcow2 -o compat=0.10 b 1G
	qemu-img create -q -f qcow2 -o cluster_size=4k,lazy_refcounts=on,refcount_bits=1 c 1T
	qemu-img create -q -f qcow2 -o compression_type=zstd,extended_l2=on d 100k
	truncate -s 1M e
	printf x >f
	: >g
	for f in a b c d e f g; do
		alike $f
		alike -U $f
	done
	alike -f raw a
	alike ./a
	alike file:a
}

@test "backing files" {
	need qemu-img python3
	mkdir sub
	qemu-img create -q -f qcow2 base 5M
	qemu-img create -q -f qcow2 -b base -F qcow2 top
	qemu-img create -q -f qcow2 -b ../base -F qcow2 sub/top
	qemu-img create -q -f qcow2 -b "$PWD/base" -F qcow2 absolute
	qemu-img create -q -f qcow2 -u -b missing -F raw orphan 1M
	qemu-img create -q -f qcow2 -b top -F qcow2 top2 10M
	qemu-img create -q -f qcow2 -o compat=0.10 -b base -F qcow2 old
	for f in top sub/top absolute orphan top2 old; do
		alike $f
	done
	cd sub
	alike ../top2
	alike top
}

@test "chains, image by image" {
	need qemu-img python3
	mkdir sub
	qemu-img create -q -f raw base 5M
	qemu-img create -q -f qcow2 -b ../base -F raw sub/middle
	qemu-img create -q -f qcow2 -b sub/middle -F qcow2 top
	alike --backing-chain base
	alike --backing-chain sub/middle
	alike --backing-chain top
	equal "$(qimg info --backing-chain top | grep -c '^image: ')" 3
	equal "$(qimg info --backing-chain top | grep -c '^$')" 2
}

@test "a chain that is broken or comes back is an error" {
	need qemu-img
	qemu-img create -q -f qcow2 -u -b missing -F raw orphan 1M
	qimg info orphan >out
	fails qimg info --backing-chain orphan
	says missing
	qemu-img create -q -f qcow2 -u -b two -F qcow2 one 1M
	qemu-img create -q -f qcow2 -u -b one -F qcow2 two 1M
	qimg info one >out
	fails timeout 10 "$QIMG" info --backing-chain one
	says one
	says two
	equal "$(cat "$BATS_TEST_TMPDIR/stdout")" ''
}

@test "snapshots, with all widths of their columns" {
	need qemu-img python3
	qemu-img create -q -f qcow2 a 5M
	for tag in a 1234567890123456 12345678901234567 a-very-long-tag-indeed 'with blank' ''; do
		qemu-img snapshot -c "$tag" a
	done
	python3 - <<-'PY'
	import struct
	f = open("a", "r+b")
	d = f.read()
	p = struct.unpack(">Q", d[64:72])[0]
	clock = [0, 12345678901234, 3600 * 10**9 * 25 + 7 * 10**6, 3600 * 10**9 * 1234, 59 * 10**9, 1]
	size = [0, 123456, 999 * 1024, 5 << 30, 1023488, 100]
	icount = [2**64 - 1, 0, 7, 12345678901234, 2**64 - 1, 5]
	for i in range(6):
	    id_len, name_len = struct.unpack(">HH", d[p + 12:p + 16])
	    extra, = struct.unpack(">I", d[p + 36:p + 40])
	    f.seek(p + 16)
	    f.write(struct.pack(">IIQI", 1700000000 + i * 10**7, i, clock[i], min(size[i], 2**32 - 1)))
	    f.seek(p + 40)
	    f.write(struct.pack(">Q", size[i]))
	    f.seek(p + 56)
	    f.write(struct.pack(">Q", icount[i]))
	    p += (40 + extra + id_len + name_len + 7) // 8 * 8
	PY
	alike a
	TZ=America/New_York alike a
	TZ=Asia/Kolkata alike a
}

@test "bitmaps, data files, encryption, dirty and corrupt images" {
	need qemu-img qemu-io python3
	qemu-img create -q -f qcow2 bitmaps 5M
	qemu-img bitmap --add bitmaps b0
	qemu-img bitmap --add --disable -g 1M bitmaps b1
	alike bitmaps
	qemu-img create -q -f qcow2 -o data_file=data data-image 5M
	alike data-image
	qemu-img create -q -f qcow2 -o data_file=data2,data_file_raw=on data-raw 5M
	alike data-raw
	# It measures the processor first, which fails on a busy one.
	for _ in 1 2 3 4 5 6; do
		! qemu-img create -q -f qcow2 --object secret,id=s,data=x \
			-o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=100 luks 1M || break
	done
	alike luks
	qemu-img create -q -f qcow2 --object secret,id=s,data=x -o encrypt.format=aes,encrypt.key-secret=s aes 1M 2>err
	alike aes
	qemu-img create -q -f qcow2 -o lazy_refcounts=on dirty 5M
	qemu-io -f qcow2 -c 'write 0 64k' -c abort dirty >out 2>&1 || true
	qemu-img info dirty | grep -q '^cleanly shut down: no$'
	alike dirty
	qemu-img create -q -f qcow2 corrupt 1M
	poke corrupt 72 0000000000000002
	qemu-img info corrupt | grep -q 'corrupt: true'
	alike corrupt
}

@test "sizes are written as the reference writes them" {
	need qemu-img
	: >sizes
	for n in 0 512 1024 1536 511488 512000 1022976 1023488 1024000 1048576 1073741824 10737418240 \
		1072693248 1047527424 1099511627776 1125899906842624 104857600 15728640 999999488; do
		echo "$n" >>sizes
	done
	# A sparse file shows any of them.
	while read -r n; do
		truncate -s "$n" x 2>/dev/null || continue
		qemu-img info -f raw x | grep '^virtual size' >>theirs
		qimg info -f raw x | grep '^virtual size' >>ours
	done <sizes
	[ "$(wc -l <theirs)" -ge 15 ]
	diff theirs ours
	grep -q '1e+03 KiB' ours
	grep -q '0.977 MiB' ours
}

@test "--image-opts" {
	need qemu-img python3
	qemu-img create -q -f qcow2 a 5M
	qemu-img create -q -f qcow2 -b a -F qcow2 b,c
	alike --image-opts driver=qcow2,file.filename=a
	alike --image-opts driver=qcow2,file.driver=file,file.filename=a,l2-cache-size=1M
	alike --image-opts file.filename=a
	alike --image-opts driver=qcow2,file.filename=b,,c
	alike --backing-chain --image-opts driver=qcow2,file.filename=b,,c
	fails qimg info --image-opts -f qcow2 file.filename=a
	says 'mutually exclusive'
	fails qimg info --image-opts driver=qcow2
	fails qimg info --image-opts driver=qcow2,file.filename=a,nosuch=1
	says nosuch
	fails qimg info --image-opts driver=nosuch,file.filename=a
	says nosuch
	fails qimg info --image-opts a
}

@test "json: names" {
	need qemu-img python3
	qemu-img create -q -f qcow2 a 5M
	alike 'json:{"driver":"qcow2","file":{"driver":"file","filename":"a"}}'
	fails qimg info 'json:{"driver":"qcow2"'
}

@test "errors name the image and the reason" {
	fails qimg info missing
	says "qimg: Could not open 'missing'"
	says 'No such file or directory'
	lacks "$(cat "$BATS_TEST_TMPDIR/stderr")" "'missing': Could not open"
	mkdir folder
	fails qimg info folder
	says "'folder'"
	echo 'not an image' >text
	fails qimg info -f qcow2 text
	says "qimg: Could not open 'text': "
	fails qimg info -f nosuch text
	says nosuch
	fails qimg info ''
}

@test "what is no disk image is not waited for" {
	need mkfifo
	mkfifo pipe
	fails timeout 10 "$QIMG" info pipe
	says pipe
	fails timeout 10 "$QIMG" info -f raw pipe
}

@test "names in any bytes make a sound JSON document" {
	need qemu-img python3
	local name=$'quote" back\\slash tab\t new\nline \xff\xfe umlaut \xc3\xa4'
	qemu-img create -q -f qcow2 -u -b "$name" -F raw a 1M
	qimg info --output=json a >out
	python3 - "$name" <<-'PY'
	import json, sys
	d = json.loads(open("out", "rb").read().decode("utf-8"))
	name = d["backing-filename"]
	assert name.startswith('quote" back\\slash tab\t new\nline '), name
	assert name.endswith(" umlaut \u00e4"), name
	PY
}
