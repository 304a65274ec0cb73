# SPDX-License-Identifier: BSD-2-Clause
#
# Completion of qimg in fish. What there is to complete comes from the program
# itself: qimg --complete ...

# "KIND<tab>WORDS" of an option of a command
function __qimg_kind -a program command option
	$program --complete options $command 2>/dev/null | while read -l -d \t name kind values help
		if test "$name" = "$option"
			printf '%s\t%s\n' $kind "$values"
			return
		end
	end
end

# The format whose creation options -o takes
function __qimg_target -a command
	set -l format raw
	set -l words $argv[2..-1]
	for i in (seq (count $words))
		set -l next ''
		test $i -lt (count $words); and set next $words[(math $i + 1)]
		switch $command:$words[$i]
			case create:-f create:--format convert:-O convert:--target-format
				test -n "$next"; and set format $next
			case 'create:--format=*' 'convert:--target-format=*' 'create:-f*' 'convert:-O*'
				set format (string replace -r '^(--[a-z-]*=|-.)' '' -- $words[$i])
		end
	end
	echo $format
end

# A list of creation options as far as it is typed
function __qimg_list -a program format typed before
	set -l member (string replace -r '.*,' '' -- $typed)
	set -l front $before(string replace -r '[^,]*$' '' -- $typed)
	$program --complete create $format 2>/dev/null | while read -l -d \t name type values help
		switch "$member"
			case "$name=*"
				string match -q 'bool*' -- $type; and set values 'on off'
				for value in (string split -n ' ' -- $values)
					echo $front$name=$value
				end
			case '*=*'
			case '*'
				printf '%s\t%s\n' $front$name= $help
		end
	end
	test -z "$typed"; and printf '%s\t%s\n' $front'help' 'List the options'
end

# The argument of an option of a kind
function __qimg_argument -a program command kind values typed before
	switch $kind
		case format cache
			for word in ($program --complete {$kind}s 2>/dev/null)
				echo $before$word
			end
		case choice flag
			for word in (string split -n ' ' -- $values)
				echo $before$word
			end
		case create
			__qimg_list $program (__qimg_target $command $argv[7..-1]) "$typed" "$before"
		case file
			for file in (__fish_complete_path "$typed")
				echo $before$file
			end
	end
end

function __qimg_complete
	set -l words (commandline -opc)
	set -l typed (commandline -ct)
	set -l program $words[1]
	if test (count $words) -eq 1
		$program --complete commands 2>/dev/null
		printf '%s\t%s\n' help 'Show the help of a command' --help 'Show the help' --version 'Show the version'
		return
	end
	set -l command $words[2]
	if test "$command" = help
		$program --complete commands 2>/dev/null
		return
	end
	if string match -q -- '--*=*' $typed
		set -l parts (string split -m 1 = -- $typed)
		__qimg_kind $program $command $parts[1] | read -l -d \t kind values
		__qimg_argument $program $command "$kind" "$values" "$parts[2]" $parts[1]= $words[3..-1]
		return
	end
	set -l kind flag
	set -l values ''
	if test (count $words) -gt 2; and string match -q -- '-?*' $words[-1]
		__qimg_kind $program $command $words[-1] | read -d \t kind values
		test -n "$kind"; or set kind flag
	end
	if test "$kind" != flag
		__qimg_argument $program $command $kind "$values" "$typed" '' $words[3..-1]
	else if string match -q -- '-*' $typed
		$program --complete options $command 2>/dev/null | while read -l -d \t name kind values help
			printf '%s\t%s\n' $name $help
		end
	else
		__fish_complete_path "$typed"
	end
end

complete -c qimg -f -a '(__qimg_complete)'
