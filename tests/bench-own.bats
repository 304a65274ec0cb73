#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench: warm-up, popular places, filling, runs, traces, open options.

load helpers

setup() {
	helpers_setup
	qimg create -q -f qcow2 -o preallocation=metadata a.qcow2 32M
}

# holds EXPRESSION: Python over the JSON document in out, `r` is its first run
holds() {
	equal "$(json out "(lambda r: $1)(d['runs'][0])")" true "$1"
}

@test 'without --rw options of this mode mean random requests' {
	qimg bench -c 10 --runs=1 --output=json a.qcow2 >out
	holds 'r["rw"] == "randread" and r["ops"] == 10'
	qimg bench -w -c 10 --runs=1 --output=json a.qcow2 >out
	holds 'r["rw"] == "randwrite" and r["writes"] == 10'
	fails qimg bench --runtime=1 a.qcow2
}

@test 'what the warm-up did does not count' {
	qimg bench --rw=randread -c 500 -d 1 --warmup=100 --output=json a.qcow2 >out
	holds 'r["ops"] == 500 and r["warmup-ops"] == 100 and r["metadata-reads"] == 0'
	holds 'r["caches"][0]["lookups"] == 500 and r["l2-hit-ratio"] == 1'
	qimg bench --rw=randread -c 500 -d 1 --output=json a.qcow2 >out
	holds 'r["warmup-ops"] == 0 and r["metadata-reads"] == 1'
	qimg bench --rw=randread -c 100 --warmup=1s -i model=hdd-2016 --output=json a.qcow2 >out
	holds '90 <= r["warmup-ops"] <= 1000000 and r["ops"] == 100 and r["virtual-time"]'
	# Fewer than are in flight: none of those that were sent before.
	qimg bench --rw=randread -d 64 -c 10 --warmup=1s -i model=ssd-2015 --output=json a.qcow2 >out
	holds 'r["ops"] == 10 and r["seconds"] == 0.0001572 and r["latency-ns"]["max"] <= 157200'
	local bad
	for bad in x -1 1m 1ss s '' 1.5; do
		kept a.qcow2 qimg bench --rw=randread --warmup="$bad" a.qcow2
	done
}

@test 'the requests of a trace are those of the seed, and popular places come often' {
	qimg bench -q --rw=randread -c 1000 --trace=one a.qcow2
	qimg bench -q --rw=randread -c 1000 --trace=two a.qcow2
	qimg bench -q --rw=randread -c 1000 --seed=2 --trace=three a.qcow2
	cmp one two
	if cmp -s one three; then fail "the seed has no effect"; fi
	equal "$(wc -l <one)" 1000
	equal "$(awk 'NF != 2 || $1 % 4096 || $2 != 4096 || $1 + $2 > 33554432' one)" ''
	equal "$(sort -u one | awk 'END { print (NR > 900) }')" 1 'uniform'
	qimg bench -q --rw=randread -c 1000 --zipf=1.2 --warmup=10 --trace=four a.qcow2
	equal "$(wc -l <four)" 1010
	equal "$(sort -u four | awk 'END { print (NR < 600) }')" 1 'popular'
	qimg bench --rw=randread -c 10 --zipf=1.2 --output=json a.qcow2 >out
	holds 'r["zipf"] == 1.2'
	local bad
	for bad in 0 -1 x 11 nan '' 1x; do
		kept a.qcow2 qimg bench --rw=randread --zipf="$bad" a.qcow2
	done
	kept a.qcow2 qimg bench --rw=read --zipf=1 a.qcow2
}

@test 'a trace overwrites neither the image nor, by several rows, itself' {
	kept a.qcow2 qimg bench --rw=randread -c 10 --trace=a.qcow2 a.qcow2
	says --trace
	qimg create -q -f qcow2 -b a.qcow2 -F qcow2 top.qcow2
	kept a.qcow2 qimg bench --rw=randread -c 10 --trace=a.qcow2 top.qcow2
	refused t qimg bench --rw=randread -c 10 -d 1,2 --trace=t a.qcow2
	kept a.qcow2 qimg bench --rw=randread -c 10 --trace=none/t a.qcow2
	says none/t
	[ -e /dev/full ] || skip 'no /dev/full'
	kept a.qcow2 qimg bench --rw=randread -c 10 --trace=/dev/full a.qcow2
	says /dev/full
}

@test 'what writes needs -w, also to fill' {
	kept a.qcow2 qimg bench --rw=randread --fill a.qcow2
	says -w
	kept a.qcow2 qimg bench --fill a.qcow2
	kept a.qcow2 qimg bench --rw=randwrite --runs=2 a.qcow2
	says -w
	qimg bench -q --rw=randread -w --fill --pattern=7 -c 10 a.qcow2
	qio -r -f qcow2 -c 'read -P 7 0 32M' a.qcow2
	is_clean a.qcow2
	qimg create -q -f qcow2 -o cluster_size=512 odd.qcow2 1049088
	qimg bench -q --rw=randread -w --fill -c 10 odd.qcow2
	qio -r -f qcow2 -c 'read -P 165 0 1049088' odd.qcow2
	truncate -s 1000 small.raw
	qimg bench -q --rw=randread -w --fill -s 512 -c 10 -f raw small.raw
	equal "$(tr -d '\245' <small.raw | wc -c)" 0
}

