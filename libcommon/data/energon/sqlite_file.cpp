#include "data/energon/sqlite_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::size_t kPage = 4096, kFileHeader = 100, kMostRecord = 1002;
// Where SQLite locks files: the page that begins there is never used.
constexpr std::size_t kLocked = std::size_t{1} << 30;

void put(std::string& to, std::uint64_t number, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) to += static_cast<char>(number >> 8 * i & 0xff);
}

// Seven bits a byte, the highest first; all but the last byte have their eighth bit set.  Numbers
// here are below 2^56.
std::string varint(std::uint64_t number) {
  std::string bytes(1, static_cast<char>(number & 0x7f));
  while ((number >>= 7) != 0) bytes.insert(bytes.begin(), static_cast<char>(number | 0x80));
  return bytes;
}

// What a page has room for behind its own header.
std::size_t room_of(std::size_t header) { return kPage - header; }

std::size_t header_of(bool has_children) { return has_children ? 12 : 8; }

// A page's bytes, in front of which `skipped` are left free.
std::string page_of(std::uint8_t kind, const std::vector<std::string>& cells,
                    std::uint32_t last_child, std::size_t skipped) {
  std::string page(kPage, '\0'), places;
  std::size_t at = kPage;
  for (const std::string& cell : cells) {
    if (at < cell.size()) fail(Exit::internal, "a page of a database is full");
    at -= cell.size();
    std::ranges::copy(cell, page.begin() + static_cast<std::ptrdiff_t>(at));
    put(places, at, 2);
  }
  std::string header;
  put(header, kind, 1);
  put(header, 0, 2);  // no free blocks
  put(header, cells.size(), 2);
  put(header, at, 2);
  put(header, 0, 1);  // nor free bytes among cells
  if (last_child != 0) put(header, last_child, 4);
  header += places;
  if (skipped + header.size() > at) fail(Exit::internal, "a page of a database is full");
  return page.replace(skipped, header.size(), header);
}

// A cell: the record's size, the number of a table's row, and the record.
std::string cell_of(const SqliteRecord& record, const std::string& number = {}) {
  const std::string bytes = record.bytes();
  if (bytes.size() > kMostRecord)
    fail(Exit::bad_data, "a row of ", bytes.size(), " bytes of a database, expected at most ",
         kMostRecord);
  return varint(bytes.size()) + number + bytes;
}

}  // namespace

SqliteRecord& SqliteRecord::add(std::int64_t number) {
  if (number == 0 || number == 1) {
    kinds_ += varint(number == 0 ? 8 : 9);
    return *this;
  }
  constexpr std::array kBytes = {1, 2, 3, 4, 6, 8};  // of the kinds 1 to 6
  std::size_t kind = 0;
  const auto fits = [&](int bytes) {
    return bytes == 8 || (number >> (8 * bytes - 1)) == (number < 0 ? -1 : 0);
  };
  while (!fits(kBytes[kind])) ++kind;
  kinds_ += varint(kind + 1);
  put(values_, static_cast<std::uint64_t>(number), kBytes[kind]);
  return *this;
}

SqliteRecord& SqliteRecord::add(std::string_view text) {
  kinds_ += varint(13 + 2 * text.size());
  values_ += text;
  return *this;
}

SqliteRecord& SqliteRecord::add_null() {
  kinds_ += varint(0);
  return *this;
}

// The header's length counts itself, in one byte: records are short.
std::string SqliteRecord::bytes() const {
  if (kinds_.size() >= 0x7f) fail(Exit::internal, "a row of a database with too many columns");
  return varint(kinds_.size() + 1) + kinds_ + values_;
}

std::uint32_t SqliteFile::add_page(PageKind kind, const std::vector<std::string>& cells,
                                   std::uint32_t last_child) {
  if (pages_.size() == kLocked) pages_.append(kPage, '\0');
  pages_ += page_of(static_cast<std::uint8_t>(kind), cells, last_child, 0);
  return static_cast<std::uint32_t>(pages_.size() / kPage);
}

