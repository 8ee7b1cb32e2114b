#include "post/labels/labelled_lines.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/fits_float.h"
#include "base/input/line_reader.h"
#include "base/input/separated.h"
#include "post/labels/object_lines.h"

namespace mt {
namespace {

// Line: a sample as its line has it.
struct Line {
  std::string text, text_b;
  bool has_b = false;
  std::optional<std::int64_t> uid = {};
  // How the label is said; none where there is no label.
  enum class Said : std::uint8_t { none, integer, text, number, numbers, texts } said = Said::none;
  std::vector<std::string> names = {};  // integer, text, texts
  std::vector<double> numbers = {};     // number, numbers
};

const char* name_of(Line::Said said) {
  switch (said) {
    case Line::Said::none:
      return "none";
    case Line::Said::integer:
      return "an integer";
    case Line::Said::text:
      return "a text";
    case Line::Said::number:
      return "a number";
    case Line::Said::numbers:
      return "a list of numbers";
    case Line::Said::texts:
      return "a list of texts";
  }
  return "";
}

// --- JSON ---------------------------------------------------------------------------------------

std::string checked_name(const JsonObject& object, std::string_view name) {
  if (name.empty() || name.find('\n') != name.npos)
    object.refuse("label ", json_quoted(name), ", expected a name of one line");
  return std::string(name);
}

double checked_number(const JsonObject& object, double number) {
  if (!fits_float(number)) object.refuse("label ", number, ", expected a number that float32 has");
  return number;
}

void read_list(const JsonObject& object, simdjson::dom::array items, Line& line) {
  line.said = Line::Said::texts;
  for (const simdjson::dom::element item : items) {
    std::string_view text;
    double number = 0;
    if (!item.get(text)) {
      line.names.push_back(checked_name(object, text));
    } else if (!item.get(number)) {
      line.numbers.push_back(checked_number(object, number));
      line.said = Line::Said::numbers;
    } else {
      object.refuse("\"label\": expected texts or numbers in the list");
    }
  }
  if (!line.names.empty() && !line.numbers.empty())
    object.refuse("\"label\": a list of texts and numbers, expected one of both");
}

void read_label(const JsonObject& object, Line& line) {
  const simdjson::dom::element label = object.member("label");
  std::string_view text;
  std::int64_t integer = 0;
  double number = 0;
  simdjson::dom::array items;
  bool truth = false;
  if (!label.get(text)) {
    line.said = Line::Said::text;
    line.names = {checked_name(object, text)};
  } else if (!label.get(integer)) {
    line.said = Line::Said::integer;
    line.names = {std::to_string(integer)};
  } else if (!label.get(truth)) {
    line.said = Line::Said::integer;
    line.names = {truth ? "1" : "0"};
  } else if (!label.get(number)) {
    line.said = Line::Said::number;
    line.numbers = {checked_number(object, number)};
  } else if (!label.get(items)) {
    read_list(object, items, line);
  } else {
    object.refuse("\"label\": expected a text, a number or a list");
  }
}

Line read_json(const JsonObject& object) {
  Line line{.text = std::string(object.text("text")), .text_b = {}};
  line.has_b = object.has("text_b");
  if (line.has_b) line.text_b = object.text("text_b");
  if (object.has("uid")) line.uid = object.number("uid", std::int64_t{1} << 53);
  if (object.has("label")) read_label(object, line);
  return line;
}

// --- Columns ------------------------------------------------------------------------------------

// Which columns are meant; negative: none.
struct Columns {
  int text = -1, text_b = -1, label = -1, uid = -1;
  bool named = false;
};

std::vector<std::string> fields_of(std::string_view line, char separator) {
  return separated_fields(line, separator, separator == ',');
}

// `header`: the fields of the first line, by which columns may be called.
Columns columns_of(const LabelledFile& file, const std::vector<std::string>& header) {
  Columns columns;
  for (const std::string& one : fields_of(file.columns, ',')) {
    const std::size_t equals = one.find('=');
    const std::string role = one.substr(0, equals),
                      name = equals == one.npos ? "" : one.substr(equals + 1);
    int* const column = role == "text"     ? &columns.text
                        : role == "text_b" ? &columns.text_b
                        : role == "label"  ? &columns.label
                        : role == "uid"    ? &columns.uid
                                           : nullptr;
    if (column == nullptr || name.empty())
      fail(
          Exit::usage, "--columns ", file.columns,
          ": expected text=COLUMN and perhaps text_b, label and uid likewise, with commas between");
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_number = error == std::errc() && end == name.data() + name.size();
    if (is_number && number < 1)
      fail(Exit::usage, "--columns ", file.columns, ": column ", number, ", expected one from 1");
    if (is_number) {
      *column = number - 1;
      continue;
    }
    columns.named = true;
    const auto at = std::ranges::find(header, name);
    if (at == header.end()) fail(Exit::bad_data, file.path, ":1: has no column ", name);
    *column = static_cast<int>(at - header.begin());
  }
  if (columns.text < 0) fail(Exit::usage, "--columns ", file.columns, ": names no text");
  return columns;
}

bool is_number(const std::string& text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
}

Line read_fields(const std::vector<std::string>& fields, const Columns& columns,
                 const std::string& place) {
  const auto field = [&](int column) -> const std::string& {
    if (column >= std::ssize(fields))
      fail(Exit::bad_data, place, ": ", fields.size(), " columns, expected at least ", column + 1);
    return fields[static_cast<std::size_t>(column)];
  };
  Line line{.text = field(columns.text), .text_b = {}};
  line.has_b = columns.text_b >= 0;
  if (line.has_b) line.text_b = field(columns.text_b);
  double number = 0;
  if (columns.uid >= 0) {
    if (!is_number(field(columns.uid), number) || number < 0 || number > 0x1p53 ||
        number != std::floor(number))
      fail(Exit::bad_data, place, ": uid ", field(columns.uid), ", expected a number");
    line.uid = static_cast<std::int64_t>(number);
  }
  if (columns.label < 0) return line;
  const std::string& label = field(columns.label);
  if (label.empty()) fail(Exit::bad_data, place, ": the label is empty");
  if (!is_number(label, number)) {
    line.said = Line::Said::text;
    line.names = {label};
  } else if (label.find_first_not_of("-0123456789") == label.npos && std::abs(number) < 0x1p53) {
    line.said = Line::Said::integer;
    line.names = {std::to_string(static_cast<std::int64_t>(number))};
  } else {
    if (!fits_float(number))
      fail(Exit::bad_data, place, ": label ", label, ", expected a number that float32 has");
    line.said = Line::Said::number;
    line.numbers = {number};
  }
  return line;
}

// --- Files --------------------------------------------------------------------------------------

using Body = std::function<void(const Line&, const std::string&)>;

void for_each_row(const LabelledFile& file, const Body& body) {
  LineReader reader({.inputs = expand_inputs({file.path})});
  LineBlock block;
  std::optional<Columns> columns;
  const char separator = file.path.find(".csv") != file.path.npos ? ',' : '\t';
  while (reader.next(block))
    for_each_line(block, [&](std::string_view text, std::int64_t number) {
      if (text.find_first_not_of(" \t\r") == text.npos) return;
      const std::string place = concat(block.file, ":", number);
      const std::vector<std::string> fields = fields_of(text, separator);
      const bool first = !columns;
      if (first) columns = columns_of(file, fields);
      if (first && columns->named) return;
      Line line = read_fields(fields, *columns, place);
      if (!line.uid) line.uid = number;
      body(line, place);
    });
}

void for_each_sample(const LabelledFile& file, const Body& body) {
  if (!file.columns.empty()) return for_each_row(file, body);
  for_each_object({file.path}, [&](const JsonObject& object, std::int64_t number) {
    Line line = read_json(object);
    if (!line.uid) line.uid = number;
    body(line, object.where());
  });
}

LabelKind kind_of(Line::Said said) {
  if (said == Line::Said::number || said == Line::Said::numbers) return LabelKind::numbers;
  return said == Line::Said::texts ? LabelKind::many : LabelKind::one;
}

// An integer among numbers is one, too.
bool go_together(Line::Said a, Line::Said b) {
  return a == b || (a == Line::Said::number && b == Line::Said::integer);
}

std::int32_t number_of(const std::string& name, const LabelNames& labels,
                       const std::string& place) {
  const auto known = std::ranges::find(labels.names, name);
  if (known != labels.names.end()) return static_cast<std::int32_t>(known - labels.names.begin());
  std::string all;
  for (std::size_t i = 0; i < std::min<std::size_t>(labels.names.size(), 12); ++i)
    all += (i == 0 ? "" : ", ") + labels.names[i];
  fail(Exit::bad_data, place, ": label ", json_quoted(name), ", expected ", all,
       labels.names.size() > 12 ? ", ..." : "");
}

void add_label(const Line& line, const LabelNames& labels, const std::string& place,
               LabelledSet& set) {
  if (labels.kind == LabelKind::one) {
    if (line.names.size() != 1 || line.said == Line::Said::texts)
      fail(Exit::bad_data, place, ": the label is ", name_of(line.said), ", expected one name");
    set.labels.push_back(number_of(line.names[0], labels, place));
  } else if (labels.kind == LabelKind::many) {
    if (line.said != Line::Said::texts &&
        !(line.said == Line::Said::numbers && line.numbers.empty()))
      fail(Exit::bad_data, place, ": the label is ", name_of(line.said),
           ", expected a list of texts");
    std::vector<float> holds(labels.names.size());
    for (const std::string& name : line.names)
      holds[static_cast<std::size_t>(number_of(name, labels, place))] = 1;
    set.numbers.insert(set.numbers.end(), holds.begin(), holds.end());
  } else {
    std::vector<double> numbers = line.numbers;
    if (line.said == Line::Said::integer) numbers = {std::stod(line.names[0])};
    if (std::ssize(numbers) != labels.numbers)
      fail(Exit::bad_data, place, ": ", numbers.size(), " numbers in the label, expected ",
           labels.numbers);
    set.numbers.insert(set.numbers.end(), numbers.begin(), numbers.end());
  }
}

}  // namespace

LabelNames read_label_names(const std::vector<LabelledFile>& files) {
  Line::Said said = Line::Said::none;
  std::set<std::string> names;
  std::string negative;  // of integers, why the first below 0 is no label
  std::int64_t numbers = 0, most = -1;
  for (const LabelledFile& file : files)
    for_each_sample(file, [&](const Line& line, const std::string& place) {
      if (line.said == Line::Said::none)
        fail(Exit::bad_data, place, ": has no label, which is learnt");
      if (said == Line::Said::none || go_together(line.said, said)) said = line.said;
      if (!go_together(said, line.said))
        fail(Exit::bad_data, place, ": the label is ", name_of(line.said), ", expected ",
             name_of(said), " as in the lines before");
      numbers = std::max<std::int64_t>(numbers, std::ssize(line.numbers));
      for (const std::string& name : line.names) names.insert(name);
      if (said != Line::Said::integer) return;
      const std::int64_t label = std::stoll(line.names[0]);
      if (label < 0 && negative.empty())
        negative = concat(place, ": label ", label, ", expected at least 0");
      most = std::max(most, label);
    });
  LabelNames labels{.kind = kind_of(said), .names = {}, .numbers = numbers};
  if (said == Line::Said::integer) {
    constexpr std::int64_t kMost = 1 << 20;
    if (!negative.empty()) fail(Exit::bad_data, negative);
    if (most >= kMost)
      fail(Exit::bad_data, files.front().path, ": label ", most, ", expected less than ", kMost);
    for (std::int64_t i = 0; i <= most; ++i) labels.names.push_back(std::to_string(i));
  } else if (labels.kind != LabelKind::numbers) {
    labels.names.assign(names.begin(), names.end());
  }
  if (labels.scores() == 0) fail(Exit::bad_data, files.front().path, ": has no samples");
  return labels;
}

LabelledSet read_labelled(const LabelledFile& file, const LabelNames& labels) {
  LabelledSet set{.name = file.path, .kind = labels.kind};
  std::int64_t without = 0;
  for_each_sample(file, [&](const Line& line, const std::string& place) {
    if (line.text.empty()) fail(Exit::bad_data, place, ": the text is empty");
    const std::int64_t a = set.add_text(line.text);
    set.pairs.push_back({a, line.has_b ? set.add_text(line.text_b) : -1});
    set.uids.push_back(*line.uid);
    if (line.said != Line::Said::none) {
      if (without > 0) fail(Exit::bad_data, place, ": has a label, and lines before it have none");
      return add_label(line, labels, place, set);
    }
    if (++without != set.samples()) fail(Exit::bad_data, place, ": has no label");
    if (labels.kind == LabelKind::one)
      set.labels.push_back(0);
    else
      set.numbers.resize(static_cast<std::size_t>(set.samples() * labels.scores()));
  });
  if (set.uids.empty()) fail(Exit::bad_data, file.path, ": has no samples");
  set.has_labels = without == 0;
  return set;
}

}  // namespace mt
