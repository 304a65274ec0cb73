#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# A convert that fails or is killed leaves the old target, or none.

load helpers

# Starts a convert that takes about ten seconds; $pid is its process.
slow_convert() {
	# What a shell starts with & ignores SIGINT.
	env --default-signal=INT "$QIMG" convert -r 1M -f raw "$@" >out.log 2>&1 &
	pid=$!
}

# waits for a convert to end; $status is how
ended() {
	status=0
	wait $pid || status=$?
}

@test 'SIGTERM, SIGINT and SIGHUP: nothing is left of a new target' {
	local sig
	pattern_file in.raw 10M
	for sig in TERM INT HUP; do
		slow_convert -O qcow2 in.raw out.qcow2
		sleep 0.4
		kill -$sig $pid
		ended
		[ $status -ne 0 ]
		[ ! -e out.qcow2 ]
		no_litter . in.raw out.log
	done
}

@test 'SIGTERM: an old target is as it was, data file included' {
	pattern_file in.raw 10M
	pattern_file out.raw 1M 2
	local before
	before=$(stat -c '%i %s %y' out.raw)$(hash out.raw)
	slow_convert -O raw in.raw out.raw
	sleep 0.4
	kill $pid
	ended
	[ $status -ne 0 ]
	equal "$(stat -c '%i %s %y' out.raw)$(hash out.raw)" "$before"
	slow_convert -O qcow2 -o data_file=d.raw in.raw out.qcow2
	sleep 0.4
	kill $pid
	ended
	no_litter . in.raw out.raw out.log
}

@test 'SIGKILL: no target under its name' {
	local delay
	pattern_file in.raw 10M
	pattern_file old.raw 1M 2
	local before
	before=$(hash old.raw)
	for delay in 0.01 0.05 0.2 0.5; do
		slow_convert -O qcow2 in.raw out.qcow2
		sleep $delay
		kill -KILL $pid
		ended
		[ ! -e out.qcow2 ]
		slow_convert -O raw in.raw old.raw
		sleep $delay
		kill -KILL $pid
		ended
		equal "$(hash old.raw)" "$before"
	done
	# and the next one finds nothing in its way
	qimg convert -f raw -O raw in.raw old.raw
	cmp in.raw old.raw
}

@test 'SIGTERM in a target written in place ends it, too' {
	need qemu-img
	pattern_file in.raw 10M
	qemu-img create -q -f qcow2 t.qcow2 10M
	slow_convert -n -O qcow2 in.raw t.qcow2
	sleep 0.4
	kill $pid
	ended
	[ $status -ne 0 ]
	is_sound t.qcow2
}

@test 'no space: nothing is left, an old target stays' {
	pattern_file in.raw 8M
	mount_fs tmpfs 4M small
	refused small/out.raw qimg convert -f raw -O raw in.raw small/out.raw
	says 'No space left'
	refused small/out.qcow2 qimg convert -f raw -O qcow2 in.raw small/out.qcow2
	refused small/out.qcow2 qimg convert -f raw -O qcow2 -o data_file=d.raw in.raw small/out.qcow2
	no_litter small
	pattern_file small/old.raw 1M 2
	kept small/old.raw qimg convert -f raw -O raw in.raw small/old.raw
	no_litter small old.raw
	qimg convert -S 4k -O raw small/old.raw small/new.raw
	cmp small/old.raw small/new.raw
}

@test 'a file size limit' {
	pattern_file in.raw 8M
	limited() { (ulimit -f 4096; trap '' XFSZ; exec "$QIMG" "$@"); }
	refused out.raw limited convert -f raw -O raw in.raw out.raw
	refused out.qcow2 limited convert -f raw -O qcow2 in.raw out.qcow2
	no_litter . in.raw
}

@test 'a source that turns out to be broken' {
	need qemu-img
	yes text | head -c 4M >in.raw
	qemu-img convert -c -f raw -O qcow2 in.raw c.qcow2
	pattern_file junk 4096
	dd if=junk of=c.qcow2 bs=1 seek=$((0x50800)) count=100 conv=notrunc status=none
	refused out.raw qimg convert -O raw c.qcow2 out.raw
	says c.qcow2
	pattern_file old.raw 1M
	kept old.raw qimg convert -O raw c.qcow2 old.raw
	no_litter . in.raw c.qcow2 junk old.raw
}

@test 'an unreadable source' {
	need_root
	need dmsetup losetup blockdev
	pattern_file disk.img 8M
	local dev
	dev=$(loop_device disk.img)
	printf '0 8000 linear %s 0\n8000 16 error\n8016 8368 linear %s 8016\n' "$dev" "$dev" |
		dmsetup create "qimg-bad-$$" 2>/dev/null || skip 'no device mapper here'
	undo dmsetup remove "qimg-bad-$$"
	refused out.raw qimg convert -f raw -O raw "/dev/mapper/qimg-bad-$$" out.raw
	refused out.qcow2 qimg convert -f raw -O qcow2 "/dev/mapper/qimg-bad-$$" out.qcow2
}

