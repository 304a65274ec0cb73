#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# `qimg create` as a command: its options, what it prints, what it refuses.

load helpers

# alike ARGS...: qimg create and qemu-img create, in folders of their own,
# print the same line and make disks of the same size
alike() {
	local status
	mkdir -p ours theirs
	(cd theirs && qemu-img create "$@" >out 2>err) || fail "qemu-img create $* fails" || return
	status=0
	(cd ours && "$QIMG" create "$@" >out 2>err) || status=$?
	equal "$status" 0 "status of create $* ($(cat ours/err))" || return
	diff theirs/out ours/out || fail "create $*"
}

@test "the Formatting line is that of the reference" {
	need qemu-img
	mkdir ours theirs
	qemu-img create -q -f qcow2 ours/base 8M
	cp ours/base theirs/base
	cp ours/base ours/a,b
	cp ours/base theirs/a,b
	alike -f qcow2 x 64M
	alike -f qcow2 x 513
	alike -f qcow2 x 0
	alike -f raw x 1
	alike x 1M
	alike -f raw -o preallocation=falloc x 1M
	alike -f raw -o preallocation=off,nocow=on x 5k
	alike -f qcow2 -o compat=0.10 x 1M
	alike -f qcow2 -o compat=v3,cluster_size=4k,lazy_refcounts x 1M
	alike -f qcow2 -o refcount_bits=1,compression_type=zstd x 1M
	alike -f qcow2 -o extended_l2=on,preallocation=metadata x 1M
	alike -f qcow2 -o preallocation=metadata,nocow=on,extent_size_hint=2M x 1M
	alike -f qcow2 -o data_file=data,data_file_raw=on x 1M
	alike -f qcow2 -o size=3M x
	alike -f qcow2 -b base -F qcow2 x
	alike -f qcow2 -b base -F qcow2 x 4M
	alike -f qcow2 -o backing_file=base,backing_fmt=qcow2 x
	alike -f qcow2 -b a,b -F qcow2 x
	alike -f qcow2 -o backing_file=a,,b,backing_fmt=qcow2 x
	alike -f qcow2 -u -b missing -F raw x 1M
	alike -f qcow2 -o size=1M,nolazy_refcounts -o size=2M x
	alike -f qcow2 y,z 1M
	alike -f qcow2 "with 'quotes'" 1M
}

@test "-q prints nothing" {
	qimg create -q -f qcow2 x 1M >out 2>&1
	equal "$(cat out)" ''
	qimg create --quiet -f raw y 1M >out 2>&1
	equal "$(cat out)" ''
}

@test "the long names are those of newer versions" {
	qimg create -q --format qcow2 base 1M
	qimg create --format qcow2 --options cluster_size=4k --backing base --backing-format qcow2 \
		--quiet x
	qimg info --output=json x >x.json
	equal "$(json x.json 'd["backing-filename"], d["backing-filename-format"], d["cluster-size"]')" \
		"('base', 'qcow2', 4096)"
	qimg create -q -f qcow2 -b base -B qcow2 y
	qimg info --output=json y >y.json
	equal "$(json y.json 'd["backing-filename-format"]')" qcow2
	qimg create -q -f qcow2 --backing missing -B raw --backing-unsafe z 1M
	qimg info --output=json z >z.json
	equal "$(json z.json 'd["backing-filename"]')" missing
}

# Names, types and the columns of a list of options; what describes them may be
# said in other words.
columns() {
	sed -E 's/^(  [^ ]+=<[^>]*> *- )[A-Za-z].*/\1/' | grep -v '^  encrypt'
}

@test "-o help prints the options as the reference does" {
	need qemu-img
	local format file
	for format in qcow2 raw; do
		for file in '' x; do
			# shellcheck disable=SC2086
			qemu-img create -f $format -o help $file | columns >theirs
			# An option of newer versions.
			# shellcheck disable=SC2086
			qimg create -f $format -o help $file | columns | grep -v '^  keep_data_file=' >ours
			diff theirs ours
			[ "$(wc -l <ours)" -ge 5 ]
		done
	done
	qimg create -f qcow2 -o help x | grep preallocation | grep -q '(allowed values: off, metadata, falloc, full)$'
	qimg create -o '?' >ours
	head -n 1 ours | grep -qx 'Supported raw options:'
	qimg create -f qcow2 -o cluster_size=4k,help x >ours
	head -n 1 ours | grep -qx 'Supported options:'
	# Only a member that is "help" asks for it.
	qimg create -q -f qcow2 -u -o backing_file=a,,help,,b,backing_fmt=raw y 1M
	[ -f y ]
	[ ! -e x ]
}

@test "-o help of an unknown format is an error" {
	fails qimg create -f nosuch -o help
	says "Unknown file format 'nosuch'"
}

