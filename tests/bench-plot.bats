#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench --plot: a chart of the rows.

load helpers

draw() {
	qimg bench -q --rw=randread --size=1G -c 100 -i model=ssd-2015 --scratch=. --plot=a.svg "$@"
	need python3
	python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("a.svg")'
}

@test 'a line for each depth over the sizes, bars over words' {
	draw --l2-cache-size=8K,16K,32K -d 1,8
	contains "$(cat a.svg)" 'depth 1'
	contains "$(cat a.svg)" 'depth 8'
	contains "$(cat a.svg)" 'L2 cache'
	contains "$(cat a.svg)" '16K'
	contains "$(cat a.svg)" 'model=ssd-2015'
	draw --preallocation=off,metadata --format=raw,qcow2
	contains "$(cat a.svg)" 'preallocation'
	contains "$(cat a.svg)" 'qcow2'
	lacks "$(cat a.svg)" 'cluster'
	draw -i model=ssd-2015,model=hdd-2016
	contains "$(cat a.svg)" 'model=hdd-2016'
	draw -d 1,1
}

@test 'what can not be drawn is refused before anything is measured' {
	refused a.svg qimg bench --size=1M -c 10 --scratch=. --plot=a.svg
	says 'two rows'
	refused a.svg qimg bench --size=1M -c 10 --scratch=. --plot=none/a.svg -d 1,2
	qimg create -q -f qcow2 a.qcow2 1M
	kept a.qcow2 qimg bench --rw=randread -c 10 -d 1,2 --plot=a.qcow2 a.qcow2
	says --plot
	no_litter . a.qcow2
}
