#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert with many requests and workers at a time: the result does not depend
# on how many, and memory is bounded.

load helpers

# text, zeros, and what does not compress, in runs of all lengths
mixed_file() { # FILE BYTES
	need python3
	python3 -c '
import random, sys
r = random.Random(7)
words = [bytes(r.choices(b"etaoinshrdlu", k=r.randint(2, 9))) for _ in range(500)]
left = int(sys.argv[2])
with open(sys.argv[1], "wb") as f:
    while left:
        n = min(left, r.choice((700, 4096, 30000, 65536, 200000)))
        kind = r.randrange(3)
        f.write(bytes(n) if not kind else r.randbytes(n) if kind == 1 else
                b" ".join(r.choices(words, k=n // 3 + 1))[:n].ljust(n, b"x"))
        left -= n' "$1" "$2"
}

# peak_of FILE COMMAND...: its peak of resident memory in KiB goes to FILE
peak_of() {
	need python3
	python3 -c '
import os, subprocess, sys
p = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(p.pid, 0)
open(sys.argv[1], "w").write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))' "$@"
}

@test 'compressed: 1, 2 and 8 workers write the same bytes, again and again' {
	local n round type
	mixed_file in.raw 1500000
	for type in zlib zstd; do
		qimg convert -c -m 1 --no-sync -f raw -O qcow2 -o compression_type=$type in.raw want.qcow2
		is_clean want.qcow2
		same raw in.raw qcow2 want.qcow2
		for round in $(seq 8); do
			for n in 2 8; do
				timeout 60 "$QIMG" convert -c -m $n --no-sync -f raw -O qcow2 \
					-o compression_type=$type in.raw got.qcow2 || fail "$round with $n: $?"
				cmp want.qcow2 got.qcow2
			done
		done
	done
}

@test 'plain: the layout does not depend on the number of requests' {
	local n round
	mixed_file in.raw 9000000
	qimg convert -m 1 --no-sync -f raw -O qcow2 in.raw want.qcow2
	for round in 1 2 3; do
		for n in 2 8 16; do
			qimg convert -m $n --no-sync -f raw -O qcow2 in.raw got.qcow2
			cmp want.qcow2 got.qcow2
		done
		qimg convert --no-sync -f raw -O qcow2 in.raw got.qcow2
		cmp want.qcow2 got.qcow2
	done
	same raw in.raw qcow2 want.qcow2
	# and with a backing file, where zeros are written, too
	pattern_file base.raw 9000000 3
	for n in 1 8; do
		qimg convert -m $n -f raw -O qcow2 -B base.raw -F raw in.raw over$n.qcow2
	done
	cmp over1.qcow2 over8.qcow2
	is_clean over1.qcow2
	same raw in.raw qcow2 over1.qcow2
}

@test '-W: the same content' {
	local opts
	mixed_file in.raw 5000000
	for opts in '' '-c'; do
		# shellcheck disable=SC2086 # may be none
		qimg convert -W $opts -f raw -O qcow2 in.raw w.qcow2
		is_clean w.qcow2
		same raw in.raw qcow2 w.qcow2
	done
	qimg convert -W -O raw w.qcow2 back.raw
	cmp -n 5000000 in.raw back.raw
}

@test 'levels of compression' {
	local level
	mixed_file in.raw 1500000
	for level in 1 6 9; do
		qimg convert -c --compression-level=$level -f raw -O qcow2 in.raw z$level.qcow2
		is_clean z$level.qcow2
		same raw in.raw qcow2 z$level.qcow2
	done
	for level in 1 3 19; do
		qimg convert -c --compression-level=$level -f raw -O qcow2 -o compression_type=zstd \
			in.raw s$level.qcow2
		is_clean s$level.qcow2
		same raw in.raw qcow2 s$level.qcow2
	done
	[ "$(stat -c %s z9.qcow2)" -lt "$(stat -c %s z1.qcow2)" ]
	[ "$(stat -c %s s19.qcow2)" -lt "$(stat -c %s s1.qcow2)" ]
	# 3 is zstd's default
	qimg convert -c -f raw -O qcow2 -o compression_type=zstd in.raw s.qcow2
	cmp s.qcow2 s3.qcow2
	for level in 0 20 -1 x; do
		refused no.qcow2 qimg convert -c --compression-level=$level -f raw -O qcow2 in.raw no.qcow2
	done
	refused no.qcow2 qimg convert -c --compression-level=10 -f raw -O qcow2 in.raw no.qcow2
	says 'from 1 to 9'
	refused no.qcow2 qimg convert --compression-level=5 -f raw -O qcow2 in.raw no.qcow2
	says '-c'
}

@test 'memory stays below 64 MiB, whatever the size of clusters' {
	need_no_sanitizer
	local size type
	mixed_file in.raw 60000000
	for size in 512 64k 2M; do
		for type in zlib zstd; do
			[ $size != 512 ] || [ $type = zlib ] || continue
			peak_of peak "$QIMG" convert -c -m 16 --no-sync -f raw -O qcow2 \
				-o cluster_size=$size,compression_type=$type in.raw c.qcow2
			[ "$(cat peak)" -lt 65536 ] || fail "$size $type: $(cat peak) KiB"
		done
		peak_of peak "$QIMG" convert -m 16 --no-sync -O raw c.qcow2 back.raw
		[ "$(cat peak)" -lt 65536 ] || fail "back from $size: $(cat peak) KiB"
		cmp -n 60000000 in.raw back.raw
	done
	peak_of peak "$QIMG" convert -m 16 -S 16M --no-sync -f raw -O qcow2 in.raw c.qcow2
	[ "$(cat peak)" -lt 65536 ] || fail "-S 16M: $(cat peak) KiB"
	same raw in.raw qcow2 c.qcow2
}

@test '-p says that there are fewer workers' {
	mixed_file in.raw 3000000
	qimg convert -p -c -m 16 -f raw -O qcow2 -o cluster_size=2M in.raw c.qcow2 >log
	contains "$(cat log)" 'workers instead of 16'
	is_clean c.qcow2
	same raw in.raw qcow2 c.qcow2
}