@test "without -F the message has the format that was detected and the command to type" {
	mkdir sub
	qimg create -q -f qcow2 sub/base 1M
	qimg create -q -f raw 'sub/raw base' 1M
	refused sub/x qimg create -f qcow2 -b base sub/x
	says format
	says qcow2
	says 'qimg create -f qcow2 -b base -F qcow2 sub/x'
	# It is what it says: typed as it stands it works.
	sed -n 's/.*: qimg create/qimg create/p' "$BATS_TEST_TMPDIR/stderr" >typed
	[ -s typed ]
	# shellcheck disable=SC1091
	. ./typed >out
	[ -f sub/x ]
	refused sub/y qimg create -q -f qcow2 -b 'raw base' -- sub/y 2M
	says "qimg create -q -f qcow2 -b 'raw base' -F raw sub/y 2M"
	refused sub/y qimg create -f qcow2 -o backing_file=base sub/y
	says 'qimg create -f qcow2 -o backing_file=base -F qcow2 sub/y'
	# where something else is wrong it would not help
	refused sub/y qimg create -f qcow2 -b base -o colour=red sub/y
	says colour
	lacks "$(cat "$BATS_TEST_TMPDIR/stderr")" 'If that'
	refused sub/y qimg create -f raw -b base sub/y 1M
	lacks "$(cat "$BATS_TEST_TMPDIR/stderr")" 'If that'
}

@test "an invalid size gets the two lines of the reference" {
	need qemu-img
	local size
	for size in 30GG 93.1 10MB 1e3 x '' ' ' 1GiB; do
		refused x qemu-img create -f qcow2 -- x "$size"
		sed 's/^qemu-img:/qimg:/' "$BATS_TEST_TMPDIR/stderr" >theirs
		refused x qimg create -f qcow2 -- x "$size"
		diff theirs "$BATS_TEST_TMPDIR/stderr"
	done
	for size in 8E 16E 18446744073709551615 9999999999999999999999; do
		refused x qemu-img create -f qcow2 -- x "$size"
		refused x qimg create -f qcow2 -- x "$size"
		says 'qimg: Invalid image size specified. Must be between 0 and 9223372036854775807.'
	done
}

@test "a size is needed, once" {
	refused x qimg create -f qcow2 x
	says 'qimg: x: Image creation needs a size parameter'
	refused x qimg create -f qcow2 -o size=1M x 1M
	says 'qimg: x: The image size must be specified only once'
	refused x qimg create -f qcow2 -u -b base -F qcow2 x
	says 'qimg: x: Image creation needs a size parameter'
	qimg create -q -f qcow2 -o size=1M y
}

@test "what is refused leaves an old image alone" {
	qimg create -q -f qcow2 old 1M
	kept old qimg create -f qcow2 -o cluster_size=3000 old 1M
	kept old qimg create -f qcow2 -o nosuch=1 old 1M
	kept old qimg create -f nosuch old 1M
	kept old qimg create -f qcow2 -b missing -F raw old 1M
	kept old qimg create -f qcow2 -b old -F qcow2 old 1M
	kept old qimg create -f qcow2 old
	kept old qimg create -f qcow2 old 30GG
	kept old qimg create -f qcow2 -o a, old 1M
	kept old qimg create --no-clobber -f qcow2 old 1M
	says exist
}

@test "--no-clobber makes what does not exist" {
	qimg create -q --no-clobber -f qcow2 new 1M
	is_clean new
}

@test "errors carry the name of the program and of the image" {
	refused x qimg create -f nosuch x 1M
	says "qimg: x: Unknown file format 'nosuch'"
	refused x qimg create -f qcow2 -o nosuch=1 x 1M
	says 'qimg: x: '
	says nosuch
	refused x qimg create -f raw -b base -F raw x 1M
	says 'qimg: x: '
	refused x qimg create -f qcow2 -F raw x 1M
	says 'qimg: x: '
	says 'backing'
	refused x qimg create -f qcow2 -b '' -F raw x 1M
	says 'qimg: x: '
	refused no/x qimg create -f qcow2 no/x 1M
	says 'no/x'
	says 'No such file or directory'
}

@test "a signal leaves the old image and nothing else" {
	local status signal
	qimg create -q -f qcow2 old 1M
	hash old >before
	for format in raw qcow2; do
		for signal in TERM HUP; do
			status=0
			timeout --preserve-status -s $signal 0.3 "$QIMG" create -q -f $format \
				-o preallocation=full old 32G 2>err || status=$?
			[ "$status" -gt 128 ] || fail "ended with $status: $(cat err)"
			equal "$(hash old)" "$(cat before)"
			no_litter . before err old
		done
	done
}

@test "nothing is made when the Formatting line cannot be printed" {
	local status=0
	[ -c /dev/full ] || skip 'no /dev/full'
	"$QIMG" create -f qcow2 x 1M >/dev/full 2>err || status=$?
	equal "$status" 1
	equal "$(grep -c . err)" 1
	no_litter . err
}

@test "a new image is not named by json:{...}" {
	local name='json:{"driver":"raw","file":{"driver":"file","filename":"x"}}'
	refused x qimg create "$name" 1M
	says json
	qimg create -q src 1M
	refused x qimg convert src "$name"
	says json
	no_litter . src
	# just a name
	qimg create -q json:x 1M
	[ -f json:x ]
}
