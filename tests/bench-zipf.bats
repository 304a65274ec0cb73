#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench --zipf: some places are preferred as the law says, and are not beside
# each other; the same seed, the same requests, however long they take.

load helpers

setup() {
	helpers_setup
	need python3
	qimg create -q -f qcow2 a.qcow2 64M
}

@test 'popularity is as the law says, and not position' {
	qimg bench -q -c 40000 -d 1 -i sync --rw=randread --zipf=1.1 --trace=t a.qcow2
	python3 - <<-'END'
	from collections import Counter
	n, theta, blocks = 40000, 1.1, 16384
	off = [int(l.split()[0]) for l in open('t')]
	assert len(off) == n and all(o % 4096 == 0 and o < 64 << 20 for o in off)
	seen = Counter(off).most_common()
	z = sum(k ** -theta for k in range(1, blocks + 1))
	for k in 1, 2, 3, 5, 10:
	    want = n * k ** -theta / z
	    assert abs(seen[k - 1][1] - want) < 6 * want ** 0.5, (k, seen[k - 1][1], want)
	top = sum(c for _, c in seen[:100])
	want = n * sum(k ** -theta for k in range(1, 101)) / z
	assert abs(top - want) < 6 * want ** 0.5 + 40, (top, want)
	places = sorted(o >> 12 for o, _ in seen[:100])
	assert places[50] > 5000 and places[50] < 12000, places
	assert sum(b - a < 8 for a, b in zip(places, places[1:])) < 20, places
	END
}

@test 'a higher exponent prefers more' {
	local theta
	for theta in 0.2 0.9 1 1.5 3; do
		qimg bench -q -c 5000 -d 1 -i sync --zipf=$theta --trace=t a.qcow2
		sort -u t | wc -l >>different
	done
	equal "$(sort -rn different)" "$(cat different)"
	equal "$(sort -u different | wc -l)" 5
}

@test 'the same seed, the same requests, with any engine and depth' {
	local how
	for how in '-d 1 -i sync' '-d 64 -i threads' '-d 7 -i io_uring' '-d 32 -i model=ssd-2015' '--warmup=100 -c 400'; do
		# shellcheck disable=SC2086
		qimg bench -q -c 500 --rw=randrw -w --zipf=0.9 --seed=5 $how --trace=t a.qcow2
		hash t >>hashes
	done
	equal "$(sort -u hashes | wc -l)" 1
	qimg bench -q -c 500 --rw=randrw -w --zipf=0.9 --seed=6 --trace=t a.qcow2
	[ "$(hash t)" != "$(head -n 1 hashes)" ] || fail 'the seed has no effect'
}

@test 'requests stay behind the offset and before a partial last block' {
	truncate -s $((1048576 + 512)) r.raw
	qimg bench -q -c 3000 -d 1 -i sync --zipf=0.5 -o 64k -f raw --trace=t r.raw
	equal "$(sort -n t | head -n 1)" '65536 4096'
	equal "$(sort -n t | tail -n 1)" "$((1048576 - 4096)) 4096"
}

@test 'what is no exponent is refused' {
	local theta
	for theta in 0 -1 11 nan inf x 1x ''; do
		kept a.qcow2 qimg bench --zipf="$theta" a.qcow2
		says --zipf
	done
	kept a.qcow2 qimg bench --rw=read --zipf=1 a.qcow2
	says 'random requests'
}
