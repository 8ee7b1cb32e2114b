#include "base/parquet/footer.h"

#include <array>

#include "base/parquet/thrift.h"
#include "base/utf8.h"

namespace mt::parquet {
namespace {

constexpr std::int64_t kMilliseconds = 1000, kMicroseconds = 1000000, kNanoseconds = 1000000000;

// An element of the schema as it stands in the file, which lists a tree from its root on.
struct Element {
  std::string name;
  std::optional<std::int64_t> type, converted;
  std::int64_t bytes = 0, repetition = 0, children = 0, scale = 0;
  // Of the logical type, which newer writers have besides the converted one.
  std::int64_t logical = 0, a_second = 0;
  bool is_utc = false, has_sign = true;
};

enum : int { kUtf8, kMap, kMapKeyValue, kList, kEnum, kDecimal, kDate, kTimeMillis, kTimeMicros };
enum : int { kTimestampMillis = 9, kTimestampMicros, kUint8, kUint64 = 14, kJson = 19 };
enum : int {  // fields of the union LogicalType
  kLogicalString = 1,
  kLogicalMap,
  kLogicalList,
  kLogicalEnum,
  kLogicalDecimal,
  kLogicalDate,
  kLogicalTime,
  kLogicalTimestamp,
  kLogicalInteger = 10,
  kLogicalJson = 12,
  kLogicalUuid = 14,
  kLogicalHalf = 15
};

std::int64_t units_of(Thrift& unit) {
  std::int64_t a_second = 0;
  unit.fields([&](std::int64_t id, Thrift&) {
    a_second = id == 1 ? kMilliseconds : id == 2 ? kMicroseconds : id == 3 ? kNanoseconds : 0;
  });
  return a_second;
}

void read_logical(Element& e, Thrift& logical) {
  logical.fields([&](std::int64_t id, Thrift& value) {
    e.logical = id;
    value.fields([&](std::int64_t field, Thrift& of) {
      if (id == kLogicalDecimal && field == 1) e.scale = of.integer();
      if (id != kLogicalTime && id != kLogicalTimestamp && id != kLogicalInteger) return;
      if (id == kLogicalInteger) {
        if (field == 2) e.has_sign = of.truth();
      } else if (field == 1) {
        e.is_utc = of.truth();
      } else if (field == 2) {
        e.a_second = units_of(of);
      }
    });
  });
}

Element read_element(Thrift& value) {
  Element e;
  value.fields([&](std::int64_t id, Thrift& field) {
    switch (id) {
      case 1:
        e.type = field.integer();
        break;
      case 2:
        e.bytes = field.integer();
        break;
      case 3:
        e.repetition = field.integer();
        break;
      case 4:
        e.name = replace_invalid_utf8(field.text());
        break;
      case 5:
        e.children = field.integer();
        break;
      case 6:
        e.converted = field.integer();
        break;
      case 7:
        e.scale = field.integer();
        break;
      case 10:
        read_logical(e, field);
        break;
      default:
        break;
    }
  });
  return e;
}

// The logical type that older writers say by a converted one.
void complete_logical(Element& e) {
  if (e.logical != 0 || !e.converted) return;
  constexpr std::array<int, 9> kSame = {kLogicalString, kLogicalMap,  kLogicalMap,
                                        kLogicalList,   kLogicalEnum, kLogicalDecimal,
                                        kLogicalDate,   kLogicalTime, kLogicalTime};
  const std::int64_t converted = *e.converted;
  if (converted >= 0 && converted < std::ssize(kSame))
    e.logical = kSame[static_cast<std::size_t>(converted)];
  if (converted == kTimestampMillis || converted == kTimestampMicros) {
    e.logical = kLogicalTimestamp;
    e.is_utc = true;
  }
  if (converted == kTimeMillis || converted == kTimestampMillis) e.a_second = kMilliseconds;
  if (converted == kTimeMicros || converted == kTimestampMicros) e.a_second = kMicroseconds;
  if (converted == kJson) e.logical = kLogicalJson;
  if (converted >= kUint8 && converted <= kUint64) e.has_sign = false;
}

Meaning meaning_of(const Element& e, Stored stored) {
  if (stored == Stored::int96) return Meaning::old_timestamp;
  const bool is_whole = stored == Stored::int32 || stored == Stored::int64;
  const bool is_bytes = stored == Stored::bytes || stored == Stored::fixed_bytes;
  switch (e.logical) {
    case kLogicalString:
    case kLogicalEnum:
    case kLogicalJson:
      return is_bytes ? Meaning::text : Meaning::number;
    case kLogicalDecimal:
      return is_whole || is_bytes ? Meaning::decimal : Meaning::number;
    case kLogicalDate:
      return stored == Stored::int32 ? Meaning::date : Meaning::number;
    case kLogicalTime:
      return is_whole && e.a_second > 0 ? Meaning::time : Meaning::number;
    case kLogicalTimestamp:
      return stored == Stored::int64 && e.a_second > 0 ? Meaning::timestamp : Meaning::number;
    case kLogicalUuid:
      if (stored == Stored::fixed_bytes && e.bytes == 16) return Meaning::uuid;
      break;
    case kLogicalHalf:
      if (stored == Stored::fixed_bytes && e.bytes == 2) return Meaning::half;
      break;
    default:
      break;
  }
  if (is_bytes) return Meaning::other;
  return e.has_sign ? Meaning::number : Meaning::without_sign;
}

// Makes the tree of a schema's elements.
class Schema {
 public:
  Schema(const std::vector<Element>& elements, const Cursor& in, Footer& footer)
      : elements_(elements), in_(in), footer_(footer) {}

