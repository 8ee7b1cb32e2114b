#include "base/option_parser.h"

// cxxopts' other matcher is std::regex, whose recursion overflows the stack on a long value.
#define CXXOPTS_NO_REGEX
#include <charconv>
#include <cxxopts.hpp>

#include "base/error.h"

namespace mt {

using Kind = Option::Kind;

static bool is_number(const std::string& text) {
  double value;
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data(), end, value).ptr == end;
}

static bool ends_list(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && !is_number(argument);
}

[[noreturn]] static void fail_unknown(const OptionTable& table, const std::string& name) {
  const std::string near = table.did_you_mean(name);
  fail(Exit::usage, name, ": no such option",
       near.empty() ? " (see " + table.invocation() + " --help)" : near);
}

[[noreturn]] static void fail_missing(const std::string& name, const Option& option) {
  fail(Exit::usage, name, ": no value given; expected ", option.expected());
}

// The arguments with every value of an option that is spelled in full joined to it, `--x=value`,
// and lists as repeated options; the rest, and all after `--`, as it was.
static std::vector<std::string> join_values(OptionTable& table,
                                            const std::vector<std::string>& arguments) {
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      joined.insert(joined.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i),
                    arguments.end());
      break;
    }
    const Option* option = table.find(argument.substr(0, argument.find('=')));
    if (option != nullptr && option->kind == Kind::refused && !option->takes_value())
      fail(Exit::usage, argument.substr(0, argument.find('=')), ": not supported: ", option->help);
    if (option != nullptr && !option->answers_to(argument)) option = nullptr;  // has its value
    std::size_t first = i + 1, last = i + 1;                                   // the values
    if (option != nullptr && option->takes_list() && !option->one_each)
      while (last < arguments.size() && !ends_list(arguments[last])) ++last;
    else if (option != nullptr && option->takes_value() && last < arguments.size() &&
             arguments[last] != "--" && table.find(arguments[last]) == nullptr)
      ++last;
    if (option == nullptr || !option->takes_value()) {
      joined.push_back(argument);
      continue;
    }
    if (first == last) fail_missing(argument, *option);
    for (; first < last; ++first) joined.push_back(option->name() + "=" + arguments[first]);
    i = last - 1;
  }
  return joined;
}

// `-ofile.txt` as `--output=file.txt`: cxxopts takes only letters and digits there.
static std::string spell_out(OptionTable& table, const std::string& argument) {
  if (argument.size() < 3 || argument[0] != '-' || argument[1] == '-') return argument;
  const Option* option = table.find(argument.substr(0, 2));
  if (option == nullptr || !option->takes_value()) return argument;
  return option->name() + "=" + argument.substr(2);
}

static cxxopts::Options declare(const OptionTable& table) {
  cxxopts::Options declared(table.program);
  for (const Option& option : table.options) {
    std::string names;  // without dashes, as in "x,long,other"
    for (const std::string& name : option.names)
      names += concat(names.empty() ? "" : ",", name.substr(name.starts_with("--") ? 2 : 1));
    const auto value = cxxopts::value<std::string>();
    if (!option.takes_value()) value->implicit_value(option.bare);
    declared.add_options()(names, "", value);
  }
  return declared;
}

// cxxopts names what is wrong inside its message only, between quotes.
static std::string culprit(const std::exception& error) {
  const std::string message = error.what();
  const std::size_t from = message.find(cxxopts::LQUOTE) + cxxopts::LQUOTE.size();
  std::string name = message.substr(from, message.rfind(cxxopts::RQUOTE) - from);
  if (name.starts_with("-")) return name;
  return concat(name.size() == 1 ? "-" : "--", name);
}

static cxxopts::ParseResult parse_with_cxxopts(const OptionTable& table,
                                               const std::vector<std::string>& arguments) {
  std::vector<const char*> pointers = {table.program.c_str()};
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  try {
    return declare(table).parse(static_cast<int>(pointers.size()), pointers.data());
  } catch (const cxxopts::exceptions::no_such_option& error) {
    fail_unknown(table, culprit(error));
  } catch (const cxxopts::exceptions::missing_argument& error) {  // as in -vj
    fail(Exit::usage, culprit(error), ": no value given");
  } catch (const cxxopts::exceptions::invalid_option_syntax& error) {
    const std::string name = culprit(error);
    fail_unknown(table, name.substr(0, name.find('=')));
  }
}

ParsedArguments parse_arguments(OptionTable& table, const std::vector<std::string>& arguments) {
  std::vector<std::string> spelled = join_values(table, arguments);
  for (std::string& argument : spelled) {
    if (argument == "--") break;
    argument = spell_out(table, argument);
  }
  const cxxopts::ParseResult result = parse_with_cxxopts(table, spelled);
  ParsedArguments parsed{.options = {}, .positional = result.unmatched()};
  for (const cxxopts::KeyValue& given : result.arguments()) {
    Option* const option = table.find("--" + given.key());
    parsed.options.push_back({option, given.value()});
  }
  return parsed;
}

}  // namespace mt
