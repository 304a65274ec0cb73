#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# `qimg info --cache`: how much cache an image needs and gets, what that covers,
# and options that are good for a virtual machine.

load helpers

# keys ARGS... : WORD... checks "KEY=VALUE" words against the JSON document
keys() {
	local args=()
	need python3
	while [ "$1" != : ]; do args+=("$1"); shift; done
	shift
	qimg info --cache --output=json "${args[@]}" >keys.json || return
	python3 - "$@" <<-'PY' || fail "info --cache ${args[*]}"
	import json, sys
	d = json.load(open("keys.json"))
	for word in sys.argv[1:]:
	    key, value = word.split("=", 1)
	    got = d[key] if isinstance(d[key], str) else json.dumps(d[key])
	    if got != value:
	        sys.exit("%s is %s and not %s" % (key, got, value))
	PY
}

@test "an image whose last table is used in part" {
	qimg create -q -f qcow2 a 1280M
	keys a : filename=a format=qcow2 virtual-size=1342177280 cluster-size=65536 l2-entry-size=8 \
		l2-tables=3 l2-table-cover=536870912 l2-cache-full=196608 l2-cache-size=196608 \
		l2-cache-entry-size=65536 l2-cache-cover=1342177280 refcount-bits=16 refcount-cache-size=262144 \
		refcount-cache-cover=8589934592 cache-clean-interval=600 rounding-matters=true \
		l2-cache-shared=true metadata-cache=true recommendation=l2-cache-size=196608
	qimg info --cache a >out
	for line in 'image: a' 'L2 tables: 3, each maps 512 MiB of the disk' \
		'L2 cache for the whole disk: 192 KiB (196608 bytes)' \
		'L2 cache: 192 KiB (196608 bytes), 3 entries of 65536' 'L2 cache covers: the whole disk' \
		'unused entries are dropped after: 600 s' \
		'    -drive file=a,format=qcow2,l2-cache-size=196608'; do
		grep -qxF "$line" out || fail "$line: $(cat out)"
	done
	grep -q 'no multiple of 512 MiB' out
	grep -q 'QEMU 3.1 to 4.1' out
}

@test "rounding does not matter for multiples and for two tables" {
	for size in 512M 1G 1536M 768M; do
		qimg create -q -f qcow2 a $size
		keys a : rounding-matters=false
		lacks "$(qimg info --cache a)" 'QEMU 3.1 to 4.1'
	done
	lacks "$(qimg create -q -f qcow2 a 1536M; qimg info --cache a)" 'no multiple'
	contains "$(qimg create -q -f qcow2 a 768M; qimg info --cache a)" 'no multiple'
	qimg create -q -f qcow2 a 1025M
	keys a : rounding-matters=true l2-tables=3
}

@test "the multiples for all sizes of clusters" {
	local c multiple=$((2 << 20))
	for c in 4 8 16 32 64 128 256 512 1024 2048; do
		qimg create -q -f qcow2 -o cluster_size=${c}k a 1G
		keys a : l2-table-cover=$multiple
		if [ $c -ge 16 ]; then
			qimg create -q -f qcow2 -o cluster_size=${c}k,extended_l2=on a 1G
			keys a : l2-table-cover=$((multiple / 2)) l2-entry-size=16
		fi
		multiple=$((multiple * 4))
	done
}

@test "a disk that needs more than the default" {
	qimg create -q -f qcow2 a 1T
	keys a : l2-tables=2048 l2-cache-full=134217728 l2-cache-size=33554432 l2-cache-entry-size=4096 \
		l2-cache-cover=274877906944 recommendation=l2-cache-size=134217728
	qimg info --cache a >out
	grep -qxF 'L2 cache covers: 256 GiB (274877906944 bytes), 25.0% of the disk' out
	lacks "$(cat out)" 'without an option'
	# The figures of the thread: 1 MiB covers 8 GiB.
	keys --image-opts driver=qcow2,file.filename=a,l2-cache-size=1M : l2-cache-size=1048576 \
		l2-cache-cover=8589934592 l2-cache-shared=false
	keys --image-opts driver=qcow2,file.filename=a,cache-rule=2015,cache-size=2621440 : \
		l2-cache-size=2097152 refcount-cache-size=524288 l2-cache-entry-size=65536 cache-clean-interval=0
	keys --image-opts driver=qcow2,file.filename=a,l2-cache-size=1G,l2-cache-entry-size=8k : \
		l2-cache-size=134217728 l2-cache-entry-size=8192 l2-cache-cover=1099511627776
	keys --image-opts driver=qcow2,file.filename=a,l2-cache-file=/nowhere/x,l2-cache-file-size=10M : \
		l2-cache-size=1048576 l2-cache-file=/nowhere/x l2-cache-file-size=10485760 l2-cache-file-direct=true
	keys --image-opts driver=qcow2,file.filename=a,metadata-cache=off : metadata-cache=false \
		l2-cache-size=0 l2-cache-cover=0
	contains "$(qimg info --cache --image-opts driver=qcow2,file.filename=a,metadata-cache=off)" 'L2 cache: off'
	# Almost all is not all.
	contains "$(qimg info --cache --image-opts driver=qcow2,file.filename=a,l2-cache-size=134213632)" '99.9% of'
	fails qimg info --cache --image-opts driver=qcow2,file.filename=a,cache-size=1M,l2-cache-size=2M
	says 2097152
}