  void read() {
    footer_.root = next("", 0, 0, 0);
    if (at_ != elements_.size()) in_.damaged("its schema has elements of no parent");
    if (footer_.root.kind == Node::Kind::leaf) in_.damaged("its schema has no columns");
    footer_.root.kind = Node::Kind::object;
    footer_.root.repetition = Node::Repetition::required;
  }

 private:
  Node next(const std::string& path, int definitions, int repetitions, int depth) {
    if (at_ == elements_.size()) in_.damaged("its schema ends early");
    if (depth > 64) in_.damaged("its schema is too deep");
    const Element& e = elements_[at_++];
    Node node;
    node.name = e.name;
    const bool is_root = depth == 0;
    if (!is_root && e.repetition != 0) {
      if (e.repetition > 2 || e.repetition < 0) in_.damaged("a column repeats in no known way");
      node.repetition = e.repetition == 1 ? Node::Repetition::optional : Node::Repetition::repeated;
      ++definitions;
      if (e.repetition == 2) ++repetitions;
    }
    node.definitions = definitions;
    node.repetitions = repetitions;
    const std::string here = is_root || path.empty() ? e.name : path + "." + e.name;
    if (e.type && e.children == 0) {
      add_leaf(e, node, here);
      return node;
    }
    if (e.children < 0 || e.children > std::ssize(elements_)) in_.damaged("a group has no columns");
    for (std::int64_t i = 0; i < e.children; ++i)
      node.children.push_back(next(is_root ? "" : here, definitions, repetitions, depth + 1));
    node.kind = Node::Kind::object;
    if (e.logical == kLogicalList) become_list(node);
    if (e.logical == kLogicalMap) become_map(node);
    return node;
  }
  void add_leaf(const Element& e, Node& node, const std::string& path) {
    if (*e.type < 0 || *e.type > 7) in_.damaged("a column is of no known type");
    const auto stored = static_cast<Stored>(*e.type);
    if (stored == Stored::fixed_bytes && (e.bytes <= 0 || e.bytes > 1 << 20))
      in_.damaged("a column's values have no length");
    if (e.scale < 0 || e.scale > 1000) in_.damaged("a decimal has no scale");
    node.leaf = footer_.leaves.size();
    footer_.leaves.push_back({.path = path,
                              .stored = stored,
                              .meaning = meaning_of(e, stored),
                              .bytes = static_cast<int>(e.bytes),
                              .scale = static_cast<int>(e.scale),
                              .a_second = e.a_second,
                              .is_utc = e.is_utc,
                              .most_definitions = node.definitions,
                              .most_repetitions = node.repetitions});
  }
  // A list is a group of one repeated group of one element; older writers leave out the middle,
  // which LogicalTypes.md tells by its name and by how much is in it.
  static void become_list(Node& node) {
    if (node.children.size() != 1 || node.repetition == Node::Repetition::repeated) return;
    Node& middle = node.children[0];
    if (middle.repetition != Node::Repetition::repeated) return;
    const bool is_element = middle.kind != Node::Kind::object || middle.children.size() != 1 ||
                            middle.name == "array" || middle.name == node.name + "_tuple";
    if (!is_element && middle.children[0].repetition != Node::Repetition::repeated)
      middle.kind = Node::Kind::list;  // of which the element is what it has
    node.kind = Node::Kind::list;
  }
  static void become_map(Node& node) {
    if (node.children.size() != 1 || node.repetition == Node::Repetition::repeated) return;
    const Node& pairs = node.children[0];
    if (pairs.repetition == Node::Repetition::repeated && pairs.kind == Node::Kind::object &&
        pairs.children.size() == 2 && pairs.children[0].kind == Node::Kind::leaf &&
        pairs.children[0].repetition != Node::Repetition::repeated)
      node.kind = Node::Kind::map;
  }

