#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert -l copies an internal snapshot; without it snapshots are mentioned.

load helpers

setup() {
	helpers_setup
	need qemu-img qemu-io
	qemu-img create -q -f qcow2 s.qcow2 2M
	qemu-io -c 'write -P 1 0 1M' s.qcow2 >/dev/null
	qemu-img snapshot -c first s.qcow2
	qemu-io -c 'write -P 2 512k 1M' s.qcow2 >/dev/null
	qemu-img snapshot -c second s.qcow2
	qemu-io -c 'write -z 0 2M' s.qcow2 >/dev/null
}

is_like() { # SNAPSHOT FILE: the reference reads the same from the snapshot
	qemu-img convert -l "$1" -O raw s.qcow2 want.raw
	cmp want.raw "$2"
}

@test 'by name, by ID, by key' {
	qimg convert -l first -O raw s.qcow2 out.raw
	is_like first out.raw
	qimg convert -l 2 -O raw s.qcow2 out.raw
	is_like second out.raw
	qimg convert -l snapshot.name=first -O raw s.qcow2 out.raw
	is_like first out.raw
	qimg convert --snapshot snapshot.id=2,snapshot.name=second -O qcow2 s.qcow2 out.qcow2
	is_clean out.qcow2
	qimg convert -O raw out.qcow2 out.raw
	is_like second out.raw
}

@test 'one that is not there, several sources, raw' {
	refused out.raw qimg convert -l third -O raw s.qcow2 out.raw
	says third
	refused out.raw qimg convert -l first -O raw s.qcow2 s.qcow2 out.raw
	pattern_file in.raw 1M
	refused out.raw qimg convert -l first -f raw -O raw in.raw out.raw
}

@test 'snapshots that stay behind are mentioned, unless -q or -l' {
	contains "$(qimg convert -O raw s.qcow2 out.raw 2>&1)" '2 internal snapshots'
	equal "$(qimg convert -q -O raw s.qcow2 out.raw 2>&1)" ''
	equal "$(qimg convert -l first -O raw s.qcow2 out.raw 2>&1)" ''
}

@test 'a snapshot over a backing file' {
	qemu-img create -q -f qcow2 base.qcow2 2M
	qemu-io -c 'write -P 7 0 2M' base.qcow2 >/dev/null
	qemu-img create -q -f qcow2 -b base.qcow2 -F qcow2 t.qcow2
	qemu-io -c 'write -P 8 0 64k' t.qcow2 >/dev/null
	qemu-img snapshot -c snap t.qcow2
	qemu-io -c 'write -P 9 0 1M' t.qcow2 >/dev/null
	qimg convert -l snap -B base.qcow2 -F qcow2 -O qcow2 t.qcow2 out.qcow2
	is_clean out.qcow2
	qemu-io -r -c 'read -P 8 0 64k' -c 'read -P 7 64k 1984k' out.qcow2
	contains "$(qemu-img check out.qcow2)" '1/32 = '
}