// As many keys a page as it has room for; the one behind a page stands between it and the next on
// the level above, so that the last page needs another one.  Leaves of indexes have no children.
SqliteFile::Level SqliteFile::group(PageKind kind, const Level& below) {
  const bool has_children = !below.pages.empty();
  const std::size_t count = below.keys.size(), room = room_of(header_of(has_children));
  Level made;
  for (std::size_t i = 0; i <= count;) {
    std::vector<std::string> cells;
    std::size_t used = 0, j = i;
    for (; j < count; ++j) {
      std::string cell;
      if (has_children) put(cell, below.pages[j], 4);
      cell += below.keys[j];
      if (used + cell.size() + 2 > room) break;
      used += cell.size() + 2;
      cells.push_back(std::move(cell));
    }
    if (count > 0 && j == count - 1) {
      --j;
      cells.pop_back();
    }
    made.pages.push_back(add_page(kind, cells, has_children ? below.pages[j] : 0));
    if (j < count) made.keys.push_back(below.keys[j]);
    i = j + 1;
  }
  return made;
}

std::uint32_t SqliteFile::top_of(PageKind kind, Level level) {
  while (level.pages.size() > 1) level = group(kind, level);
  return level.pages.front();
}

void SqliteFile::add_table(const std::string& name, const std::string& sql, std::int64_t count,
                           const Record& record) {
  const std::size_t room = room_of(header_of(false));
  Level leaves;
  std::vector<std::string> cells;
  std::size_t used = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::string cell = cell_of(record(i), varint(static_cast<std::uint64_t>(i) + 1));
    if (used + cell.size() + 2 > room) {
      leaves.pages.push_back(add_page(PageKind::table, std::exchange(cells, {}), 0));
      leaves.keys.push_back(varint(static_cast<std::uint64_t>(i)));  // the last row's number
      used = 0;
    }
    used += cell.size() + 2;
    cells.push_back(std::move(cell));
  }
  leaves.pages.push_back(add_page(PageKind::table, cells, 0));
  const std::uint32_t top = top_of(PageKind::inner_table, std::move(leaves));
  schema_.push_back(
      SqliteRecord().add("table").add(name).add(name).add(std::int64_t{top}).add(sql));
}

void SqliteFile::add_index(const std::string& name, const std::string& table,
                           const std::string& sql, std::int64_t count, const Record& record) {
  Level entries;
  for (std::int64_t i = 0; i < count; ++i) entries.keys.push_back(cell_of(record(i)));
  const std::uint32_t top = top_of(PageKind::inner_index, group(PageKind::index, entries));
  SqliteRecord row;
  row.add("index").add(name).add(table).add(std::int64_t{top});
  schema_.push_back(sql.empty() ? row.add_null() : row.add(sql));
}

std::string SqliteFile::finish() {
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < schema_.size(); ++i)
    cells.push_back(cell_of(schema_[i], varint(i + 1)));
  const std::string first =
      page_of(static_cast<std::uint8_t>(PageKind::table), cells, 0, kFileHeader);
  constexpr std::uint32_t kChanges = 1, kUtf8 = 1, kFormat = 4, kVersion = 3'040'001;
  std::string header("SQLite format 3\0", 16);
  put(header, kPage, 2);
  put(header, 0x0101, 2);    // read and written without a log of what is to be written
  put(header, 0, 1);         // nothing reserved at the end of pages
  put(header, 0x402020, 3);  // constants
  put(header, kChanges, 4);
  put(header, pages_.size() / kPage, 4);
  put(header, 0, 8);         // no free pages
  put(header, kChanges, 4);  // of the schema
  put(header, kFormat, 4);
  put(header, 0, 8);
  put(header, kUtf8, 4);
  header.resize(92, '\0');
  put(header, kChanges, 4);
  put(header, kVersion, 4);
  pages_.replace(0, kPage, header + first.substr(kFileHeader));
  return std::move(pages_);
}

}  // namespace mt
