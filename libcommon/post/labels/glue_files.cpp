#include "post/labels/glue_files.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/input/line_reader.h"
#include "base/log.h"

namespace mt {
namespace {

// A line's columns, each stripped, and where it stands.
struct Row {
  std::vector<std::string_view> columns;
  std::string place;

  [[noreturn]] void refuse(const auto&... parts) const {
    fail(Exit::bad_data, place, ": ", parts...);
  }
  std::string_view at(std::size_t column) const {
    if (column >= columns.size())
      refuse(columns.size(), " columns, expected at least ", column + 1);
    return columns[column];
  }
  std::int64_t uid() const {
    const std::string_view text = at(0);
    std::int64_t uid = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), uid);
    if (error != std::errc() || end != text.data() + text.size() || uid < 0)
      refuse("uid \"", text, "\", expected a number of at least 0");
    return uid;
  }
};

Row row_of(std::string_view line, std::string place) {
  Row row{.columns = {}, .place = std::move(place)};
  line = strip(line);
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    row.columns.push_back(strip(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  return row;
}

// Calls header(row) for the first line, and body(row) for each other.
void for_each_row(const std::string& path, const auto& header, const auto& body) {
  LineReader reader({.inputs = expand_inputs({path})});
  LineBlock block;
  bool first = true;
  while (reader.next(block))
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      const Row row = row_of(line, concat(path, ":", number));
      first ? header(row) : body(row);
      first = false;
    });
  if (first) fail(Exit::bad_data, path, ": is empty, expected a line that names the columns");
}

std::int32_t label_of(const Row& row, std::string_view label,
                      const std::vector<std::string>& labels) {
  const auto known = std::ranges::find(labels, label);
  if (known != labels.end()) return static_cast<std::int32_t>(known - labels.begin());
  std::string all;
  for (const std::string& one : labels) all += (all.empty() ? "" : ", ") + one;
  row.refuse("label \"", label, "\", expected ", all);
}

void add(LabelledSet& set, std::int64_t uid, std::string a, std::string b, std::int32_t label) {
  const std::int64_t first = set.add_text(std::move(a)), second = set.add_text(std::move(b));
  set.pairs.push_back({first, second});
  set.uids.push_back(uid);
  set.labels.push_back(label);
}

void check_not_empty(const LabelledSet& set) {
  if (set.uids.empty()) fail(Exit::bad_data, set.name, ": has no samples");
}

}  // namespace

std::vector<std::string> mnli_labels() { return {"contradiction", "entailment", "neutral"}; }
std::vector<std::string> qqp_labels() { return {"0", "1"}; }

LabelledSet read_mnli(const std::string& path, const Log&) {
  LabelledSet set{.name = path};
  const std::vector<std::string> labels = mnli_labels();
  for_each_row(
      path,
      [&](const Row& header) {
        header.at(9);
        set.has_labels = header.columns.size() != 10;
      },
      [&](const Row& row) {
        std::string a = clean_text(row.at(8)), b = clean_text(row.at(9));
        if (a.empty() || b.empty()) row.refuse("a text is empty");
        const std::int32_t label = set.has_labels ? label_of(row, row.columns.back(), labels) : 0;
        add(set, row.uid(), std::move(a), std::move(b), label);
      });
  check_not_empty(set);
  return set;
}

LabelledSet read_qqp(const std::string& path, const Log& log) {
  LabelledSet set{.name = path};
  const std::vector<std::string> labels = qqp_labels();
  for_each_row(
      path,
      [&](const Row& header) {
        const std::size_t columns = header.columns.size();
        if (columns != 3 && columns != 6) header.refuse(columns, " columns, expected 3 or 6");
        set.has_labels = columns == 6;
      },
      [&](const Row& row) {
        const std::size_t text = set.has_labels ? 3 : 1, columns = set.has_labels ? 6 : 3;
        const auto skip = [&](const auto&... why) {
          log.warn(concat("***WARNING*** ", row.place, ": ", why..., ", skipping"));
        };
        if (row.columns.size() != columns) {
          if (!set.has_labels) row.refuse(row.columns.size(), " columns, expected 3");
          return skip(row.columns.size(), " columns, expected 6");
        }
        std::string a = clean_text(row.at(text)), b = clean_text(row.at(text + 1));
        if (a.empty() || b.empty()) {
          if (!set.has_labels) row.refuse("a text is empty");
          return skip(a.empty() ? "zero length a" : "zero length b");
        }
        const std::int32_t label = set.has_labels ? label_of(row, row.at(5), labels) : 0;
        add(set, row.uid(), std::move(a), std::move(b), label);
      });
  check_not_empty(set);
  return set;
}

}  // namespace mt
