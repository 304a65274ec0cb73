#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench: the output and the options of the reference, what it refuses, what
# its requests do to an image.

load helpers

setup() {
	helpers_setup
	qimg create -q -f qcow2 a.qcow2 1M
	qio -f qcow2 -c 'write -P 7 0 1M' a.qcow2 >/dev/null
}

# holds EXPRESSION: Python over the JSON document in out, `r` is its first run
holds() {
	equal "$(json out "(lambda r: $1)(d['runs'][0])")" true "$1"
}

# timeless COMMAND...: what it prints, with a fixed time
timeless() {
	"$@" | sed 's/in [0-9]*\.[0-9]\{3\} seconds/in N seconds/'
}

@test 'the lines are those of the reference' {
	equal "$(timeless qimg bench -f qcow2 a.qcow2)" \
"Sending 75000 read requests, 4096 bytes each, 64 in parallel (starting at offset 0, step size 4096)
Run completed in N seconds."
	equal "$(timeless qimg bench -w -c 100 -d 4 -s 512 -S 8k -o 512 --flush-interval=8 a.qcow2)" \
"Sending 100 write requests, 512 bytes each, 4 in parallel (starting at offset 512, step size 8192)
Sending flush every 8 requests
Run completed in N seconds."
	equal "$(qimg bench -q -c 100 a.qcow2)" ''
}

@test 'and so they are beside it' {
	need qemu-img
	local how
	for how in '-c 10' '-c 0' '-d 1 -c 5' '-c 10 -s 1000 -S 3000' '-w -c 10 --pattern=3' \
		'-w -c 64 --flush-interval=64' '-w -c 64 --flush-interval=64 --no-drain'; do
		# shellcheck disable=SC2086
		timeless qemu-img bench -f qcow2 $how a.qcow2 >theirs
		# shellcheck disable=SC2086
		timeless qimg bench -f qcow2 $how a.qcow2 >ours
		diff theirs ours || fail "bench $how"
	done
}

@test 'a read test leaves the file alone and needs no right to write' {
	local before
	before=$(hash a.qcow2)
	chmod 400 a.qcow2
	for how in '' '--rw=read' '--rw=randread' '-i io_uring' '-t none -i native' '-i sync'; do
		# shellcheck disable=SC2086
		qimg bench -q -c 500 $how a.qcow2 || fail "bench $how"
	done
	equal "$(hash a.qcow2)" "$before"
}

@test 'writes are where they belong, with any engine, and flushes beside them' {
	local engine
	for engine in sync threads io_uring native; do
		qimg create -q -f qcow2 b.qcow2 1M
		qimg bench -q -w --pattern=165 -c 70 -d 16 -s 4k -S 12k --flush-interval=16 -t none -i "$engine" b.qcow2
		qimg bench -q -w --pattern=166 -c 3 -d 2 -s 1000 -S 300k -o 100 --flush-interval=2 --no-drain \
			-i "${engine/native/threads}" b.qcow2
		is_sound b.qcow2
		qimg convert -f qcow2 -O raw b.qcow2 b.raw
		python3 - <<-'END'
		want = bytearray(1 << 20)
		for i in range(70):
		    want[i * 12288:i * 12288 + 4096] = b'\xa5' * 4096
		for i in range(3):
		    want[100 + i * 307200:1100 + i * 307200] = b'\xa6' * 1000
		assert open('b.raw', 'rb').read() == want
		END
	done
}

@test 'a request that would cross the end goes to the start' {
	truncate -s 10000 r.raw
	qimg bench -q -w --pattern=1 -c 3 -d 1 -s 4k -f raw r.raw
	equal "$(tr -d '\1' <r.raw | tr -d '\0' | wc -c)" 0
	equal "$(tr -d '\0' <r.raw | wc -c)" 8192
	qimg bench -q -w --pattern=2 -c 4 -d 1 -s 4k -S 7k -f raw r.raw
	qimg bench -q -c 500 -s 700k a.qcow2
}

@test 'the same seed gives the same random requests, another one others' {
	local seed
	for seed in 1 1 2; do
		truncate -s 1M r.raw
		qimg bench -q -w --rw=randwrite --seed="$seed" --pattern=9 -c 60 -d 1 -o 64k -f raw r.raw
		hash r.raw >>hashes
		equal "$(head -c 65536 r.raw | tr -d '\0' | wc -c)" 0
		[ "$(tr -d '\0' <r.raw | wc -c)" -gt 100000 ] || fail 'less is written than 60 pieces'
		rm r.raw
	done
	equal "$(sed -n 1p hashes)" "$(sed -n 2p hashes)"
	[ "$(sed -n 1p hashes)" != "$(sed -n 3p hashes)" ] || fail 'the seed has no effect'
}