  const std::vector<Element>& elements_;
  const Cursor& in_;
  Footer& footer_;
  std::size_t at_ = 0;
};

Codec codec_of(std::int64_t number, const Cursor& in) {
  constexpr std::array<const char*, 5> kOthers = {"LZO", "Brotli", "LZ4", "", "LZ4"};
  switch (number) {
    case 0:
      return Codec::none;
    case 1:
      return Codec::snappy;
    case 2:
      return Codec::gzip;
    case 6:
      return Codec::zstd;
    default:
      break;
  }
  if (number < 3 || number > 7) in.damaged("its columns are packed in no known way");
  fail(Exit::bad_data, in.where(), ": a Parquet file packed by ",
       kOthers[static_cast<std::size_t>(number - 3)], ", expected Snappy, gzip, zstd or none");
}

Chunk read_chunk(Thrift& value, Bytes file, const Cursor& in) {
  Chunk chunk;
  std::int64_t data = 0, dictionary = 0, bytes = 0;
  value.fields([&](std::int64_t id, Thrift& field) {
    if (id == 1 && !field.text().empty())
      fail(Exit::bad_data, in.where(), ": a Parquet file whose columns lie in other files");
    if (id == 8) fail(Exit::bad_data, in.where(), ": an encrypted Parquet file");
    if (id != 3) return;
    field.fields([&](std::int64_t of, Thrift& meta) {
      switch (of) {
        case 4:
          chunk.codec = codec_of(meta.integer(), in);
          break;
        case 5:
          chunk.values = meta.integer();
          break;
        case 7:
          bytes = meta.integer();
          break;
        case 9:
          data = meta.integer();
          break;
        case 11:
          dictionary = meta.integer();
          break;
        default:
          break;
      }
    });
  });
  // Some writers say 0 where there is no dictionary.
  const std::int64_t begin = dictionary > 0 ? std::min(dictionary, data) : data;
  const std::int64_t size = std::ssize(file);
  if (begin < 0 || bytes < 0 || begin > size || bytes > size - begin || chunk.values < 0)
    in.damaged("a column lies outside of the file");
  chunk.pages = file.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
  return chunk;
}

}  // namespace

Footer read_footer(Bytes file, const std::string& where) {
  constexpr std::size_t kTail = 8;  // the length of what stands before it, and a mark
  Cursor whole(file, where);
  if (file.size() < kTail + 4) whole.damaged("ends early");
  const std::string_view mark = as_text(file.last(4));
  if (mark == "PARE") fail(Exit::bad_data, where, ": an encrypted Parquet file");
  if (mark != "PAR1") whole.damaged("ends early: its last bytes are not PAR1");
  Cursor tail(file.last(kTail), where);
  const auto bytes = tail.number<std::uint32_t>();
  if (bytes > file.size() - kTail - 4) whole.damaged("its footer is longer than the file");
  Cursor in(file.subspan(file.size() - kTail - bytes, bytes), where);

  Footer footer;
  std::vector<Element> elements;
  Thrift(in).fields([&](std::int64_t id, Thrift& field) {
    if (id == 2) field.elements([&](Thrift& e) { elements.push_back(read_element(e)); });
    if (id == 3) footer.rows = field.integer();
    if (id == 8) fail(Exit::bad_data, where, ": an encrypted Parquet file");
    if (id != 4) return;
    field.elements([&](Thrift& of_group) {
      RowGroup& group = footer.groups.emplace_back();
      of_group.fields([&](std::int64_t part, Thrift& value) {
        if (part == 1)
          value.elements([&](Thrift& c) { group.columns.push_back(read_chunk(c, file, in)); });
        if (part == 3) group.rows = value.integer();
      });
    });
  });
  for (Element& e : elements) complete_logical(e);
  Schema(elements, in, footer).read();
  std::int64_t rows = 0;
  for (const RowGroup& group : footer.groups) {
    if (group.columns.size() != footer.leaves.size())
      in.damaged("a row group has not as many columns as the schema");
    if (group.rows < 0 || group.rows > footer.rows - rows)
      in.damaged("its row groups have not as many rows as the file");
    rows += group.rows;
  }
  if (rows != footer.rows) in.damaged("its row groups have not as many rows as the file");
  return footer;
}

static Encoding encoding_of(std::int64_t number, const Cursor& in) {
  switch (number) {
    case 0:
      return Encoding::plain;
    case 2:
    case 8:
      return Encoding::dictionary;
    case 3:
      return Encoding::rle;
    case 5:
      return Encoding::delta_numbers;
    case 6:
      return Encoding::delta_lengths;
    case 7:
      return Encoding::delta_texts;
    case 9:
      return Encoding::split_bytes;
    default:
      in.damaged("a page's values are encoded in no known way");
  }
}

PageHeader read_page_header(Cursor& in) {
  PageHeader page;
  const auto size = [&](Thrift& value) {
    const std::int64_t bytes = value.integer();
    if (bytes < 0) in.damaged("a page is of less than no bytes");
    return static_cast<std::size_t>(bytes);
  };
  const auto read_data = [&](Thrift& data) {
    page.kind = PageHeader::Kind::data;
    data.fields([&](std::int64_t id, Thrift& field) {
      if (id == 1) page.values = field.integer();
      if (id == (page.second ? 4 : 2)) page.encoding = encoding_of(field.integer(), in);
      if (!page.second && id == 3) page.definitions_in_runs = field.integer() == 3;
      if (!page.second && id == 4) page.repetitions_in_runs = field.integer() == 3;
      if (!page.second) return;
      if (id == 5) page.definition_bytes = size(field);
      if (id == 6) page.repetition_bytes = size(field);
      if (id == 7) page.is_packed = field.truth();
    });
  };
  Thrift(in).fields([&](std::int64_t id, Thrift& field) {
    switch (id) {
      case 2:
        page.bytes = size(field);
        break;
      case 3:
        page.packed = size(field);
        break;
      case 4:
        page.sum = static_cast<std::uint32_t>(field.integer());
        break;
      case 5:
        read_data(field);
        break;
      case 7:
        page.kind = PageHeader::Kind::dictionary;
        field.fields([&](std::int64_t of, Thrift& value) {
          if (of == 1) page.values = value.integer();
        });
        break;
      case 8:
        page.second = true;
        read_data(field);
        break;
      default:
        break;
    }
  });
  if (page.values < 0) in.damaged("a page has less than no values");
  return page;
}

}  // namespace mt::parquet
