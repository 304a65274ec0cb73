#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench --replay: recorded requests are sent as they were; what --trace writes
# can be replayed; bad recordings.

load helpers

setup() {
	helpers_setup
	qimg create -q -f qcow2 a.qcow2 4M
	qio -f qcow2 -c 'write -P 7 0 4M' a.qcow2 >/dev/null
}

# run_is EXPRESSION: Python over the first run of the JSON document in out
run_is() {
	equal "$(json out "(lambda r: $1)(d['runs'][0])")" true "$1"
}

@test 'a trace replayed is the same trace' {
	local how
	for how in --rw=randread '--rw=randread --zipf=0.8' '--rw=read -s 1000 -S 7000' '--rw=randrw -w' \
		'--rw=randread --warmup=50'; do
		# shellcheck disable=SC2086
		qimg bench -q -c 300 -d 16 $how --trace=one a.qcow2
		[ "$(wc -l <one)" -ge 300 ] || fail "$how: $(wc -l <one) lines"
		qimg bench -q -w --rw=read --replay=one --trace=two a.qcow2 2>err ||
			qimg bench -q -w --replay=one --trace=two a.qcow2
		cmp one two
	done
}

@test 'in a mixture a trace tells which are writes' {
	qimg bench -q -c 300 --rw=randrw -w --trace=one a.qcow2
	equal "$(grep -cE '^[0-9]+ 4096 [rw]$' one)" 300
	qimg bench -q -c 300 --rw=randread --trace=one a.qcow2
	equal "$(grep -cE '^[0-9]+ 4096$' one)" 300
}

@test 'where, how long, and whether to write is as recorded' {
	printf '0 512 w\n1000000 3000 w\n4096 100 r\n4194303 1 w\n' >rec
	qimg bench -w --pattern=9 -d 2 --replay=rec --output=json a.qcow2 >out
	run_is 'r["rw"] == "replay" and r["ops"] == 4 and r["writes"] == 3'
	run_is 'abs(r["bytes-per-second"] * r["seconds"] - 3613) < 100'
	qimg convert -f qcow2 -O raw a.qcow2 a.raw
	python3 - <<-'END'
	want = bytearray(b'\7' * (4 << 20))
	for off, n in (0, 512), (1000000, 3000), (4194303, 1):
	    want[off:off + n] = b'\t' * n
	assert open('a.raw', 'rb').read() == want
	END
}

@test 'iologs of fio, and what blkparse prints' {
	printf '%s\n' 'fio version 2 iolog' 'a add' 'a open' 'a write 0 4096' 'a read 8192 4096' 'a close' >fio2
	printf '%s\n' 'fio version 3 iolog' '1 a add' '2 a open' '3 a write 0 4096' '4 a read 8192 4096' >fio3
	printf '%s\n' '  8,0  0  1  0.000000001  9  Q  W 0 + 8 [x]' '  8,0  0  2  0.000000002  9  C  W 0 + 8 [0]' \
		'  8,0  0  3  0.000000003  9  Q  RA 16 + 8 [x]' 'CPU0 (sda):' >blk
	for rec in fio2 fio3 blk; do
		qimg bench -q -w --replay=$rec --trace=got a.qcow2
		equal "$(cat got)" "0 4096 w
8192 4096 r"
	done
}

@test 'what fio itself writes is read' {
	need fio
	truncate -s 4M f.raw
	fio --name=x --filename=f.raw --rw=randrw --size=4M --bs=4k --number_ios=40 --ioengine=sync \
		--write_iolog=log >/dev/null 2>&1 || skip 'this fio makes no log'
	awk '$3 == "read" || $3 == "write" { print $4, $5, substr($3, 1, 1) }' log >want
	grep -q 'version 3' log || awk '$2 == "read" || $2 == "write" { print $3, $4, substr($2, 1, 1) }' log >want
	[ -s want ]
	qimg bench -q -w --replay=log --trace=got a.qcow2
	cmp want got
}

@test 'it begins anew where more is asked for, and stops where less is' {
	printf '0 512\n4096 512\n8192 512\n' >rec
	qimg bench -q -c 7 --replay=rec --trace=got a.qcow2
	equal "$(cut -d' ' -f1 got | tr '\n' ' ')" '0 4096 8192 0 4096 8192 0 '
	qimg bench -c 2 --replay=rec --output=json a.qcow2 >out
	run_is 'r["ops"] == 2 and not r["request-size"]'
	qimg bench --runtime=1 --replay=rec --output=json a.qcow2 >out
	run_is 'r["ops"] > 3 and 1 <= r["seconds"] < 5'
	qimg bench --warmup=2 -c 3 --replay=rec --output=json a.qcow2 >out
	run_is 'r["ops"] == 3 and r["warmup-ops"] == 2'
	qimg bench --replay=rec a.qcow2 >out
	contains "$(cat out)" 'Sending 3 requests as recorded (3, up to 512 bytes each)'
	qimg bench --rw=write -w --replay=rec -d 1 --flush-interval=2 a.qcow2 >out
	contains "$(cat out)" 'Sending flush every 2 requests'
}

@test 'from a pipe' {
	qimg bench -q --replay=<(echo 0 512) --trace=got a.qcow2
	equal "$(cat got)" '0 512'
}

@test 'a scratch image has room for it' {
	echo "$((3 << 30)) 4096" >rec
	qimg bench --replay=rec --output=json >out
	run_is 'r["file"] is None and r["virtual-size"] == (3 << 30) + (1 << 20)'
	fails qimg bench --replay=rec --size=1G
	says "Line 1 of 'rec'"
}

@test 'writing needs -w, and leaves the file without it' {
	printf '0 512 r\n0 512 w\n' >rec
	kept a.qcow2 qimg bench --replay=rec a.qcow2
	says '-w'
	kept a.qcow2 qimg bench --replay=rec --rw=read -w a.qcow2
	says '--rw is of no use'
	printf '0 512\n' >rec
	kept a.qcow2 qimg bench --replay=rec --rw=randwrite a.qcow2
	says '-w'
	qimg bench -q --replay=rec --rw=randwrite --pattern=3 -w a.qcow2
	qio -r -f qcow2 -c 'read -P 3 0 512' a.qcow2
}

@test 'what is wrong is told with file and line, and the image stays' {
	local text
	while IFS='|' read -r text what; do
		# shellcheck disable=SC2059 # it has escapes
		printf "$text" >rec
		kept a.qcow2 qimg bench --replay=rec a.qcow2
		says "$what"
		says rec
	done <<-'END'
	|has no requests
	0 512\n0 x\n|Line 2 of 'rec': This is no length
	4194304 512\n|beyond the end
	0 512\n4194000 512\n0 512\n|Line 2 of
	0 99999999999999999999\n|no length
	18446744073709551615 512\n|beyond any disk
	0 0\n|0 bytes
	0 512\0\n|byte of 0
	fio version 1 iolog\n|not '1'
	some text\n|neither
	0 512 r\n0 512\n|none
	END
	kept a.qcow2 qimg bench --replay=none a.qcow2
	says none
	kept a.qcow2 qimg bench --replay=. a.qcow2
	kept a.qcow2 qimg bench --replay=/dev/zero a.qcow2
	says 'longer than'
	echo '0 512' >rec
	for option in --zipf=1 -s4k -S4k -o4k; do
		kept a.qcow2 qimg bench --replay=rec $option a.qcow2
		says 'of no use'
	done
}
