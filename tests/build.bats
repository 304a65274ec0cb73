#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# configure, the Makefile and tests/run: on a small project made of the real
# build files and a few lines of C, so that it takes no time. What they do does
# not depend on the variant, so the plain one tests it.

# shellcheck disable=SC2016 # what others shall expand, in single quotes
# shellcheck disable=SC2031 # set by bats' run

load helpers

# What this make was told must not reach the makes started here.
plain_environment() {
	unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES CFLAGS CPPFLAGS LDFLAGS LIBS AR LD OBJCOPY
	unset CC TESTS JOBS KEEP SAN COV FUZZ TWO_SLICES SECOND_LEVEL V DESTDIR
	: "${MAKE:=make}"
	export MAKE
	# bats puts its inner programs there, one of them called bats
	PATH=$(printf %s "$PATH" | sed "s,[^:]*/bats-core:,,g")
}

setup() {
	helpers_setup
	need_plain
	plain_environment
}

# Most tests start from the same configuration: it is made once.
setup_file() {
	[ -z "$VARIANT" ] || return 0
	plain_environment
	cd "$BATS_FILE_TMPDIR" || return 1
	project
	mkdir out
	(cd out && ../src/configure >configure.out)
}

# project: the small project in ./src
project() {
	mkdir -p src/cmd src/lib/base src/lib/io src/tests/unit
	cp "$SRCDIR/configure" "$SRCDIR/Makefile.in" "$SRCDIR/README.md" "$SRCDIR/ChangeLog" "$SRCDIR/COPYING" src
	cp "$SRCDIR/tests/run" "$SRCDIR/tests/helpers.bash" src/tests
	cp "$SRCDIR/tests/unit/tap.h" src/tests/unit
	echo 'int qimg_number(void);' >src/lib/qimg.h
	echo 'int base_number(void);' >src/lib/base/number.h
	cat >src/lib/base/number.c <<-END
		#include "base/number.h"
		#include "config.h"
		int base_number(void) { return sizeof(QIMG_VERSION) > 1 ? 42 : 0; }
	END
	cat >src/lib/io/file.c <<-END
		#include "qimg.h"
		#include "base/number.h"
		int qimg_number(void) { return base_number(); }
	END
	cat >src/cmd/qimg.c <<-END
		#include "qimg.h"
		#include <stdio.h>
		int main(void) { printf("%d\n", qimg_number()); return 0; }
	END
	cat >src/tests/unit/number.c <<-END
		#include "tap.h"
		#include "base/number.h"
		int main(void) { is_i64(base_number(), 42, "number"); return done_testing(); }
	END
	# Not in a here-document: bats would take it for a test of this file.
	printf 'load helpers\n@test "number" {\n\tequal "$(qimg)" 42\n}\n' >src/tests/number.bats
}

# configured [ARGS]: the small project, configured in ./out
configured() {
	if [ $# -eq 0 ]; then
		rm -rf src out
		cp -a "$BATS_FILE_TMPDIR/src" "$BATS_FILE_TMPDIR/out" .
	else
		project
		mkdir -p out
		(cd out && ../src/configure "$@" >configure.out)
	fi
}

# lacking WORD: a compiler that fails where a program or its flags mention it
lacking() {
	cat >cc-lacking <<-END
		#!/bin/sh
		for arg; do
			case \$arg in
			*$1*) echo "no $1 here" >&2; exit 1 ;;
			*.c) ! grep -q '$1' "\$arg" || { echo "no $1 here" >&2; exit 1; } ;;
			esac
		done
		exec cc "\$@"
	END
	chmod +x cc-lacking
}

# ------------------------------------------------------------------ configure

@test "configure refuses what it does not know and names it" {
	project
	fails src/configure --frobnicate
	says "unknown option '--frobnicate'"
	says '--help'
	fails src/configure --with-frobnication
	says 'frobnication'
	fails src/configure --prefix=relative
	says "'relative'"
	[ ! -e Makefile ]
}