@test 'a backing file is not filled' {
	local before
	before=$(hash a.qcow2)
	qimg create -q -f qcow2 -b a.qcow2 -F qcow2 top.qcow2
	qimg bench -q --rw=randrw -w --fill -c 100 top.qcow2
	equal "$(hash a.qcow2)" "$before"
}

@test 'the median of some runs, and the spread' {
	qimg bench --rw=randread -c 100 --runs=4 --output=json a.qcow2 >out
	holds 'r["runs"] == 4 and r["iops-least"] <= r["iops"] <= r["iops-most"]'
	holds 'abs(r["iops"] * r["seconds"] - r["ops"]) < 1'
	contains "$(qimg bench --rw=randread -c 100 --runs=3 a.qcow2 2>/dev/null)" 'The median of 3 runs'
	contains "$(qimg bench --rw=randread -c 100 --runs=3 -d 1,2 a.qcow2 2>/dev/null)" 'spread'
	kept a.qcow2 qimg bench --rw=randread --runs=0 a.qcow2
	# Without a new image the second run would find all allocated: model times tell.
	qimg bench --rw=randwrite -c 100 --runs=3 -i model=thin-2019 --size=64M --scratch=. --output=json >out
	holds 'r["iops-least"] == r["iops-most"]'
}

@test 'any open option' {
	qimg bench --rw=randread -c 1000 --open-options=metadata-cache=off --output=json a.qcow2 >out
	holds 'r["metadata-reads-per-op"] == 1 and r["open-options"] == "metadata-cache=off"'
	qimg bench --rw=randread -c 100 --metadata-depth=2 --output=json a.qcow2 >out
	holds 'r["metadata-depth"] == 2'
	qimg bench --rw=randread -c 100 --open-options=l2-cache-size=8K,l2-cache-file=c,l2-cache-file-direct=off \
		--l2-cache-entry-size=512 --output=json a.qcow2 >out
	holds 'r["l2-cache-entry-size"] == 512 and r["l2-cache-size"] == 8192 or "'"$VARIANT"'"'
	qimg bench --rw=randread -c 100 --cache-rule=2015 --l2-cache-size=256K --size=16G --scratch=. --output=json \
		--open-options=l2-cache-compact=off >out
	holds 'r["l2-cache-size"] == 262144 and r["l2-cache-entry-size"] == 65536'
	holds 'r["open-options"] == "cache-rule=2015,l2-cache-compact=off"'
	kept a.qcow2 qimg bench --rw=randread --cache-rule=2016 a.qcow2
	kept a.qcow2 qimg bench --rw=randread --open-options=no-such=1 a.qcow2
	kept a.qcow2 qimg bench --rw=randread --metadata-depth=0 a.qcow2
	kept a.qcow2 qimg bench --rw=randread --l2-cache-size=1M --open-options=metadata-cache=off a.qcow2
}

@test 'CSV has the same figures' {
	qimg bench --rw=randread -c 100 -d 1,2 --output=csv a.qcow2 >out
	python3 - <<-'END'
	import csv
	rows = list(csv.DictReader(open('out')))
	assert len(rows) == 2 and [r['depth'] for r in rows] == ['1', '2'], rows
	assert all(r['ops'] == '100' and float(r['iops']) > 0 for r in rows)
	assert all(int(r['latency-p50-ns']) <= int(r['latency-max-ns']) for r in rows)
	assert all(r['file'] == 'a.qcow2' and r['preset'] == '' for r in rows)
	END
	cp a.qcow2 'a, "b".qcow2'
	qimg bench --rw=randread -c 10 --output=csv 'a, "b".qcow2' >out
	equal "$(python3 -c 'import csv; print(list(csv.DictReader(open("out")))[0]["file"])')" 'a, "b".qcow2'
	qimg bench --rw=randread -c 10 --output=json 'a, "b".qcow2' >out
	holds 'r["file"] == "a, \"b\".qcow2"'
}

@test 'engines and models are listed' {
	qimg bench -i help >out
	contains "$(cat out)" threads
	contains "$(cat out)" 'model=ssd-2015'
	contains "$(cat out)" 'explains'
	kept a.qcow2 qimg bench -i model=abacus a.qcow2
	says 'model=hdd-2016'
	qimg bench -q -c 10 --image-opts driver=qcow2,file.filename=a.qcow2,aio=model=ssd-2018
	fails qimg bench -c 10 --image-opts driver=qcow2,file.filename=a.qcow2,aio=model=abacus
	says 'model=hdd-2016'
}
