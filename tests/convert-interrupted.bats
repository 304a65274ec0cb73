#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# A convert that is stopped at any moment, or that the system refuses something at any moment: the old
# target is as it was, or the new one is complete. INTERRUPT_ROUNDS=1000 takes it further.

load helpers

rounds=${INTERRUPT_ROUNDS:-2}

# Sources in the current directory, an old target old.raw, a target t.qcow2 to write into.
make_files() {
	need qemu-img python3
	pattern_file noise 3M
	yes 'what compresses' | head -c 2M >text
	cat noise text >in.raw
	truncate -s 12M in.raw
	pattern_file old.raw 1M 2
	qemu-img create -q -f qcow2 -b in.raw -F raw over.qcow2
	qemu-io -f qcow2 -c 'write -q -P 7 1M 1M' over.qcow2
	qemu-img convert -O raw over.qcow2 over.raw
}

# stopped SIGNAL DELAY COMMAND...: lets it run for a while; $status is how it ended
stopped() {
	local signal=$1 delay=$2 pid
	shift 2
	# What a shell starts with & ignores SIGINT.
	env --default-signal=INT "$@" >/dev/null 2>&1 &
	pid=$!
	sleep "$delay"
	kill "-$signal" $pid 2>/dev/null || true
	status=0
	# bash says who was killed
	wait $pid 2>/dev/null || status=$?
}

# free_of_locks FILE: what a killed process had in flight with io_uring keeps its files open, with their
# locks, for a moment after it is gone
free_of_locks() {
	local _
	for _ in $(seq 100); do
		qemu-img info "$1" 2>&1 | grep -q lock || return 0
		sleep 0.1
	done
}

# A moment within the time that the command takes when it is left alone
measure() {
	local from to
	from=$(date +%s%N)
	"$@" >/dev/null
	to=$(date +%s%N)
	took=$(((to - from) / 1000000))
}

moment() {
	local ms=$(((RANDOM * 32768 + RANDOM) % (took * 11 / 10 + 2)))
	printf '%d.%03d' $((ms / 1000)) $((ms % 1000))
}

# holds FORMAT FILE WANT: it reads as the raw file WANT
holds() {
	[ "$1" != qcow2 ] || is_clean "$2"
	same "$1" "$2" raw "$3"
}

# interrupt FORMAT TARGET WANT OLD ARGUMENT...: converts, with what is in ARGUMENT..., to TARGET, which
# is then a copy of OLD or not there (OLD is ''), or reads as WANT
interrupt() {
	local format=$1 target=$2 want=$3 old=$4 signal dir before
	shift 4
	dir=$(dirname "$target")
	measure "$QIMG" convert "$@" -O "$format" "$target"
	holds "$format" "$target" "$want"
	rm -f "$target"
	before=$(ls -A "$dir")
	for _ in $(seq "$rounds"); do
		for signal in KILL TERM INT; do
			rm -f "$target"
			[ -z "$old" ] || cp "$old" "$target"
			stopped $signal "$(moment)" "$QIMG" convert "$@" -O "$format" "$target"
			[ ! -e "$target" ] || free_of_locks "$target"
			if [ -z "$old" ] && [ ! -e "$target" ]; then
				[ $status -ne 0 ] || fail 'ended with 0 and left no target'
			elif [ -n "$old" ] && cmp -s "$old" "$target"; then
				[ $status -ne 0 ] || fail 'ended with 0 and left the old target'
			else
				holds "$format" "$target" "$want"
			fi
			rm -f "$target"
			if [ $signal = KILL ]; then
				# Only that can leave anything, under such names.
				rm -f "$dir/.${target##*/}".qimg-??????
			fi
			equal "$(ls -A "$dir")" "$before" "after SIG$signal"
		done
	done
}

@test 'stopped at any moment: the old target, or the new one, or none' {
	make_files
	interrupt raw out.raw in.raw '' -f raw in.raw
	interrupt raw out.raw in.raw old.raw -f raw in.raw
	interrupt qcow2 out.qcow2 in.raw '' -f raw in.raw
	interrupt qcow2 out.qcow2 in.raw old.raw -c -f raw in.raw
	interrupt qcow2 out.qcow2 over.raw old.raw -f qcow2 over.qcow2
	interrupt qcow2 out.qcow2 in.raw old.raw -t none -T none -f raw in.raw
}

@test 'stopped at any moment while blocks are shared' {
	mount_fs xfs 300M fs
	cd fs
	make_files
	interrupt raw out.raw in.raw '' -f raw in.raw
	interrupt qcow2 out.qcow2 in.raw old.raw -f raw in.raw
}

# Each KiB of FILE is that of OLD or that of NEW.
mixes() {
	python3 -c '
import sys
got, old, new = (open(n, "rb").read() for n in sys.argv[1:4])
n = 1024
bad = [at for at in range(0, len(got), n)
       if got[at:at + n] not in (old[at:at + n], new[at:at + n])]
sys.exit(f"neither old nor new at {bad[:9]}" if bad or len(got) != len(new) else 0)' "$@"
}