@test "configure --help tells the options" {
	run "$SRCDIR/configure" --help
	[ "$status" -eq 0 ]
	for option in --prefix --exec-prefix --bindir --libdir --includedir --datadir --mandir --with-liburing \
		--with-isal --with-libdeflate --with-jansson --with-libblkid --with-libfdisk --enable-werror \
		--enable-sanitizers --install-deps CFLAGS; do
		contains "$output" "$option"
	done
}

@test "configure works outside the source tree and leaves that alone" {
	project
	find src -type f | sort >before
	mkdir -p build/here
	(cd build/here && ../../src/configure >/dev/null)
	find src -type f | sort | diff before -
	no_litter build/here Makefile config.h config.log config.status
	$MAKE -s -C build/here
	equal "$(build/here/qimg)" 42
	find src -type f | sort | diff before -
}

@test "configure works inside the source tree; distclean takes back all" {
	project
	find src | sort >before
	(cd src && ./configure >/dev/null && $MAKE -s check && $MAKE -s SAN=undefined all && $MAKE -s dist)
	[ -x src/qimg ] && [ -f src/qimg-0.1.0.tar.gz ]
	$MAKE -s -C src distclean
	find src | sort | diff before -
}

@test "a missing zlib or zstd is an error that names the package" {
	project
	lacking zlib.h
	fails src/configure CC=./cc-lacking
	says 'zlib1g-dev'
	says '--install-deps'
	lacking zstd.h
	fails src/configure CC=./cc-lacking
	says 'libzstd-dev'
	says '--install-deps'
}

@test "a compiler that does not work is an error" {
	project
	fails src/configure CC=false
	says "'false'"
	fails src/configure CC=/no/such/compiler
	says "'/no/such/compiler'"
	fails src/configure CFLAGS=--no-such-flag
	[ ! -e Makefile ]
}

@test "an optional library: auto, with and without" {
	project
	lacking isa-l.h
	src/configure CC=./cc-lacking >/dev/null
	grep -q 'undef HAVE_ISAL' config.h
	fails src/configure CC=./cc-lacking --with-isal
	says '--with-isal'
	says 'libisal-dev'
	src/configure --without-jansson >summary
	grep -q 'undef HAVE_JANSSON' config.h
	grep -q 'jansson *no (as asked)' summary
	[ "$(grep -c '^LIBS.*jansson' Makefile)" -eq 0 ]
	src/configure >/dev/null
	if printf '#include <jansson.h>\n' | cc -E - >/dev/null 2>&1; then
		grep -qx '#define HAVE_JANSSON 1' config.h
		grep -q '^LINKED_LIBS.*jansson' Makefile
	fi
}

@test "the configuration is kept when the Makefile makes itself again" {
	project
	mkdir out
	(cd out && CFLAGS="-O1 -DA='\"b c\"'" ../src/configure --prefix=/opt/q CC=gcc LDFLAGS=-Wl,-O1 >/dev/null)
	cp out/Makefile before
	cp out/config.status status
	sleep 0.01
	touch src/Makefile.in
	$MAKE -s -C out all
	[ out/Makefile -nt before ]
	cmp before out/Makefile
	cmp status out/config.status
	grep -qx 'prefix = /opt/q' out/Makefile
	equal "$(out/qimg)" 42
}

@test "configure that fails leaves no Makefile" {
	project
	fails src/configure CC=false
	no_litter . config.log src
}

# stub_system MANAGER: a PATH in ./bin with what configure needs, where MANAGER
# is the package manager, nothing is installed, and all calls go to ./called
stub_system() {
	local tool
	mkdir -p bin
	for tool in sh dirname uname sed id cat tr rm mkdir grep env; do
		ln -sf "$(command -v $tool)" "bin/$tool"
	done
	for tool in "$1" dpkg-query rpm sudo; do
		cat >"bin/$tool" <<-END
			#!/bin/sh
			echo "$tool \$*" >>"$PWD/called"
			case "$tool \$*" in
			'sudo '*) shift 0; exec "\$@" ;;
			'dpkg-query '* | 'rpm '* | 'apk info '*) exit 1 ;;
			'pacman -T '*) echo "\$2" ;;
			*'no-such-package'*) exit 1 ;;
			esac
		END
		chmod +x "bin/$tool"
	done
	: >called
}

