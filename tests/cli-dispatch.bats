#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# The program without or around a command: help, version, names.

load helpers

@test "no command is an error that names the help" {
	fails "$QIMG"
	says 'qimg: Not enough arguments'
	says "Try 'qimg --help' for more information"
	equal "$(cat "$BATS_TEST_TMPDIR/stdout")" ''
}

@test "an unknown command is an error, with the nearest name" {
	fails "$QIMG" creat x
	says 'qimg: Command not found: creat'
	says "Did you mean 'create'?"
	fails "$QIMG" ifno x
	says "Did you mean 'info'?"
	fails "$QIMG" something-else x
	lacks "$(cat "$BATS_TEST_TMPDIR/stderr")" 'Did you mean'
	fails "$QIMG" ''
	lacks "$(cat "$BATS_TEST_TMPDIR/stderr")" 'Did you mean'
	fails "$QIMG" --frobnicate
	says "unrecognized option '--frobnicate'"
}

@test "--help, -h and help list the commands at the start of lines" {
	local how
	for how in --help -h help 'help --help'; do
		# shellcheck disable=SC2086
		qimg $how >out 2>err
		equal "$(cat err)" ''
		grep -Eq '^ +create ' out
		grep -Eq '^ +info ' out
		grep -q '^Supported formats:.* qcow2' out
		grep -q '^Supported formats:.* raw' out
	done
}

@test "each command that is listed explains itself" {
	local name
	qimg --complete commands | cut -f1 >names
	[ "$(wc -l <names)" -ge 2 ]
	while read -r name; do
		qimg "$name" --help >a
		qimg help "$name" >b
		qimg "$name" -h some thing --format=raw >c
		cmp a b
		cmp a c
		head -n 1 a | grep -q "^Usage: qimg $name "
		grep -Eq "^ +-h, --help " a
	done <names
}

@test "the help of no line is wider than a terminal" {
	local name
	qimg --complete commands | cut -f1 | while read -r name; do
		qimg "$name" --help
	done >all
	qimg --help >>all
	[ "$(wc -l <all)" -gt 30 ]
	equal "$(awk 'length > 96' all)" ''
}

@test "help for an unknown command is an error" {
	fails "$QIMG" help creat
	says "Did you mean 'create'?"
}

@test "--version and -V tell the version" {
	qimg --version >a
	qimg -V >b
	cmp a b
	grep -Eqx 'qimg version [0-9]+\.[0-9]+\.[0-9]+' a
}

@test "the name it runs under is the name in messages" {
	ln -s "$QIMG" qemu-img
	fails ./qemu-img
	says 'qemu-img: Not enough arguments'
	says "Try 'qemu-img --help'"
	fails ./qemu-img info --nosuch
	says "qemu-img: unrecognized option '--nosuch'"
	says "Try 'qemu-img info --help'"
	fails ./qemu-img info missing
	says 'qemu-img: Could not open'
	./qemu-img --version | grep -q '^qemu-img version '
	./qemu-img create --help | grep -q '^Usage: qemu-img create '
	ln -s "$QIMG" other
	fails ./other
	says 'other: Not enough arguments'
}
