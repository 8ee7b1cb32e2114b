#include "base/parquet/column.h"

#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

namespace mt::parquet {
namespace {

constexpr std::int64_t kMostOfValues = 1 << 24;  // in a page; writers put some 20,000

// Whether all of `packed` becomes all of `into`.
bool inflate_all(Bytes packed, std::span<std::byte> into) {
  z_stream stream = {};
  // zlib declares its input non-const but only reads it.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(into.data());
  stream.avail_out = static_cast<uInt>(into.size());
  if (inflateInit2(&stream, 15 + 32) != Z_OK) throw std::bad_alloc();
  const int result = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  return result == Z_STREAM_END && stream.avail_out == 0;
}

bool unpack_all(Codec codec, Bytes packed, std::span<std::byte> into) {
  const auto* const from = reinterpret_cast<const char*>(packed.data());
  auto* const to = reinterpret_cast<char*>(into.data());
  switch (codec) {
    case Codec::none:
      return false;
    case Codec::gzip:
      return inflate_all(packed, into);
    case Codec::snappy: {
      std::size_t bytes = 0;
      return snappy::GetUncompressedLength(from, packed.size(), &bytes) && bytes == into.size() &&
             snappy::RawUncompress(from, packed.size(), to);
    }
    case Codec::zstd:
      return ZSTD_decompress(to, into.size(), from, packed.size()) == into.size();
  }
  return false;
}

void read_levels(Cursor& in, int most, std::int64_t count, std::vector<std::uint16_t>& levels) {
  levels.reserve(static_cast<std::size_t>(count));
  read_runs(in, bits_of(static_cast<std::uint32_t>(most)), count, [&](std::uint32_t level) {
    if (level > static_cast<std::uint32_t>(most)) in.damaged("a level is higher than its column's");
    levels.push_back(static_cast<std::uint16_t>(level));
  });
}

}  // namespace

Column::Column(const Chunk& chunk, const Leaf& leaf, const std::string& where)
    : codec_(chunk.codec), left_(chunk.values), leaf_(leaf), in_(chunk.pages, where) {}

void Column::ask() {
  if (at_end()) in_.damaged("a column has fewer values than there are rows");
}

int Column::definition() {
  ask();
  return definitions_.empty() ? leaf_.most_definitions : definitions_[entry_];
}

int Column::repetition() {
  ask();
  return repetitions_.empty() ? 0 : repetitions_[entry_];
}

const Cell* Column::next() {
  const bool is_value = definition() == leaf_.most_definitions;
  ++entry_;
  return is_value ? &cells_[cell_++] : nullptr;
}

// The next page that has entries; false if there is none.
bool Column::read_page() {
  while (left_ > 0) {
    const PageHeader page = read_page_header(in_);
    if (page.bytes > kMostOfPage || page.values > kMostOfValues)
      fail(Exit::bad_data, in_.where(), ": column ", leaf_.path, ": a page of ", page.bytes,
           " bytes and ", page.values, " values, expected at most ", kMostOfPage, " and ",
           kMostOfValues);
    const Bytes packed = in_.take(page.packed);
    if (page.sum &&
        crc32_z(0, reinterpret_cast<const Bytef*>(packed.data()), packed.size()) != *page.sum)
      in_.damaged("a page has not the sum that it says");
    if (page.kind == PageHeader::Kind::dictionary) read_dictionary(page, packed);
    if (page.kind != PageHeader::Kind::data || page.values == 0) continue;
    if (page.values > left_) in_.damaged("a column has more values than it says");
    left_ -= page.values;
    read_data(page, packed);
    return true;
  }
  return false;
}

Bytes Column::unpack(Bytes packed, std::size_t bytes, std::unique_ptr<std::byte[]>& into) const {
  if (codec_ == Codec::none) {
    if (packed.size() != bytes) in_.damaged("a page has another size than it says");
    return packed;
  }
  into = std::make_unique_for_overwrite<std::byte[]>(bytes);
  const std::span<std::byte> unpacked(into.get(), bytes);
  if (!unpack_all(codec_, packed, unpacked)) in_.damaged("a page cannot be unpacked");
  return unpacked;
}

void Column::read_dictionary(const PageHeader& page, Bytes packed) {
  dictionary_.clear();
  dictionary_made_.clear();
  const Cursor in(unpack(packed, page.bytes, dictionary_page_), in_.where());
  read_values(in, Encoding::plain, leaf_, page.values, {}, dictionary_made_, dictionary_);
}

void Column::read_data(const PageHeader& page, Bytes packed) {
  definitions_.clear();
  repetitions_.clear();
  cells_.clear();
  made_.clear();
  entry_ = cell_ = 0;
  entries_ = static_cast<std::size_t>(page.values);
  const std::size_t in_front = page.second ? page.definition_bytes + page.repetition_bytes : 0;
  Cursor levels(packed, in_.where());
  if (page.second) levels = Cursor(levels.take(in_front), in_.where());
  if (in_front > page.bytes) in_.damaged("a page has another size than it says");
  const Bytes behind = packed.subspan(in_front);
  const std::size_t bytes = page.bytes - in_front;
  if (page.second && !page.is_packed && behind.size() != bytes)
    in_.damaged("a page has another size than it says");
  const bool as_it_is = page.second && (!page.is_packed || bytes == 0);
  Cursor values(as_it_is ? behind : unpack(behind, bytes, page_), in_.where());

  const auto read = [&](int most, bool in_runs, std::size_t stored,
                        std::vector<std::uint16_t>& into) {
    if (most == 0) {
      if (page.second) levels.take(stored);
      return;
    }
    if (!page.second && !in_runs) in_.damaged("levels in an encoding that is no longer used");
    Cursor runs(page.second ? levels.take(stored) : values.take(values.number<std::uint32_t>()),
                in_.where());
    read_levels(runs, most, page.values, into);
  };
  read(leaf_.most_repetitions, page.repetitions_in_runs, page.repetition_bytes, repetitions_);
  read(leaf_.most_definitions, page.definitions_in_runs, page.definition_bytes, definitions_);
  const std::int64_t count =
      definitions_.empty() ? page.values : std::ranges::count(definitions_, leaf_.most_definitions);
  if (page.encoding == Encoding::dictionary && dictionary_.empty() && count > 0)
    in_.damaged("a column has no dictionary");
  read_values(values, page.encoding, leaf_, count, dictionary_, made_, cells_);
}

}  // namespace mt::parquet
