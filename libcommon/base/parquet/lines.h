// ParquetLines: the rows of a Parquet file as lines of JSON, in which what reads lines of JSON
// reads them.
//
// A line has a member for each column, as it is nested: lists are arrays, maps are objects, what is
// null is null.  Dates and times are texts as ISO 8601 has them, decimals are numbers, numbers that
// are not finite are null.  Columns of bytes that the file does not call text, as of images, are
// left out.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/parquet/column.h"
#include "base/parquet/footer.h"

namespace mt {

class ParquetLines {
 public:
  // `name`: what errors call it.  Throws Exit::bad_data for a file that is damaged, or packed in a
  // way that is not read here.
  ParquetLines(const std::string& path, const std::string& name);

  // Fills some or all of `into` and says how much; 0 at the end.
  std::size_t read(std::span<char> into);
  Bytes stored() const { return file_.bytes(); }
  // How many of them have been read, as far as rows tell.
  std::int64_t stored_bytes() const;

 private:
  using Json = JsonWriter;
  bool keeps(parquet::Node& node) const;
  bool next_row();
  void write(Json& json, const parquet::Node& node);
  void write_present(Json& json, const parquet::Node& node);
  void write_list(Json& json, const parquet::Node& list);
  void write_map(Json& json, const parquet::Node& map);
  template <class Each>
  void repeat(const parquet::Node& node, const Each& each);
  void write_leaf(Json& json, const parquet::Node& node);
  parquet::Column& first_column(const parquet::Node& node);
  void pass(const parquet::Node& node);
  void check_end_of_row(const parquet::Node& node);

  MappedFile file_;
  std::string where_;
  parquet::Footer footer_;
  std::deque<parquet::Column> columns_;
  std::size_t next_group_ = 0;
  std::int64_t left_ = 0, rows_ = 0;  // rows that are left of the group, and that were read
  std::string line_;
  std::size_t taken_ = 0;  // of the line
};

}  // namespace mt
