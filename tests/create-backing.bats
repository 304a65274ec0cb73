#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# create over a backing file: where it is looked for, what is taken from it,
# and what is refused without touching the target.

load helpers

setup() {
	helpers_setup
	qimg create -q -f qcow2 base.qcow2 3M
	qio -f qcow2 -c 'write -P 5 0 64k' base.qcow2 >/dev/null
}

size() { qimg info --output=json "$1" | json - 'd["virtual-size"]'; }
stored() { qimg info --output=json "$1" | json - "d['backing-filename'] + ' ' + d['backing-filename-format']"; }

refused() { # PART ARGUMENT...: old.qcow2, the last argument, is left alone
	local part=$1
	shift
	qimg create -q -f qcow2 old.qcow2 1M
	before=$(hash old.qcow2)
	run qimg create "$@"
	equal "$status" 1 "$*"
	contains "$output" "$part"
	equal "$(hash old.qcow2)" "$before"
	rm old.qcow2
}

@test 'size and name' {
	qimg create -q -f qcow2 -b base.qcow2 -F qcow2 top.qcow2
	equal "$(size top.qcow2)" 3145728
	equal "$(stored top.qcow2)" 'base.qcow2 qcow2'
	qimg create -q -f qcow2 -b base.qcow2 -F qcow2 top.qcow2 5M
	equal "$(size top.qcow2)" 5242880
	qio -r -f qcow2 -c 'read -P 5 0 64k' -c 'read -P 0 64k 5056k' top.qcow2
	qimg create -q -f qcow2 -o backing_file=base.qcow2,backing_fmt=qcow2,size=1M top.qcow2
	equal "$(size top.qcow2)" 1048576
	qimg create -q -f qcow2 -b "$PWD/base.qcow2" -F qcow2 top.qcow2
	equal "$(stored top.qcow2)" "$PWD/base.qcow2 qcow2"
	printf abc >odd.raw
	qimg create -q -f qcow2 -b odd.raw -F raw top.qcow2
	equal "$(size top.qcow2)" 512
}

@test 'names count from the folder of the new image' {
	mkdir -p d/e
	mv base.qcow2 d
	qimg create -q -f qcow2 -b base.qcow2 -F qcow2 d/top.qcow2
	qimg create -q -f qcow2 -b ../base.qcow2 -F qcow2 d/e/top.qcow2
	top=$PWD/d/e/top.qcow2
	(cd / && qio -r -f qcow2 -c "read -P 5 0 64k" "$top")
	refused 'base.qcow2' -f qcow2 -b d/base.qcow2 -F qcow2 d/none.qcow2
	[ ! -e d/none.qcow2 ]
}

@test 'what is refused leaves the target alone' {
	head -c 65536 /dev/zero >zero.raw
	refused format -f qcow2 -b base.qcow2 old.qcow2
	refused nope -f qcow2 -b base.qcow2 -F nope old.qcow2
	refused 'empty' -f qcow2 -b '' -F qcow2 old.qcow2
	refused 'backing file' -f qcow2 -F qcow2 old.qcow2 1M
	refused missing -f qcow2 -b missing.qcow2 -F qcow2 old.qcow2 1M
	refused zero.raw -f qcow2 -b zero.raw -F qcow2 old.qcow2
	refused raw -f raw -b base.qcow2 -F qcow2 old.qcow2
	refused 'same' -f qcow2 -b old.qcow2 -F qcow2 old.qcow2
	refused preallocation -f qcow2 -b base.qcow2 -F qcow2 -o preallocation=full old.qcow2
	refused size -u -f qcow2 -b missing.qcow2 -F qcow2 old.qcow2
	refused format -u -f qcow2 -b missing.qcow2 old.qcow2 1M
}

@test 'a broken chain below is found' {
	qimg create -q -f qcow2 -b base.qcow2 -F qcow2 mid.qcow2
	rm base.qcow2
	refused base.qcow2 -f qcow2 -b mid.qcow2 -F qcow2 old.qcow2
}

@test '-u opens nothing' {
	need strace
	need_no_sanitizer
	qimg create -q -u -f qcow2 -b missing.qcow2 -F qcow2 top.qcow2 1M
	equal "$(stored top.qcow2)" 'missing.qcow2 qcow2'
	strace -f -o log -e trace=open,openat "$QIMG" create -q -u -f qcow2 -b base.qcow2 -F qcow2 top.qcow2 1M
	lacks "$(grep -v execve log)" base.qcow2
}

@test 'a backing file that a running guest writes to' {
	mkfifo commands
	qio -f qcow2 base.qcow2 <commands >log 2>&1 &
	exec 7>commands
	# Looking for its lock could keep it from getting one: it says itself when it is there.
	echo 'read 0 512' >&7
	for _ in {1..200}; do
		[ ! -s log ] || break
		sleep 0.05
	done
	run qimg create -f qcow2 -b base.qcow2 -F qcow2 top.qcow2
	equal "$status" 0
	contains "$output" warning
	contains "$output" base.qcow2
	exec 7>&-
	wait
	equal "$(qimg create -q -f qcow2 -b base.qcow2 -F qcow2 top.qcow2 2>&1)" ''
}
