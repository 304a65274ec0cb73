#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# qimg check -r --backup=FILE, and --undo=FILE: a repair can be taken back.

load helpers

# damaged NAME: x.qcow2, made by tests/bad
damaged() {
	need python3
	python3 "$SRCDIR/tests/bad/make" "$1" .
	cp "$1.qcow2" x.qcow2
}

# repair ARGS...: any status but "could not be done"
repair() {
	local status=0
	qimg check -q -f qcow2 "$@" >out 2>err || status=$?
	[ "$status" = 0 ] || [ "$status" = 2 ] || [ "$status" = 3 ] || fail "status $status: $(cat err)"
}

@test "a repair of each kind is undone byte by byte" {
	need python3
	names=$(python3 "$SRCDIR/tests/bad/make" LIST | awk 'NR % 6 == 1 { print $1 }')
	# shellcheck disable=SC2086 # names, one a word
	python3 "$SRCDIR/tests/bad/make" $names .
	undone=0
	for name in $names; do
		cp "$name.qcow2" x.qcow2
		rm -f backup
		qimg check -q -f qcow2 -r all --backup=backup x.qcow2 >out 2>&1 || true
		if [ -e backup ]; then
			qimg check -q -f qcow2 --undo=backup x.qcow2 || fail "$name"
			undone=$((undone + 1))
		fi
		cmp x.qcow2 "$name.qcow2" || fail "$name is not what it was"
	done
	[ $undone -ge 30 ] || fail "only $undone repairs were undone"
}

@test "the hint comes with corruption and without --backup, and nobody is asked" {
	damaged corrupt-leak
	repair -r all x.qcow2
	grep -q -- '-r all --backup=FILE x.qcow2' err
	cp corrupt-leak.qcow2 x.qcow2
	repair -r all --max-findings=0 x.qcow2
	grep -q -- '-r all --backup=FILE x.qcow2' err
	cp corrupt-leak.qcow2 x.qcow2
	repair -r all --backup=b x.qcow2
	equal "$(grep -c -- --backup err || true)" 0 hints
}

@test "a backup is never overwritten, and not left behind by a repair of nothing" {
	damaged corrupt-leak
	echo mine >b
	kept x.qcow2 qimg check -r all --backup=b x.qcow2
	says "'b'"
	equal "$(cat b)" mine "the file"
	cmp x.qcow2 corrupt-leak.qcow2
	qimg create -q -f qcow2 sound.qcow2 1M
	qimg check -q -r all --backup=c sound.qcow2
	[ ! -e c ]
	kept x.qcow2 qimg check -r all --backup=none/d x.qcow2
}

@test "what was changed since, or is another image, is refused" {
	damaged corrupt-leak
	repair -r all --backup=b x.qcow2
	qio -f qcow2 -c "write -P 7 2M 64k" x.qcow2 >/dev/null
	kept x.qcow2 qimg check --undo=b x.qcow2
	says 'changed since'
	qimg create -q -f qcow2 other.qcow2 1G
	kept other.qcow2 qimg check --undo=b other.qcow2
}

@test "undone twice is undone; but not what was changed in between" {
	damaged corrupt-leak
	repair -r all --backup=b x.qcow2
	qimg check --undo=b x.qcow2 >out
	grep -q '^The repair was undone: [1-9]' out
	qimg check -q --undo=b x.qcow2
	cmp x.qcow2 corrupt-leak.qcow2
	repair -r all x.qcow2
	kept x.qcow2 qimg check --undo=b x.qcow2
}

@test "a damaged backup is refused, wherever the damage is" {
	need python3
	damaged corrupt-leak
	repair -r all --backup=b x.qcow2
	cp x.qcow2 repaired
	refused=0
	size=$(stat -c %s b)
	for at in 0 9 13 20 25 77 81 90 94 140 $((size - 30)) $((size - 10)) $((size - 1)); do
		cp b d
		python3 -c "f = open('d', 'r+b'); f.seek($at); c = f.read(1)[0]; f.seek($at); f.write(bytes([c ^ 1]))"
		qimg check --undo=d x.qcow2 >/dev/null 2>err || refused=$((refused + 1))
		# A broken end is one that is missing: then what was saved last may not be there either.
		cmp -s x.qcow2 repaired || cmp x.qcow2 corrupt-leak.qcow2 || cp repaired x.qcow2
		cp repaired x.qcow2
	done
	[ $refused -ge 10 ] || fail "$refused of 13 refused"
	for name in x.qcow2 /dev/null none; do
		kept x.qcow2 qimg check --undo=$name x.qcow2
	done
	cmp x.qcow2 repaired
}

@test "a full disk under the backup: what was not saved was not changed, and the rest can be undone" {
	need_root
	damaged corrupt-leak
	mkdir small
	for kilobytes in 4 8; do
		mount -t tmpfs -o size=${kilobytes}k tmpfs "$PWD/small"
		undo umount "$PWD/small"
		status=0
		qimg check -r all --backup=small/b x.qcow2 >out 2>err || status=$?
		equal $status 1 "status ($(cat err))"
		grep -q 'small/b' err
		[ ! -e small/b ] || qimg check --undo=small/b x.qcow2
		cmp x.qcow2 corrupt-leak.qcow2
		[ $kilobytes = 4 ] || [ -e small/b ]
	done
}

@test "JSON names the backup; undo has its own document" {
	need jq
	damaged corrupt-leak
	qimg check --output=json -r all --backup=b x.qcow2 >out 2>/dev/null
	equal "$(jq -r .backup out)" b backup
	qimg check --output=json --undo=b x.qcow2 >out
	equal "$(jq -r '.filename' out)" x.qcow2 filename
	[ "$(jq .undone out)" -gt 0 ]
}

@test "options that exclude each other, or make no sense alone" {
	damaged corrupt-leak
	for options in "--backup=b" "--dry-run" "--drop-orphans" "-r all --dry-run --backup=b" "--undo=b -r all" \
	    "--undo=b -U" "-r all -U"; do
		status=0
		# shellcheck disable=SC2086 # several options
		qimg check $options x.qcow2 >out 2>err || status=$?
		equal $status 1 "status of $options"
		equal "$(wc -l <err)" 1 "lines of $options"
	done
	cmp x.qcow2 corrupt-leak.qcow2
}
