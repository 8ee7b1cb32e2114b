#include "search/vector_reader.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/threads.h"
#include "search/json_vectors.h"

namespace mt {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::int64_t kMostColumns = 1 << 20;
constexpr std::size_t kPart = std::size_t{1} << 19;  // bytes of a thread

namespace {

// body(begin, count) for parts of so many bytes, several at a time.
template <class Body>
void for_parts(std::size_t bytes, const Body& body) {
  parallel_for(static_cast<std::int64_t>((bytes + kPart - 1) / kPart), [&](std::int64_t part) {
    const std::size_t begin = static_cast<std::size_t>(part) * kPart;
    body(begin, std::min(kPart, bytes - begin));
  });
}

bool is_finite(float number) { return std::isfinite(number); }

bool all_finite(std::span<const float> numbers) {
  std::uint32_t largest = 0;  // bits but for the sign: those of infinity and above are no numbers
  for (const float number : numbers)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(number) & 0x7fffffff);
  return largest < 0x7f800000;
}

}  // namespace

VectorReader::VectorReader(const std::string& path, std::optional<std::int64_t> columns)
    : file_(File::open(path)), is_regular_(file_.is_regular()) {
  begin_.resize(kMagic.size());
  begin_.resize(fill(std::as_writable_bytes(std::span(begin_))));
  if (begin_ == kMagic) {
    begin_.clear();
    read_header();
  } else if (JsonVectors::begins(begin_)) {
    lines_ = std::make_unique<JsonVectors>(file_, std::exchange(begin_, {}));
    columns_ = lines_->columns();
    if (columns_ > kMostColumns)
      fail(Exit::bad_data, file_.name(), ": vectors of ", columns_, " columns, expected at most ",
           kMostColumns);
  } else if (columns) {
    columns_ = *columns;
  } else {
    fail(Exit::bad_data, file_.name(),
         ": is no matrix of NumPy's, nor lines of JSON with an \"embedding\"; numbers without a "
         "header need --dim");
  }
  if (columns && *columns != columns_)
    fail(Exit::bad_data, file_.name(), ": vectors of ", columns_, " columns, expected ", *columns);
  if (!is_regular_) return;
  offset_ = static_cast<std::uint64_t>(::lseek(file_.descriptor(), 0, SEEK_CUR));
  size_ = std::max(offset_, file_.size());
}

VectorReader::~VectorReader() = default;

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

std::optional<std::int64_t> VectorReader::rows_left() const {
  if (!is_regular_ || !rows_) return std::nullopt;
  const auto bytes = static_cast<std::uint64_t>(columns_) * sizeof(float);
  return std::min(*rows_ - at_, static_cast<std::int64_t>((size_ - offset_) / bytes));
}

void VectorReader::check_end() {
  std::byte more;
  if (is_regular_ ? offset_ < size_ : fill({&more, 1}) > 0)
    fail(Exit::bad_data, file_.name(), ": goes on behind its ", *rows_, " vectors");
}

std::int64_t VectorReader::read(std::span<float> into) {
  if (lines_) return lines_->read(into);
  std::int64_t most = std::ssize(into) / columns_;
  if (rows_) most = std::min(most, *rows_ - at_);
  if (most == 0) {
    check_end();
    return 0;
  }
  const std::span<float> numbers = into.first(static_cast<std::size_t>(most * columns_));
  const auto bytes = std::as_writable_bytes(numbers);
  std::size_t got = 0;
  std::atomic<bool> finite = true;
  const auto look_at = [&](std::size_t begin, std::size_t count) {
    if (!all_finite(numbers.subspan(begin / sizeof(float), count / sizeof(float)))) finite = false;
  };
  if (rows_ && is_regular_) {  // while a thread's cache still has what it has read
    got = std::min(bytes.size(), static_cast<std::size_t>(size_ - offset_));
    for_parts(got, [&](std::size_t begin, std::size_t count) {
      file_.read_at(offset_ + begin, bytes.subspan(begin, count));
      look_at(begin, count);
    });
    offset_ += got;
  } else {
    got = std::min(begin_.size(), bytes.size());
    std::memcpy(bytes.data(), begin_.data(), got);
    begin_.erase(0, got);
    got += fill(bytes.subspan(got));
    for_parts(got, look_at);
  }
  return taken(numbers, got, finite);
}

bool VectorReader::can_be_mapped() const {
  return rows_ && is_regular_ && offset_ % alignof(float) == 0;
}

std::span<const float> VectorReader::next_of(const MappedFile& file, std::int64_t most) {
  most = std::min(most, *rows_ - at_);
  if (most == 0) {
    check_end();
    return {};
  }
  const Bytes rest = file.bytes().subspan(std::min(file.bytes().size(), offset_));
  const std::span<const float> numbers(reinterpret_cast<const float*>(rest.data()),
                                       static_cast<std::size_t>(most * columns_));
  const std::size_t got = std::min(numbers.size_bytes(), rest.size());
  std::atomic<bool> finite = true;
  for_parts(got, [&](std::size_t begin, std::size_t count) {
    if (!all_finite(numbers.subspan(begin / sizeof(float), count / sizeof(float)))) finite = false;
  });
  offset_ += got;
  taken(numbers, got, finite);
  return numbers;
}

std::int64_t VectorReader::taken(std::span<const float> numbers, std::size_t got, bool finite) {
  const std::size_t row = static_cast<std::size_t>(columns_) * sizeof(float);
  if (got % row != 0 || (rows_ && got < numbers.size_bytes()))
    fail(Exit::bad_data, file_.name(), ": ends in vector ",
         at_ + static_cast<std::int64_t>(got / row), " of ", columns_, " columns");
  if (!finite) {
    const auto bad = std::ranges::find_if_not(numbers, is_finite) - numbers.begin();
    fail(Exit::bad_data, file_.name(), ": vector ", at_ + bad / columns_, ": column ",
         bad % columns_, " is no finite number");
  }
  const auto rows = static_cast<std::int64_t>(got / row);
  at_ += rows;
  return rows;
}

}  // namespace mt
