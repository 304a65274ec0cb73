#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Images made to harm: refused by every command, with little memory and time,
# before anything is written. (tests/unit/header.c has each field by itself.)

load helpers

# hostile TEXT POKE...: image with these bytes (OFFSET:HEX) is refused, saying TEXT
hostile() {
	local text=$1 change
	shift
	cp good bad
	for change; do
		poke bad "${change%%:*}" "${change#*:}"
	done
	limits fails qimg info bad && says "$text" || return
	limits refused out qimg convert -f qcow2 -O raw bad out && says "$text" || return
	kept bad qio -f qcow2 -c 'write 0 64k' bad && says "$text" || return
}

# 1 GiB of memory, 5 s of CPU; a sanitizer needs more of both
limits() {
	case $VARIANT in
	*address* | *thread*) "$@" ;;
	*)
		local memory cpu status=0
		memory=$(ulimit -Sv) cpu=$(ulimit -St)
		ulimit -Sv 1048576 -St 5
		"$@" || status=$?
		ulimit -Sv "$memory" -St "$cpu"
		return $status
		;;
	esac
}

@test "hostile headers" {
	need python3
	qimg create -q -f qcow2 good 64M
	qio -c 'write -P 5 0 1M' good >/dev/null
	hostile '2^22' 20:00000016
	hostile '9223372036854775807' 24:7fffffffffffffff
	hostile '2147483647' 36:7fffffff
	hostile 'L1 table size 0' 36:00000000
	hostile '0x30001' 40:0000000000030001
	hostile '0x10000000000' 40:0000010000000000
	hostile '0x8000000000000000' 40:8000000000000000
	hostile '0 clusters' 56:00000000
	hostile '2147483647' 56:7fffffff
	hostile '0x10001' 48:0000000000010001
	hostile '2147483647' 60:7fffffff 64:0000000000010000
	hostile 'order 7' 96:00000007
	hostile 'Header length 131072' 100:00020000
	hostile '2147483392 bytes' 112:12345678 116:7fffff00
	hostile 'first cluster' 8:0000000000020000 16:0000000a
	hostile 'method 9' 32:00000009
}

@test "the largest tables a header may name" {
	qimg create -q -f qcow2 good 64M
	cp good big
	truncate -s 100M big
	# 4M L1 entries at 64M, 65536 snapshots, a refcount table of 8 MiB
	poke big 36 00400000
	poke big 40 0000000004000000
	poke big 56 00000080
	limits qimg info big >/dev/null
	limits qimg convert -f qcow2 -O raw big out
	equal "$(stat -c %s out)" 67108864
	equal "$(allocated out)" 0
}

@test "files that end early" {
	qimg create -q -f qcow2 good 64M
	for size in 0 7 8 71 72 103 104 111 112 4096 65535 65536 131072 196608 196615; do
		cp good bad
		truncate -s $size bad
		limits fails qimg info -f qcow2 bad || fail "$size bytes"
		limits refused out qimg convert -f qcow2 -O raw bad out || fail "$size bytes"
	done
}

@test "a refcount table without the entry for the clusters in use" {
	limits qimg create -q -f qcow2 bad 64M
	qio -c 'write -P 5 0 1M' bad >/dev/null
	poke bad 65536 0000000000000000
	limits fails qio -f qcow2 -c 'write -P 6 2M 64k' bad
	says 'header is there'
	qio -f qcow2 -r -c 'read -P 5 0 1M' bad >/dev/null
	# marked corrupt, and nothing but that
	equal "$(peek bad 0 8)" 514649fb00000003
	equal "$(peek bad 72 8)" 0000000000000002
}
