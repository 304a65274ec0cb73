# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Completion of qimg in bash. What there is to complete comes from the program
# itself: qimg --complete ...
#
# Everything below works on words as typed, divided by blanks; bash has its own
# idea of words ("--format=q" are three), to which the end of _qimg translates.

# _qimg_ask WHAT [ARGUMENT]: the first column of what the program answers
_qimg_ask() {
	"$_qimg_program" --complete "$@" 2>/dev/null | cut -f1
}

# _qimg_add WORDS TYPED [BEFORE [BEHIND]]: those of WORDS (one a line) that start with TYPED
_qimg_add() {
	local word
	while IFS= read -r word; do
		[[ -z $word || $word != "$2"* ]] || COMPREPLY+=("${3-}$word${4-}")
	done <<<"$1"
}

# _qimg_files TYPED BEFORE
_qimg_files() {
	compopt -o filenames 2>/dev/null
	_qimg_add "$(compgen -f -- "$1")" "$1" "$2"
}

# _qimg_target WORD...: the format whose creation options -o takes
_qimg_target() {
	local format=raw take=
	while [ $# -gt 0 ]; do
		case $_qimg_command:$1 in
		create:-f | create:--format | convert:-O | convert:--target-format) take=${2-} ;;
		create:-f* | convert:-O*) take=${1#-?} ;;
		create:--format=* | convert:--target-format=*) take=${1#*=} ;;
		*) take= ;;
		esac
		format=${take:-$format}
		shift
	done
	echo "$format"
}

# _qimg_list FORMAT TYPED BEFORE: TYPED is a list of creation options, as far as it goes
_qimg_list() {
	local member=${2##*,} before key values
	before=$3${2%"$member"}
	case $member in
	*=*)
		key=${member%%=*}
		values=$("$_qimg_program" --complete create "$1" 2>/dev/null |
			awk -F '\t' -v key="$key" '$1 == key { print $2 ~ /^bool/ ? "on off" : $3 }')
		_qimg_add "${values// /$'\n'}" "${member#*=}" "$before$key="
		;;
	*)
		_qimg_add "$(_qimg_ask create "$1")" "$member" "$before" =
		[ -n "$2" ] || _qimg_add help '' "$before"
		;;
	esac
	compopt -o nospace 2>/dev/null
}

# _qimg_kind OPTION: "KIND:WORDS", from the table of the command
_qimg_kind() {
	"$_qimg_program" --complete options "$_qimg_command" 2>/dev/null |
		awk -F '\t' -v name="$1" '$1 == name { print $2 ":" $3 }'
}

# _qimg_argument KIND WORDS TYPED BEFORE: of the option of that kind
_qimg_argument() {
	case $1 in
	format | cache) _qimg_add "$(_qimg_ask "$1s")" "$3" "$4" ;;
	choice | flag) _qimg_add "${2// /$'\n'}" "$3" "$4" ;;
	create) _qimg_list "$(_qimg_target "${words[@]}")" "$3" "$4" ;;
	file) _qimg_files "$3" "$4" ;;
	esac
}

_qimg() {
	local line=${COMP_LINE:0:COMP_POINT} words typed previous found strip i
	local _qimg_program=${COMP_WORDS[0]} _qimg_command
	COMPREPLY=()
	read -ra words <<<"$line"
	typed=
	if [[ $line != *[[:space:]] ]]; then
		typed=${words[-1]}
		unset 'words[-1]'
	fi
	_qimg_command=${words[1]-}
	previous=${words[-1]-}

	if [ ${#words[@]} -le 1 ]; then
		_qimg_add "$(_qimg_ask commands; printf '%s\n' help --help --version)" "$typed"
	elif [ "$_qimg_command" = help ]; then
		_qimg_add "$(_qimg_ask commands)" "$typed"
	else
		case $typed in
		--*=*)
			found=$(_qimg_kind "${typed%%=*}")
			_qimg_argument "${found%%:*}" "${found#*:}" "${typed#*=}" "${typed%%=*}="
			;;
		*)
			found=flag:
			case $previous in
			-?*) found=$(_qimg_kind "$previous") ;;
			esac
			case $found:$typed in
			flag:*:-* | :-*) _qimg_add "$(_qimg_ask options "$_qimg_command")" "$typed" ;;
			flag:* | :*) _qimg_files "$typed" '' ;;
			*) _qimg_argument "${found%%:*}" "${found#*:}" "$typed" '' ;;
			esac
			;;
		esac
	fi

	# What bash takes for words of their own is not to be repeated.
	strip=
	for i in '=' ':'; do
		[[ $COMP_WORDBREAKS != *"$i"* ]] || strip+=$i
	done
	[ -z "$strip" ] || strip=${typed%"${typed##*["$strip"]}"}
	COMPREPLY=("${COMPREPLY[@]#"$strip"}")
}

complete -F _qimg qimg
