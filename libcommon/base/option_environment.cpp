#include "base/option_environment.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace mt {

// Options, and variables that are none, each between two ends of lines
// (scripts/documented-options).
extern const char kDocumentedOptions[];

namespace {

constexpr std::string_view kPrefix = "MT_";

// The option that a variable would be: --num-layer for MT_NUM_LAYER.
std::string option_of(std::string_view variable) {
  std::string name = "--";
  for (const char c : variable.substr(kPrefix.size()))
    name += c == '_' ? '-' : ('A' <= c && c <= 'Z') ? char(c + 32) : c;
  return name;
}

bool may_be_set(const Option& option) { return option.has_variable() && !option.command_line_only; }

// The variable that was meant: that of the option which has such a name as well, or a like one.
std::string meant(const OptionTable& table, const std::string& name) {
  std::vector<std::string> candidates;
  for (const Option& option : table.options) {
    if (!may_be_set(option)) continue;
    if (option.answers_to(name)) return option.variable();
    candidates.push_back(option.key());
  }
  const std::string near = nearest(name.substr(2), candidates);
  for (const Option& option : table.options)
    if (option.key() == near) return option.variable();
  return {};
}

bool is_known(const OptionTable& table, const std::string& variable, const std::string& name) {
  for (const Option& option : table.options)
    if (option.answers_to(name)) return option.variable() == variable || !may_be_set(option);
  const auto is_documented = [](const std::string& what) {
    return std::string_view(kDocumentedOptions).find("\n" + what + "\n") != std::string_view::npos;
  };
  return is_documented(name) || is_documented(variable);
}

}  // namespace

std::vector<std::string> unknown_variables(const OptionTable& table) {
  std::vector<std::string> lines, named;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string variable(text.substr(0, text.find('=')));
    if (!variable.starts_with(kPrefix) || variable.size() + 1 >= text.size()) continue;
    const std::string name = option_of(variable);
    if (is_known(table, variable, name)) continue;
    const std::string near = meant(table, name);
    lines.push_back(concat(variable, ": is set, but is no option of any program",
                           near.empty() ? "" : "; did you mean " + near + "?"));
    named.push_back(variable);
  }
  for (const std::string& variable : named) ::unsetenv(variable.c_str());
  return lines;
}

}  // namespace mt
