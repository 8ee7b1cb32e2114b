#include "train/report/results_file.h"

#include "base/file.h"
#include "base/json.h"

namespace mt {

void ResultsFile::step(const StepReport& report) {
  losses_ = report.losses;
  tokens_ = static_cast<double>(report.consumed_samples) * static_cast<double>(report.tokens) /
            static_cast<double>(report.global_batch_size);
  seconds_ += report.seconds;
}

void ResultsFile::evaluation(const EvaluationReport& report) {
  if (report.split == "valid") validation_ = report.losses;
}

void ResultsFile::epoch(std::span<const EpochReport> reports) {
  epoch_.assign(reports.begin(), reports.end());
}

static void write_report(const EpochReport& report, JsonWriter& json) {
  for (const auto& [name, number] : report.numbers)
    std::visit([&](auto value) { json.member(name, value); }, number);
  for (const auto& [name, value] : report.tables) json.key(name).raw(value);
}

void ResultsFile::write(const std::string& path, std::int64_t iteration) const {
  JsonWriter json;
  json.begin_object().member("schema", "mt-results/1").member("step", iteration);
  json.member("tokens", tokens_).member("seconds", seconds_);
  for (std::size_t i = 0; i < losses_.size(); ++i)
    json.member(member_of(losses_, i), losses_[i].value);
  for (std::size_t i = 0; i < validation_.size(); ++i)
    json.member("val_" + member_of(validation_, i), validation_[i].value);
  for (const auto& [name, number] : drawn_) json.member("val_" + name, number);
  bool has_sets = false;
  for (const EpochReport& report : epoch_) {
    if (report.set.empty()) write_report(report, json);
    has_sets |= !report.set.empty();
  }
  if (has_sets) json.key("sets").begin_object();
  for (const EpochReport& report : epoch_) {
    if (report.set.empty()) continue;
    json.key(report.set).begin_object();
    write_report(report, json);
    json.end_object();
  }
  if (has_sets) json.end_object();
  write_file_atomically(path, json.end_object().text() + "\n", true);
}

}  // namespace mt
