// JsonVectors: rows of f32 from lines of JSON, each an object whose "embedding" is an array of
// numbers, as many in each line; other members may be anything.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace mt {

class JsonVectors {
 public:
  // Whether what a file begins with is such a line's: text, a brace and then a name's mark.
  static bool begins(std::string_view text);

  // begin: what was read of the file, which must outlive this.  Exit::bad_data, with the line, for
  // any that is another, here and in read().
  JsonVectors(File& file, std::string begin);

  std::int64_t columns() const { return static_cast<std::int64_t>(row_.size()); }
  std::int64_t read(std::span<float> into);  // as VectorReader's

 private:
  bool next_line();  // puts the next one's numbers in row_; false: there is none

  File& file_;
  std::string buffer_;
  std::size_t at_ = 0;  // of the next line, in buffer_
  std::int64_t line_ = 0;
  bool has_row_ = false;  // which nobody took yet
  std::vector<float> row_;
  simdjson::dom::parser parser_;
};

}  // namespace mt
