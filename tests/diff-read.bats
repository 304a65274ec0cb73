#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Images that the reference writes read the same with qimg and qio.

load helpers
load diff

# read_back CLUSTER: every kind of image with that cluster size
read_back() {
	local kind seed=$((7 * $1)) size
	need qemu-img qemu-io
	size=$(image_size "$1")
	while read -r kind; do
		echo "kind: $kind" >&2
		rm -f ./*.qcow2
		seed=$((seed + 1))
		commands write "$seed" "$size" "$1" 60 packed-first >list
		commands read "$seed" "$size" "$1" 30 >reads
		qemu-img create -q -f qcow2 -o "$kind" a.qcow2 "$size"
		qemu_run a.qcow2 list
		reads_same a.qcow2
		same_dumps a.qcow2 reads
	done < <(kinds "$1")
}

@test "clusters of 512 bytes: images written by qemu-io read the same" { read_back 512; }
@test "clusters of 4K: images written by qemu-io read the same" { read_back 4096; }
@test "clusters of 64K: images written by qemu-io read the same" { read_back 65536; }
@test "clusters of 128K: images written by qemu-io read the same" { read_back 131072; }
@test "clusters of 2M: images written by qemu-io read the same" { read_back 2097152; }
