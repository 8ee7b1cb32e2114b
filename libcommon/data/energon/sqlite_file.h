// SqliteFile: makes a database of SQLite whose tables never change, byte for byte as its file
// format has it (https://sqlite.org/fileformat2.html).  It is made of pages of 4096 bytes; numbers
// are big-endian.
//   page 1, behind 100 bytes that begin with "SQLite format 3\0": the table of tables, by their
//                     names, SQL and first pages
//   tables            trees by the numbers of rows, whose leaves have the rows
//   indexes           trees by columns and the number of the row, each entry once
// A row, or an entry, is a record: a header of a kind for each value, then the values.  The same
// rows make the same bytes.  It lies in memory.  Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

// SqliteRecord: integers and texts of a row, as they are stored.
class SqliteRecord {
 public:
  SqliteRecord& add(std::int64_t number);
  SqliteRecord& add(std::string_view text);
  SqliteRecord& add_null();
  std::string bytes() const;

 private:
  std::string kinds_, values_;
};

class SqliteFile {
 public:
  // Its `count` rows have the numbers 1, 2, ....  A record has at most 1002 bytes.
  using Record = std::function<SqliteRecord(std::int64_t i)>;
  void add_table(const std::string& name, const std::string& sql, std::int64_t count,
                 const Record& record);
  // Its entries come in their order; the last value of each is the number of its row.  `sql` is
  // empty for the index of a UNIQUE column, whose name SQLite gives.
  void add_index(const std::string& name, const std::string& table, const std::string& sql,
                 std::int64_t count, const Record& record);
  // The file.  Nothing can be added then.
  std::string finish();

 private:
  enum class PageKind : std::uint8_t { inner_index = 2, inner_table = 5, index = 10, table = 13 };
  struct Level {  // pages of a tree that are as far from its leaves, and what stands between two
    std::vector<std::uint32_t> pages;
    std::vector<std::string> keys;
  };
  std::uint32_t add_page(PageKind kind, const std::vector<std::string>& cells,
                         std::uint32_t last_child);
  Level group(PageKind kind, const Level& below);
  std::uint32_t top_of(PageKind kind, Level level);

  std::string pages_ = std::string(4096, '\0');  // the first is made last
  std::vector<SqliteRecord> schema_;
};

}  // namespace mt
