#include "train/run/routing_files.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "base/lines.h"
#include "comm/group.h"
#include "model/config/model_config.h"
#include "train/options/run_options.h"
#include "train/run/task.h"

namespace mt {

// The experts of a text's tokens, so many of each.
static ExpertChoices::Experts experts_in(const JsonObject& line, const ModelConfig& model) {
  ExpertChoices::Experts experts;
  simdjson::dom::array tokens;
  if (line.member("experts").get(tokens)) line.refuse("\"experts\": expected a list");
  for (const simdjson::dom::element token : tokens) {
    simdjson::dom::array of_token;
    if (token.get(of_token) || std::ssize(of_token) != model.moe_router_topk)
      line.refuse("\"experts\": expected lists of ", model.moe_router_topk, " numbers");
    std::int64_t before = -1;
    for (const simdjson::dom::element one : of_token) {
      std::int64_t expert = -1;
      if (one.get(expert) || expert <= before || expert >= model.num_experts)
        line.refuse("\"experts\": expected ascending numbers from 0 to ", model.num_experts - 1);
      experts.push_back(static_cast<std::int32_t>(expert));
      before = expert;
    }
  }
  return experts;
}

static ExpertChoices::All read_all(const std::string& path, const ModelConfig& model) {
  ExpertChoices::All all;
  if (path.empty()) return all;
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  const MappedFile file(path);
  simdjson::dom::parser parser;
  std::size_t number = 0;
  for (const std::string_view text : lines_of(as_text(file.bytes()))) {
    const std::string where = concat(path, ":", ++number);
    simdjson::dom::element root;
    if (parse_json(parser, text).get(root)) {
      if (!text.ends_with('}')) continue;  // it was cut
      fail(Exit::bad_data, where, ": is no JSON");
    }
    const JsonObject line(root, where);
    all.insert_or_assign({line.number("text", kMost), line.number("layer", kMost)},
                         experts_in(line, model));
  }
  if (all.empty()) fail(Exit::bad_data, path, ": has no whole line");
  return all;
}

RoutingFiles::RoutingFiles(const RoutingOptions& options, const ModelConfig& model, bool of_process)
    : chosen_(model.moe_router_topk),
      path_(options.trace),
      of_process_(of_process),
      choices_(!path_.empty(), read_all(options.replay, model), options.replay) {}

void RoutingFiles::open() {
  if (!path_.empty()) trace_.emplace(File::append(path_));
}

void RoutingFiles::write(const ExpertChoices::All& all) {
  for (const auto& [place, experts] : all) {
    JsonWriter json;
    json.begin_object().member("text", place.text).member("layer", place.layer);
    json.key("experts").begin_array();
    for (std::size_t i = 0; i < experts.size(); ++i) {
      if (i % static_cast<std::size_t>(chosen_) == 0) json.begin_array();
      json.value(experts[i]);
      if ((i + 1) % static_cast<std::size_t>(chosen_) == 0) json.end_array();
    }
    json.end_array().end_object();
    trace_->write(json.text() + "\n");
  }
}

void RoutingFiles::write_before(std::int64_t text, Group& ranks) {
  if (path_.empty() || (!of_process_ && ranks.rank() > 0)) return;
  if (of_process_)
    choices_.gather_before(text, ranks, [&](const ExpertChoices::All& some) { write(some); });
  else
    write(choices_.take_before(text));
}

static std::int64_t traced_experts(const RunOptions& options, const Task& task) {
  if (options.routing.trace.empty()) return 0;
  const ParamTable rows = task.rows();
  const auto routers = std::ranges::count_if(rows.rows(), [](const Param& row) {
    return row.place.module == "mlp.router" && row.place.param == "weight";
  });
  return options.batch.largest() * task.seq_length() * routers * task.model().moe_router_topk;
}

std::size_t route_bytes(const RunOptions& options, const Task& task, const RoutingFiles* routing) {
  if (routing == nullptr || options.device() != Device::cpu) return 0;
  const auto ranks = static_cast<std::size_t>(options.ranks.count);
  const auto traced = static_cast<std::size_t>(traced_experts(options, task));
  const std::size_t bytes = traced * sizeof(std::int32_t) + routing->choices().imposed_bytes();
  return (bytes + ranks - 1) / ranks;
}

}  // namespace mt
