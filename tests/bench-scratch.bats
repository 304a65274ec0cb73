#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench: scratch images are made where they are to be, take no space that
# nobody needs, and are gone afterwards, however bench ends.

load helpers

@test 'in the folder that is named, or that of TMPDIR' {
	mkdir here there
	qimg bench --rw=randwrite -c 10 --size=1M --scratch=here -q
	TMPDIR=$PWD/there qimg bench --rw=randwrite -c 10 --size=1M --runs=3 --fill -q
	no_litter here
	no_litter there
	fails qimg bench --size=1M --scratch=none
	says "'none'"
	fails qimg bench --size=1M --scratch=
	says 'name of a folder'
	fails qimg bench --preset=l2-size --scratch=
	says 'name of a folder'
	fails env TMPDIR=/nowhere "$QIMG" bench --size=1M
	says "'/nowhere'"
}

@test 'where nothing can be written, that is said' {
	need_root
	mount_fs tmpfs 1M full
	fails qimg bench --size=16M --preallocation=full --scratch=full
	no_litter full
	fails qimg bench --size=16M --rw=randwrite -c 1000 --scratch=full
	no_litter full
	fails qimg bench --size=16M --fill --scratch=full
	no_litter full
	mount -o remount,ro full
	fails qimg bench --size=1M --scratch=full
	says "'full'"
}

@test 'creation options that can not be' {
	fails qimg bench --size=1M --scratch=. --create-options=no_such=1
	no_litter .
	fails qimg bench --size=1M --scratch=. --create-options=compat=0.10 --preallocation=some
	fails qimg bench --size=1M --scratch=. --open-options=no-such=1
	no_litter .
	qimg bench --size=1M --scratch=. --create-options=extended_l2=on,lazy_refcounts=on -c 10 -q
	no_litter .
}

@test 'a modelled disk of 40 GB takes little of a real one' {
	# What is read has no blocks, so that the limit holds for the tables alone.
	need_root
	mount_fs tmpfs 32M small
	qimg bench --rw=randread --size=40G -c 1000 -i model=ssd-2018 --scratch=small --output=json >out
	equal "$(json out 'd["runs"][0]["ops"]')" 1000
	equal "$(json out 'd["runs"][0]["virtual-size"]')" $((40 << 30))
	no_litter small
}

# interrupted SIGNAL OPTION...: bench, some time after its scratch image is there
interrupted() {
	local name=$1 pid status=0 try
	shift
	mkdir -p dir
	# Background jobs ignore SIGINT otherwise.
	python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$QIMG" bench -q --size=64M --scratch=dir "$@" 2>message &
	pid=$!
	for try in {1..100}; do
		[ "$(find dir -type f | wc -l)" -eq 0 ] || break
		sleep 0.1
	done
	[ "$try" -lt 100 ] || fail "no scratch image with $*"
	sleep 0.2
	kill -"$name" $pid
	wait $pid || status=$?
	equal $status $((128 + $(kill -l "$name"))) "$*"
	equal "$(cat message)" 'qimg: Interrupted' "$*"
	no_litter dir
}

@test 'a signal ends it and leaves nothing' {
	need python3
	interrupted INT --runtime=100 --rw=randread
	interrupted HUP --runtime=100 --rw=randread
	interrupted TERM --runtime=100 --rw=randwrite
	interrupted TERM --fill --size=8G --rw=read
	interrupted INT --preallocation=full --size=8G --rw=read
	interrupted TERM --preallocation=full --size=8G --rw=read --format=raw
	interrupted TERM --preallocation=metadata --cluster-size=512 --size=64G --rw=read
	interrupted TERM --rw=randread -i model=hdd-2016 --runtime=1000000 --size=1G -d 1..900+1
}

@test 'requests that do not fit are refused before an image is made' {
	fails qimg bench --size=1M -s 2M --scratch=none
	says 'do not fit'
	fails qimg bench --size=1M -o 1M --scratch=none
	says 'do not fit'
	fails qimg bench --size=0 --scratch=none
	says 'do not fit'
	fails qimg bench --size=1M -s 0 --scratch=.
	fails qimg bench --size=1M -S 0 --rw=read --scratch=.
	fails qimg bench --size=8E --scratch=.
	no_litter .
	qimg bench --size=100 -s 512 -c 5 --scratch=. -q
}
