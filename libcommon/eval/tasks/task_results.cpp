#include "eval/tasks/task_results.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/sha256.h"
#include "eval/tasks/response_filters.h"
#include "text/chat/chat_python.h"
#include "text/chat/chat_strings.h"

namespace mt {
namespace {

// --- A document's lines --------------------------------------------------------------------------

void write_until(JsonWriter& json, const EvalGeneration& generation) {
  json.begin_object().key("until").begin_array();
  for (const std::string& text : generation.until) json.value(text);
  json.end_array()
      .member("max_gen_toks", generation.max_gen_toks)
      .member("do_sample", generation.temperature > 0)
      .member("temperature", generation.temperature)
      .end_object();
}

void write_arguments(JsonWriter& json, const EvalTask& task, const EvalItem& item) {
  json.key("arguments").begin_array();
  for (const EvalRequest& request : item.requests) {
    json.begin_array().value(request.context);
    if (task.kind == EvalKind::generate)
      write_until(json, task.generation);
    else if (task.kind != EvalKind::rolling)
      json.value(request.continuation);
    json.end_array();
  }
  json.end_array();
}

void write_response(JsonWriter& json, const EvalTask& task, const EvalResponse& response) {
  if (task.kind == EvalKind::rolling) {
    json.value(response.log_likelihood);
    return;
  }
  json.begin_array().value(response.log_likelihood).value(response.greedy).end_array();
}

void write_responses(JsonWriter& json, const EvalTask& task, const EvalAnswer& answer,
                     const ChatValue& filtered) {
  json.key("resps").begin_array();
  if (task.is_about_texts()) {
    json.begin_array();
    for (const std::string& text : answer.texts) json.value(text);
    json.end_array();
  }
  for (const EvalResponse& response : answer.responses) {
    json.begin_array();
    write_response(json, task, response);
    json.end_array();
  }
  json.end_array().key("filtered_resps").begin_array();
  if (task.is_about_texts()) json.raw(chat_value_json(filtered));
  for (const EvalResponse& response : answer.responses) write_response(json, task, response);
  json.end_array();
}

void write_tokens(JsonWriter& json, const EvalAnswer& answer) {
  const auto each_window = [&](const auto& write) {
    json.begin_array();
    for (const std::vector<ScoredTokens>& windows : answer.tokens)
      for (const ScoredTokens& window : windows) write(window);
    json.end_array();
  };
  json.key("ids");
  each_window([&](const ScoredTokens& window) {
    json.begin_array();
    for (const std::int32_t id : window.ids) json.value(id);
    json.end_array();
  });
  json.key("cont_start");
  each_window([&](const ScoredTokens& w) { json.value(w.ids.size() - w.scored); });
  json.key("token_logprobs").begin_array();
  for (const std::vector<double>& values : answer.token_log_probs) {
    json.begin_array();
    for (const double value : values) json.value(value);
    json.end_array();
  }
  json.end_array();
}

void write_hashes(JsonWriter& json, const EvalItem& item) {
  json.member("doc_hash", sha256_hex(chat_value_json(item.doc, {.indent = 2, .item = ","})))
      .member("prompt_hash", sha256_hex(item.requests.front().context))
      .member("target_hash", sha256_hex(python_text(item.target)));
}

}  // namespace

std::string TaskScores::add(const EvalAnswer& answer, bool tokens) {
  std::string lines;
  for (const EvalFilter& filter : task_.filters) {
    const ChatValue left = task_.is_about_texts() ? filtered(filter, answer.texts) : ChatValue();
    const MetricValues values = task_.is_about_texts()
                                    ? judge_text(task_, answer.item, left)
                                    : judge_likelihoods(task_, answer.item, answer.responses);
    JsonWriter json;
    json.begin_object()
        .member("schema", "mt-eval/1")
        .member("task", task_.name)
        .member("doc_id", answer.item.id)
        .key("doc")
        .raw(chat_value_json(answer.item.doc))
        .key("target")
        .raw(chat_value_json(answer.item.target));
    write_arguments(json, task_, answer.item);
    write_responses(json, task_, answer, left);
    json.member("filter", filter.name).key("metrics").begin_array();
    for (const auto& [metric, value] : values) json.value(metric);
    json.end_array();
    write_hashes(json, answer.item);
    for (const auto& [metric, value] : values) {
      json.key(metric).raw(chat_value_json(value));
      values_[{filter.name, metric}].push_back(value);
    }
    if (tokens) write_tokens(json, answer);
    lines += json.end_object().text() + "\n";
    ++lines_;
  }
  return lines;
}

void TaskScores::add_line(std::string_view text, std::string_view place) {
  const ChatValue line = chat_value_of_json(text, place);
  const EvalFilter& filter =
      task_.filters[static_cast<std::size_t>(lines_ % std::ssize(task_.filters))];
  const auto is = [&](std::string_view key, const ChatValue& expected) {
    const ChatValue* const value = line.find(key);
    return value != nullptr && python_equal(*value, expected);
  };
  if (!is("task", task_.name) || !is("filter", filter.name) ||
      !is("doc_id", lines_ / std::ssize(task_.filters)))
    fail(Exit::bad_data, place, ": is not the line of document ",
         lines_ / std::ssize(task_.filters), " of ", task_.name, " and the filter ", filter.name);
  for (const EvalMetric& metric : task_.metrics) {
    const ChatValue* const value = line.find(metric.name);
    if (value == nullptr) fail(Exit::bad_data, place, ": has no metric ", metric.name);
    values_[{filter.name, metric.name}].push_back(*value);
  }
  ++lines_;
}

std::int64_t TaskScores::documents() const { return lines_ / std::ssize(task_.filters); }

std::vector<TaskScores::Result> TaskScores::results(std::int64_t resamples) const {
  std::vector<Result> results;
  for (const EvalFilter& filter : task_.filters)
    for (const EvalMetric& metric : task_.metrics) {
      const auto found = values_.find({filter.name, metric.name});
      if (found == values_.end()) continue;
      results.push_back({.metric = metric.name,
                         .filter = filter.name,
                         .value = aggregate(metric.aggregation, found->second),
                         .error = standard_error(metric.aggregation, found->second, resamples),
                         .higher_is_better = metric.higher_is_better});
    }
  return results;
}

// --- All tasks -----------------------------------------------------------------------------------

void EvalResults::add_group(const TaskGroup& group, std::size_t first, int depth) {
  Entry all{.name = group.name, .alias = group.alias, .version = "", .depth = depth};
  all.is_group = true;
  using Key = std::pair<std::string, std::string>;
  std::map<Key, std::vector<double>> values, errors;
  std::map<Key, std::vector<std::int64_t>> sizes;
  std::vector<TaskScores::Result> kinds;
  for (std::size_t i = first; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.is_group) continue;
    all.num_fewshot = entry.num_fewshot;
    all.original += entry.original;
    all.effective += entry.effective;
    for (const TaskScores::Result& result : entry.results) {
      const Key key{result.metric, result.filter};
      if (!values.contains(key)) kinds.push_back(result);
      values[key].push_back(result.value);
      sizes[key].push_back(entry.effective);
      if (result.error) errors[key].push_back(*result.error);
    }
  }
  for (TaskScores::Result& result : kinds) {
    const Key key{result.metric, result.filter};
    result.value = pooled_mean(values[key], sizes[key]);
    result.error.reset();
    if (errors[key].size() == sizes[key].size())
      result.error = pooled_error(errors[key], sizes[key]);
  }
  all.results = std::move(kinds);
  entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(first), std::move(all));
}