@test 'the figures fit together' {
	qimg bench --rw=randrw -w -c 2000 -d 8 --output=json a.qcow2 >out
	holds 'd["version"] == 1 and len(d["runs"]) == 1'
	holds 'r["rw"] == "randrw" and r["depth"] == 8 and r["ops"] == 2000'
	holds 'abs(r["iops"] * r["seconds"] - 2000) < 20'
	holds 'abs(r["bytes-per-second"] - r["iops"] * 4096) <= 4096'
	holds '0 < r["latency-ns"]["p50"] <= r["latency-ns"]["p95"] <= r["latency-ns"]["p99"] <= r["latency-ns"]["p99.9"] <= r["latency-ns"]["max"]'
	holds '0 < r["latency-ns"]["mean"] <= r["latency-ns"]["max"]'
	qimg bench --rw=read --runtime=1 --output=json a.qcow2 >out
	holds '1 <= r["seconds"] < 5 and r["ops"] > 100'
	qimg bench --rw=randread -c 100 a.qcow2 >out
	contains "$(cat out)" 'requests a second'
}

@test 'it tells what the caches have done' {
	local caches
	qimg create -q -f qcow2 -b a.qcow2 -F qcow2 top.qcow2
	qimg bench --rw=randread -c 500 --output=json top.qcow2 >out
	holds 'len(r["caches"]) == 2 and [c["image"] for c in r["caches"]] == [0, 1]'
	holds 'r["caches"][1]["cache"] == "l2" and r["caches"][1]["lookups"] == r["caches"][1]["hits"] + r["caches"][1]["misses"] >= 500'
	holds 'r["caches"][1]["loads"] == 1 and r["caches"][1]["ram-bytes"] > 0 and not r["caches"][1]["evictions"]'
	qimg bench --rw=randwrite -w -c 500 --output=json top.qcow2 >out
	holds '[c["cache"] for c in r["caches"]] == ["l2", "refcount", "l2"]'
	caches=$(qimg bench --rw=randread -c 500 top.qcow2 | grep -c '^Image [01], l2 cache: [0-9]* lookups')
	equal "$caches" 2
}

@test 'what can not be meant is refused, and the file stays' {
	kept a.qcow2 qimg bench -d 0 a.qcow2
	kept a.qcow2 qimg bench -S 0 a.qcow2
	says 'step of 0'
	kept a.qcow2 qimg bench -s 0 a.qcow2
	says '0 bytes'
	kept a.qcow2 qimg bench -s 2M a.qcow2
	says '1048576'
	kept a.qcow2 qimg bench -o 1M a.qcow2
	says 'beyond the end'
	kept a.qcow2 qimg bench -s 4G a.qcow2
	kept a.qcow2 qimg bench --rw=randwrite a.qcow2
	says '-w'
	kept a.qcow2 qimg bench --rw=randrw a.qcow2
	kept a.qcow2 qimg bench --runtime=1 a.qcow2
	kept a.qcow2 qimg bench --rw=no a.qcow2
	kept a.qcow2 qimg bench --flush-interval=64 a.qcow2
	says 'write tests'
	kept a.qcow2 qimg bench -w --flush-interval=63 a.qcow2
	says 'smaller than depth'
	kept a.qcow2 qimg bench -w --pattern=256 a.qcow2
	kept a.qcow2 qimg bench -n a.qcow2
	says 'cache'
	kept a.qcow2 qimg bench -n -t none -i threads a.qcow2
	kept a.qcow2 qimg bench -i none a.qcow2
	refused none.qcow2 qimg bench none.qcow2
}

@test 'a backing file is never written to' {
	local before
	before=$(hash a.qcow2)
	qimg create -q -f qcow2 -b a.qcow2 -F qcow2 top.qcow2
	qimg bench -q -w -c 256 --pattern=1 top.qcow2
	equal "$(hash a.qcow2)" "$before"
	qio -r -f qcow2 -c 'read -P 1 0 1M' top.qcow2
}

@test 'a signal ends it' {
	local pid status=0
	"$QIMG" bench -q --rw=read --runtime=100 a.qcow2 2>/dev/null &
	pid=$!
	sleep 0.5
	kill -TERM $pid
	wait $pid || status=$?
	equal $status 143
}
