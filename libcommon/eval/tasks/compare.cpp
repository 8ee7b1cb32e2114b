#include "eval/tasks/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/input/line_reader.h"
#include "base/json.h"
#include "base/random.h"
#include "text/chat/chat_python.h"

namespace mt {
namespace {

struct Item {
  std::string task, hash, filter;
  ChatValue line;
  bool taken = false;
};

std::string member(const ChatValue& line, std::string_view key) {
  const ChatValue* const value = line.find(key);
  return value != nullptr && value->is_text() ? *value->text() : "";
}

std::vector<Item> read_items(const std::string& path) {
  std::vector<Item> items;
  LineReader reader({.inputs = {path}});
  LineBlock block;
  while (reader.next(block))
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      if (line.find_first_not_of(" \t\r") == line.npos) return;
      const std::string place = concat(block.file, ":", number);
      const ChatValue value = chat_value_of_json(line, place);
      if (value.has("summary")) return;
      Item item{.task = member(value, "task"),
                .hash = member(value, "doc_hash"),
                .filter = member(value, "filter"),
                .line = value};
      if (item.hash.empty() || !value.has("metrics"))
        fail(Exit::bad_data, place, ": has no \"doc_hash\" and \"metrics\", as a document's line");
      items.push_back(std::move(item));
    });
  return items;
}

// A document's value of a metric, where it is a number.
std::optional<double> value_of(const ChatValue& line, std::string_view metric) {
  const ChatValue* const value = line.find(metric);
  return value == nullptr ? std::nullopt : python_number(*value);
}

struct Pairs {
  std::vector<double> a, b;
  std::vector<ChatValue> ids;
};

bool is_zero_or_one(double value) { return value == 0 || value == 1; }

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double spread(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

ComparedMetric compared(const Pairs& pairs) {
  ComparedMetric result{.documents = std::ssize(pairs.a), .a = mean(pairs.a), .b = mean(pairs.b)};
  result.is_accuracy =
      std::ranges::all_of(pairs.a, is_zero_or_one) && std::ranges::all_of(pairs.b, is_zero_or_one);
  std::vector<double> differences;
  for (std::size_t i = 0; i < pairs.a.size(); ++i) {
    differences.push_back(pairs.b[i] - pairs.a[i]);
    result.only_a += result.is_accuracy && pairs.a[i] > pairs.b[i];
    result.only_b += result.is_accuracy && pairs.a[i] < pairs.b[i];
  }
  result.error = spread(differences) / std::sqrt(static_cast<double>(differences.size()));
  result.p =
      result.is_accuracy ? mcnemar_p(result.only_a, result.only_b) : sign_flip_p(differences);
  return result;
}

}  // namespace

double mcnemar_p(std::int64_t b, std::int64_t c) {
  const auto n = static_cast<double>(b + c);
  double p = 0;
  for (std::int64_t i = 0; i <= std::min(b, c); ++i) {
    const auto k = static_cast<double>(i);
    p += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) -
                  n * std::log(2.0));
  }
  return std::min(1.0, 2 * p);
}

double sign_flip_p(std::span<const double> differences) {
  constexpr std::uint32_t kFlips = 10'000;
  const double observed = std::abs(std::accumulate(differences.begin(), differences.end(), 0.0));
  std::uint32_t as_large = 0;
  for (std::uint32_t flip = 0; flip < kFlips; ++flip) {
    double sum = 0;
    Counter words{};
    for (std::size_t i = 0; i < differences.size(); ++i) {
      if (i % 128 == 0)
        words = philox({static_cast<std::uint32_t>(i / 128), flip, 0, 0},
                       {.seed_low = 0, .purpose = 0x464C4950});
      const bool turned = words[i % 128 / 32] >> (i % 32) & 1;
      sum += turned ? -differences[i] : differences[i];
    }
    as_large += std::abs(sum) >= observed * (1 - 1e-12);
  }
  return (1.0 + as_large) / (1.0 + kFlips);
}

