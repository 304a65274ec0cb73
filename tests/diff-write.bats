#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Images that qimg and qio make and write: the reference finds no fault and no
# leak in them and the content that it gets itself from the same commands.

load helpers
load diff

# written CLUSTER: every kind of image with that cluster size
written() {
	local kind seed=$1 size
	need qemu-img qemu-io
	size=$(image_size "$1")
	while read -r kind; do
		echo "kind: $kind" >&2
		rm -f ./*.qcow2
		seed=$((seed + 1))
		commands write "$seed" "$size" "$1" 40 packed >list1
		commands write $((seed + 1000)) "$size" "$1" 25 packed >list2
		qimg create -q -f qcow2 -o "$kind" a.qcow2 "$size"
		qemu-img create -q -f qcow2 -o "$kind" b.qcow2 "$size"
		qio_run a.qcow2 list1
		is_clean a.qcow2
		qemu_plain b.qcow2 list1
		same qcow2 a.qcow2 qcow2 b.qcow2
		# Each goes on with what the other made.
		qio_run b.qcow2 list2
		is_clean b.qcow2
		qemu_plain a.qcow2 list2
		is_clean a.qcow2
		same qcow2 a.qcow2 qcow2 b.qcow2
	done < <(kinds "$1")
}

@test "clusters of 512 bytes: images written by qio are clean and equal" { written 512; }
@test "clusters of 4K: images written by qio are clean and equal" { written 4096; }
@test "clusters of 64K: images written by qio are clean and equal" { written 65536; }
@test "clusters of 128K: images written by qio are clean and equal" { written 131072; }
@test "clusters of 2M: images written by qio are clean and equal" { written 2097152; }
