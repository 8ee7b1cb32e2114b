// The completion scripts of --completion.  They ask the program itself for words.
#include <algorithm>
#include <string>

#include "base/option_help.h"

namespace mt {

// In all scripts @PROGRAM@ is the program and @NAME@ that as a shell name.
static constexpr const char* kBash = R"(# bash completion of @PROGRAM@: source it, or install it
_@NAME@() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local name values help words=() verb=() files='*'
  if [[ $current == = ]]; then current=; fi
  if [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi
  if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} != -* ]]; then verb=("${COMP_WORDS[1]}"); fi
  while IFS=$'\t' read -r name values help; do
    if [[ $name == "$previous" && $values != - ]]; then
      _@NAME@_values
      return
    fi
    if [[ $name == = ]]; then files=$values; continue; fi
    if [[ $name == -* ]] || ((COMP_CWORD == 1)); then words+=("$name"); fi
  done < <(@PROGRAM@ "${verb[@]}" --help=words 2> /dev/null)
  if [[ $current == -* ]] || ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "${words[*]}" -- "$current")
  fi
  if [[ $current != -* ]]; then values=$files _@NAME@_values; fi
}
_@NAME@_values() {  # adds what $values says to COMPREPLY
  local found
  case $values in
    '#') return ;;
    '*') found=$(compgen -f -- "$current") ;;
    '*/') found=$(compgen -d -- "$current") ;;
    '*.idx') found=$(compgen -d -- "$current"; compgen -f -X '!*.idx' -- "$current" | sed 's/\.idx$//') ;;
    '*.'*) found=$(compgen -d -- "$current"; compgen -f -X "!$values" -- "$current") ;;
    *) found=$(compgen -W "${values//|/ }" -- "$current") ;;
  esac
  if [[ $found ]]; then mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY <<< "$found"; fi
}
complete -o filenames -F _@NAME@ @PROGRAM@
)";

static constexpr const char* kZsh = R"(#compdef @PROGRAM@
# zsh completion of @PROGRAM@: a file _@PROGRAM@ in a folder of $fpath
_@NAME@() {
  local name values help files='*' current=${words[CURRENT]} previous=${words[CURRENT-1]}
  local -a verb found
  if [[ $current == --*=* ]]; then previous=${current%%=*}; compset -P '*='; fi
  if ((CURRENT > 2)) && [[ ${words[2]} != -* ]]; then verb=(${words[2]}); fi
  while IFS=$'\t' read -r name values help; do
    if [[ $name == $previous && $values != - ]]; then
      _@NAME@_values
      return
    fi
    if [[ $name == = ]]; then files=$values; continue; fi
    if [[ ($name == -* && $current == -*) || ($name != -* && $CURRENT == 2) ]]; then
      found+=("${name//:/\\:}:$help")
    fi
  done < <(@PROGRAM@ $verb --help=words 2> /dev/null)
  if (($#found)); then _describe @PROGRAM@ found; fi
  if [[ $current != -* ]]; then values=$files; _@NAME@_values; fi
}
_@NAME@_values() {
  case $values in
    '#') ;;
    '*') _files ;;
    '*/') _files -/ ;;
    '*.idx') compadd -U -f -- ${PREFIX}*.idx(N:r); _files -/ ;;
    '*.'*) _files -g $values ;;
    *) compadd -- ${(s:|:)values} ;;
  esac
}
compdef _@NAME@ @PROGRAM@
if [[ $funcstack[1] == _@PROGRAM@ ]]; then _@NAME@; fi  # the first time, when zsh has just read it
)";

static constexpr const char* kFish = R"(# fish completion of @PROGRAM@
function __@NAME@_words
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l asked $before[-1]
    set -l prefix ''
    if string match -q -- '--*=*' $current
        set asked (string split -m 1 = -- $current)[1]
        set prefix $asked=
    end
    set -l verb
    if set -q before[2]; and not string match -q -- '-*' $before[2]
        set verb $before[2]
    end
    set -l found
    set -l files '*'
    for line in (@PROGRAM@ $verb --help=words 2>/dev/null)
        set -l row (string split \t -- $line)
        if test "$row[1]" = "$asked"; and test "$row[2]" != -
            __@NAME@_values $row[2] (string replace -- "$prefix" '' $current) | string replace -r '^' -- "$prefix"
            return
        end
        if test "$row[1]" = =
            set files $row[2]
            continue
        end
        if string match -q -- '-*' $row[1]; or test (count $before) = 1
            set -a found $row[1]\t$row[3]
        end
    end
    printf '%s\n' $found
    if not string match -q -- '-*' $current
        __@NAME@_values $files $current
    end
end
function __@NAME@_values
    switch $argv[1]
        case '#'
        case '\*/'
            __fish_complete_directories $argv[2]
        case '\*.idx'
            __@NAME@_ending .idx $argv[2] | string replace -r '\.idx$' ''
        case '\*.*'
            __@NAME@_ending (string replace '*' '' -- $argv[1]) $argv[2]
        case '\*'
            __fish_complete_path $argv[2]
        case '*'
            printf '%s\n' (string split '|' -- $argv[1])
    end
end
function __@NAME@_ending  # folders, and files whose names end so; fish's own function has all
    __fish_complete_suffix $argv[2] $argv[1] |
        string match -r -- '^.*(?:/|'(string escape --style=regex -- $argv[1])')$'
end
complete -c @PROGRAM@ -f -a '(__@NAME@_words)'
)";

static void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
}

std::string completion_script(const OptionTable& table, const std::string& shell) {
  std::string script = shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
  std::string name = table.program;
  std::ranges::replace(name, '-', '_');
  replace_all(script, "@PROGRAM@", table.program);
  replace_all(script, "@NAME@", name);
  return script;
}

}  // namespace mt
