#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Damaged images of tests/bad: that each has the defect it is made for and no
# other, what qimg check says of it, and what can still be read.

load helpers

setup_file() {
	export PYTHONDONTWRITEBYTECODE=1
	command -v python3 >/dev/null || return 0
	mkdir "$BATS_FILE_TMPDIR/all" "$BATS_FILE_TMPDIR/sound"
	bad make ALL "$BATS_FILE_TMPDIR/all" >"$BATS_FILE_TMPDIR/problems" || echo "status $?" >>"$BATS_FILE_TMPDIR/problems"
	bad make SOUND "$BATS_FILE_TMPDIR/sound"
}

# bad PROGRAM ARGUMENT...: one of tests/bad
bad() { python3 "$SRCDIR/tests/bad/$1" "${@:2}"; }

# judges COMMAND...: prints nothing but that it has looked at all images
judges() {
	local count
	count=$(bad make LIST | wc -l)
	"$@" >log || true
	equal "$(cat log)" "$count images"
}

@test "each generator makes its defect and nothing else" {
	need python3
	equal "$(cat "$BATS_FILE_TMPDIR/problems")" ''
	bad make LIST >list
	[ "$(wc -l <list)" -ge 60 ]
	equal "$(cut -d' ' -f1 list | sort | uniq -d)" ''
	[ "$(find "$BATS_FILE_TMPDIR/all" -name '*.qcow2' | wc -l)" -eq "$(wc -l <list)" ]
}

@test "a generator that does not do what it says is found" {
	need python3
	cp -r "$SRCDIR/tests/bad" .
	chmod -R u+w bad
	# a defect that is not there, one more than is told, and damage that is not told
	cat >>bad/content.py <<-'END'


	@defect("test-absent", "x")
	def test_absent(d):
	    img = d.start(plain())
	    img.header_len = img.header_len
	    d.finds("leak", 0)


	@defect("test-more", "x")
	def test_more(d):
	    img = d.start(plain())
	    img.set_refcount(0, 2)
	    img.set_refcount(1, 0)
	    d.finds("leak", 0)


	@defect("test-elsewhere", "x")
	def test_elsewhere(d):
	    img = d.start(plain())
	    img.set_refcount(0, 2)
	    d.finds("leak", 512)


	@defect("test-hurt", "x")
	def test_hurt(d):
	    img = d.start(plain())
	    img.set_refcount(0, 2)
	    img.put(img.host(2), 1, img.get(img.host(2), 1) ^ 1)
	    d.finds("leak", 0)


	@defect("test-unhurt", "x")
	def test_unhurt(d):
	    img = d.start(plain())
	    img.set_refcount(0, 2)
	    d.finds("leak", 0)
	    d.hurts(2)
	END
	run python3 bad/make PROVE test-absent test-more test-elsewhere test-hurt test-unhurt
	[ "$status" -eq 1 ]
	contains "$output" 'test-absent: nothing is damaged'
	contains "$output" 'test-absent: missing'
	contains "$output" 'test-more: not expected'
	contains "$output" 'test-elsewhere: missing'
	contains "$output" 'test-elsewhere: not expected'
	contains "$output" 'test-hurt: active is hurt in clusters [2]'
	contains "$output" 'test-unhurt: active is not hurt'
}

@test "the other checker finds nothing in images of qimg and of the reference, and a leak where one is" {
	local kind
	need python3
	pattern_file in.raw 300K
	yes text | head -c 1M >text.raw
	for kind in cluster_size=512 cluster_size=4k,refcount_bits=1 extended_l2=on,refcount_bits=64 compat=0.10; do
		qimg convert -f raw -O qcow2 -o "$kind" in.raw a.qcow2
		qimg convert -c -f raw -O qcow2 -o "$kind" text.raw b.qcow2
		qio -c 'write -P 7 1k 70k' -c 'discard 100k 64k' -c 'write -z 200k 64k' a.qcow2 >/dev/null
		equal "$(bad make JUDGE a.qcow2 b.qcow2)" ''
	done
	run bad make JUDGE "$BATS_FILE_TMPDIR/all/leak-width-4.qcow2"
	[ "$status" -eq 1 ]
	contains "$output" "'kind': 'leak'"
	need qemu-img qemu-io
	qemu-img create -q -f qcow2 -o cluster_size=4k c.qcow2 4M
	for kind in 1 2 3; do
		qemu-io -c "write -P $kind ${kind}00k 300k" c.qcow2 >/dev/null
		qemu-img snapshot -c "s$kind" c.qcow2
		qemu-img bitmap --add c.qcow2 "b$kind"
	done
	qemu-img snapshot -d s2 c.qcow2
	equal "$(bad make JUDGE c.qcow2)" ''
}

