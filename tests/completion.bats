#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Completion in the shells themselves.

load helpers

setup() {
	helpers_setup
	mkdir bin
	ln -s "$QIMG" bin/qimg
	PATH=$PWD/bin:$PATH
	touch image.raw 'b b.raw'
}

# in_bash LINE: the words that bash would offer, one a line
in_bash() {
	bash --norc --noprofile -c '
		source "$1"
		COMP_LINE=$2 COMP_POINT=${#2} COMP_CWORD=0
		read -ra COMP_WORDS <<<"$2"
		complete -p qimg | grep -q _qimg || exit 1
		_qimg
		printf "%s\n" "${COMPREPLY[@]}"' bash "$SRCDIR/completion/qimg.bash" "$1"
}

# in_fish LINE: the same for fish, with the whole word that is being completed
in_fish() {
	# shellcheck disable=SC2016
	HOME=$PWD fish --no-config -c 'source $argv[1]; complete -C $argv[2]' \
		"$SRCDIR/completion/qimg.fish" "$1" | cut -f1
}

# in_zsh LINE...: what each line becomes when TAB is pressed behind it
in_zsh() {
	cat >zsh.script <<-'EOS'
	zmodload zsh/zpty
	zpty z "TERM=dumb zsh -f -i"
	zpty -w z "PROMPT=; unsetopt zle_bracketed_paste promptcr promptsp beep; fpath=($1 \$fpath);
	autoload -U compinit && compinit -u -D; setopt noautolist noautomenu nolistambiguous;
	show() { print -r -- \"<<\$BUFFER>>\"; BUFFER=; }; zle -N show; bindkey '^X' show; print rea''dy"
	while zpty -r z line; do [[ $line == *ready* ]] && break; done
	for typed in "${@[2,-1]}"; do
		zpty -w -n z "$typed"$'\t\x18'
		while zpty -r z line; do
			[[ $line == *'<<'*'>>'* ]] || continue
			line=${line##*'<<'}
			print -r -- "${line%'>>'*}|"
			break
		done
	done
	zpty -d z
	EOS
	timeout 60 zsh -f zsh.script "$SRCDIR/completion" "$@"
}

@test "the program answers what completion asks" {
	qimg --complete commands | grep -q "^create$(printf '\t')Create"
	qimg --complete options create | grep -q "^--format$(printf '\t')format$(printf '\t')"
	qimg --complete options info | grep -q "^--output$(printf '\t')choice$(printf '\t')human json"
	qimg --complete formats | grep -qx qcow2
	qimg --complete caches | grep -qx writeback
	qimg --complete create qcow2 | grep -q "^cluster_size$(printf '\t')size"
	run qimg --complete options nosuch
	[ "$status" -eq 1 ]
	run qimg --complete create nosuch
	[ "$status" -eq 1 ]
	run qimg --complete nonsense
	[ "$status" -eq 1 ]
	equal "$output" ''
	# Each line has four fields, also where some are empty.
	equal "$(qimg --complete options create | awk -F '\t' 'NF != 4')" ''
}

@test "bash: commands" {
	contains "$(in_bash 'qimg ' | tr '\n' ' ')" 'create '
	equal "$(in_bash 'qimg cr')" create
	equal "$(in_bash 'qimg --v')" --version
	contains "$(in_bash 'qimg help ' | tr '\n' ' ')" 'info '
}

@test "bash: options are those of the table" {
	local name
	for name in $(qimg --complete commands | cut -f1); do
		equal "$(in_bash "qimg $name -" | sort)" \
			"$(qimg --complete options "$name" | cut -f1 | sort)"
	done
	equal "$(in_bash 'qimg create --forma')" --format
}

@test "bash: arguments of options" {
	equal "$(in_bash 'qimg create -f q')" qcow2
	equal "$(in_bash 'qimg create --format q')" qcow2
	equal "$(in_bash 'qimg create --format=q')" qcow2
	equal "$(in_bash 'qimg info --output ' | tr '\n' ' ')" 'human json '
	equal "$(in_bash 'qimg info --output=j')" json
	equal "$(in_bash 'qimg create -b im')" image.raw
	equal "$(in_bash 'qimg create --backing=im')" image.raw
}

@test "bash: creation options are those of the format" {
	equal "$(in_bash 'qimg create -f qcow2 -o ' | sort)" \
		"$({ qimg --complete create qcow2 | cut -f1 | sed 's/$/=/'; echo help; } | sort)"
	equal "$(in_bash 'qimg create --format=qcow2 -o clu')" cluster_size=
	equal "$(in_bash 'qimg create -fqcow2 -o clu')" cluster_size=
	equal "$(in_bash 'qimg create -o clu')" ''
	# bash takes what is behind the last "=" for the word.
	equal "$(in_bash 'qimg create -f qcow2 -o cluster_size=4k,lazy')" 4k,lazy_refcounts=
	equal "$(in_bash 'qimg create -f qcow2 -o lazy_refcounts=' | tr '\n' ' ')" 'on off '
	equal "$(in_bash 'qimg create -f qcow2 -o size=1M,preallocation=f' | tr '\n' ' ')" 'falloc full '
}

@test "bash: files elsewhere" {
	equal "$(in_bash 'qimg info im')" image.raw
	equal "$(in_bash 'qimg info -U im')" image.raw
	contains "$(in_bash 'qimg info ')" 'b b.raw'
}

@test "fish: commands, options, arguments, creation options" {
	need fish
	contains "$(in_fish 'qimg ' | tr '\n' ' ')" 'create '
	equal "$(in_fish 'qimg cr')" create
	for name in $(qimg --complete commands | cut -f1); do
		equal "$(in_fish "qimg $name -" | sort)" "$(qimg --complete options "$name" | cut -f1 | sort)"
	done
	equal "$(in_fish 'qimg create -f q')" qcow2
	equal "$(in_fish 'qimg create --format=q')" --format=qcow2
	equal "$(in_fish 'qimg info --output ' | tr '\n' ' ')" 'human json '
	equal "$(in_fish 'qimg create -f qcow2 -o clu')" cluster_size=
	equal "$(in_fish 'qimg create -fqcow2 -o clu')" cluster_size=
	equal "$(in_fish 'qimg create -f qcow2 -o size=1M,lazy_refcounts=o' | tr '\n' ' ')" \
		'size=1M,lazy_refcounts=off size=1M,lazy_refcounts=on '
	equal "$(in_fish 'qimg create -b im')" image.raw
	equal "$(in_fish 'qimg info -U im')" image.raw
}

@test "zsh: commands, options, arguments, creation options" {
	need zsh
	in_zsh 'qimg cr' 'qimg help inf' 'qimg --ver' 'qimg create --form' 'qimg create -f q' \
		'qimg create --format=q' 'qimg create --no' 'qimg create -f qcow2 -o cl' \
		'qimg create -f qcow2 -o cluster_size=4k,laz' 'qimg create -f qcow2 -o preallocation=m' \
		'qimg create -f qcow2 -o size=1M,preallocation=m' 'qimg info im' 'qimg info --output=j' \
		'qimg create -b im' 'qimg create --backing im' >out
	cat >want <<-'EOW'
	qimg create |
	qimg help info |
	qimg --version |
	qimg create --format=|
	qimg create -f qcow2 |
	qimg create --format=qcow2 |
	qimg create --no-clobber |
	qimg create -f qcow2 -o cluster_size=|
	qimg create -f qcow2 -o cluster_size=4k,lazy_refcounts=|
	qimg create -f qcow2 -o preallocation=metadata |
	qimg create -f qcow2 -o size=1M,preallocation=metadata |
	qimg info image.raw |
	qimg info --output=json |
	qimg create -b image.raw |
	qimg create --backing image.raw |
	EOW
	diff want out
}
