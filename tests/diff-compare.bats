#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# `qimg compare` prints what the reference prints, with the same status.
#
# One thing is left out on purpose: in strict mode the reference also compares
# whether a run is the last one of its disk, and so stops before the first real
# difference. The status is the same.

load helpers
load diff

# same_verdict OPTIONS... -- FILE1 FILE2
same_verdict() {
	local options=() theirs=0 ours=0
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	qemu-img compare "${options[@]}" -f "${2##*.}" -F "${3##*.}" "$2" "$3" >verdict.qemu 2>/dev/null || theirs=$?
	qimg compare "${options[@]}" -f "${2##*.}" -F "${3##*.}" "$2" "$3" >verdict.qimg 2>/dev/null || ours=$?
	equal "$ours" "$theirs" "status of compare ${options[*]} $2 $3 ($(cat verdict.qemu) / $(cat verdict.qimg))" || return
	[ "${options[*]}" = -s ] || diff verdict.qemu verdict.qimg || fail "compare $2 $3"
}

@test "every pair of many images" {
	need qemu-img qemu-io
	size=$(image_size 65536)
	seed=1
	while read -r kind; do
		seed=$((seed + 1))
		commands write $seed "$size" 65536 30 packed-first >list
		qemu-img create -q -f qcow2 -o "$kind" $seed.qcow2 $((size + seed % 3 * 65536))
		qemu_run $seed.qcow2 list
	done < <(kinds 65536 | sed -n '1p;3p;8p;12p')
	qemu-img convert -O raw 2.qcow2 2.raw
	cp 2.raw 3.raw
	printf x | dd of=3.raw bs=1 seek=500001 conv=notrunc status=none
	truncate -s 4M 4.raw
	qemu-img create -q -f qcow2 -b 2.qcow2 -F qcow2 o.qcow2
	qemu-img create -q -f qcow2 -o preallocation=metadata p.qcow2 "$size"
	qemu-img create -q -f qcow2 z.qcow2 0
	for a in *.qcow2 *.raw; do
		for b in *.qcow2 *.raw; do
			same_verdict -- "$a" "$b"
			same_verdict -s -- "$a" "$b"
		done
	done
}
