#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Preallocation of qcow2 images: off, metadata, falloc, full.

load helpers

# all_there SIZE OPTIONS: every cluster has its place; nothing is lost, and it reads as zeros
all_there() {
	rm -f image
	qimg create -q -f qcow2 -o "$2" image "$1" || fail "create $2 $1" || return
	is_clean image || fail "check of $2 $1" || return
	case $(grep allocated "$BATS_TEST_TMPDIR/check.log") in
	*'= 100.00% allocated, 0.00% fragmented'*) ;;
	*) fail "$2 $1: $(cat "$BATS_TEST_TMPDIR/check.log")" || return ;;
	esac
	rm -f empty
	truncate -s "$1" empty
	truncate -s %512 empty
	same raw empty qcow2 image
}

@test "metadata: all cluster sizes and refcount widths" {
	for bits in 1 2 4 8 16 32 64; do
		all_there 40M "preallocation=metadata,cluster_size=512,refcount_bits=$bits"
	done
	for bits in 1 16 64; do
		for cluster in 4k 64k 2M; do
			all_there 5M "preallocation=metadata,cluster_size=$cluster,refcount_bits=$bits"
		done
		all_there 1G "preallocation=metadata,cluster_size=4k,refcount_bits=$bits"
	done
}

@test "metadata: versions and odd sizes" {
	for size in 1 1000000 65537 100M; do
		all_there $size preallocation=metadata
		all_there $size preallocation=metadata,compat=0.10
		all_there $size preallocation=metadata,cluster_size=2M
	done
	qimg create -q -f qcow2 -o preallocation=metadata image 0
	is_clean image
}

@test "the lengths of the files are those of the reference" {
	need qemu-img
	for options in '' ,cluster_size=2M ,extended_l2=on ,refcount_bits=64; do
		for mode in metadata falloc; do
			rm -f ours theirs
			qimg create -q -f qcow2 -o "preallocation=$mode$options" ours 1G
			qemu-img create -q -f qcow2 -o "preallocation=$mode$options" theirs 1G
			equal "$(stat -c %s ours)" "$(stat -c %s theirs)" "$mode$options"
		done
	done
}

@test "falloc and full take the space" {
	for mode in falloc full; do
		all_there 30M preallocation=$mode
		[ "$(allocated image)" -ge $((30 << 20)) ] || fail "$mode: $(allocated image) bytes in use"
	done
	all_there 30M preallocation=metadata
	[ "$(allocated image)" -lt $((1 << 20)) ] || fail "metadata: $(allocated image) bytes in use"
}

@test "falloc is written where the file system cannot reserve space" {
	need mkfs.ext2
	mount_fs ext2 64M mnt
	fallocate -l 1M mnt/probe 2>/dev/null && skip 'this ext2 can reserve space'
	qimg create -q -f qcow2 -o preallocation=falloc mnt/image 20M
	is_clean mnt/image
	[ "$(allocated mnt/image)" -ge $((20 << 20)) ]
}

@test "not enough space leaves nothing" {
	mount_fs ext4 32M mnt
	rm -rf mnt/lost+found
	for mode in falloc full; do
		refused mnt/image qimg create -f qcow2 -o preallocation=$mode mnt/image 100M
		says 'No space left'
		no_litter mnt
	done
}

@test "a backing file shows through preallocated clusters" {
	need qemu-img qemu-io
	pattern_file base 3M
	for mode in metadata falloc full; do
		rm -f image
		fails qimg create -f qcow2 -b base -F raw -o preallocation=$mode image
		says 'only be used at the same time if extended_l2 is on'
		qimg create -q -f qcow2 -b base -F raw -o preallocation=$mode,extended_l2=on image
		is_clean image
		same raw base qcow2 image
		qimg convert -f qcow2 -O raw image out
		cmp base out
		# A write finds its space there: the file does not grow.
		before=$(stat -c %s image)
		qio -f qcow2 -c 'write -P 7 100k 200k' image >/dev/null
		equal "$(stat -c %s image)" "$before" 'length after a write'
		is_clean image
		qemu-io -r -c 'read -P 7 100k 200k' image >/dev/null
	done
}

@test "writes go to the preallocated clusters" {
	need qemu-io
	for options in '' ,cluster_size=4k,refcount_bits=1 ,extended_l2=on ,compat=0.10; do
		rm -f image
		qimg create -q -f qcow2 -o "preallocation=metadata$options" image 8M
		before=$(stat -c %s image)
		qio -f qcow2 -c 'write -P 1 0 1M' -c 'write -P 2 5000000 1234' image >/dev/null
		equal "$(stat -c %s image)" "$before" "length with $options"
		is_clean image
		qemu-io -r -c 'read -P 1 0 1M' -c 'read -P 2 5000000 1234' -c 'read -P 0 6M 2M' image >/dev/null
	done
}

@test "the metadata of 1 TiB is written in large pieces" {
	need strace
	need_no_sanitizer
	strace -f -qq -e trace=pwrite64,pwritev,write,pwritev2 -o log \
		"$QIMG" create -q -f qcow2 -o preallocation=metadata image 1T ||
		skip 'strace does not work here'
	equal "$(stat -c %s image)" 1099679662080
	[ "$(wc -l <log)" -lt 500 ] || fail "$(wc -l <log) writes"
}

@test "what cannot be mapped is refused" {
	refused image qimg create -f qcow2 -o preallocation=metadata,cluster_size=2M image 1024P
	says 'Preallocation'
	refused image qimg create -f qcow2 -o preallocation=metadata,cluster_size=512,refcount_bits=64 image 64G
	says 'refcount table'
	refused image qimg create -f qcow2 -o preallocation=some image 1M
	says preallocation
}
