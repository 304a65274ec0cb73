#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Backing chains: images of different lengths and kinds on top of each other
# read the same with both, and what qio writes on top is what the reference
# writes.

load helpers
load diff

# chain LENGTH CLUSTER OPTIONS: base.raw, 1.qcow2 .. LENGTH.qcow2
chain() {
	local i below=base.raw format=raw size
	size=$(image_size "$2")
	pattern_file base.raw $((size * 2 / 3 / 512 * 512)) "$1"
	for ((i = 1; i <= $1; i++)); do
		# shorter and longer in turn, the last one the longest
		[ $((i % 2)) = 0 ] && [ "$i" != "$1" ] && size=$((size * 4 / 5 / 512 * 512)) || size=$(image_size "$2")
		qemu-img create -q -f qcow2 -o "$3" -b $below -F $format $i.qcow2 "$size"
		commands write $(($1 * 100 + i)) "$size" "$2" 12 packed-first >list
		qemu_run $i.qcow2 list
		below=$i.qcow2 format=qcow2
	done
}

chains() {
	local kind=$1 cluster=$2 length size
	need qemu-img qemu-io
	size=$(image_size "$cluster")
	for length in 1 2 3 12; do
		echo "length: $length" >&2
		rm -f ./*.qcow2 ./*.raw
		chain $length "$cluster" "$kind"
		commands read $length "$size" "$cluster" 20 >reads
		commands write $((length + 500)) "$size" "$cluster" 40 packed >list
		reads_same $length.qcow2
		same_dumps $length.qcow2 reads
		cp $length.qcow2 top.qcow2
		hash base.raw >before
		[ $length = 1 ] || hash $((length - 1)).qcow2 >>before
		qio_run $length.qcow2 list
		qemu_plain top.qcow2 list
		is_clean $length.qcow2
		same qcow2 $length.qcow2 qcow2 top.qcow2
		reads_same $length.qcow2
		hash base.raw >after
		[ $length = 1 ] || hash $((length - 1)).qcow2 >>after
		cmp before after
	done
}

@test "chains of version 2, 4K" { chains compat=0.10,cluster_size=4096 4096; }
@test "chains of version 3, 512" { chains compat=1.1,cluster_size=512 512; }
@test "chains of version 3, 64K, zstd" { chains compat=1.1,compression_type=zstd 65536; }
@test "chains with extended L2" { chains extended_l2=on,cluster_size=16K 16384; }
@test "chains with extended L2, 128K" { chains extended_l2=on,cluster_size=128K 131072; }
