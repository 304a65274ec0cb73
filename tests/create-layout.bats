#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Where the metadata of a new qcow2 image lies: byte for byte as in the
# reference as long as one refcount block is enough, sound in every case.

load helpers

# identical SIZE OPTIONS: both programs write the same file and announce it alike
identical() {
	rm -f image
	qemu-img create -f qcow2 ${2:+-o "$2"} image "$1" >theirs || fail "qemu-img: $2 $1" || return
	mv image reference
	qimg create -f qcow2 ${2:+-o "$2"} image "$1" >ours || fail "qimg: $2 $1" || return
	diff theirs ours || fail "Formatting line of $2 $1" || return
	cmp reference image || fail "layout of $2 $1"
}

# sound SIZE OPTIONS: an image of that size, with nothing lost
sound() {
	rm -f image
	qimg create -q -f qcow2 ${2:+-o "$2"} image "$1" || fail "create $2 $1" || return
	is_clean image || fail "check of $2 $1" || return
	equal "$(qemu-img info --output=json image | json - 'd["virtual-size"]')" \
		"$(qemu-img measure --output=json -O raw --size "$1" | json - 'd["required"]')" "size of $2 $1"
}

@test "all cluster sizes" {
	need qemu-img
	for size in 512 1k 2k 4k 8k 16k 32k 64k 128k 256k 512k 1M 2M; do
		identical 64M cluster_size=$size
	done
}

@test "sizes from nothing to very large" {
	need qemu-img
	for size in 0 1 511 512 513 1000000 512M 513M 100G 64T; do
		identical $size ''
	done
	identical 2048T cluster_size=64k
	identical 2048P cluster_size=2M
}

@test "the version and the features" {
	need qemu-img
	identical 10G compat=0.10
	identical 10G compat=v2
	identical 10G compat=1.1
	identical 10G compat=v3,lazy_refcounts=on
	identical 10G compression_type=zstd
	identical 10G extended_l2=on
	identical 10G extended_l2=on,cluster_size=16k,compression_type=zstd,lazy_refcounts=on
	for bits in 1 2 4 8 16 32 64; do
		identical 10G refcount_bits=$bits
	done
}

@test "with a backing file" {
	need qemu-img
	truncate -s 1M base
	for options in '' compat=0.10 cluster_size=512 cluster_size=8k extended_l2=on; do
		identical 10M "backing_file=base,backing_fmt=raw${options:+,$options}"
	done
}

@test "tables of several clusters are sound" {
	for bits in 1 16 64; do
		sound 10G "cluster_size=512,refcount_bits=$bits"
		sound 60G "cluster_size=512,refcount_bits=$bits"
		sound 100G "cluster_size=1k,refcount_bits=$bits"
	done
	sound 128G cluster_size=512
}

@test "the file ends with the last byte of L1" {
	qimg create -q -f qcow2 a 64M
	equal "$(stat -c %s a)" 196616
	qimg create -q -f qcow2 b 4G
	equal "$(stat -c %s b)" 196672
	qimg create -q -f qcow2 -o cluster_size=2M c 4G
	equal "$(stat -c %s c)" 6291464
	equal "$(peek a 40 8)" 0000000000030000 'L1 offset'
	equal "$(peek a 48 12)" 000000000001000000000001 'refcount table'
	equal "$(peek a 0x10000 8)" 0000000000020000 'refcount block'
}
