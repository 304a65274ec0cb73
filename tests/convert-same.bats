#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert refuses to write to what it reads from, whatever the name.

load helpers

setup() {
	helpers_setup
	need qemu-img qemu-io
	qemu-img create -q -f qcow2 a.qcow2 4M
	qemu-io -c 'write -P 0x41 0 2M' a.qcow2 >/dev/null
	pattern_file r.raw 1M
	ln -s a.qcow2 sym.qcow2
	qemu-img create -q -f qcow2 -b a.qcow2 -F qcow2 ov.qcow2
	qemu-io -c 'write -P 0x43 1M 64k' ov.qcow2 >/dev/null
}

@test 'under the same or another path' {
	kept a.qcow2 qimg convert -O qcow2 a.qcow2 a.qcow2
	kept a.qcow2 qimg convert -O qcow2 a.qcow2 ./a.qcow2
	kept a.qcow2 qimg convert -O qcow2 a.qcow2 "$PWD/a.qcow2"
	kept a.qcow2 qimg convert -O qcow2 a.qcow2 sym.qcow2
	kept a.qcow2 qimg convert -O qcow2 sym.qcow2 a.qcow2
	kept a.qcow2 qimg convert -O raw a.qcow2 a.qcow2
	kept a.qcow2 qimg convert -n -O qcow2 a.qcow2 a.qcow2
	kept a.qcow2 qimg convert -U -O qcow2 a.qcow2 a.qcow2
	kept r.raw qimg convert -f raw -O raw r.raw r.raw
	says 'same file'
	ln a.qcow2 hard.qcow2
	kept a.qcow2 qimg convert -O qcow2 a.qcow2 hard.qcow2
	kept a.qcow2 qimg convert -n -O qcow2 a.qcow2 hard.qcow2
}

@test 'as one of several sources' {
	kept r.raw qimg convert -f raw -O raw a.qcow2 r.raw r.raw
}

@test 'somewhere in the backing chain' {
	kept a.qcow2 qimg convert -O qcow2 ov.qcow2 a.qcow2
	says 'backing chain'
	kept a.qcow2 qimg convert -c -O qcow2 ov.qcow2 a.qcow2
	kept a.qcow2 qimg convert -n -O qcow2 ov.qcow2 a.qcow2
	kept a.qcow2 qimg convert -O raw ov.qcow2 sym.qcow2
	qemu-img create -q -f qcow2 -b ov.qcow2 -F qcow2 top.qcow2
	kept a.qcow2 qimg convert -O qcow2 top.qcow2 a.qcow2
}

@test 'the data file of the source, or of the target' {
	qemu-img create -q -f qcow2 -o data_file=d.raw e.qcow2 1M
	qemu-io -c 'write -P 0x55 0 1M' e.qcow2 >/dev/null
	kept d.raw qimg convert -O raw e.qcow2 d.raw
	kept d.raw qimg convert -n -O raw e.qcow2 d.raw
	kept d.raw qimg convert -O qcow2 -o data_file=d.raw e.qcow2 new.qcow2
	kept r.raw qimg convert -f raw -O qcow2 -o data_file=r.raw r.raw new.qcow2
	kept d.raw qimg convert -n -f raw -O qcow2 d.raw e.qcow2
	[ ! -e new.qcow2 ]
}
