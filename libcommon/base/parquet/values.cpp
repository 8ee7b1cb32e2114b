#include "base/parquet/values.h"

namespace mt::parquet {
namespace {

std::size_t width_of(const Leaf& leaf) {
  switch (leaf.stored) {
    case Stored::int32:
    case Stored::real:
      return 4;
    case Stored::int64:
    case Stored::wide_real:
      return 8;
    case Stored::int96:
      return 12;
    case Stored::fixed_bytes:
      return static_cast<std::size_t>(leaf.bytes);
    default:
      return 0;
  }
}

Cell cell_of(Bytes bytes) {
  return {std::ssize(bytes), reinterpret_cast<const char*>(bytes.data())};
}

// What stands in so many bytes, of a type whose values all take as many.
Cell fixed_cell(Bytes bytes, const Leaf& leaf, const std::string& where) {
  Cursor value(bytes, where);
  switch (leaf.stored) {
    case Stored::int32:
      return {value.number<std::int32_t>()};
    case Stored::real:
      return {value.number<std::uint32_t>()};
    case Stored::int64:
    case Stored::wide_real:
      return {value.number<std::int64_t>()};
    default:
      return cell_of(bytes);
  }
}

void read_plain(Cursor& in, const Leaf& leaf, std::int64_t count, std::vector<Cell>& cells) {
  if (leaf.stored == Stored::truth) {
    const Bytes bits = in.take(static_cast<std::size_t>(count + 7) / 8);
    for (std::int64_t i = 0; i < count; ++i)
      cells.push_back({std::to_integer<int>(bits[static_cast<std::size_t>(i / 8)]) >> i % 8 & 1});
    return;
  }
  const std::size_t width = width_of(leaf);
  for (std::int64_t i = 0; i < count; ++i) {
    if (leaf.stored == Stored::bytes)
      cells.push_back(cell_of(in.take(in.number<std::uint32_t>())));
    else
      cells.push_back(fixed_cell(in.take(width), leaf, in.where()));
  }
}

// Numbers as differences from the one before, in blocks of a least difference and miniblocks of
// bits beyond it.  All arithmetic is modulo 2^64.
std::vector<std::int64_t> read_deltas(Cursor& in, std::int64_t most) {
  const std::uint64_t in_block = in.varint(), miniblocks = in.varint(), count = in.varint();
  auto value = static_cast<std::uint64_t>(in.zigzag());
  if (count > static_cast<std::uint64_t>(most)) in.damaged("a page has more values than it says");
  if (miniblocks == 0 || miniblocks > 1024 || in_block == 0 || in_block > 1 << 24 ||
      in_block % (miniblocks * 32) != 0)
    in.damaged("its differences have blocks of no known size");
  const std::uint64_t each = in_block / miniblocks;
  std::vector<std::int64_t> numbers;
  if (count > 0) numbers.push_back(static_cast<std::int64_t>(value));
  while (numbers.size() < count) {
    const auto least = static_cast<std::uint64_t>(in.zigzag());
    const Bytes widths = in.take(miniblocks);
    for (std::uint64_t m = 0; m < miniblocks && numbers.size() < count; ++m) {
      const int width = std::to_integer<int>(widths[m]);
      if (width > 64) in.damaged("a difference has more than 64 bits");
      const Bytes packed = in.take(each / 8 * static_cast<std::size_t>(width));
      std::size_t bit = 0;
      for (std::uint64_t i = 0; i < each && numbers.size() < count; ++i) {
        std::uint64_t difference = 0;
        for (int have = 0; have < width;) {
          const int from = static_cast<int>(bit % 8), taken = std::min(8 - from, width - have);
          const unsigned part =
              std::to_integer<unsigned>(packed[bit / 8]) >> from & ((1U << taken) - 1);
          difference |= std::uint64_t{part} << have;
          have += taken;
          bit += static_cast<std::size_t>(taken);
        }
        value += least + difference;
        numbers.push_back(static_cast<std::int64_t>(value));
      }
    }
  }
  return numbers;
}

std::vector<std::int64_t> read_all_deltas(Cursor& in, std::int64_t count) {
  std::vector<std::int64_t> numbers = read_deltas(in, count);
  if (std::ssize(numbers) < count) in.damaged("a page has fewer values than it says");
  return numbers;
}

std::size_t length(std::int64_t bytes, const Cursor& in) {
  if (bytes < 0) in.damaged("a text is of less than no bytes");
  return static_cast<std::size_t>(bytes);
}

void read_delta_numbers(Cursor& in, const Leaf& leaf, std::int64_t count,
                        std::vector<Cell>& cells) {
  const bool is_short = leaf.stored == Stored::int32;
  if (!is_short && leaf.stored != Stored::int64) in.damaged("differences of what is not a number");
  for (const std::int64_t number : read_all_deltas(in, count))
    cells.push_back({is_short ? static_cast<std::int32_t>(number) : number});
}

void read_delta_texts(Cursor& in, const Leaf& leaf, bool with_prefixes, std::int64_t count,
                      std::deque<std::string>& made, std::vector<Cell>& cells) {
  if (leaf.stored != Stored::bytes && leaf.stored != Stored::fixed_bytes)
    in.damaged("lengths of what is not a text");
  std::vector<std::int64_t> prefixes;
  if (with_prefixes) prefixes = read_all_deltas(in, count);
  const std::vector<std::int64_t> lengths = read_all_deltas(in, count);
  std::string_view before;
  std::size_t made_bytes = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    Cell cell = cell_of(in.take(length(lengths[i], in)));
    const std::size_t kept = with_prefixes ? length(prefixes[i], in) : 0;
    if (kept > before.size()) in.damaged("a text has more of the one before than that has");
    if (kept > 0) {
      made_bytes += kept + cell.text().size();
      if (made_bytes > kMostOfPage) in.damaged("a page has texts of more than 1 GiB");
      std::string& whole = made.emplace_back(before.substr(0, kept));
      whole += cell.text();
      cell = {std::ssize(whole), whole.data()};
    }
    if (leaf.stored == Stored::fixed_bytes && cell.number != leaf.bytes)
      in.damaged("a value has another length than its column");
    before = cell.text();
    cells.push_back(cell);
  }
}

// All first bytes, then all second ones, and so on.
void read_split(Cursor& in, const Leaf& leaf, std::int64_t count, std::deque<std::string>& made,
                std::vector<Cell>& cells) {
  const std::size_t width = width_of(leaf), values = static_cast<std::size_t>(count);
  if (width == 0) in.damaged("bytes are split of what has no width");
  if (values > in.left() / width) in.damaged("ends early");
  const Bytes split = in.take(values * width);
  std::string& whole = made.emplace_back(values * width, '\0');
  for (std::size_t b = 0; b < width; ++b)
    for (std::size_t i = 0; i < values; ++i)
      whole[i * width + b] = std::to_integer<char>(split[b * values + i]);
  for (std::size_t i = 0; i < values; ++i)
    cells.push_back(fixed_cell(as_bytes(whole).subspan(i * width, width), leaf, in.where()));
}

}  // namespace

