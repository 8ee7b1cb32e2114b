// JsonLineParser: the texts in one line of a JSON-lines file.  What Python's json.loads takes is
// taken (NaN, Infinity, integers of any size and half surrogate pairs in members that are not asked
// for; of equal keys the last counts), all else is refused.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

class JsonLineParser {
 public:
  explicit JsonLineParser(std::vector<std::string> keys);
  ~JsonLineParser();
  JsonLineParser(JsonLineParser&&) noexcept;

  // Parses a line, behind which 64 more bytes must be readable.  Returns what is wrong with it, or
  // "".
  std::string parse(std::string_view line);
  // parse() of the line that `lines` begin with; `line` gets it, without its "\n".
  std::string parse_first(std::string_view lines, std::string_view& line);

  // After a parse() that returned "": the texts of each key in well-formed UTF-8, one unless the
  // value is a list.  Valid until the next parse().
  const std::vector<std::vector<std::string_view>>& texts() const { return texts_; }

 private:
  struct State;
  std::string parse_any(std::string_view line);

  std::vector<std::string> keys_;
  std::vector<std::vector<std::string_view>> texts_;
  std::unique_ptr<State> state_;
};

}  // namespace mt
