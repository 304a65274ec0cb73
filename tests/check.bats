#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# check: verdicts, exit statuses, forms of output; nothing is ever written.

load helpers


# status_of STATUS COMMAND...: runs it with its output in out and err
status_of() {
	local want=$1 got=0
	shift
	"$@" >out 2>err || got=$?
	[ "$got" -eq "$want" ] || fail "$*: status $got, want $want; $(cat out err)"
}

# The header, refcount table, block, L1, an L2 table, 16 clusters of data
sound() {
	qimg create -q -f qcow2 image 64M
	qio -c 'write -P 7 0 1M' image >/dev/null
}

@test "a sound image: status 0, the reference's words, JSON with all keys" {
	sound
	status_of 0 qimg check image
	equal "$(cat err)" ''
	equal "$(cat out)" "No errors were found on the image.
16/1024 = 1.56% allocated, 0.00% fragmented, 0.00% compressed clusters
Image end offset: 1376256"
	status_of 0 qimg check --output=json image
	need jq
	equal "$(jq -c '[."image-end-offset", ."total-clusters", .corruptions, ."check-errors", .leaks,
		."corruptions-fixed", ."leaks-fixed", ."allocated-clusters", ."fragmented-clusters",
		."compressed-clusters", ."leaked-bytes", .filename, .format, .result, (.findings | length)]' out)" \
		'[1376256,1024,0,0,0,0,0,16,0,0,0,"image","qcow2","clean",0]'
	equal "$(jq '[.found[]] | add' out)" 0
	status_of 0 qimg check -q image
	equal "$(cat out err)" ''
}

@test "a leak: status 3" {
	sound
	poke image $((0x20000 + 2 * 30)) 0001
	status_of 3 qimg check image
	equal "$(cat err)" 'Leaked cluster 30 refcount=1 reference=0'
	contains "$(cat out)" '1 leaked clusters were found on the image.'
	status_of 3 qimg check --output=json image
	contains "$(cat out)" '"result": "leaks"'
	contains "$(cat out)" '"leaked-bytes": 65536'
}

@test "a corruption: status 2, with the guest range it touches" {
	sound
	need jq
	poke image $((0x20000 + 2 * 9)) 0000	# the fifth cluster of data
	status_of 2 qimg check image
	contains "$(cat err)" 'ERROR cluster 9 refcount=0 reference=1'
	contains "$(cat err)" 'ERROR OFLAG_COPIED data cluster: l2_entry=8000000000090000 refcount=0'
	contains "$(cat out)" '2 errors were found on the image.'
	status_of 2 qimg check --output=json image
	equal "$(jq -c '.findings[] | select(.kind == "refcount") | [."host-offset", ."guest-offset",
		."guest-length", .refcount, .references]' out)" '[589824,262144,65536,0,1]'
	status_of 2 qimg check --findings=grouped image
	contains "$(cat out)" 'Result: corrupt (exit status 2)'
	contains "$(cat out)" 'guest 0x40000+0x10000'
}

@test "a format that has nothing to check: status 63; no image: status 1" {
	truncate -s 1M raw
	status_of 63 qimg check -f raw raw
	contains "$(cat err)" 'This image format does not support checks'
	status_of 1 qimg check absent
	status_of 1 qimg check -f qcow2 raw
	status_of 1 qimg check
	status_of 1 qimg check --memory=1X raw
}

@test "nothing is written, and marked, locked and read-only images can be checked" {
	sound
	local before
	poke image $((0x20000 + 2 * 30)) 0001
	poke image 72 0000000000000003	# dirty and corrupt
	chmod 400 image
	before=$(sha256sum <image; stat -c '%Y %Z' image)
	status_of 3 qimg check image
	status_of 3 qimg check --deep image
	status_of 3 qimg check -U image
	equal "$(sha256sum <image; stat -c '%Y %Z' image)" "$before"
}

@test "the backing file has to be there, as for the reference" {
	qimg create -q -u -f qcow2 -b absent -F qcow2 top 64M
	status_of 1 qimg check top
	contains "$(cat err)" absent
}

@test "many findings are a handful of lines, or as many as asked for" {
	sound
	need jq
	# All refcounts of the block are 1: 32768 less 21 leaks
	head -c 65536 /dev/zero | tr '\0' '\1' >ones
	python3 -c 'print("0001" * 32768, end="")' | xxd -r -p >block
	dd if=block of=image bs=64k seek=2 conv=notrunc status=none
	status_of 3 qimg check image
	equal "$(wc -l <err)" 10001
	contains "$(tail -1 err)" '22747 more findings are not shown'
	status_of 3 qimg check --max-findings=5 image
	equal "$(wc -l <err)" 6
	status_of 3 qimg check --findings=grouped image
	[ "$(wc -l <out)" -lt 15 ]
	status_of 3 qimg check --output=json --max-findings=0 image
	equal "$(jq -c '[.leaks, (.findings | length)]' out)" '[32747,0]'
}

@test "little memory gives the same verdict in more passes" {
	need jq
	qimg create -q -f qcow2 -o cluster_size=512,preallocation=metadata image 1G
	local rt block at
	# Refcounts of clusters at the front, in the middle and at the end: 0, and 2
	rt=$((16#$(peek image 48 8)))
	for at in 100000 1200000 2000000; do
		block=$((16#$(peek image $((rt + ((at >> 8) << 3))) 8)))
		poke image $((block + (at & 255) * 2)) 00000002
	done
	status_of 2 qimg check --output=json image
	jq -S . out >whole
	status_of 2 qimg check --output=json --memory=1M image
	jq -S . out >parts
	[ "$(jq .corruptions whole)" -ge 6 ]
	[ "$(jq .leaks whole)" -eq 3 ]
	equal "$(jq -c 'del(.findings)' parts)" "$(jq -c 'del(.findings)' whole)"
	equal "$(jq -c '.findings | sort_by(.kind, ."host-offset")' parts)" \
		"$(jq -c '.findings | sort_by(.kind, ."host-offset")' whole)"
}

@test "--deep inflates and reads" {
	sound
	need jq
	qimg convert -c -O qcow2 image packed
	status_of 0 qimg check --deep packed
	local l2 host
	l2=$((16#$(peek packed $((16#$(peek packed 40 8))) 8) & 0xfffffffffffe00))
	host=$((16#$(peek packed $l2 8) & 0x3fffffffffffff))
	poke packed $host ffffffff
	status_of 0 qimg check packed
	status_of 2 qimg check --deep --output=json packed
	equal "$(jq -c '.findings[] | [.kind, ."guest-offset", ."host-offset"]' out)" "[\"inflate\",0,$host]"
}

@test "progress goes to the end" {
	sound
	status_of 0 qimg check -p image
	contains "$(cat out)" '(100.00/100%)'
	status_of 0 qimg check --progress=json image
	contains "$(cat out)" '"result": "ok"'
}
