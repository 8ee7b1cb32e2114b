// What an option table says of itself: --help in its four forms, and the shells' completions.
#pragma once

#include <string>

#include "base/option.h"

namespace mt {

std::string help_text(const OptionTable& table);  // --help: 80 columns, defaults in brackets
std::string help_json(const OptionTable& table);  // --help=json: one object, schema "mt-help/1"
std::string help_man(const OptionTable& table);  // --help=man: the OPTIONS of the man page, in roff
// --help=words: a line per verb and option name, for completion: NAME <tab> VALUES <tab> HELP,
// where VALUES is `-` for none, `*` for any (so a file), else its choices joined by `|`.
std::string help_words(const OptionTable& table);

// A completion script for "bash", "zsh" or "fish".  It asks the program for --help=words, so that
// it fits whatever version is installed.
std::string completion_script(const OptionTable& table, const std::string& shell);

}  // namespace mt