void read_values(Cursor in, Encoding encoding, const Leaf& leaf, std::int64_t count,
                 const std::vector<Cell>& dictionary, std::deque<std::string>& made,
                 std::vector<Cell>& cells) {
  if (count == 0) return;
  switch (encoding) {
    case Encoding::plain:
      return read_plain(in, leaf, count, cells);
    case Encoding::dictionary:
      return read_runs(in, in.byte(), count, [&](std::uint32_t index) {
        if (index >= dictionary.size()) in.damaged("a value is not in its column's dictionary");
        cells.push_back(dictionary[index]);
      });
    case Encoding::rle:
      if (leaf.stored != Stored::truth) in.damaged("runs of what is not true or false");
      in.number<std::uint32_t>();  // the bytes of what follows
      return read_runs(in, 1, count, [&](std::uint32_t truth) { cells.push_back({truth}); });
    case Encoding::delta_numbers:
      return read_delta_numbers(in, leaf, count, cells);
    case Encoding::delta_lengths:
      return read_delta_texts(in, leaf, false, count, made, cells);
    case Encoding::delta_texts:
      return read_delta_texts(in, leaf, true, count, made, cells);
    case Encoding::split_bytes:
      return read_split(in, leaf, count, made, cells);
  }
}

}  // namespace mt::parquet
