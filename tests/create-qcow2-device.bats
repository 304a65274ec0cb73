#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# qcow2 images on block devices, where old content must not show.

load helpers

# device SIZE: a loop device full of other bytes, in $dev
device() {
	pattern_file disk "$1"
	dev=$(loop_device disk)
}

@test "an image on a device" {
	need_loop
	need qemu-io
	device 20M
	for options in '' cluster_size=512 cluster_size=2M,refcount_bits=64 extended_l2=on compat=0.10; do
		qimg create -q -f qcow2 ${options:+-o "$options"} "$dev" 16M
		is_clean "$dev"
		qio -f qcow2 -c 'read -P 0 0 16M' "$dev" >/dev/null
		qio -f qcow2 -c 'write -P 3 1M 300k' "$dev" >/dev/null
		is_clean "$dev"
		qemu-io -r -f qcow2 -c 'read -P 3 1M 300k' -c 'read -P 0 2M 14M' "$dev" >/dev/null
	done
}

@test "preallocated clusters read as zeros" {
	need_loop
	need qemu-io
	device 20M
	for mode in metadata falloc full; do
		qimg create -q -f qcow2 -o preallocation=$mode "$dev" 16M
		is_clean "$dev"
		qemu-io -r -f qcow2 -c 'read -P 0 0 16M' "$dev" >/dev/null
		pattern_file disk2 20M
		cat disk2 >"$dev"
	done
}

@test "what is too large for the device changes nothing on it" {
	need_loop
	device 20M
	before=$(hash "$dev")
	fails qimg create -f qcow2 -o preallocation=metadata "$dev" 20M
	says 'bytes'
	fails qimg create -f qcow2 -o cluster_size=2M,preallocation=full "$dev" 15M
	fails qimg create -f qcow2 -o cluster_size=3000 "$dev" 15M
	equal "$(hash "$dev")" "$before"
	qimg create -q -f qcow2 "$dev" 100M
	is_clean "$dev"
}
