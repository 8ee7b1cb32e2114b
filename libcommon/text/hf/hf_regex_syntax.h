// Rewrites a regular expression of Oniguruma's syntax for PCRE2 (text/hf/hf_regex.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mt {

class JsonObject;

// An expression for PCRE2, whose sets of characters stand apart, as most occur more than once and
// are large.
struct Pcre2Expression {
  static constexpr std::size_t kMostBytes = 1 << 20;

  std::string text;               // with kClass INDEX kEnd for each set
  std::vector<std::string> sets;  // "[...]"
  static constexpr char kClass = '\x01', kEnd = '\x02';

  // With the sets where they are used; empty: that would be more than kMostBytes.
  std::string inlined() const;
  // With each set once, as a group that is called: smaller, and slower.
  std::string shared() const;
};

// Refuses, by `where`, what the two do not read alike.
Pcre2Expression pcre2_expression(std::string_view expression, const JsonObject& where);

}  // namespace mt