@test "the recommendation is taken by the reference, and does what it says" {
	need qemu-io qemu-img strace
	need_plain
	local options
	qemu-img create -q -f qcow2 -o preallocation=metadata,cluster_size=4k a 80M
	qemu-img create -q -f qcow2 -o cluster_size=4k -b a -F qcow2 top 80M
	options=$(qimg info --cache --backing-chain top | sed -n '/^Recommended/{n;s/^ *//p}')
	equal "$options" l2-cache-size=163840,backing.l2-cache-size=163840
	qemu-io -r --image-opts -c 'read 79M 1' "driver=qcow2,file.filename=top,$options"
	# 80M in clusters of 4K need 40 tables: one less, and the first has left when it is read again.
	reread() {
		local i words=()
		for ((i = 0; i < 40; i++)); do words+=(-c "read $((i * 2))M 1"); done
		strace -f -o log -e trace=pread64,preadv "$1" -r --image-opts "${words[@]}" "${words[@]}" \
			"driver=qcow2,file.filename=a,$2" >out
		grep -c 'pread.*, 4096, .* = 4096' log
	}
	options=$(qimg info --cache --output=json a | json - 'd["recommendation"]')
	[ "$(reread qemu-io "$options")" -lt 50 ]
	[ "$(reread "$QIO" "$options")" -lt 50 ]
	[ "$(reread qemu-io l2-cache-size=159744)" -ge 80 ]
}

@test "a chain" {
	qimg create -q -f qcow2 'base,1' 1280M
	qimg create -q -f qcow2 -b base,1 -F qcow2 mid
	qimg create -q -f qcow2 -b mid -F qcow2 -o cluster_size=128k top 300G
	qimg info --cache --backing-chain --output=json top >c.json
	equal "$(json c.json '[i["filename"] for i in d]')" '["top", "mid", "base,1"]'
	equal "$(json c.json '",".join(i["recommendation"] for i in d)')" \
		l2-cache-size=19660800,backing.l2-cache-size=196608,backing.backing.l2-cache-size=196608
	qimg info --cache --backing-chain top >out
	equal "$(grep -c '^image: ' out)" 3
	grep -qxF 'L2 caches of the chain: 19.1 MiB (20054016 bytes) for everything' out
	grep -qF -- '-drive file=top,format=qcow2,l2-cache-size=19660800,backing.l2-cache-size=196608,backing.backing.' out
	lacks "$(cat out)" -blockdev
	# One for each image, and a name with a comma.
	qimg info --cache 'base,1' >out
	grep -qF -- '-drive file=base,,1,format=qcow2,l2-cache-size=196608' out
	grep -qF -- '-blockdev driver=qcow2,node-name=disk,file.driver=file,file.filename=base,,1,l2-cache-size=196608' out
	# What is given for one is its own.
	qimg info --cache --backing-chain --output=json --image-opts \
		driver=qcow2,file.filename=top,backing.l2-cache-size=128k,backing.backing.cache-clean-interval=7 >c.json
	equal "$(json c.json '[i["l2-cache-size"] for i in d]')" '[19660800, 131072, 196608]'
	equal "$(json c.json '[i["l2-cache-shared"] for i in d]')" '[true, false, true]'
	equal "$(json c.json '[i["cache-clean-interval"] for i in d]')" '[600, 600, 7]'
	# Chains of large images share what there is without options.
	qimg create -q -f qcow2 large1 1T
	qimg create -q -f qcow2 -b large1 -F qcow2 large2
	qimg info --cache --backing-chain large2 >out
	grep -qxF 'L2 caches as opened: 32 MiB (33554432 bytes) at most' out
	rm mid
	fails qimg info --cache --backing-chain top
	says mid
	qimg info --cache top >out
}

@test "images with snapshots need their refcounts" {
	need qemu-img
	qemu-img create -q -f qcow2 -o cluster_size=512,refcount_bits=64 a 8M
	qio -c 'write 0 4M' a >out
	keys a : recommendation=l2-cache-size=131072 refcount-bits=64
	qemu-img snapshot -c s a
	keys a : refcount-cache-size=2048 refcount-cache-cover=131072
	contains "$(json keys.json 'd["recommendation"]')" l2-cache-size=131072,refcount-cache-size=
	# What is recommended covers the file.
	keys --image-opts "driver=qcow2,file.filename=a,$(json keys.json 'd["recommendation"]')" :
	[ "$(json keys.json 'd["refcount-cache-cover"] >= d["file-length"]')" = true ]
	contains "$(qimg info --cache --image-opts "driver=qcow2,file.filename=a,$(json keys.json 'd["recommendation"]')")" \
		'refcount cache covers: the whole file'
}

@test "raw images, bad images, locks" {
	truncate -s 1M r
	keys r : filename=r format=raw virtual-size=1048576
	equal "$(json keys.json 'len(d)')" 3
	contains "$(qimg info --cache r)" 'No caches'
	lacks "$(qimg info --cache r)" Recommended
	qimg create -q -f qcow2 -b r -F raw top
	qimg info --cache --backing-chain top >out
	contains "$(cat out)" 'No caches'
	contains "$(cat out)" Recommended
	head -c 100 /dev/urandom >bad
	fails qimg info --cache -f qcow2 bad
	fails qimg info --cache nowhere
	qimg create -q -f qcow2 empty 0
	keys empty : l2-tables=0 l2-cache-full=0 l2-cache-cover=0 recommendation=l2-cache-size=65536
	# Nothing is changed by it.
	before=$(stat -c '%i %s %y' top; sha256sum top)
	qimg info --cache -U top >out
	equal "$(stat -c '%i %s %y' top; sha256sum top)" "$before"
}
