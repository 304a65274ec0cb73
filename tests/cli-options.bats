#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# How command lines are read: the rules of GNU getopt_long, the same for all
# commands.

load helpers

format_of() {
	qimg info --output=json "./$1" >info.json
	json info.json 'd["format"]'
}

@test "options may follow operands" {
	qimg create a 1M -f qcow2 -q
	equal "$(format_of a)" qcow2
}

@test "an argument may be attached, follow, or stand behind =" {
	qimg create -q -fqcow2 a 1M
	qimg create -q -f qcow2 b 1M
	qimg create -q --format=qcow2 c 1M
	qimg create -q --format qcow2 d 1M
	qimg create -qfqcow2 e 1M
	for f in a b c d e; do
		equal "$(format_of $f)" qcow2
	done
}

@test "long options may be abbreviated while one alone fits" {
	qimg create -q --form=qcow2 a 1M
	equal "$(format_of a)" qcow2
	qimg info --out=json a >b
	json b 'd["format"]'
	fails "$QIMG" create --back=x a
	says "option '--back' is ambiguous"
	says "Try 'qimg create --help' for more information"
	# One that is spelled out is not ambiguous.
	fails "$QIMG" create -f qcow2 --backing a b 1M
	lacks "$(cat "$BATS_TEST_TMPDIR/stderr")" ambiguous
}

@test "the last of two uses counts" {
	qimg create -q -f raw -f qcow2 a 1M
	equal "$(format_of a)" qcow2
}

@test "-- ends the options" {
	qimg create -q -f qcow2 -- -x 1M
	[ -f ./-x ]
	qimg info -- -x >out
	grep -q '^image: -x$' out
	fails "$QIMG" info -x
	says "unrecognized option '-x'"
}

@test "unknown options say which help to read" {
	fails "$QIMG" create --nosuch x 1M
	says "qimg: unrecognized option '--nosuch'"
	says "Try 'qimg create --help' for more information"
	fails "$QIMG" info -z x
	says "qimg: unrecognized option '-z'"
	says "Try 'qimg info --help' for more information"
	fails "$QIMG" create -qz x 1M
	says "unrecognized option '-z'"
	fails "$QIMG" create --nosuch=3 x 1M
	says "unrecognized option '--nosuch'"
	[ ! -e x ]
}

@test "a missing argument is an error" {
	fails "$QIMG" create x 1M -f
	says "missing argument for option '-f'"
	fails "$QIMG" create x 1M --format
	says "missing argument for option '--format'"
	[ ! -e x ]
}

@test "a flag takes no argument" {
	fails "$QIMG" create --quiet=yes x 1M
	says "option '--quiet' takes no argument"
	[ ! -e x ]
}

@test "too few and too many operands are errors" {
	fails "$QIMG" create
	says 'Expecting image file name'
	says "Try 'qimg create --help'"
	fails "$QIMG" create a 1M 2M
	says 'Unexpected argument: 2M'
	[ ! -e a ]
	fails "$QIMG" info
	says 'Expecting one image file name'
	fails "$QIMG" info a b
	says 'Unexpected argument: b'
}

@test "words outside of a list of words are refused" {
	qimg create -q a 1M
	fails "$QIMG" info --output=xml a
	says "'xml' is not a value of option '--output': it can be one of: human json"
	fails "$QIMG" info --output=hum a
	fails "$QIMG" info --output= a
}

@test "what looks like a negative number is an operand" {
	refused x qimg create x -1
	says 'Invalid image size specified'
	refused x qimg create x -1M
	says 'Invalid image size specified'
	refused x qimg create -- x -1
	says 'Invalid image size specified'
}

@test "help wins over everything that follows" {
	qimg create --help -f >out
	grep -q '^Usage: qimg create' out
	[ ! -e x ]
	fails "$QIMG" create --nosuch --help
}