@test "--install-deps knows apt, dnf, pacman, zypper and apk" {
	project
	while read -r manager zlib command; do
		rm -rf bin
		stub_system "$manager"
		run env -i PATH="$PWD/bin" sh src/configure --install-deps
		# There is no compiler in the end: only the stubs were called.
		[ "$status" -eq 1 ]
		contains "$output" 'no C compiler found'
		contains "$output" "+ "
		contains "$output" "$command"
		contains "$(cat called)" "$command"
		contains "$(cat called)" " $zlib"
		for package in bats mandoc python3; do
			[ "$manager$package" = pacmanpython3 ] || contains "$(cat called)" " $package"
		done
	done <<-END
		apt-get zlib1g-dev apt-get install -y
		dnf     zlib-devel dnf install -y
		pacman  zlib       pacman -S --noconfirm
		zypper  zlib-devel zypper --non-interactive install
		apk     zlib-dev   apk add
	END
	stub_system apt-get
	run env -i PATH="$PWD/bin" sh src/configure --install-deps
	contains "$(cat called)" 'apt-get update'
}

@test "--install-deps goes on where an optional package is not to be had" {
	project
	sed -i 's/libisal-dev/no-such-package/' src/configure
	stub_system apt-get
	run env -i PATH="$PWD/bin" sh src/configure --install-deps
	contains "$output" 'could not install no-such-package, going on'
	contains "$(cat called)" 'apt-get install -y --no-install-recommends shellcheck'
	sed -i 's/zlib1g-dev/no-such-package/' src/configure
	run env -i PATH="$PWD/bin" sh src/configure --install-deps
	[ "$status" -eq 1 ]
	contains "$output" 'could not install what the build needs'
}

@test "--install-deps says what to do where there is no way to install" {
	project
	stub_system apt-get
	rm bin/apt-get
	run env -i PATH="$PWD/bin" sh src/configure --install-deps
	[ "$status" -eq 1 ]
	contains "$output" 'found none of apt-get'
	contains "$output" 'zlib'
}

@test "--install-deps becomes root through sudo" {
	project
	stub_system apt-get
	rm bin/id
	printf '#!/bin/sh\necho 1000\n' >bin/id
	chmod +x bin/id
	run env -i PATH="$PWD/bin" sh src/configure --install-deps
	contains "$output" '+ sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y'
	contains "$(cat called)" 'sudo apt-get update'
	rm bin/sudo
	: >called
	run env -i PATH="$PWD/bin" sh src/configure --install-deps
	[ "$status" -eq 1 ]
	contains "$output" 'needs root'
	lacks "$(cat called)" 'apt-get'
}

# ----------------------------------------------------------------------- make

# made: the objects and programs that make makes in ./out
made() {
	$MAKE -C out "$@" >made.out 2>&1 || { cat made.out >&2; return 1; }
	sed -nE 's/^  (CC|LD|AR|LINK) +//p' made.out | sort | tr '\n' ' '
}

@test "make makes what changed and no more" {
	configured
	equal "$(made all)" 'libqimg.a obj/cmd/qimg.o obj/lib/base/number.o obj/lib/io/file.o obj/libqimg.o qimg '
	equal "$(made all)" ''
	sleep 0.01
	touch src/lib/base/number.h
	equal "$(made all)" 'libqimg.a obj/lib/base/number.o obj/lib/io/file.o obj/libqimg.o qimg '
	sleep 0.01
	touch src/lib/qimg.h
	equal "$(made all)" 'libqimg.a obj/cmd/qimg.o obj/lib/io/file.o obj/libqimg.o qimg '
	sleep 0.01
	touch src/cmd/qimg.c
	equal "$(made all)" 'obj/cmd/qimg.o qimg '
	equal "$(made all CFLAGS=-O1)" 'libqimg.a obj/cmd/qimg.o obj/lib/base/number.o obj/lib/io/file.o obj/libqimg.o qimg '
	equal "$(made all CFLAGS=-O1)" ''
}