@test 'a folder that cannot be written to or is not there' {
	pattern_file in.raw 1M
	refused none/out.raw qimg convert -f raw -O raw in.raw none/out.raw
	refused in.raw/out.raw qimg convert -f raw -O raw in.raw in.raw/out.raw
	mkdir ro
	if [ "$(id -u)" -eq 0 ]; then
		mount_fs tmpfs 4M ro
		mount -o remount,ro ro
	else
		chmod 555 ro
	fi
	refused ro/out.raw qimg convert -f raw -O raw in.raw ro/out.raw
	no_litter ro
	fails qimg convert -f raw -O raw in.raw ro
}

@test 'mode and name of the target are kept, symbolic links are followed' {
	pattern_file in.raw 1M
	mkdir d
	pattern_file d/real.raw 2M 2
	chmod 600 d/real.raw
	ln -s d/real.raw link.raw
	qimg convert -f raw -O raw in.raw link.raw
	[ -L link.raw ]
	cmp in.raw d/real.raw
	equal "$(stat -c %a d/real.raw)" 600
	no_litter d real.raw
	ln -s d/new.raw dangling.raw
	qimg convert -f raw -O raw in.raw dangling.raw
	[ -L dangling.raw ]
	cmp in.raw d/new.raw
	umask 027
	qimg convert -f raw -O raw in.raw masked.raw
	equal "$(stat -c %a masked.raw)" 640
}

@test 'a target with further hard links is not torn from them' {
	pattern_file in.raw 1M
	pattern_file a.raw 2M 2
	ln a.raw b.raw
	kept a.raw qimg convert -f raw -O raw in.raw a.raw
	says link
	equal "$(stat -c %i a.raw)" "$(stat -c %i b.raw)"
}

@test 'a target that another process has open for writing is refused' {
	need qemu-img qemu-io
	pattern_file in.raw 1M
	qemu-img create -q -f qcow2 l.qcow2 4M
	mkfifo ctl
	qemu-io -f qcow2 l.qcow2 <ctl >io.log 2>&1 &
	exec 7>ctl
	for _ in $(seq 100); do
		! grep -q 'qemu-io>' io.log || break
		sleep 0.1
	done
	kept l.qcow2 qimg convert -f raw -O qcow2 in.raw l.qcow2
	says lock
	kept l.qcow2 qimg convert -n -f raw -O qcow2 in.raw l.qcow2
	refused o.raw qimg convert -O raw l.qcow2 o.raw
	qimg convert -U -O raw l.qcow2 o.raw
	exec 7>&-
	wait
	qimg convert -f raw -O qcow2 in.raw l.qcow2
	same raw in.raw qcow2 l.qcow2
}

@test 'a target that cannot fit is refused before anything is copied' {
	mount_fs tmpfs 4M small
	truncate -s 8M in.raw
	refused small/out.raw qimg convert -S 0 -f raw -O raw in.raw small/out.raw
	says '8388608 more bytes at least'
	says 'bytes free'
	refused small/out.qcow2 qimg convert -f raw -O qcow2 -o preallocation=falloc in.raw small/out.qcow2
	says 'at least'
	# an existing one has some already
	qimg create -q -f raw small/old.raw 8M
	kept small/old.raw qimg convert -n -S 0 -f raw -O raw in.raw small/old.raw
	says '8388608 more bytes at least'
	dd if=/dev/zero of=small/old.raw bs=1M count=3 conv=notrunc status=none
	kept small/old.raw qimg convert -n -S 0 -f raw -O raw in.raw small/old.raw
	says '5242880 more bytes at least'
	rm small/old.raw
	# holes take none
	qimg convert -f raw -O raw in.raw small/out.raw
	no_litter small out.raw
}

@test 'space that is not free yet but will be counts: XFS frees it when asked' {
	need_root
	need mkfs.xfs
	mount_fs xfs 320M disk
	dd if=/dev/zero of=in.raw bs=1M count=180 status=none
	cp in.raw disk/old.raw
	rm disk/old.raw
	qimg convert --no-sync -S 0 -f raw -O raw in.raw disk/out.raw
	refused disk/more.raw qimg convert -S 0 -f raw -O raw in.raw in.raw disk/more.raw
	says 'more bytes at least'
	same raw in.raw raw disk/out.raw
}

@test '--verify: reads both again, also several sources and a chain' {
	need qemu-img
	pattern_file in.raw 3M
	qemu-img create -q -f qcow2 -b in.raw -F raw top.qcow2 5M
	qimg convert --verify -O qcow2 top.qcow2 out.qcow2
	same qcow2 top.qcow2 qcow2 out.qcow2
	qimg convert --verify -c -f raw -O qcow2 in.raw in.raw out.qcow2
	cat in.raw in.raw >want.raw
	same raw want.raw qcow2 out.qcow2
	# -B trusts that the backing file reads as that of the source: this is where it turns out
	pattern_file other.raw 3M 2
	refused out2.qcow2 qimg convert --verify -O qcow2 -B other.raw -F raw top.qcow2 out2.qcow2
	says 'differs from the source'
	qimg convert --verify -O qcow2 -B in.raw -F raw top.qcow2 out2.qcow2
}
