#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Open options that hold for every image, in --image-opts, json: and -o: what
# they do, and that unknown and contradicting ones are refused by name.

load helpers

setup() {
	helpers_setup
	qimg create -q -f qcow2 a.qcow2 1M
	qio -f qcow2 -c 'write -P 5 0 64k' a.qcow2 >/dev/null
	head -c 8192 /dev/zero | tr '\0' x >r.raw
}

reads() { # OPTIONS
	qio -r --image-opts -c 'read -P 5 0 64k' "$1"
}

refused() { # OPTIONS PART...
	local list=$1
	shift
	run qimg info --image-opts "$list"
	equal "$status" 1 "status with $list"
	for part; do contains "$output" "$part"; done
}

@test 'the forms of one image' {
	reads driver=qcow2,file.driver=file,file.filename=a.qcow2
	reads driver=qcow2,file.filename=a.qcow2
	reads file.filename=a.qcow2
	reads driver=qcow2,file.driver=file,file.filename=a.qcow2,file.locking=off,cache.direct=off
	reads driver=qcow2,file.filename=a.qcow2,node-name=n,aio=threads,auto-read-only=on,read-only=on
	qimg info 'json:{"driver":"qcow2","file":{"driver":"file","filename":"a.qcow2"}}' | grep -q '^file format: qcow2'
	qimg info 'json:{"driver":"qcow2","file.filename":"a.qcow2","backing":null}' | grep -q '^file format: qcow2'
	qimg info file:a.qcow2 | grep -q '^file format: qcow2'
	qimg info --image-opts driver=file,filename=a.qcow2 | grep -q '^file format: raw'
	qimg info --image-opts driver=file,filename=a.qcow2,locking=off | grep -q '^file format: raw'
	reads driver=qcow2,file.filename=a.qcow2,file.drop-cache=off,file.x-check-cache-dropped=on
	cp a.qcow2 'x,y=z.qcow2'
	reads driver=qcow2,file.filename=x,,y=z.qcow2
}

@test 'unknown options are named with the driver they were given to' {
	refused driver=qcow2,file.filename=a.qcow2,nosuch=1 nosuch qcow2
	refused driver=raw,file.filename=r.raw,nosuch=1 nosuch raw
	refused driver=qcow2,file.filename=a.qcow2,file.nosuch=1 nosuch "'file'"
	refused driver=nosuch,file.filename=a.qcow2 nosuch
	run qimg info 'json:{"driver":"qcow2","file":{"driver":"file","filename":"a.qcow2"},"nosuch":{"x":1}}'
	equal "$status" 1
	contains "$output" nosuch.x
}

@test 'values that make no sense are refused' {
	refused driver=qcow2,file.filename=a.qcow2,cache.direct=maybe cache.direct maybe
	refused driver=qcow2,file.filename=a.qcow2,discard=perhaps discard perhaps
	refused driver=qcow2,file.filename=a.qcow2,detect-zeroes=x detect-zeroes
	refused driver=qcow2,file.filename=a.qcow2,cow-zero-range=x cow-zero-range
	refused driver=qcow2,file.filename=a.qcow2,aio=x aio
	refused driver=qcow2,file.filename=a.qcow2,aio=threads,file.aio=sync "'aio' (threads)" "'file.aio' (sync)"
	refused driver=qcow2,file.driver=nbd,file.filename=a.qcow2 nbd
	refused driver=qcow2,file=node 'node'
	refused driver=qcow2,file.filename=a.qcow2,backing=node 'node'
	refused driver=qcow2,file.filename=a.qcow2,backing=,backing.driver=raw backing
	refused driver=qcow2 file.filename
	refused file.filename= 'empty'
	run qimg info 'json:{"driver":'
	equal "$status" 1
	run qimg info -f raw 'json:{"driver":"qcow2","file.filename":"a.qcow2"}'
	equal "$status" 1
	contains "$output" qcow2
}

@test 'read-only and force-share are not for writing' {
	run qio --image-opts -c 'write 0 512' driver=qcow2,file.filename=a.qcow2,read-only=on
	[ "$status" -ne 0 ]
	contains "$output" read-only
	run qio --image-opts -c 'write 0 512' driver=qcow2,file.filename=a.qcow2,force-share=on
	[ "$status" -ne 0 ]
	contains "$output" force-share
}

@test 'file.locking=off takes no locks and heeds none' {
	mkfifo commands
	qio -f qcow2 a.qcow2 <commands >log 2>&1 &
	exec 7>commands
	echo 'read 0 512' >&7	# when it has answered, it has the image open
	for _ in {1..200}; do
		! grep -q '^read 512' log || break
		sleep 0.05
	done
	run qio -f qcow2 -c 'read 0 512' a.qcow2
	[ "$status" -ne 0 ]
	contains "$output" lock
	qio -r -f qcow2 -o file.locking=off -c 'read -P 5 0 512' a.qcow2
	qimg info --image-opts driver=qcow2,file.filename=a.qcow2,file.locking=off
	qio -f raw -o file.locking=off -c 'write -P 0x51 0 1' a.qcow2
	exec 7>&-
	wait
}

