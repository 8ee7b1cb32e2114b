#include "search/vector_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace mt {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::int64_t kMostColumns = 1 << 20;
constexpr std::int64_t kMostNumbers = 1 << 24;  // that are read at a time, but for one vector's

VectorReader::VectorReader(const std::string& path, std::optional<std::int64_t> columns)
    : file_(File::open(path)) {
  begin_.resize(kMagic.size());
  begin_.resize(fill(std::as_writable_bytes(std::span(begin_))));
  if (begin_ == kMagic) {
    begin_.clear();
    read_header();
    if (columns && *columns != columns_)
      fail(Exit::bad_data, file_.name(), ": vectors of ", columns_, " columns, expected ",
           *columns);
  } else if (columns) {
    columns_ = *columns;
  } else {
    fail(Exit::bad_data, file_.name(),
         ": is no matrix of NumPy's; numbers without a header need --dim");
  }
}

std::size_t VectorReader::fill(std::span<std::byte> into) {
  std::size_t done = 0;
  for (std::size_t count = 1; count > 0 && done < into.size(); done += count)
    count = file_.read(into.subspan(done));
  return done;
}

void VectorReader::read_header() {
  const auto refuse = [&](std::string_view what) {
    fail(Exit::bad_data, file_.name(), ": ", what,
         ", expected a .npy of float32, with two dimensions, in C's order");
  };
  const auto bytes = [&](std::size_t count) {
    std::string text(count, '\0');
    if (fill(std::as_writable_bytes(std::span(text))) != count) refuse("ends in its header");
    return text;
  };
  const std::string version = bytes(2);
  if (version[0] != 1 && version[0] != 2) refuse("is of another version of the format");
  std::size_t length = 0;
  const std::string told = bytes(version[0] == 1 ? 2 : 4);
  for (std::size_t i = told.size(); i > 0; --i)
    length = length << 8 | static_cast<std::uint8_t>(told[i - 1]);
  if (length > 65536) refuse("has a header of no meaning");
  const std::string header = bytes(length);
  if (header.find("'descr': '<f4'") == std::string::npos) refuse("has numbers of another type");
  if (header.find("'fortran_order': False") == std::string::npos) refuse("has another order");
  constexpr std::string_view kShape = "'shape': (";
  const std::size_t at = header.find(kShape);
  std::int64_t rows = -1;
  const char* const end = header.data() + header.size();
  if (at != std::string::npos) {
    const auto first = std::from_chars(header.data() + at + kShape.size(), end, rows);
    if (first.ec != std::errc() || !std::string_view(first.ptr, end).starts_with(", ")) rows = -1;
    const char* const next = std::min(first.ptr + 2, end);
    const auto second = std::from_chars(next, end, columns_);
    if (second.ec != std::errc() || !std::string_view(second.ptr, end).starts_with(")"))
      columns_ = 0;
  }
  if (rows < 0 || columns_ < 1 || columns_ > kMostColumns) refuse("has another shape");
  rows_ = rows;
}

std::vector<float> VectorReader::read(std::int64_t most) {
  most = std::min(most, std::max<std::int64_t>(1, kMostNumbers / columns_));
  if (rows_) most = std::min(most, *rows_ - at_);
  if (most == 0) {
    std::byte more;
    if (fill({&more, 1}) > 0)
      fail(Exit::bad_data, file_.name(), ": goes on behind its ", *rows_, " vectors");
    return {};
  }
  std::vector<float> numbers(static_cast<std::size_t>(most * columns_));
  const auto into = std::as_writable_bytes(std::span(numbers));
  const std::size_t before = std::min(begin_.size(), into.size());
  std::memcpy(into.data(), begin_.data(), before);
  begin_.erase(0, before);
  const std::size_t got = before + fill(into.subspan(before));
  const std::size_t row = static_cast<std::size_t>(columns_) * sizeof(float);
  if (got % row != 0 || (rows_ && got < into.size()))
    fail(Exit::bad_data, file_.name(), ": ends in vector ",
         at_ + static_cast<std::int64_t>(got / row), " of ", columns_, " columns");
  numbers.resize(got / sizeof(float));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!std::isfinite(numbers[i]))
      fail(Exit::bad_data, file_.name(), ": vector ", at_ + static_cast<std::int64_t>(i) / columns_,
           ": column ", static_cast<std::int64_t>(i) % columns_, " is no finite number");
  at_ += std::ssize(numbers) / columns_;
  return numbers;
}

}  // namespace mt
