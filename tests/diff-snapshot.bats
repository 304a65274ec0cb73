#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Images with internal snapshots of the reference: qio writes into what is
# shared, and the snapshots stay as they were.

load helpers
load diff

with_snapshots() {
	local kind seed=$((3 * $1)) size
	need qemu-img qemu-io
	size=$(image_size "$1")
	while read -r kind; do
		case $kind in *refcount_bits=1,* | *zstd*) continue ;; esac
		echo "kind: $kind" >&2
		rm -f ./*.qcow2 ./*.raw
		seed=$((seed + 1))
		for i in 1 2 3 4; do
			commands write $((seed + 1000 * i)) "$size" "$1" 25 packed >list$i
		done
		qemu-img create -q -f qcow2 -o "$kind" a.qcow2 "$size"
		qemu_plain a.qcow2 list1
		qemu-img snapshot -c one a.qcow2
		qio_run a.qcow2 list2
		qemu-img snapshot -c two a.qcow2
		cp a.qcow2 b.qcow2
		qemu-img convert -t unsafe -l one -f qcow2 -O raw a.qcow2 one.raw
		qemu-img convert -t unsafe -l two -f qcow2 -O raw a.qcow2 two.raw
		qio_run a.qcow2 list3
		qio_run a.qcow2 list4 -d ignore
		is_clean a.qcow2
		qemu_plain b.qcow2 list3
		qemu_plain b.qcow2 list4 -d ignore
		same qcow2 a.qcow2 qcow2 b.qcow2
		for name in one two; do
			qemu-img convert -t unsafe -l $name -f qcow2 -O raw a.qcow2 want.raw
			cmp $name.raw want.raw
			qimg convert -l $name -f qcow2 -O raw a.qcow2 got.raw
			cmp $name.raw got.raw
		done
		# The clusters that only the snapshot held are free again.
		qemu-img snapshot -d one a.qcow2
		is_clean a.qcow2
	done < <(kinds "$1")
}

@test "clusters of 4K: writes beside snapshots" { with_snapshots 4096; }
@test "clusters of 64K: writes beside snapshots" { with_snapshots 65536; }
@test "clusters of 2M: writes beside snapshots" { with_snapshots 2097152; }