@test 'stopped at any moment in a target that is there: each part is old or new' {
	local signal options
	make_files
	pattern_file first.raw 12M 3
	for options in '' '-c' '-t none'; do
		qemu-img convert -f raw -O qcow2 first.raw first.qcow2
		cp first.qcow2 t.qcow2
		# shellcheck disable=SC2086 # may be none
		measure "$QIMG" convert -n $options -f raw -O qcow2 in.raw t.qcow2
		same raw in.raw qcow2 t.qcow2
		for _ in $(seq "$rounds"); do
			for signal in KILL TERM INT; do
				cp first.qcow2 t.qcow2
				# shellcheck disable=SC2086 # may be none
				stopped $signal "$(moment)" "$QIMG" convert -n $options -f raw -O qcow2 in.raw t.qcow2
				free_of_locks t.qcow2
				is_sound t.qcow2
				qemu-img convert -O raw t.qcow2 t.raw
				mixes t.raw first.raw in.raw
				[ $status -ne 0 ] || same raw in.raw qcow2 t.qcow2
			done
		done
	done
	cp first.raw t.raw
	measure "$QIMG" convert -n -f raw -O raw in.raw t.raw
	for _ in $(seq "$rounds"); do
		cp first.raw t.raw
		stopped KILL "$(moment)" "$QIMG" convert -n -f raw -O raw in.raw t.raw
		free_of_locks t.raw
		mixes t.raw first.raw in.raw
		[ $status -ne 0 ] || cmp in.raw t.raw
	done
}

@test 'no space on ext4: nothing is left, an old target stays, one in use is sound' {
	local options target
	pattern_file in.raw 8M
	mount_fs ext4 6M small
	rmdir small/lost+found
	for options in '-O raw' '-O qcow2' '-c -O qcow2' '-t none -O raw' '-t none -c -O qcow2' \
		'-O qcow2 -o data_file=small/d.raw,preallocation=metadata' '-O qcow2 -o preallocation=full'; do
		target=small/out
		# shellcheck disable=SC2086 # some words
		refused $target qimg convert -f raw in.raw $options $target
		no_litter small
	done
	pattern_file small/old 1M 2
	for options in '-O raw' '-O qcow2' '-c -O qcow2' '-t none -c -O qcow2'; do
		# shellcheck disable=SC2086 # some words
		kept small/old qimg convert -f raw in.raw $options small/old
		no_litter small old
	done
	need qemu-img
	qemu-img create -q -f qcow2 small/t.qcow2 8M
	for options in '' '-c' '-t none'; do
		# shellcheck disable=SC2086 # may be none
		fails qimg convert -n $options -f raw -O qcow2 in.raw small/t.qcow2
		says 'No space left'
		is_sound small/t.qcow2
	done
	no_litter small old t.qcow2
}

# refused_by_system CALL CODE TIMES OPTION...: each of the first calls of that name fails in turn
refused_by_system() {
	local call=$1 code=$2 times=$3 n
	shift 3
	for n in $(seq "$times"); do
		cp old.raw out
		status=0
		strace -f -qq -o log -e "trace=$call" -e "inject=$call:error=$code:when=$n" \
			"$QIMG" convert -f raw in.raw "$@" out >stdout 2>stderr || status=$?
		grep -q INJECTED log || break
		if [ $status -eq 0 ]; then
			holds "$format" out in.raw
		else
			[ -s stderr ]
			cmp old.raw out || holds "$format" out in.raw
		fi
		no_litter . in.raw old.raw out log stdout stderr
	done
}

can_inject() {
	need strace
	need_plain
	strace -f -qq -o log -e trace=fsync -e inject=fsync:error=EIO:when=999 true 2>/dev/null ||
		skip 'strace does not work here'
}

@test 'what the system refuses in names and syncs: the old target, or the new one' {
	local format call
	can_inject
	pattern_file in.raw 1M
	pattern_file old.raw 512K 2
	for format in raw qcow2; do
		for call in fsync fdatasync renameat2 renameat linkat unlinkat fchmod fchown; do
			refused_by_system $call EIO 4 -O $format
		done
	done
}

@test 'a sync that fails is a convert that fails' {
	local call failed=0
	can_inject
	pattern_file in.raw 1M
	pattern_file old.raw 512K 2
	cp old.raw out
	# by whichever engine
	strace -f -qq -o log -e trace=fdatasync,fsync,io_uring_setup \
		-e inject=io_uring_setup:error=EPERM -e inject=fdatasync:error=EIO \
		-e inject=fsync:error=EIO "$QIMG" convert -f raw -O qcow2 in.raw out 2>stderr || failed=1
	[ $failed -eq 1 ]
	contains "$(cat stderr)" 'Input/output error'
	cmp old.raw out
}

@test 'all is synced before the target has its name, and the folder before the end' {
	local options
	can_inject
	pattern_file in.raw 2M
	for options in '-O raw' '-O qcow2' '-c -O qcow2' '-t none -O qcow2' '-O raw old' '-O qcow2 old'; do
		rm -f out
		[ "$options" = "${options% old}" ] || cp in.raw out
		# shellcheck disable=SC2086 # some words
		strace -f -y -qq -o log -e trace=desc,file,process,io_uring_setup \
			-e inject=io_uring_setup:error=EPERM \
			"$QIMG" convert -f raw ${options% old} in.raw out
		python3 - "$PWD" log <<'P'
import re, sys

folder, log = sys.argv[1:3]
synced = named = None		# None: nothing was written yet
folder_synced = False
for line in open(log):
    line = line.split(None, 1)[1]
    call = line.split("(", 1)[0]
    where = re.match(r"\w+\(\d+<([^>]*)>", line)
    where = where.group(1) if where else ""
    ours = where.startswith(folder + "/") and not where.endswith(("/in.raw", "/log"))
    if call in ("pwrite64", "pwritev", "fallocate", "ftruncate", "copy_file_range", "ioctl") and ours:
        # locks and questions are no changes
        if call != "ioctl" or "CLONE" in line:
            synced = False
            assert not named, "changed after it got its name: " + line
    elif call in ("fdatasync", "fsync") and where == folder:
        folder_synced = bool(named)
    elif call in ("fdatasync", "fsync") and ours:
        synced = True
    elif call in ("renameat2", "renameat", "rename", "linkat") and '"out"' in line:
        assert synced, "named before it was synced: " + line
        named = True
assert synced and named and folder_synced, (synced, named, folder_synced)
P
	done
}
