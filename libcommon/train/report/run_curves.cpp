#include "train/report/run_curves.h"

#include <simdjson.h>

#include <charconv>

#include "base/error.h"

namespace mt {

namespace dom = simdjson::dom;

// The member that a metric names: "expert_loads.3" the fourth of an array's, from 0.
static simdjson::simdjson_result<dom::element> member_at(const dom::object& object,
                                                         std::string_view metric) {
  const std::size_t dot = metric.rfind('.');
  dom::array array;
  std::size_t place = 0;
  if (dot == metric.npos || object[metric.substr(0, dot)].get(array) != simdjson::SUCCESS)
    return object[metric];
  const char* const end = metric.data() + metric.size();
  const auto [last, error] = std::from_chars(metric.data() + dot + 1, end, place);
  if (error != std::errc() || last != end) return object[metric];
  return array.at(place);
}

RunCurves::RunCurves(std::string name, const std::vector<std::string>& metrics)
    : name_(std::move(name)) {
  for (const std::string& metric : metrics) curves_[metric];
}

void RunCurves::take(std::string_view line) {
  ++lines_;
  const auto refuse = [&](const auto&... parts) {
    fail(Exit::bad_data, name_, ":", lines_, ": ", parts...);
  };
  if (line.find_first_not_of(" \t\r") == line.npos) return;
  dom::parser parser;
  dom::object object;
  if (parser.parse(simdjson::padded_string(line)).get(object) != simdjson::SUCCESS)
    refuse("not a JSON object");
  std::string_view schema, event, split;
  if (object["schema"].get(schema) != simdjson::SUCCESS || schema != "mt-pretrain/1" ||
      object["event"].get(event) != simdjson::SUCCESS)
    refuse("not an event of schema mt-pretrain/1");
  const bool step = event == "step", eval = event == "eval";
  if (!step && !eval) return;
  std::int64_t iteration = 0;
  if (object["iteration"].get(iteration) != simdjson::SUCCESS) refuse("no iteration");
  if (eval && (object["split"].get(split) != simdjson::SUCCESS || split != "valid")) return;
  for (auto& [metric, curve] : curves_) {
    dom::element value;
    if (member_at(object, metric).get(value) != simdjson::SUCCESS) continue;
    if (value.is_null()) continue;  // not finite
    double number = 0;
    if (value.get(number) != simdjson::SUCCESS) refuse(metric, " is not a number");
    (step ? curve.steps : curve.validation)[iteration] = number;
  }
}

}  // namespace mt
