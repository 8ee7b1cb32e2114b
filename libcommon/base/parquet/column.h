// Column: what a row group has of a leaf, from its first entry to its last.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/parquet/footer.h"
#include "base/parquet/values.h"

namespace mt::parquet {

// An entry is a value, or says where one would be and how much of the way there is: its levels are
// those of Dremel.  A page is in memory at a time, unpacked, and the column's dictionary.
class Column {
 public:
  // `where` and `leaf` outlive it.
  Column(const Chunk& chunk, const Leaf& leaf, const std::string& where);

  bool at_end() { return entry_ == entries_ && !read_page(); }
  // Of the entry that is next; damage if there is none.
  int definition();
  int repetition();
  // Takes the next entry; null if it is no value, else valid until the entry behind it is asked
  // for.
  const Cell* next();

 private:
  bool read_page();
  void read_dictionary(const PageHeader& page, Bytes packed);
  void read_data(const PageHeader& page, Bytes packed);
  Bytes unpack(Bytes packed, std::size_t bytes, std::unique_ptr<std::byte[]>& into) const;
  void ask();

  Codec codec_;
  std::int64_t left_;  // entries of the pages that are not read yet
  const Leaf& leaf_;
  Cursor in_;
  std::unique_ptr<std::byte[]> page_, dictionary_page_;
  std::deque<std::string> made_, dictionary_made_;
  std::vector<std::uint16_t> definitions_, repetitions_;  // empty: all are as high as they can be
  std::vector<Cell> cells_, dictionary_;
  std::size_t entry_ = 0, entries_ = 0, cell_ = 0;
};

}  // namespace mt::parquet