void EvalResults::write(JsonWriter& json) const {
  const auto each = [&](std::string_view key, bool groups, const auto& write) {
    json.key(key).begin_object();
    for (const Entry& entry : entries_)
      if (groups || !entry.is_group) write(entry);
    json.end_object();
  };
  each("results", true, [&](const Entry& entry) {
    json.key(entry.name).begin_object().member("alias", entry.alias);
    for (const TaskScores::Result& result : entry.results) {
      json.member(concat(result.metric, ",", result.filter), result.value);
      json.key(concat(result.metric, "_stderr,", result.filter));
      if (result.error)
        json.value(*result.error);
      else
        json.value("N/A");
    }
    json.end_object();
  });
  each("n-shot", false, [&](const Entry& e) { json.member(e.name, e.num_fewshot); });
  each("n-samples", false, [&](const Entry& entry) {
    json.key(entry.name)
        .begin_object()
        .member("original", entry.original)
        .member("effective", entry.effective)
        .end_object();
  });
  each("configs", false, [&](const Entry& e) { json.key(e.name).raw(chat_value_json(e.config)); });
  each("versions", false, [&](const Entry& e) { json.member(e.name, e.version); });
  each("higher_is_better", true, [&](const Entry& entry) {
    json.key(entry.name).begin_object();
    std::vector<std::string> said;
    for (const TaskScores::Result& result : entry.results) {
      if (std::ranges::find(said, result.metric) != said.end()) continue;
      json.member(result.metric, result.higher_is_better);
      said.push_back(result.metric);
    }
    json.end_object();
  });
}

static std::string fixed(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

std::string EvalResults::table() const {
  constexpr std::size_t kColumns = 9;
  using Row = std::array<std::string, kColumns>;
  std::vector<Row> rows = {
      {"Tasks", "Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr"}};
  for (const Entry& entry : entries_) {
    std::string name = entry.alias;
    if (entry.depth > 0)
      name = std::string(static_cast<std::size_t>(entry.depth), ' ') + "- " + name;
    std::string version = entry.version, shots = std::to_string(entry.num_fewshot);
    if (entry.is_group) shots.clear();
    for (const TaskScores::Result& result : entry.results) {
      rows.push_back({name, version, result.filter, shots, result.metric,
                      result.higher_is_better ? "↑" : "↓", fixed(result.value), "±",
                      result.error ? fixed(*result.error) : "N/A"});
      name = version = shots = "";
    }
  }
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows)
    for (std::size_t c = 0; c < kColumns; ++c)
      widths[c] = std::max(widths[c], static_cast<std::size_t>(count_points(row[c])));
  const auto is_number = [](std::size_t c) { return c == 1 || c == 3 || c == 6 || c == 8; };
  std::string table;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < kColumns; ++c) {
      const std::string space(widths[c] - static_cast<std::size_t>(count_points(rows[r][c])), ' ');
      table += "|" + (is_number(c) && r > 0 ? space + rows[r][c] : rows[r][c] + space);
    }
    table += "|\n";
    if (r > 0) continue;
    for (std::size_t c = 0; c < kColumns; ++c)
      table += "|" +
               std::string(std::max<std::size_t>(widths[c], 1) - (is_number(c) ? 1 : 0), '-') +
               (is_number(c) ? ":" : "");
    table += "|\n";
  }
  return table;
}

}  // namespace mt
