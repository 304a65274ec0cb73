#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# `qimg map` prints what the reference prints, but for "compressed", which its
# version 7.2 has not.

load helpers
load diff

# same_map ARGS...
same_map() {
	local form theirs=0 ours=0
	for form in human json; do
		qemu-img map --output=$form "$@" >map.qemu 2>/dev/null || theirs=$?
		qimg map --output=$form "$@" >map.qimg 2>map.err || ours=$?
		equal "$ours" "$theirs" "status of map --output=$form $* ($(cat map.err))" || return
		sed -i 's/, "compressed": [a-z]*//' map.qimg
		diff map.qemu map.qimg || fail "map --output=$form $*" || return
	done
}

# same_maps FILE: all of it, and ranges of it
same_maps() {
	same_map "$@"
	same_map -s 1000 -l 300001 "$@"
	same_map -s 65536 "$@"
	same_map -s 1T "$@"
	same_map -l 0 "$@"
}

# maps CLUSTER: every kind of image with that cluster size, and one over it
maps() {
	local kind seed=$((11 * $1)) size
	need qemu-img qemu-io
	size=$(image_size "$1")
	while read -r kind; do
		echo "kind: $kind" >&2
		rm -f ./*.qcow2
		seed=$((seed + 1))
		commands write "$seed" "$size" "$1" 40 packed-first >list
		qemu-img create -q -f qcow2 -o "$kind" a.qcow2 "$size"
		qemu_run a.qcow2 list
		same_map a.qcow2
		same_map -s 1000 -l 300001 a.qcow2
		commands write "$((seed + 500))" "$size" "$1" 10 packed-first >list
		qemu-img create -q -f qcow2 -o "$kind" -b a.qcow2 -F qcow2 b.qcow2 $((size + 3 * $1))
		qemu_plain b.qcow2 list
		same_map b.qcow2
	done < <(kinds "$1")
}

@test "clusters of 512 bytes" { maps 512; }
@test "clusters of 4K" { maps 4096; }
@test "clusters of 64K" { maps 65536; }
@test "clusters of 2M" { maps 2097152; }

@test "raw files, with holes and odd sizes" {
	need qemu-img
	printf x >a.raw
	head -c 123456 /dev/urandom >b.raw
	truncate -s 10000000 b.raw
	: >c.raw
	for f in *.raw; do
		same_maps -f raw "$f"
	done
	qemu-img create -q -f qcow2 -b b.raw -F raw d.qcow2 20M
	same_maps d.qcow2
}

@test "data files, preallocated metadata, snapshots, no disk at all" {
	need qemu-img qemu-io
	qemu-img create -q -f qcow2 -o data_file=d.raw d.qcow2 10M
	qemu-io -c "write 1M 100k" -c "write -z 3M 1M" d.qcow2 >/dev/null
	same_maps d.qcow2
	qemu-img create -q -f qcow2 -o preallocation=metadata p.qcow2 10M
	same_maps p.qcow2
	qemu-img snapshot -c s p.qcow2
	qemu-io -c "write 1M 100k" p.qcow2 >/dev/null
	same_maps p.qcow2
	qemu-img create -q -f qcow2 -o extended_l2=on,preallocation=metadata e.qcow2 10M
	same_maps e.qcow2
	qemu-img create -q -f qcow2 z.qcow2 0
	same_maps z.qcow2
}
