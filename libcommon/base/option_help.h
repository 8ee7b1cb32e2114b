// What an option table says of itself: -h, --help in its forms, and the shells' completions.
#pragma once

#include <string>

#include "base/option.h"

namespace mt {

// --help: 80 columns, defaults in brackets.  Of a verb without the options that all have.
std::string help_text(const OptionTable& table);
// --help SECTION: the options of each section that begins with this name, in letters of any case;
// empty if there is none.
std::string help_section(const OptionTable& table, const std::string& name);
std::string section_names(const OptionTable& table);  // "Model, Data, ..."
// -h: at most 25 lines, with the options of a first run, each in one, and what else there is.
std::string help_short(const OptionTable& table);
std::string usage_text(const OptionTable& table);  // what to type, in four lines
std::string help_json(const OptionTable& table);   // --help=json: one object, schema "mt-help/1"
std::string help_man(const OptionTable& table);  // --help=man: the OPTIONS of the man page, in roff
// --help=words: a line per verb and option name, for completion: NAME <tab> VALUES <tab> HELP,
// where VALUES is `-` for none, `#` for what nobody completes (a number, a name), `*` for a file,
// `*/` for a folder, `*.idx` for the prefix of such a file, else its choices joined by `|`.  The
// line named `=` says it of arguments.
std::string help_words(const OptionTable& table);

// A completion script for "bash", "zsh" or "fish".  It asks the program for --help=words, so that
// it fits whatever version is installed.
std::string completion_script(const OptionTable& table, const std::string& shell);

}  // namespace mt
