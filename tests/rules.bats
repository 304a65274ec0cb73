#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# The rules of HACKING.md that a program can check: who includes what, who may
# call what. A rule is a function that prints what breaks it in the tree it is
# given; each is also run on a small tree that breaks it, so that none can pass
# by finding nothing.

# shellcheck disable=SC2016 # programs of awk and sh in single quotes
# shellcheck disable=SC2038 # no file here has a blank in its name

load helpers

# --------------------------------------------------------- what rules read

# code ROOT: all C code below cmd and lib as PATH:LINE:TEXT, without comments
# and with empty strings
code() {
	if [ "$1" = "$SRCDIR" ] && [ -f "$BATS_FILE_TMPDIR/code" ]; then
		cat "$BATS_FILE_TMPDIR/code"
		return
	fi
	(cd "$1" && find cmd lib -name '*.[ch]' 2>/dev/null | sort | xargs -r awk '
		FNR == 1 { comment = 0 }
		{
			rest = $0
			out = ""
			while (rest != "") {
				if (comment) {
					if (!(i = index(rest, "*/")))
						break
					rest = substr(rest, i + 2)
					comment = 0
				} else if (!match(rest, /["\047]|\/\/|\/\*/)) {
					out = out rest
					break
				} else {
					out = out substr(rest, 1, RSTART - 1)
					what = substr(rest, RSTART, RLENGTH)
					rest = substr(rest, RSTART)
					if (what == "//")
						break
					if (what == "/*") {
						rest = substr(rest, 3)
						comment = 1
					} else if (match(rest, what == "\"" ? "^\"([^\"\\\\]|\\\\.)*\"" : "^\047([^\047\\\\]|\\\\.)*\047")) {
						out = out what what
						rest = substr(rest, RLENGTH + 1)
					} else {
						out = out rest
						break
					}
				}
			}
			print FILENAME ":" FNR ":" out
		}')
}

# includes ROOT: PATH NAME for each #include "NAME" or <NAME>, in order
includes() {
	(cd "$1" && find cmd lib -name '*.[ch]' 2>/dev/null | sort |
		xargs -r grep -HE '^[[:space:]]*#[[:space:]]*include' |
		sed -E 's/^([^:]*):[^"<]*["<]([^">]*)[">].*/\1 \2/')
}

setup_file() {
	code "$SRCDIR" >"$BATS_FILE_TMPDIR/code.new"
	mv "$BATS_FILE_TMPDIR/code.new" "$BATS_FILE_TMPDIR/code"
}

# calls ROOT NAME_REGEX ALLOWED_REGEX: lines outside of the allowed files that
# use a name as it stands (not a member of a struct, not part of a longer name)
calls() {
	code "$1" | grep -E "(^|[^A-Za-z0-9_.>])($2)[[:space:]]*\(" | grep -vE "^($3):"
}

# holds RULE: on the real tree
holds() {
	local out
	out=$("$1" "$SRCDIR") || true
	[ -z "$out" ] || fail "$out"
}

# breaks RULE FILE TEXT: a tree with just this file breaks it
breaks() {
	tree "$2" "$3"
	[ -n "$("$1" "$PWD/tree")" ] || fail "$1 finds nothing wrong with $2: $3"
}

# allows RULE FILE TEXT: a tree with just this file does not
allows() {
	local out
	tree "$2" "$3"
	out=$("$1" "$PWD/tree") || true
	[ -z "$out" ] || fail "$1 takes offence at $2: $out"
}

tree() {
	rm -rf tree
	mkdir -p "tree/$(dirname "$1")" tree/lib
	touch tree/lib/qimg.h
	printf '%b\n' "$2" >"tree/$1"
}

@test "what the rules read is there" {
	[ "$(code "$SRCDIR" | wc -l)" -gt 1000 ]
	[ "$(includes "$SRCDIR" | wc -l)" -gt 50 ]
	tree lib/base/x.c 'a /* b\n"c" */ d "e//" f // g\n\047"\047 h "\\\\" i'
	equal "$(code tree)" 'lib/base/x.c:1:a 
lib/base/x.c:2: d "" f 
lib/base/x.c:3:'"''"' h "" i'
}

# ------------------------------------------------------------------ includes

rule_layers() {
	includes "$1" | awk '
		BEGIN {
			sees["base"] = "base"
			sees["io"] = "base io"
			sees["image"] = "base io image"
			sees["raw"] = "base io image raw"
			sees["qcow2"] = "base io image qcow2"
			sees["ops"] = "base io image ops"
			n = split("base io image raw qcow2 ops", names, " ")
			for (i = 1; i <= n; i++)
				folder[names[i]] = 1
		}
		{
			split($1, from, "/")
			split($2, to, "/")
			if ($2 ~ /\.\./)
				print $1 " includes " $2
			else if (from[1] != "lib" || from[2] == "qimg.h")
				next
			else if (!(from[2] in sees))
				print $1 ": the rule does not know this folder"
			else if (to[1] in folder && !index(" " sees[from[2]] " ", " " to[1] " "))
				print $1 " includes " $2
		}'
}

@test "a folder of lib sees itself and the layers below" {
	holds rule_layers
	breaks rule_layers lib/base/x.c '#include "io/file.h"'
	breaks rule_layers lib/io/x.h '# include <image/image.h>'
	breaks rule_layers lib/raw/x.c '#include "qcow2/header.h"'
	breaks rule_layers lib/qcow2/x.c '#include "ops/copy.h"'
	breaks rule_layers lib/ops/x.c '#include "raw/raw.h"'
	breaks rule_layers lib/ops/x.c '#include "../raw/raw.h"'
	breaks rule_layers lib/new/x.c '#include "base/mem.h"'
	allows rule_layers lib/qcow2/x.c '#include "image/image.h"'
}

rule_public() {
	(cd "$1" && includes . | while read -r file name; do
		case $file:$name in
		lib/qimg.h:*/*) echo "$file includes $name" ;;
		lib/* | *:qimg.h | *:config.h) ;;
		*) [ ! -e "lib/$name" ] || echo "$file includes $name" ;;
		esac
	done)
}

@test "cmd sees qimg.h alone of the library" {
	holds rule_public
	mkdir -p tree/lib/base
	breaks rule_public lib/qimg.h '#include "base/error.h"'
	tree cmd/x.c '#include "base/error.h"'
	mkdir -p tree/lib/base
	touch tree/lib/base/error.h
	equal "$(rule_public tree)" 'cmd/x.c includes base/error.h'
	allows rule_public cmd/x.c '#include "qimg.h"\n#include <stdio.h>'
}

rule_own_header() {
	(cd "$1" && includes . | awk '$1 ~ /\.c$/ && !seen[$1]++' | while read -r file name; do
		own=${file%.c}.h
		case $file in
		lib/*) [ ! -f "$own" ] || [ "lib/$name" = "$own" ] ||
			echo "$file includes $name before ${own#lib/}" ;;
		*) [ ! -f "$own" ] || [ "cmd/$name" = "$own" ] || [ "$name" = "$own" ] ||
			echo "$file includes $name before $own" ;;
		esac
		# Without a header of its own: the header that declares it, which may
		# be that of its folder, of the contract it fulfils, or qimg.h.
		case $file in
		lib/*) [ -f "$own" ] || [ -f "lib/$name" ] || echo "$file includes $name first" ;;
		esac
	done)
}

@test "a source file includes its own header first" {
	holds rule_own_header
	tree lib/base/x.c '#include <stdio.h>\n#include "base/x.h"'
	touch tree/lib/base/x.h
	equal "$(rule_own_header tree)" 'lib/base/x.c includes stdio.h before base/x.h'
	breaks rule_own_header lib/base/x.c '#include <stdio.h>'
	tree cmd/x.c '#include <stdio.h>\n#include "x.h"'
	touch tree/cmd/x.h
	equal "$(rule_own_header tree)" 'cmd/x.c includes stdio.h before cmd/x.h'
	allows rule_own_header lib/base/x.c '#include "qimg.h"\n#include <stdio.h>'
}

rule_header_alone() {
	(cd "$1" && find cmd lib -name '*.h' 2>/dev/null | xargs -r -P 4 -n 4 sh -c '
		for header; do
			printf "#include \"%s\"\n" "${header#lib/}" |
				$CC -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Wall -Wextra \
					-Wno-unused-function -Werror -Ilib -I"$BUILDDIR" -I. -fsyntax-only -x c - \
					>"$BATS_TEST_TMPDIR/alone.$$" 2>&1 ||
				sed "s,^,$header: ," "$BATS_TEST_TMPDIR/alone.$$"
		done' sh)
}

@test "each header compiles alone" {
	holds rule_header_alone
	breaks rule_header_alone lib/base/x.h 'void f(uint32_t x);'
	breaks rule_header_alone cmd/x.h 'void f(struct absent x[1]);'
	allows rule_header_alone lib/base/x.h '#include <stdint.h>\nvoid f(uint32_t x);'
}

@test "the public header is good for plain C99 and for C++" {
	local compiler
	need "${CC%% *}"
	compile -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c "$SRCDIR/lib/qimg.h"
	printf 'int class' >bad.h
	for compiler in g++ clang++ ''; do
		command -v "$compiler" >/dev/null && break
	done
	[ "$compiler" ] || skip 'no C++ compiler'
	"$compiler" -Wall -Wextra -Werror -fsyntax-only -x c++ "$SRCDIR/lib/qimg.h"
	run "$compiler" -fsyntax-only -x c++ bad.h
	[ "$status" -ne 0 ]
}

rule_format_header() {
	includes "$1" | awk '$2 == "qcow2/format.h" && $1 !~ "^lib/qcow2/(header|extension|entry|snaptable|bitmapdir|create)\\.[ch]$" {
		print $1 " includes " $2 }'
}

@test "only the files that decode know the format on disk" {
	holds rule_format_header
	breaks rule_format_header lib/qcow2/map.c '#include "qcow2/format.h"'
	breaks rule_format_header lib/ops/create.c '#include "qcow2/format.h"'
	allows rule_format_header lib/qcow2/entry.h '#include "qcow2/format.h"'
}

# --------------------------------------------------------------------- calls

syscalls='open|openat|creat|close|read|readv|pread|preadv2?|write|writev|pwrite|pwritev2?|lseek|ioctl'
syscalls="$syscalls|(posix_)?fallocate|f?truncate|fsync|fdatasync|sync|syncfs|sync_file_range|copy_file_range"
syscalls="$syscalls|sendfile|splice|vmsplice|mmap|munmap|msync|fcntl|flock|lockf|dup[23]?|posix_fadvise|readahead"
syscalls="$syscalls|unlink|unlinkat|rename|renameat2?|link|linkat|symlink|symlinkat|mkdir|rmdir|remove|mknod"
syscalls="$syscalls|[fl]?stat|fstatat|statx|[fl]?statv?fs|access|faccessat|readlink|readlinkat|realpath|f?chmod"
syscalls="$syscalls|[fl]?chown|utimensat|futimens|umask|opendir|fdopendir|readdir|[fl]?[gs]etxattr|[fl]?listxattr"
syscalls="$syscalls|fopen|fdopen|freopen|tmpfile|mkstemp|mkostemp|mkdtemp|syscall|io_uring_[a-z_]*|io_submit"

rule_syscalls() {
	# ui.c makes sure that descriptors 0 to 2 are open, so that no image becomes stdout.
	calls "$1" "$syscalls" 'lib/io/[^:]*|cmd/ui\.c'
	# The descriptor is the io layer's, too.
	calls "$1" 'file_fd' 'lib/io/[^:]*'
}

@test "system calls on files only in lib/io" {
	holds rule_syscalls
	breaks rule_syscalls lib/qcow2/x.c '\tif (pread(fd, buf, 4, 0) != 4)'
	breaks rule_syscalls lib/raw/x.c '\treturn\tunlink (name);'
	breaks rule_syscalls lib/image/x.c '\tx = !stat(name, &st);'
	breaks rule_syscalls cmd/x.c '\tfd = open(name, 0);'
	breaks rule_syscalls lib/raw/x.c '\tn = file_fd(f);'
	allows rule_syscalls lib/io/x.c '\tfd = open(name, 0);'
	allows rule_syscalls lib/raw/x.c '\td->open(x); d.open(x); raw_open(x); /* open(x) */ f("open(x)"); int (*open)(void);'
}

rule_sync() {
	calls "$1" 'file_sync|cache_writ[a-z_]*|cache_list_dirty|writeback_[a-z_]*' \
		'lib/(io/[^:]*|(image|raw|ops)/[^:]*|qcow2/(flush\.c|create\.c|fill\.c|(cache|writeback)\.[ch]))'
}

@test "in qcow2 only flush.c syncs and writes caches back" {
	holds rule_sync
	breaks rule_sync lib/qcow2/alloc.c '\treturn file_sync(q->file, e);'
	breaks rule_sync lib/qcow2/alloc.c '\treturn cache_write(q->l2_cache, s, e);'
	breaks rule_sync lib/qcow2/alloc.c '\twhile (writeback_slices(&wb, q->l2_cache, e))'
	allows rule_sync lib/qcow2/flush.c '\treturn file_sync(q->file, e);'
}

rule_threads() {
	code "$1" | grep -E '(^|[^A-Za-z0-9_])(pthread_|thrd_|mtx_|cnd_|<pthread\.h>|<threads\.h>)' |
		grep -vE '^lib/io/(ioq_threads|pool)\.c:'
}

@test "threads only in the threads engine and the pool" {
	holds rule_threads
	breaks rule_threads lib/io/file.c '\tpthread_mutex_lock(&m);'
	breaks rule_threads lib/qcow2/x.h '#include <pthread.h>'
	breaks rule_threads cmd/x.c '\tpthread_t t;'
	allows rule_threads lib/io/pool.c '#include <pthread.h>'
}

# Writing into a stream of one's own (open_memstream) is no printing.
printers='v?printf|v?dprintf|puts|putchar|perror|psignal|v?errx?|error|v?syslog'
printers="$printers|exit|_exit|_Exit|quick_exit|abort|assert"

rule_quiet() {
	calls "$1" "$printers" 'cmd/[^:]*'
	code "$1" | grep -E '(^|[^A-Za-z0-9_])(stdout|stderr|stdin)([^A-Za-z0-9_]|$)' | grep -v '^cmd/'
}

@test "the library neither prints nor exits" {
	holds rule_quiet
	breaks rule_quiet lib/base/x.c '\tfprintf(stderr, "x");'
	breaks rule_quiet lib/base/x.c '\texit(1);'
	breaks rule_quiet lib/base/x.c '\tFILE *f = stdout;'
	breaks rule_quiet lib/base/x.c '\tabort();'
	breaks rule_quiet lib/base/x.c '\tprintf("x");'
	allows rule_quiet lib/base/x.c '\tfputs("x", f); fprintf(f, "x");'
	allows rule_quiet lib/base/x.c '\tsnprintf(a, n, "x"); warn("x"); d->abort(img);'
	allows rule_quiet cmd/x.c '\tprintf("x"); exit(1);'
}

# --------------------------------------------------------------------- shape

# But for the public interface, which programs want in one piece.
rule_length() {
	(cd "$1" && find cmd lib tests configure Makefile.in \( -name '*.[ch]' -o -name '*.bash' -o \
		-name configure -o -name Makefile.in \) ! -path lib/qimg.h -type f 2>/dev/null | while read -r file; do
		count=$(wc -l <"$file")
		[ "$count" -le 700 ] || echo "$file has $count lines"
	done)
}

@test "no file above 700 lines" {
	holds rule_length
	breaks rule_length lib/base/x.c "$(yes x | head -n 701)"
	allows rule_length lib/base/x.c "$(yes x | head -n 700)"
}

# Up to 100 are wanted; where a break would read worse the rule looks away.
rule_columns() {
	(cd "$1" && find cmd lib tests -name '*.[ch]' 2>/dev/null | while read -r file; do
		expand "$file" | awk -v file="$file" 'length > 120 { print file ":" FNR ": " length " columns" }'
	done)
}

@test "no line far above 100 columns" {
	holds rule_columns
	breaks rule_columns lib/base/x.c "$(printf '\t%0113d' 1)"
	allows rule_columns lib/base/x.c "$(printf '\t%0112d' 1)"
}

rule_licence() {
	(cd "$1" && find cmd lib tests configure Makefile.in .ci \( -name '*.[ch]' -o -name '*.bats' -o -name '*.bash' -o \
		-path tests/run -o -path tests/demo -o -path .ci/run -o -name configure -o -name Makefile.in \) \
		-type f 2>/dev/null | while read -r file; do
		case $file in
		*.[ch]) head -n 1 "$file" ;;
		*) head -n 2 "$file" ;;
		esac | grep -q 'SPDX-License-Identifier: BSD-2-Clause' || echo "$file lacks the SPDX line"
	done)
}

@test "the licence stands on top of each file" {
	holds rule_licence
	breaks rule_licence lib/base/x.c '/* x */'
	breaks rule_licence tests/x.bats '#!/usr/bin/env bats'
	tree lib/base/x.c '// SPDX-License-Identifier: BSD-2-Clause'
	equal "$(rule_licence tree)" 'lib/qimg.h lacks the SPDX line'
}

# What a build in the tree itself makes is allowed, too.
rule_folders() {
	(cd "$1" && find . -mindepth 1 -maxdepth 1 -type d | while read -r dir; do
		case ${dir#./} in
		cmd | lib | tests | completion | man | .ci | .git | obj | variant | check) ;;
		*) echo "${dir#./} is a new folder at the top" ;;
		esac
	done)
}

@test "no other folders at the top" {
	holds rule_folders
	breaks rule_folders doc/x.svg x
	allows rule_folders man/x.svg x
}

rule_purpose() {
	(cd "$1" && find cmd lib tests -name '*.[ch]' -size +0 2>/dev/null | while read -r file; do
		sed -n 2p "$file" | grep -qE '^/[/*]' || echo "$file does not open with what it is for"
	done)
}

@test "each file opens with what it is for" {
	holds rule_purpose
	breaks rule_purpose lib/base/x.c '// SPDX\n#include <stdio.h>'
	allows rule_purpose lib/base/x.c '// SPDX\n/* What it is for. */\n#include <stdio.h>'
}

rule_finished() {
	(cd "$1" && find cmd lib -type f 2>/dev/null |
		xargs -r grep -nHiE '\<(todo|fixme|xxx|stub)\>|not (yet )?implemented')
}

@test "nothing is left unfinished" {
	holds rule_finished
	breaks rule_finished lib/base/x.c '/* TODO: more */'
	breaks rule_finished cmd/x.c 'error("Not implemented");'
}

# -------------------------------------------------------------------- symbols

# exported ARCHIVE: what a program that links it can see and should not
exported() {
	nm -g --defined-only "$1" | awk 'NF == 3 && $3 !~ /^qimg_/ { print $3 }'
}

@test "libqimg.a exports qimg_ names alone, and what qimg.h declares" {
	local lib name missing=
	need nm ar "${CC%% *}"
	lib=$(dirname "$QIMG")/libqimg.a
	equal "$(exported "$lib")" ''
	[ "$(nm -g --defined-only "$lib" | grep -c ' T qimg_')" -gt 20 ]
	nm -g --defined-only "$lib" | awk 'NF == 3 { print $3 }' >defined
	for name in $(sed 's,/\*.*\*/,,' "$SRCDIR/lib/qimg.h" | grep -oE '\<qimg_[a-z_0-9]+\(' | tr -d '(' | sort -u); do
		grep -qx "$name" defined || missing="$missing $name"
	done
	equal "$missing" '' 'declared and not defined'

	echo 'int qimg_a(void); int b(void); int qimg_a(void) { return 1; } int b(void) { return 2; }' >x.c
	compile -c x.c
	ar rc x.a x.o
	equal "$(exported x.a)" b
}
