#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Where the name and the format that an image stores for its backing file lead.

load helpers

stored() { # NAME [FORMAT]: top.qcow2 on it, whatever it is
	need qemu-img
	qemu-img create -q -u -f qcow2 -b "$1" -F "${2:-qcow2}" top.qcow2 1M
}

reads() { # IMAGE PATTERN
	qio -r -f qcow2 -c "read -P $2 0 64k" "$1" >/dev/null
}

base() { # NAME PATTERN [FORMAT]
	qimg create -q -f "${3:-qcow2}" -- "$1" 1M
	qio -f "${3:-qcow2}" -c "write -P $2 0 64k" "$PWD/$1" >/dev/null
}

@test 'a name with a colon is the plain file it names' {
	base a:b.qcow2 5
	qimg create -q -f qcow2 -b a:b.qcow2 -F qcow2 top.qcow2
	reads top.qcow2 5
	# A reader that takes a:b for an address is told that it is a file.
	qimg info --output=json top.qcow2 >info.json
	equal "$(json info.json 'd["backing-filename"]')" ./a:b.qcow2
	stored a:b.qcow2
	reads top.qcow2 5
	base nbd:x.qcow2 6
	stored nbd:x.qcow2
	reads top.qcow2 6
	stored file:a:b.qcow2
	reads top.qcow2 5
}

@test 'references are shown and not followed' {
	local name
	base base.qcow2 5
	for name in "json:{\"driver\":\"qcow2\",\"file\":{\"driver\":\"file\",\"filename\":\"$PWD/base.qcow2\"}}" \
		nbd:localhost:1 nbd://localhost/x http://localhost/x fd:0 blkdebug::base.qcow2; do
		stored "$name"
		qimg info --output=json top.qcow2 >info.json
		equal "$(json info.json 'd["backing-filename"]')" "$name"
		equal "$(json info.json 'd["full-backing-filename"]')" "$name"
		for command in 'info --backing-chain top.qcow2' 'convert -O raw top.qcow2 out.raw' \
			'create -f qcow2 -b top.qcow2 -F qcow2 new.qcow2'; do
			# shellcheck disable=SC2086 # words
			run qimg $command
			equal "$status" 1 "$name: $command"
			contains "$output" "$name"
			[ ! -e out.raw ]
			[ ! -e new.qcow2 ]
		done
	done
}

@test 'a file of that name does not make a reference of it, nor the other way round' {
	base base.raw 9 raw
	cp base.raw 'json:base'
	stored json:base raw
	reads top.qcow2 9
}

@test 'the format is probed where none is stored' {
	base base.qcow2 5
	qemu-img create -q -f qcow2 -b base.qcow2 -F qcow2 top.qcow2
	python3 - <<'END'
import struct
# The extension with the format's name becomes one that nobody knows.
with open("top.qcow2", "r+b") as f:
    data = f.read(4096)
    at = data.index(struct.pack(">I", 0xe2792aca))
    f.seek(at)
    f.write(struct.pack(">I", 0x12345678))
END
	reads top.qcow2 5
	qimg info --output=json top.qcow2 >info.json
	equal "$(json info.json '"backing-filename-format" in d')" false
}

@test 'the format that is stored counts, not what the file looks like' {
	base base.qcow2 5
	stored base.qcow2 raw
	qio -r -f qcow2 -c 'read -P 0x51 0 1' top.qcow2
	stored base.qcow2 file
	qio -r -f qcow2 -c 'read -P 0x51 0 1' top.qcow2
	base base.raw 5 raw
	stored base.raw qcow2
	run qio -r -f qcow2 -c 'read 0 1' top.qcow2
	[ "$status" -ne 0 ]
	contains "$output" base.raw
	stored base.raw vmdk
	run qio -r -f qcow2 -c 'read 0 1' top.qcow2
	[ "$status" -ne 0 ]
	contains "$output" vmdk
}

@test 'a missing backing file is named as stored, as looked for, and with what mends it' {
	mkdir d
	(cd d && stored gone.qcow2)
	run qimg convert -O raw d/top.qcow2 out.raw
	equal "$status" 1
	contains "$output" "'gone.qcow2'"
	contains "$output" d/gone.qcow2
	contains "$output" 'rebase -u -b NEW -F qcow2 d/top.qcow2'
	qimg info d/top.qcow2 | grep -q '^backing file: gone.qcow2 (actual path: d/gone.qcow2)'
}

@test 'options put another file below an image' {
	base base.qcow2 5
	base other.qcow2 6
	qimg create -q -f qcow2 -b base.qcow2 -F qcow2 top.qcow2
	reads top.qcow2 5
	qio -r -f qcow2 -o backing.file.filename=other.qcow2 -c 'read -P 6 0 64k' top.qcow2
	qio -r -f qcow2 -o backing.driver=raw -c 'read -P 0x51 0 1' top.qcow2
	run qio -r -f qcow2 -o backing.driver=raw,backing.nosuch=1 -c 'read 0 1' top.qcow2
	[ "$status" -ne 0 ]
	contains "$output" nosuch
	run qio -r -f raw -o backing.driver=raw -c 'read 0 1' base.qcow2
	[ "$status" -ne 0 ]
}