@test "the reference finds nothing in the images that are damaged then" {
	local image
	need python3 qemu-img
	cd "$BATS_FILE_TMPDIR/sound"
	[ "$(find . -name '*.qcow2' | wc -l)" -gt 20 ]
	for image in *.qcow2; do
		is_clean "$image"
	done
}

@test "qimg check finds nothing in them, either" {
	local image
	need python3
	cd "$BATS_FILE_TMPDIR/sound"
	for image in *.qcow2; do
		qimg check --deep -f qcow2 "$image" >"$BATS_TEST_TMPDIR/log" ||
			fail "$image: $(cat "$BATS_TEST_TMPDIR/log")"
	done
}

@test "qimg check finds each defect, says where, and writes nothing" {
	need python3
	judges bad compare check "$QIMG" "$BATS_FILE_TMPDIR/all"
}

@test "data that the host cannot read is found by --deep alone, a hole is no error" {
	local dev size
	need_loop
	need python3
	bad make sound-half .
	size=$(stat -c %s sound-half.qcow2)
	truncate -s 1M sound-half.qcow2
	dev=$(loop_device sound-half.qcow2)
	# What a loop device has lost of its file cannot be read: here guest cluster 40. Without the
	# page cache, which takes larger pieces, just that.
	truncate -s $((size / 4096 * 4096)) sound-half.qcow2
	qimg check -f qcow2 "$dev" >log
	qimg check --deep -T none --output=json -f qcow2 "$dev" >log.json || [ $? -eq 2 ]
	equal "$(json log.json 'd["found"]["read"], d["corruptions"], d["leaks"]')" '(1, 1, 0)'
	equal "$(json log.json '[(f["kind"], f["guest-offset"], f["guest-length"]) for f in d["findings"]]')" "[[\"read\", 163840, 4096]]"
	qimg check --deep -f qcow2 "$BATS_FILE_TMPDIR/all/sound-hole.qcow2" >log
}

@test "qimg check -r all mends each, and no byte that could be read changes" {
	need python3
	qimg check --help | grep -q -e --repair || skip 'qimg check does not repair'
	judges bad compare repair "$QIMG" "$BATS_FILE_TMPDIR/all"
}

@test "qimg check -r all leaves nothing but what may be a lost table, and what only a key could move" {
	local names
	need python3
	mapfile -t names < <(bad make LIST | cut -d' ' -f1 | grep -v '^crypt-\|^header-\|^overlap-luks-')
	bad compare mended "$QIMG" "$BATS_FILE_TMPDIR/all" "${names[@]}" >log || true
	equal "$(sed -n '$!s/: status .*//p' log | sort | xargs)" \
		"l1-end l1-end-at-once l1-far lost-l2 lost-l2-extended lost-l2-two lost-snapshot overlap-data-luks overlap-l2-table shorter-half"
}

@test "what the damage has not hit reads as before" {
	need python3
	judges bad compare read "$QIMG" "$BATS_FILE_TMPDIR/all"
}

@test "the verdicts of the reference are known, and why ours differ" {
	need python3 qemu-img
	case $(qemu-img --version) in
	*' version 7.2'*) ;;
	*) skip 'the table is for qemu-img 7.2' ;;
	esac
	judges bad compare qemu "$SRCDIR/tests/bad/qemu-7.2" "$BATS_FILE_TMPDIR/all"
}

@test "random changes of metadata: no crash, no hang, the same verdict as another checker" {
	need python3
	run bad flip check "$QIMG" "$BATS_FILE_TMPDIR/sound" 1 "${FLIP_ROUNDS:-400}"
	[ "$status" -eq 0 ] || fail "$output"
}

@test "random changes of metadata: -r all mends or says what not, and leaves the data alone" {
	need python3
	run bad flip repair "$QIMG" "$BATS_FILE_TMPDIR/sound" 100001 "${FLIP_ROUNDS:-700}"
	[ "$status" -eq 0 ] || fail "$output"
}