@test "make notices files that come and go" {
	configured
	made all
	echo 'int more(void); int more(void) { return 1; }' >src/lib/base/more.c
	equal "$(made all)" 'libqimg.a obj/lib/base/more.o obj/libqimg.o qimg '
	[ "$(nm out/libqimg.a | grep -c ' more$')" -eq 1 ]
	rm src/lib/base/more.c
	equal "$(made all)" 'libqimg.a obj/libqimg.o qimg '
	[ "$(nm out/libqimg.a | grep -c ' more$')" -eq 0 ]
	# A header that went is no reason to fail.
	sed -i 's,"base/number.h","base/count.h",' src/lib/*/*.c
	mv src/lib/base/number.h src/lib/base/count.h
	made all
}

@test "make -j makes everything from nothing" {
	configured
	$MAKE -s -C out -j8 check-programs
	equal "$(out/qimg)" 42
	equal "$(made check-programs)" ''
}

@test "configuring again with the same outcome compiles nothing" {
	configured
	made all
	(cd out && ../src/configure >/dev/null)
	equal "$(made all)" ''
	(cd out && ../src/configure --without-isal CFLAGS='-O2 -g' >/dev/null)
	(cd out && ../src/configure --without-isal CFLAGS='-O0' >/dev/null)
	contains "$(made all)" 'obj/lib/base/number.o'
}

@test "variants do not mix" {
	local variant
	configured
	made all
	find out/obj -type f -printf '%p %T@\n' | sort >before
	for variant in SAN=undefined COV=1 TWO_SLICES=1 'TWO_SLICES=1 SAN=undefined' \
		'SECOND_LEVEL=1 TWO_SLICES=1'; do
		# shellcheck disable=SC2086 # two words
		made all $variant >/dev/null
	done
	find out/obj -type f -printf '%p %T@\n' | sort | diff before -
	no_litter out/variant undefined cov two-slices undefined+two-slices two-slices+second-level
	for variant in undefined cov two-slices undefined+two-slices two-slices+second-level; do
		equal "$(out/variant/$variant/qimg)" 42
	done
	grep -q -- -DQIMG_TWO_SLICES out/variant/two-slices/obj/flags.compile
	grep -q -- -DQIMG_SECOND_LEVEL out/variant/two-slices+second-level/obj/flags.compile
	grep -q -- -fsanitize=undefined out/variant/undefined/obj/flags.compile
}

@test "the archive exports qimg_ names alone, also with sanitizers" {
	configured
	made all
	equal "$(nm -g --defined-only out/libqimg.a | awk 'NF == 3 { print $3 }')" qimg_number
	made all SAN=address,undefined
	equal "$(nm -g --defined-only out/variant/address-undefined/libqimg.a | awk 'NF == 3 { print $3 }')" qimg_number
}

@test "a warning is an error with --enable-werror, and only then" {
	configured
	echo 'int warns(void); int warns(void) { int unused; return 1; }' >src/lib/base/warns.c
	made all
	configured --enable-werror
	run made all
	[ "$status" -ne 0 ]
	contains "$output" 'unused'
}

@test "only libraries that the code uses are linked" {
	need readelf
	configured
	made all
	equal "$(readelf -d out/qimg | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')" libc.so.6
}

@test "the program is hardened" {
	need readelf
	configured
	made all
	contains "$(readelf -h out/qimg)" 'DYN'
	contains "$(readelf -lW out/qimg)" 'GNU_RELRO'
	contains "$(readelf -dW out/qimg)" 'NOW'
	readelf -lW out/qimg | grep GNU_STACK | grep -q ' RW '
	grep -q -- -D_FORTIFY_SOURCE=2 out/obj/flags.compile
	grep -q -- -fstack-protector-strong out/obj/flags.compile
	made all CFLAGS=-O0
	configured CFLAGS=-O0
	[ "$(grep -c '^FORTIFY = -D' out/Makefile)" -eq 0 ]
}

# -------------------------------------------------------------------- install

@test "install honours DESTDIR and the directories; uninstall takes all back" {
	project
	mkdir -p src/man src/completion out
	touch src/man/qimg.1 src/man/qimg.5 src/completion/{qimg.bash,_qimg,qimg.fish}
	(cd out && ../src/configure --prefix=/opt/q --libdir=/opt/q/lib64 --mandir=/man >/dev/null)
	$MAKE -s -C out install DESTDIR="$PWD/dest"
	(cd dest && find . -type f | sort) >installed
	diff installed - <<-END
		./man/man1/qimg.1
		./man/man5/qimg.5
		./opt/q/bin/qimg
		./opt/q/include/qimg.h
		./opt/q/lib64/libqimg.a
		./opt/q/lib64/pkgconfig/libqimg.pc
		./opt/q/share/bash-completion/completions/qimg
		./opt/q/share/doc/qimg/COPYING
		./opt/q/share/doc/qimg/ChangeLog
		./opt/q/share/doc/qimg/README.md
		./opt/q/share/fish/vendor_completions.d/qimg.fish
		./opt/q/share/zsh/site-functions/_qimg
	END
	grep -qx 'libdir=/opt/q/lib64' dest/opt/q/lib64/pkgconfig/libqimg.pc
	echo mine >dest/opt/q/bin/other
	$MAKE -s -C out uninstall DESTDIR="$PWD/dest"
	equal "$(cd dest && find . -type f)" ./opt/q/bin/other
}

@test "a program builds against what is installed, through pkg-config" {
	need pkg-config
	$MAKE -s -C "$BUILDDIR" install DESTDIR="$PWD/dest" prefix=/usr
	cat >user.c <<-END
		#include <qimg.h>
		#include <stdio.h>
		int file_open(void);
		int file_open(void) { return 7; }
		int main(void) { printf("%s %d\n", qimg_version(), file_open()); return 0; }
	END
	export PKG_CONFIG_SYSROOT_DIR=$PWD/dest PKG_CONFIG_LIBDIR=$PWD/dest/usr/lib/pkgconfig
	export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
	# shellcheck disable=SC2046 # flags are several words
	cc -o user user.c $(pkg-config --cflags --libs libqimg)
	equal "$(./user)" '0.1.0 7'
	equal "$(pkg-config --modversion libqimg)" 0.1.0
}

@test "dist holds what the build needs" {
	need tar gzip
	configured
	$MAKE -s -C out dist
	tar xzf out/qimg-0.1.0.tar.gz
	(cd src && find . -type f | sort) >want
	(cd qimg-0.1.0 && find . -type f | sort) | diff want -
	mkdir again
	(cd again && ../qimg-0.1.0/configure >/dev/null && $MAKE -s check)
	mv out/qimg-0.1.0.tar.gz first.tar.gz
	touch src/cmd/junk.o
	rm src/cmd/junk.o
	$MAKE -s -C out dist
	cmp <(tar tzf first.tar.gz) <(tar tzf out/qimg-0.1.0.tar.gz)
}

# ----------------------------------------------------------------------- check

# shellcheck disable=SC2030
@test "make check runs all tests and counts them" {
	configured
	run $MAKE -s -C out check
	[ "$status" -eq 0 ]
	equal "${lines[-1]}" '2 passed, 0 failed, 0 skipped'
	run $MAKE -s -C out check TESTS=number
	equal "${lines[-1]}" '2 passed, 0 failed, 0 skipped'
	run $MAKE -s -C out check-unit
	equal "${lines[-1]}" '1 passed, 0 failed, 0 skipped'
	run $MAKE -s -C out check TESTS=absent
	[ "$status" -ne 0 ]
	contains "$output" "no test is called 'absent'"
	sed -i 's/42/43/' src/lib/base/number.c
	run $MAKE -s -C out check
	[ "$status" -ne 0 ]
	contains "$output" 'got 43, want 42'
	contains "$output" '2 failed'
}

# runs SCRIPT WANT: what tests/run counts for a test that does SCRIPT
runs() {
	printf '#!/bin/sh\n%b\n' "$1" >t
	chmod +x t
	run sh "$SRCDIR/tests/run" check unit:t:./t
	equal "${lines[-1]}" "$2, 0 skipped" "$1" || return
	case $2 in
	*', 0 failed') [ "$status" -eq 0 ] ;;
	*) [ "$status" -eq 1 ] ;;
	esac
}

@test "no test passes by accident" {
	runs 'echo ok 1; echo 1..1' '1 passed, 0 failed'
	runs 'echo 1..2; echo ok 1; echo ok 2' '2 passed, 0 failed'
	runs 'echo not ok 1; echo 1..1; exit 1' '0 passed, 1 failed'
	runs 'echo not ok 1; echo 1..1' '0 passed, 2 failed'
	runs 'echo ok 1; echo 1..1; exit 3' '1 passed, 1 failed'
	runs 'echo ok 1; echo 1..1; kill -SEGV $$' '1 passed, 1 failed'
	runs 'echo ok 1' '1 passed, 1 failed'
	runs 'echo 1..2; echo ok 1' '1 passed, 1 failed'
	runs 'echo 1..1; echo ok 1; echo ok 2' '2 passed, 1 failed'
	runs 'echo 1..0' '0 passed, 1 failed'
	runs 'exit 0' '0 passed, 1 failed'
	runs 'true >$(echo $ASAN_OPTIONS | sed "s/log_path=\\([^:]*\\):.*/\\1/").77; echo ok 1; echo 1..1' '1 passed, 1 failed'
	export TEST_TIMEOUT=1
	runs 'sleep 30; echo ok 1; echo 1..1' '0 passed, 2 failed'
}

