// The arguments of a program, cut into options and the rest by cxxopts after one step of our own:
// lists in the manner of Python's argparse, `--json-keys a b`, which cxxopts does not know.
#pragma once

#include <string>
#include <vector>

#include "base/option.h"

namespace mt {

struct ParsedArguments {
  struct Given {
    Option* option;
    std::string text;  // "true" for a flag
  };
  std::vector<Given> options;           // in order; a list's values one by one
  std::vector<std::string> positional;  // also all that follows `--`
};

// Accepts `--x value`, `--x=value`, `-x value`, `-xvalue`, `-abc` for flags, and `--`, in any order
// with positional arguments.  A list takes the arguments up to the next one that begins with a dash
// and is not a number.  Throws Exit::usage for an unknown or refused option and for a missing
// value; a value that is the name of an option counts as missing unless it is written --x=--value.
ParsedArguments parse_arguments(OptionTable& table, const std::vector<std::string>& arguments);

}  // namespace mt
