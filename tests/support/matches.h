// Does all of a text match a POSIX extended regular expression?  (GCC warns of std::regex's own
// code under the address sanitizer.)
#pragma once

#include <gtest/gtest.h>
#include <regex.h>

#include <string>

namespace mt {

inline bool matches(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  EXPECT_EQ(regcomp(&compiled, ("^" + pattern + "$").c_str(), REG_EXTENDED | REG_NOSUB), 0);
  const bool matched = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  regfree(&compiled);
  return matched;
}

}  // namespace mt