@test "what is skipped is counted, and nothing but skips is no success" {
	printf '#!/bin/sh\necho 1..0 \\# SKIP no disk\n' >a
	printf '#!/bin/sh\necho ok 1; echo ok 2 \\# skip why; echo 1..2\n' >b
	chmod +x a b
	run sh "$SRCDIR/tests/run" check unit:a:./a unit:b:./b
	equal "${lines[-1]}" '1 passed, 0 failed, 2 skipped'
	[ "$status" -eq 0 ]
	run sh "$SRCDIR/tests/run" check unit:a:./a
	[ "$status" -eq 1 ]
	run sh "$SRCDIR/tests/run" check
	[ "$status" -eq 1 ]
}

@test "a file of tests that bats cannot read counts as failed" {
	need bats
	printf '@test "a" {\n\ttrue\n' >broken.bats
	run sh "$SRCDIR/tests/run" check "bats:broken:$PWD/broken.bats"
	[ "$status" -eq 1 ]
	contains "${lines[-1]}" '0 passed, '
	printf '@test "a" {\n\ttrue\n}\n@test "b" {\n\techo sorry\n\tfalse\n}\n' >half.bats
	run sh "$SRCDIR/tests/run" check "bats:half:$PWD/half.bats"
	[ "$status" -eq 1 ]
	equal "${lines[-1]}" '1 passed, 1 failed, 0 skipped'
	contains "$output" '# sorry'
}

@test "the demo fails where the program does" {
	need mke2fs
	printf '#!/bin/sh\nexit 1\n' >qimg-broken
	chmod +x qimg-broken
	mkdir tmp
	run env TMPDIR="$PWD/tmp" DEMO_MIB=4 QIMG="$PWD/qimg-broken" sh "$SRCDIR/tests/demo"
	[ "$status" -eq 1 ]
	no_litter tmp
}
