// What stands behind the data of a Parquet file: its schema and where its columns lie
// (https://github.com/apache/parquet-format, parquet.thrift, Encodings.md and LogicalTypes.md of
// format 2.11, which the rest of this folder follows, too).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/parquet/cursor.h"

namespace mt::parquet {

enum class Stored { truth, int32, int64, int96, real, wide_real, bytes, fixed_bytes };

// What a column's numbers or bytes stand for.
enum class Meaning {
  number,  // as stored
  without_sign,
  text,
  decimal,
  date,           // days since 1970
  time,           // since midnight
  timestamp,      // since 1970
  old_timestamp,  // 96 bits: nanoseconds of a Julian day
  uuid,
  half,  // IEEE 754's binary16
  other  // bytes that are not text
};

// A leaf of the schema: a column of its own in each row group.
struct Leaf {
  std::string path;  // "messages.list.element.role"
  Stored stored = Stored::bytes;
  Meaning meaning = Meaning::number;
  int bytes = 0;              // of each value of fixed_bytes
  int scale = 0;              // of a decimal: digits behind the point
  std::int64_t a_second = 1;  // units of a time or a timestamp
  bool is_utc = false;        // a timestamp
  int most_definitions = 0, most_repetitions = 0;
};

struct Node {
  enum class Repetition { required, optional, repeated };
  enum class Kind { leaf, object, list, map };
  std::string name;
  Repetition repetition = Repetition::required;
  Kind kind = Kind::leaf;
  int definitions = 0, repetitions = 0;  // the levels at which it is there, and begins anew
  std::vector<Node> children;            // of a list one, its elements; of a map key and value
  std::size_t leaf = 0;                  // if it is one
};

enum class Codec { none, snappy, gzip, zstd };

struct Chunk {  // of a column in a row group
  Codec codec = Codec::none;
  std::int64_t values = 0;
  Bytes pages;
};

struct RowGroup {
  std::int64_t rows = 0;
  std::vector<Chunk> columns;  // of each leaf
};

struct Footer {
  Node root;  // an object
  std::vector<Leaf> leaves;
  std::vector<RowGroup> groups;
  std::int64_t rows = 0;
};

// Of a whole file.  Exit::bad_data for one that is damaged, or has what is not read here.
Footer read_footer(Bytes file, const std::string& where);

enum class Encoding {
  plain,
  dictionary,
  rle,
  delta_numbers,
  delta_lengths,
  delta_texts,
  split_bytes
};

struct PageHeader {
  enum class Kind { data, dictionary, other };
  Kind kind = Kind::other;
  bool second = false;               // a data page of version 2
  std::size_t bytes = 0;             // as numbers
  std::size_t packed = 0;            // as they lie in the file
  std::optional<std::uint32_t> sum;  // CRC-32 of these
  std::int64_t values = 0;           // with those that are null
  Encoding encoding = Encoding::plain;
  std::size_t definition_bytes = 0, repetition_bytes = 0;  // of version 2, in front, unpacked
  bool is_packed = true;
  bool definitions_in_runs = true, repetitions_in_runs = true;  // levels of version 1
};

PageHeader read_page_header(Cursor& in);

}  // namespace mt::parquet
