// PythonRegex: a regular expression of Python's module `re`, matched by PCRE2 over UTF-8 text.
// What both read alike is taken: all but \N{name}, and \Z, which means the end of the text.
// Constant once made.  A search that takes more than ten million steps, or a GiB, is
// Exit::bad_data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;

namespace mt {

class PythonRegex {
 public:
  // Exit::bad_config, with the expression, for what is not taken.
  explicit PythonRegex(std::string_view expression);

  // Match: where one is, and what its groups hold, "" of those that are no part of it.
  struct Match {
    std::size_t begin = 0, end = 0;
    std::vector<std::string_view> groups = {};
  };
  // All that do not overlap, from left to right, as re.finditer() gives them; at most so many.
  // The text is well-formed UTF-8.
  std::vector<Match> find_all(std::string_view text, std::size_t most = ~std::size_t{0}) const;
  // re.sub(expression, by, text, count): `by` may name groups as \1 and \g<1>; count 0: all.
  std::string replace(std::string_view text, std::string_view by, std::int64_t count = 0) const;

 private:
  std::string expression_;  // for errors
  std::shared_ptr<const pcre2_real_code_8> code_;
};

}  // namespace mt
