#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# The counters of the metadata caches, of each image of a chain, tell what
# happened.

load helpers

# value NAME CACHE KEY: from the lines of qio's `counters` in the file out
value() {
	sed -n "s,^$1 $2 .*\b$3=\([0-9]*\).*,\1,p" out
}

# counted NAME CACHE KEY=VALUE...
counted() {
	local name=$1 cache=$2 word
	shift 2
	for word; do
		equal "$(value "$name" "$cache" "${word%%=*}")" "${word#*=}" "$name $cache ${word%%=*}" || return
	done
}

setup() {
	helpers_setup
	need_plain
	need qemu-img
	qemu-img create -q -f qcow2 -o preallocation=metadata image 4G
}

@test "reading: hits, misses, loads, evictions" {
	# Eight tables, looked at once and again: all fit.
	local i words=()
	for ((i = 0; i < 8; i++)); do words+=(-c "read $((i * 512))M 1"); done
	qio -r "${words[@]}" -c counters image >out
	counted image l2 misses=8 loads=8 evictions=0 writebacks=0 second=0 file=0 expired=0
	before=$(value image l2 hits)
	qio -r "${words[@]}" "${words[@]}" -c counters image >out
	counted image l2 misses=8 loads=8 evictions=0
	[ "$(value image l2 hits)" -ge $((before + 8)) ]
	equal "$(value image l2 lookups)" $(($(value image l2 hits) + 8))
	# Two entries: what comes third turns one out.
	qio -r -o l2-cache-size=0 "${words[@]}" -c counters image >out
	counted image l2 misses=8 loads=8 evictions=6
	# An image that is only read has no cache of refcounts.
	lacks "$(cat out)" refcount
}

@test "writing: what is written back" {
	qio -o l2-cache-size=0 -c 'write 0 1' -c counters image >out
	counted image l2 misses=1 writebacks=0
	qemu-img create -q -f qcow2 thin 4G
	qio -c 'write 0 1' -c 'write 512M 1' -c flush -c counters thin >out
	# A cluster for each write, of the same table of refcounts.
	[ "$(value thin l2 writebacks)" -eq 2 ]
	[ "$(value thin refcount writebacks)" -ge 1 ]
	[ "$(value thin refcount hits)" -ge 1 ]
	counted thin l2 second=0 file=0
	qio -o l2-cache-size=0 -c 'write 0 1' -c 'write 512M 1' -c 'write 1G 1' -c 'write 1536M 1' \
		-c 'write 2G 1' -c 'write 2560M 1' -c counters thin >out
	[ "$(value thin l2 evictions)" -ge 2 ]
	[ "$(value thin l2 writebacks)" -ge 1 ]
}

@test "memory" {
	qio -r -c 'read 0 1' -c counters image >out
	one=$(value image l2 ram)
	[ "$one" -ge 65536 ] || fail "$one"
	qio -r -c 'read 0 1' -c 'read 1G 1' -c 'read 2G 1' -c counters image >out
	[ "$(value image l2 ram)" -ge $((one + 2 * 65536)) ]
	qio -r -o l2-cache-size=8k -c 'read 0 1' -c 'read 1G 1' -c 'read 2G 1' -c counters image >out
	[ "$(value image l2 ram)" -lt 65536 ]
}

@test "a second level, and no cache" {
	# Two tables of eight fit into memory; the others come back from the file.
	local i words=()
	for ((i = 0; i < 8; i++)); do words+=(-c "read $((i * 512))M 1"); done
	qio -r -o l2-cache-size=0,l2-cache-file=./second "${words[@]}" -c 'sleep 100' "${words[@]}" -c counters image >out
	[ "$(value image l2 second)" -ge 1 ] || fail "$(cat out)"
	[ "$(value image l2 second)" -le 8 ]
	[ "$(value image l2 file)" -ge $((6 * 4096)) ]
	no_litter . image out
	qio -r -o metadata-cache=off "${words[@]}" "${words[@]}" -c counters image >out
	[ "$(value image l2 loads)" -ge 16 ]
	counted image l2 hits=0
	[ "$(value image l2 ram)" -lt 131073 ]
}

@test "memory that is not used expires" {
	qio -r -o cache-clean-interval=1 -c 'read 0 1' -c 'read 1G 1' -c 'sleep 1200' -c 'read 2G 1' \
		-c 'sleep 1200' -c 'read 2G 1' -c counters image >out
	[ "$(value image l2 expired)" -ge 2 ] || fail "$(cat out)"
	[ "$(value image l2 ram)" -le $((2 * 65536 + 4096)) ]
	qio -r -o cache-clean-interval=0 -c 'read 0 1' -c 'read 1G 1' -c 'sleep 1200' -c 'read 2G 1' \
		-c counters image >out
	counted image l2 expired=0
}

@test "each image of a chain has its own; raw has none" {
	qemu-img create -q -f qcow2 -b image -F qcow2 top
	qio -c 'write 1G 1' top >/dev/null
	qio -r -c 'read 0 1' -c 'read 1G 1' -c 'read 1025M 1' -c counters top >out
	equal "$(wc -l <out)" $((3 * 2 + 2))
	counted top l2 misses=1
	# 1G is in the top image; its table says that 1025M is below.
	counted ./image l2 misses=2 || counted image l2 misses=2 || counted "$PWD/image" l2 misses=2
	truncate -s 1M raw
	qio -r -f raw -c counters raw >out
	equal "$(cat out)" ''
	qemu-img create -q -f qcow2 -b raw -F raw over
	qio -r -c counters over >out
	equal "$(wc -l <out)" 1
}
