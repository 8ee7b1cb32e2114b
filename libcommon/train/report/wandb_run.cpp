#include "train/report/wandb_run.h"

#include <simdjson.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>

#include "base/command.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/json.h"
#include "text/sentencepiece/protobuf_writer.h"

namespace mt {

static constexpr std::size_t kBlock = 32768, kPartHeader = 7;

std::string WandbLog::header() { return {":W&B\xE1\xBE\0", 7}; }

std::string WandbLog::record(std::string_view data) {
  std::string out;
  for (bool first = true;; first = false) {
    if (const std::size_t left = kBlock - at_; left < kPartHeader) {
      out.append(left, '\0');
      at_ = 0;
    }
    const std::string_view part = data.substr(0, kBlock - at_ - kPartHeader);
    data.remove_prefix(part.size());
    const bool last = data.empty();
    std::string framed(1, static_cast<char>(first ? (last ? 1 : 2) : (last ? 4 : 3)));
    framed += part;
    const auto crc = static_cast<std::uint32_t>(
        ::crc32_z(0, reinterpret_cast<const Bytef*>(framed.data()), framed.size()));
    for (int byte = 0; byte < 4; ++byte) out += static_cast<char>(crc >> 8 * byte);
    for (int byte = 0; byte < 2; ++byte) out += static_cast<char>(part.size() >> 8 * byte);
    out += framed;
    at_ += kPartHeader + part.size();
    if (last) return out;
  }
}

namespace {

// The kinds of a Record, by their field's number.
enum : std::uint32_t { kHistory = 2, kSummary = 3, kRun = 17, kExit = 18, kHeader = 21 };

ProtobufWriter named(std::uint32_t key, std::string_view name, std::string_view json) {
  return ProtobufWriter().bytes(key, name).bytes(16, json);
}

// JSON has no number that is not finite; the client writes such ones as texts.
std::string json_of(double value) {
  if (std::isnan(value)) return R"("NaN")";
  if (std::isinf(value)) return value > 0 ? R"("Infinity")" : R"("-Infinity")";
  return JsonWriter().value(value).text();
}

ProtobufWriter config_of(const std::string& options_json) {
  ProtobufWriter config;
  simdjson::dom::parser parser;
  for (const auto& [name, option] :
       simdjson::dom::object(parser.parse(simdjson::padded_string(options_json)))) {
    std::string key(name);
    std::ranges::replace(key, '-', '_');
    config.message(1, named(1, key, simdjson::minify(option["value"])));
  }
  return config;
}

std::string host_name() {
  char host[256] = "";
  return ::gethostname(host, sizeof host - 1) == 0 ? host : "";
}

}  // namespace

WandbRun::Place WandbRun::make_place(const std::string& folder) {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts = {};
  ::localtime_r(&seconds, &parts);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%d_%H%M%S", &parts);
  std::random_device random;
  std::string id;
  for (int i = 0; i < 8; ++i) id += "abcdefghijklmnopqrstuvwxyz0123456789"[random() % 36];
  const std::string run = concat(folder, "/wandb/offline-run-", time, "-", id);
  make_folder(run);
  return {.id = id, .path = concat(run, "/run-", id, ".wandb")};
}

WandbRun::WandbRun(const std::string& folder, const Names& names, const std::string& options_json)
    : WandbRun(make_place(folder), names, options_json) {}

WandbRun::WandbRun(const Place& place, const Names& names, const std::string& options_json)
    : file_(File::create(place.path)) {
  file_.write(WandbLog::header());
  const std::string version = version_text("mt");
  write(kHeader, ProtobufWriter().message(
                     1, ProtobufWriter().bytes(1, version.substr(0, version.find('\n')))));
  ProtobufWriter run;
  run.bytes(1, place.id);
  if (!names.entity.empty()) run.bytes(2, names.entity);
  const auto nanos =
      std::chrono::duration_cast<std::chrono::nanoseconds>(start_.time_since_epoch()).count();
  run.bytes(3, names.project)
      .message(4, config_of(options_json))
      .bytes(8, names.name)
      .bytes(13, host_name())
      .message(17, ProtobufWriter()
                       .integer(1, static_cast<std::uint64_t>(nanos / 1'000'000'000))
                       .integer(2, static_cast<std::uint64_t>(nanos % 1'000'000'000)));
  write(kRun, run);
}

double WandbRun::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void WandbRun::write(std::uint32_t kind, const ProtobufWriter& content) {
  const ProtobufWriter record = ProtobufWriter().integer(1, ++records_).message(kind, content);
  file_.write(log_.record(record.content()));
}

void WandbRun::write_row() {
  if (row_.empty()) return;
  const double now = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  row_.emplace_back("_step", std::to_string(*step_));
  row_.emplace_back("_runtime", json_of(seconds()));
  row_.emplace_back("_timestamp", json_of(now));
  ProtobufWriter history, summary;
  for (const auto& [name, json] : row_) {
    history.message(1, named(2, name, json));
    summary.message(1, named(2, name, json));
  }
  history.message(2, ProtobufWriter().integer(1, static_cast<std::uint64_t>(*step_)));
  write(kHistory, history);
  write(kSummary, summary);
  row_.clear();
}

void WandbRun::scalar(std::string_view tag, double value, std::int64_t step) {
  if (step_ != step) write_row();
  step_ = step;
  const auto known = std::ranges::find(row_, tag, &std::pair<std::string, std::string>::first);
  if (known != row_.end())
    known->second = json_of(value);
  else
    row_.emplace_back(tag, json_of(value));
}

void WandbRun::end() {
  write_row();
  write(kExit, ProtobufWriter().integer(1, 0).integer(2, static_cast<std::uint64_t>(seconds())));
  file_.sync();
}

}  // namespace mt
