#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench --mrc: what it predicts is what the real cache does, to 2 points; what
# it recommends has the hits that it promises; what it refuses.

load helpers

# as_measured FILE ENTRY ARGUMENT...: what is predicted for seven sizes and for the targets, beside what the
# real cache does; the prediction is left in the file mrc. With SERIAL=1: with many requests in flight, and one
# load at a time
as_measured() {
	case $VARIANT in *two-slices* | *second-level*) skip 'the caches are not as large as they are asked to be' ;; esac
	python3 - "$QIMG" "$@" <<-'END'
	import json, os, subprocess, sys
	program, file, entry, *how = sys.argv[1:]
	one = ['-d', '32', '--metadata-depth=1'] if 'SERIAL' in os.environ else ['-d', '1', '-i', 'sync']
	def bench(*more):
	    return json.loads(subprocess.run([program, 'bench', *how, '--l2-cache-entry-size=' + entry,
	        '--output=json', *more, file], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
	d = bench('--mrc')
	json.dump(d, open('mrc', 'w'))
	assert d['version'] == 1 and len(d['mrc']) == 1
	m, c = d['mrc'][0], d['mrc'][0]['curve']
	points = [c[i * (len(c) - 1) // 6] for i in range(7)] + m['targets']
	for size, want in sorted({(p['l2-cache-size'], p['hit-ratio']) for p in points}):
	    r = bench(*one, '--open-options=l2-cache-compact=off', '--l2-cache-size=%d' % size)['runs'][0]
	    assert abs(r['l2-hit-ratio'] - want) <= 0.02, (sys.argv, size, want, r['l2-hit-ratio'])
	END
}

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return 1
	"$QIMG" create -q -f qcow2 -o preallocation=metadata,cluster_size=64k wide.qcow2 8G
	"$QIMG" create -q -f qcow2 -o preallocation=metadata,cluster_size=4k narrow.qcow2 512M
}

setup() {
	helpers_setup
	need python3
	wide=$BATS_FILE_TMPDIR/wide.qcow2
	narrow=$BATS_FILE_TMPDIR/narrow.qcow2
}

@test 'as the real cache: all places equally likely' {
	as_measured "$wide" 4k --rw=randread -c 5000
	as_measured "$wide" 64k --rw=randread -c 5000
	as_measured "$narrow" 4k --rw=randread -c 5000
	as_measured "$narrow" 512 --rw=randread -c 5000
	SERIAL=1 as_measured "$wide" 64k --rw=randread -c 2000
	SERIAL=1 as_measured "$narrow" 4k --rw=randread -c 2000 --zipf=1.2 --warmup=500
}

@test 'as the real cache: some places preferred' {
	as_measured "$wide" 4k --rw=randread --zipf=0.9 -c 5000
	as_measured "$wide" 64k --rw=randread --zipf=1.2 -c 5000
	as_measured "$narrow" 4k --rw=randread --zipf=1.2 -c 5000 --warmup=1000
}

@test 'as the real cache: one after the other, and in steps' {
	as_measured "$wide" 4k --rw=read -c 5000 -s 64k
	as_measured "$wide" 64k --rw=read -c 3000 -s 1M
	as_measured "$wide" 4k --rw=read -c 3000 -S 33M
	as_measured "$narrow" 4k --rw=read -c 3000 -s 12k -S 1028k
}

@test 'as the real cache: recordings, where a clock is no list' {
	python3 - >loop <<-'END'
	for i in range(4000):
	    k = i % 400
	    print((k if k < 200 else 399 - k) * (32 << 20), 4096)
	END
	python3 - >scan <<-'END'
	import random
	random.seed(5)
	for i in range(4000):
	    print((random.randrange(20) if i % 2 else 20 + i // 2 % 220) * (32 << 20), random.choice([512, 65536]))
	END
	as_measured "$wide" 4k --replay=loop
	as_measured "$wide" 64k --replay=loop
	as_measured "$wide" 4k --replay=scan
}

@test 'requests over several entries count for each' {
	as_measured "$narrow" 512 --rw=randread -s 1M -c 1000
	equal "$(json mrc "d['mrc'][0]['lookups'] >= 4000 and d['mrc'][0]['requests'] == 1000")" true
}

@test 'what it recommends has all the possible hits' {
	local options
	case $VARIANT in *two-slices* | *second-level*) skip 'the caches are not as large as they are asked to be' ;; esac
	qimg bench --mrc -c 5000 "$wide" >out
	options=$(sed -n 's/^Recommended: //p' out)
	equal "$options" l2-cache-size=1048576,l2-cache-entry-size=4096
	qimg bench --rw=randread -c 5000 -d 1 -i sync --open-options="$options" --output=json "$wide" >run
	equal "$(json run "d['runs'][0]['evictions']")" 0
	equal "$(json run "round(d['runs'][0]['l2-hit-ratio'] * 5000)")" $((5000 - 256))
	contains "$(cat out)" 'of these are the first of their entry'
	contains "$(cat out)" '90 % of the possible hits: l2-cache-size='
}

@test 'a cache that would be too large is not recommended' {
	qimg bench --mrc --size=8T -c 200000 --zipf=1.3 --output=json >out
	equal "$(json out "d['mrc'][0]['recommendation'] == d['mrc'][0]['targets'][2]['options']")" true
	equal "$(json out "d['mrc'][0]['targets'][3]['l2-cache-size'] > 32 << 20")" true
}

@test 'targets are the smallest sizes, as the curve tells them' {
	qimg bench --mrc --size=1G --cluster-size=4k -c 30000 --zipf=1.1 --output=json >out
	qimg bench --mrc --size=1G --cluster-size=4k -c 30000 --zipf=1.1 --output=csv >csv
	python3 - <<-'END'
	import csv, json
	m = json.load(open('out'))['mrc'][0]
	c = {p['entries']: p for p in m['curve']}
	assert sorted(c) == list(range(2, m['entries-touched'] + 1)), sorted(c)[:5]
	most = (m['lookups'] - m['cold-misses']) / m['lookups']
	assert abs(c[m['entries-touched']]['hit-ratio'] - most) < 1e-5
	for t in m['targets']:
	    want = most * t['percent'] / 100
	    assert c[t['entries']]['followed'] and t['hit-ratio'] >= want - 1e-5, t
	    assert c[t['entries'] - 1]['hit-ratio'] < want + 1e-5, t
	    assert t['options'] == 'l2-cache-size=%d,l2-cache-entry-size=4096' % t['l2-cache-size'], t
	rows = list(csv.DictReader(open('csv')))
	assert len(rows) == len(c)
	for r in rows:
	    p = c[int(r['entries'])]
	    assert float(r['hit-ratio']) == p['hit-ratio'] and int(r['followed']) == p['followed'], r
	END
}

@test 'it touches no image and needs none; several geometries are several curves' {
	local before
	qimg create -q -f qcow2 a.qcow2 1G
	before=$(stat -c '%i %s %y %z' a.qcow2)
	chmod 400 a.qcow2
	qimg bench --mrc --rw=randwrite -c 1000 a.qcow2 >out
	chmod 600 a.qcow2
	equal "$(hash a.qcow2) $(stat -c '%i %s %y' a.qcow2)" "$(hash a.qcow2) ${before% * * *}"
	qimg bench --mrc --size=64G --cluster-size=64k,2M --l2-cache-entry-size=4k,64k -c 1000 --output=json >out
	equal "$(json out "[(m['cluster-size'], m['l2-cache-entry-size']) for m in d['mrc']]")" \
		'[[65536, 4096], [65536, 65536], [2097152, 4096], [2097152, 65536]]'
	qimg bench --mrc --size=1G --create-options=extended_l2=on -c 1000 --output=json >out
	equal "$(json out "(d['mrc'][0]['extended-l2'], d['mrc'][0]['entry-cover'])")" '(True, 16777216)'
	qimg create -q -f qcow2 -o extended_l2=on x.qcow2 1G
	qimg bench --mrc -c 1000 --output=json x.qcow2 >out
	equal "$(json out "(d['mrc'][0]['extended-l2'], d['mrc'][0]['entry-cover'])")" '(True, 16777216)'
	qimg bench --mrc --size=1G -c 1000 --depth=1,2 --refcount-cache-size=1M,2M --output=json >out
	equal "$(json out "len(d['mrc'])")" 1
	no_litter . a.qcow2 x.qcow2 out
}

@test 'requests that come to nothing twice need no cache' {
	qimg bench --mrc --rw=read -S 33M -c 100 --size=1T >out
	contains "$(cat out)" 'a cache of any size is as good'
}

@test 'what it can not do is refused' {
	truncate -s 1M r.raw
	fails qimg bench --mrc -f raw r.raw
	says 'no L2 tables'
	fails qimg bench --mrc --format=raw
	says 'no L2 tables'
	for option in --runtime=1 --fill --l2-cache-size=1M --trace=t --runs=3; do
		refused t qimg bench --mrc --rw=randread "$option" "$wide"
		says 'of no use'
	done
	fails qimg bench --mrc --warmup=2s "$wide"
	says 'number of requests'
	fails qimg bench --mrc --l2-cache-entry-size=3k "$wide"
	says 'power of two'
	fails qimg bench --mrc -c 0 "$wide"
	says 'number of requests'
	fails qimg bench --mrc -o 9G "$wide"
	says 'beyond the end'
	refused none.qcow2 qimg bench --mrc none.qcow2
}

@test 'a signal ends it' {
	local pid status=0
	"$QIMG" bench --mrc --size=16T --cluster-size=4k -c 100000000 >out 2>/dev/null &
	pid=$!
	sleep 0.5
	kill -TERM $pid
	wait $pid || status=$?
	equal $status 143
	equal "$(cat out)" ''
}