Comparison compare_items(const std::string& a, const std::string& b) {
  std::vector<Item> items_a = read_items(a), items_b = read_items(b);
  std::map<std::string, std::vector<Item*>> by_hash;  // in the order of the file
  for (Item& item : items_b) by_hash[item.hash].push_back(&item);
  std::map<std::vector<std::string>, Pairs> all;
  std::vector<std::vector<std::string>> order;
  Comparison result;
  for (const Item& item : items_a) {
    const auto same = [&](const Item* other) {
      return !other->taken && other->filter == item.filter &&
             (other->task == item.task || other->task.empty() || item.task.empty());
    };
    const auto known = by_hash.find(item.hash);
    const auto other = known == by_hash.end() ? std::vector<Item*>::iterator()
                                              : std::ranges::find_if(known->second, same);
    if (known == by_hash.end() || other == known->second.end()) {
      ++result.only_a;
      continue;
    }
    (*other)->taken = true;
    const ChatValue* const metrics = item.line.find("metrics");
    for (const ChatValue& metric :
         metrics->is_list() ? *metrics->items() : std::vector<ChatValue>{}) {
      const std::string name = python_text(metric);
      const auto x = value_of(item.line, name), y = value_of((*other)->line, name);
      if (!x || !y) continue;
      const std::vector<std::string> key = {item.task.empty() ? (*other)->task : item.task,
                                            item.filter, name};
      const auto [pairs, is_new] = all.try_emplace(key);
      if (is_new) order.push_back(key);
      pairs->second.a.push_back(*x);
      pairs->second.b.push_back(*y);
      const ChatValue* const id = item.line.find("doc_id");
      pairs->second.ids.push_back(id == nullptr ? ChatValue() : *id);
    }
  }
  result.only_b = std::ranges::count(items_b, false, &Item::taken);
  for (const std::vector<std::string>& key : order) {
    const Pairs& pairs = all[key];
    ComparedMetric metric = compared(pairs);
    metric.task = key[0], metric.filter = key[1], metric.metric = key[2];
    for (std::size_t i = 0; metric.is_accuracy && i < pairs.a.size(); ++i)
      if (pairs.a[i] != pairs.b[i])
        result.changed.push_back({key[0], key[1], key[2], pairs.ids[i], pairs.a[i], pairs.b[i]});
    result.metrics.push_back(std::move(metric));
  }
  if (result.metrics.empty())
    fail(Exit::bad_data, a, " and ", b, ": no document's number is in both");
  return result;
}

// --- The report ----------------------------------------------------------------------------------

// "TASK FILTER METRIC", without a task that no file names.
static std::string name_of(const std::string& task, const std::string& filter,
                           const std::string& metric) {
  return concat(task, task.empty() ? "" : " ", filter, " ", metric);
}

std::string comparison_text(const Comparison& comparison) {
  std::string text;
  char line[256];
  for (const ChangedItem& item : comparison.changed) {
    std::snprintf(line, sizeof line, " %g -> %g\n", item.a, item.b);
    text += concat(name_of(item.task, item.filter, item.metric), " document ",
                   chat_value_json(item.id), line);
  }
  for (const ComparedMetric& m : comparison.metrics) {
    std::snprintf(line, sizeof line,
                  "  documents %lld  A %.6f  B %.6f  difference %+.6f \u00b1 %.6f",
                  static_cast<long long>(m.documents), m.a, m.b, m.b - m.a, m.error);
    text += name_of(m.task, m.filter, m.metric) + line;
    if (m.is_accuracy) text += concat("  only A right ", m.only_a, "  only B right ", m.only_b);
    std::snprintf(line, sizeof line, "  p %.6f\n", m.p);
    text += line;
  }
  return text;
}

std::string comparison_json(const Comparison& comparison) {
  JsonWriter json;
  json.begin_object().member("schema", "mt-eval-diff/1").key("metrics").begin_array();
  for (const ComparedMetric& m : comparison.metrics) {
    json.begin_object()
        .member("task", m.task)
        .member("filter", m.filter)
        .member("metric", m.metric)
        .member("documents", m.documents)
        .member("a", m.a)
        .member("b", m.b)
        .member("difference", m.b - m.a)
        .member("stderr", m.error)
        .member("p", m.p);
    if (m.is_accuracy) json.member("only_a", m.only_a).member("only_b", m.only_b);
    json.end_object();
  }
  json.end_array().key("changed").begin_array();
  for (const ChangedItem& item : comparison.changed)
    json.begin_object()
        .member("task", item.task)
        .member("filter", item.filter)
        .member("metric", item.metric)
        .key("doc_id")
        .raw(chat_value_json(item.id))
        .member("a", item.a)
        .member("b", item.b)
        .end_object();
  json.end_array()
      .member("only_in_a", comparison.only_a)
      .member("only_in_b", comparison.only_b)
      .end_object();
  return json.text() + "\n";
}

}  // namespace mt
