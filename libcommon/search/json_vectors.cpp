#include "search/json_vectors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace mt {

constexpr std::size_t kAtATime = std::size_t{1} << 20;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of a line

bool JsonVectors::begins(std::string_view text) {
  const bool is_text = std::ranges::all_of(text, [](char c) { return ' ' <= c && c <= '~'; });
  return is_text && text.size() > 3 && text[0] == '{' &&
         text.find('"') == text.find_first_not_of(' ', 1);
}

JsonVectors::JsonVectors(File& file, std::string begin) : file_(file), buffer_(std::move(begin)) {
  has_row_ = next_line();
}

bool JsonVectors::next_line() {
  std::size_t end = buffer_.find('\n', at_);
  while (end == std::string::npos) {
    buffer_.erase(0, std::exchange(at_, 0));
    const std::size_t before = buffer_.size();
    if (before > kMostBytes)
      fail(Exit::bad_data, file_.name(), ":", line_ + 1, ": is longer than ", kMostBytes, " bytes");
    buffer_.resize(before + kAtATime);
    buffer_.resize(before + file_.read(std::as_writable_bytes(std::span(buffer_)).subspan(before)));
    if (buffer_.size() == before) {
      if (before == 0) return false;
      buffer_ += '\n';  // the last has none
    }
    end = buffer_.find('\n', before);
  }
  ++line_;
  const auto refuse = [&](const auto&... what) {
    fail(Exit::bad_data, file_.name(), ":", line_, ": ", what...);
  };
  const std::string_view line = std::string_view(buffer_).substr(at_, end - at_);
  simdjson::dom::array numbers;
  if (const auto error = parser_.parse(line)["embedding"].get(numbers);
      error == simdjson::NO_SUCH_FIELD || error == simdjson::INCORRECT_TYPE)
    refuse("expected an object with an \"embedding\" that is an array of numbers");
  else if (error != simdjson::SUCCESS)
    refuse(simdjson::error_message(error));
  std::vector<float> row;
  for (const simdjson::dom::element element : numbers) {
    double number = 0;
    if (element.get(number) != simdjson::SUCCESS ||
        std::abs(number) > static_cast<double>(std::numeric_limits<float>::max()))
      refuse("number ", row.size(), " of its embedding is none of float32");
    row.push_back(static_cast<float>(number));
  }
  if (row.empty()) refuse("its embedding has no numbers");
  if (line_ > 1 && row.size() != row_.size())
    refuse("an embedding of ", row.size(), " numbers, expected ", row_.size());
  row_ = std::move(row);
  at_ = end + 1;
  return true;
}

std::int64_t JsonVectors::read(std::span<float> into) {
  std::int64_t rows = 0;
  for (; has_row_ && into.size() >= row_.size(); ++rows) {
    std::ranges::copy(row_, into.begin());
    into = into.subspan(row_.size());
    has_row_ = next_line();
  }
  return rows;
}

}  // namespace mt