@test 'a window of a raw file' {
	printf abc | dd of=r.raw bs=1 seek=1024 conv=notrunc status=none
	qimg info --image-opts --output=json driver=raw,offset=1024,size=512,file.filename=r.raw >info.json
	equal "$(json info.json 'd["virtual-size"]')" 512
	qio --image-opts -c 'read -P 0x61 0 1' -c 'write -P 0x7a 511 1' driver=raw,offset=1024,size=512,file.filename=r.raw
	equal "$(peek r.raw 1023 2)" 7861
	equal "$(peek r.raw 1535 2)" 7a78
	equal "$(stat -c %s r.raw)" 8192
	run qio --image-opts -c 'write 512 1' driver=raw,offset=1024,size=512,file.filename=r.raw
	[ "$status" -ne 0 ]
	qimg convert --image-opts -O raw driver=raw,offset=1024,size=512,file.filename=r.raw w.raw
	equal "$(stat -c %s w.raw)" 512
	refused driver=raw,offset=9000,file.filename=r.raw offset
	refused driver=raw,size=100,file.filename=r.raw 512
	refused driver=raw,offset=4096,size=8192,file.filename=r.raw 8192
}

@test 'backing=null leaves the backing file alone' {
	qimg create -q -f qcow2 -b a.qcow2 -F qcow2 t.qcow2
	qio -r -f qcow2 -c 'read -P 5 0 64k' t.qcow2
	qio -r --image-opts -c 'read -P 0 0 64k' driver=qcow2,file.filename=t.qcow2,backing=
	rm a.qcow2
	qio -r --image-opts -c 'read -P 0 0 64k' driver=qcow2,file.filename=t.qcow2,backing=
	qimg info --backing-chain 'json:{"driver":"qcow2","file.filename":"t.qcow2","backing":null}' >info.txt
	equal "$(grep -c '^image:' info.txt)" 1
}

@test 'detect-zeroes turns zeros into zero clusters' {
	extents() { qio -r -f qcow2 -c extents a.qcow2; }
	qio -f qcow2 -c 'write -P 0 0 64k' a.qcow2
	contains "$(extents)" '0 65536 data'
	qio -f qcow2 -o detect-zeroes=on -c 'write -P 0 0 64k' a.qcow2
	contains "$(extents)" '0 65536 zero depth=0 present=1 host'
	qio -f qcow2 -o detect-zeroes=unmap,discard=unmap -c 'write -P 1 0 64k' -c 'write -P 0 0 64k' a.qcow2
	lacks "$(extents)" host=
	qio -f qcow2 -o detect-zeroes=on -c 'write -P 0 1 1000' -c 'read -P 0 0 64k' a.qcow2
}

@test 'cow-zero-range says how the space around a write is cleared' {
	need strace
	need_no_sanitizer
	trace() { # MODE: the calls of a write of 4K into a new cluster
		qimg create -q -f qcow2 c.qcow2 1M
		strace -f -o log -e trace=fallocate,pwrite64 "$QIO" -f qcow2 ${1:+-o cow-zero-range="$1"} \
			-c 'write -P 7 8k 4k' c.qcow2 >/dev/null
		qio -r -f qcow2 -c 'read -P 0 0 8k' -c 'read -P 7 8k 4k' -c 'read -P 0 12k 52k' c.qcow2
		is_clean c.qcow2
	}
	trace ''
	lacks "$(cat log)" fallocate
	contains "$(cat log)" ', 4096, '
	trace on
	contains "$(cat log)" FALLOC_FL_ZERO_RANGE
	contains "$(grep FALLOC log)" ', 65536)'
	trace off
	lacks "$(cat log)" fallocate
	contains "$(cat log)" ', 65536, '
}

@test 'what is said of the file counts for the file' {
	need strace
	need_no_sanitizer
	direct() { # OPTIONS: is the file opened so?
		strace -f -o log -e trace=openat,fcntl "$QIO" -r --image-opts -c 'read 0 512' \
			"driver=qcow2,file.filename=a.qcow2$1" >out 2>&1
		grep -q 'a\.qcow2.*O_DIRECT\|F_SETFL.*O_DIRECT' log
	}
	direct ,cache.direct=on
	direct ,file.cache.direct=on
	direct ,cache.direct=off,file.cache.direct=on
	run direct ,cache.direct=on,file.cache.direct=off
	[ "$status" -ne 0 ]
	run direct ''
	[ "$status" -ne 0 ]
	# What the image does not discard does not get to the file; what the file does not, stays.
	discards() { # OPTIONS: do they give space back?
		qimg create -q -f raw d.raw 1M
		qio -f raw -c 'write -P 5 0 1M' d.raw >out
		qio --image-opts -c 'discard 0 1M' "driver=raw,file.filename=d.raw$1" >out
		[ "$(allocated d.raw)" -lt 500000 ]
	}
	discards ,discard=unmap
	discards ,discard=unmap,file.discard=unmap
	run discards ,discard=ignore,file.discard=unmap
	[ "$status" -ne 0 ]
	run discards ,discard=unmap,file.discard=ignore
	[ "$status" -ne 0 ]
}
