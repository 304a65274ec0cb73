#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# The manual pages: sound mdoc, and the options in them are those the program
# has, none missing and none too many.

load helpers

pages() {
	printf '%s\n' "$SRCDIR"/man/*.[1-9]
}

# documented PAGE: spellings of options in the items of the section OPTIONS
documented() {
	awk '
		/^\.Sh / { inside = $0 == ".Sh OPTIONS" }
		inside && /^\.It / {
			for (i = 2; i < NF; i++)
				if ($i == "Fl")
					print "-" $(i + 1)
		}' "$1" | sort
}

@test "mandoc finds nothing to complain about" {
	need mandoc
	local page
	[ "$(pages | wc -l)" -ge 4 ]
	for page in $(pages); do
		mandoc -T lint -W warning "$page" >found || fail "$(cat found)"
		equal "$(cat found)" ''
	done
}

@test "each command has a page, and no page is without a command" {
	local name page
	qimg --complete commands | cut -f1 | while read -r name; do
		[ -f "$SRCDIR/man/qimg-$name.1" ] || fail "qimg-$name.1 is missing"
		grep -q "^\.Xr qimg-$name 1" "$SRCDIR/man/qimg.1" || fail "qimg.1 does not mention $name"
	done
	for page in "$SRCDIR"/man/qimg-*.1; do
		name=${page##*/qimg-}
		qimg --complete options "${name%.1}" >out || fail "there is no command ${name%.1}"
	done
}

@test "the pages have the options of the program, no more and no less" {
	local name
	qimg --complete commands | cut -f1 | while read -r name; do
		qimg --complete options "$name" | cut -f1 | sort >program
		[ "$(wc -l <program)" -ge 4 ]
		documented "$SRCDIR/man/qimg-$name.1" >page
		diff program page || fail "qimg-$name.1"
	done
	printf '%s\n' --help --version -V -h | sort >program
	documented "$SRCDIR/man/qimg.1" >page
	diff program page
}

# listed SECTION: the keys that qimg-format.5 has in a subsection
listed() {
	awk -v section="$1" '
		/^\.S[hs] / { inside = $0 == ".Ss " section }
		inside && /^\.It Cm / { print $3 }' "$SRCDIR/man/qimg-format.5" | sort
}

@test "qimg-format.5 has the creation options of the program" {
	local format
	for format in $(qimg --complete formats); do
		qimg --complete create "$format" | cut -f1 | sort >program
		[ "$(wc -l <program)" -ge 3 ]
		listed "Creating $format images" >page
		diff program page || fail "$format"
	done
}

@test "the open options in qimg-format.5 are accepted" {
	local key value
	qimg create -q -f qcow2 a 1M
	qimg create -q -f qcow2 -o data_file=d b 1M
	listed 'Opening qcow2 images' >keys
	[ "$(wc -l <keys)" -ge 10 ]
	while read -r key; do
		case $key in
		backing.* | data-file.*) continue ;;
		*-size | *-interval) value=65536 ;;
		cache-rule) value=2015 ;;
		metadata-depth) value=1 ;;
		metadata-writeback) value=single ;;
		overlap-check*) value=all ;;
		*) value=off ;;
		esac
		case $key in l2-cache-file-*) key=l2-cache-file=c,$key ;; esac
		qimg info --image-opts "driver=qcow2,file.filename=a,$key=$value" >out
	done <keys
	fails qimg info --image-opts driver=qcow2,file.filename=a,no-such-key=1
}

@test "each page has an exit status and examples where it is about a command" {
	local page
	for page in "$SRCDIR"/man/*.1; do
		grep -q '^\.Sh EXIT STATUS' "$page" || fail "$page"
		grep -q '^\.Sh EXAMPLES' "$page" || fail "$page"
	done
}

# examples PAGE: what is typed ("$ ...", with the lines that belong to it) and
# what that prints, from the literal displays of a page
run_examples() {
	python3 - "$1" "$SRCDIR" <<-'PY'
	import re, subprocess, sys
	page = open(sys.argv[1]).read()
	ran = 0
	for block in re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", page, re.M | re.S):
	    if not block.startswith("$ "):
	        continue
	    text = block.replace("\\e", "\\")
	    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
	        lines = part.split("\n")
	        end = 0
	        while lines[end].endswith("\\"):
	            end += 1
	        command, want = "\n".join(lines[:end + 1]), "\n".join(lines[end + 1:])
	        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
	        if done.returncode or done.stdout.rstrip("\n") != want.rstrip("\n"):
	            sys.exit("%s\nends with %d and prints\n%s%s" % (command, done.returncode, done.stdout, done.stderr))
	        ran += 1
	print(ran)
	PY
}

@test "examples that show what they print print that" {
	need python3 jq
	mkdir bin
	ln -s "$QIMG" bin/qimg
	PATH=$PWD/bin:$PATH
	[ "$(run_examples "$SRCDIR/man/qimg-info.1")" -ge 4 ]
	[ "$(run_examples "$SRCDIR/man/qimg-format.5")" -ge 7 ]
	printf '.Bd -literal\n$ echo a\nb\n.Ed\n' >bad
	run run_examples bad
	[ "$status" -ne 0 ]
}
