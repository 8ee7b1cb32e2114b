#include "train/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "base/error.h"

namespace mt {

static File open_to_append(const std::string& path) {
  std::error_code error;  // a folder that cannot be made is one that open() reports
  std::filesystem::create_directories(parent_directory(path), error);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR))
    fail(Exit::cannot_create, path, ": cannot create: no such folder");
  if (descriptor < 0) fail_errno(path, "cannot open", Exit::cannot_create);
  return {descriptor, path};
}

// A full disk may have cut an earlier run's last line: it is ended, so that the next is whole.
static void end_last_line(File& file) {
  struct stat status;
  if (::fstat(file.descriptor(), &status) != 0) fail_errno(file.name(), "stat", Exit::io_error);
  if (!S_ISREG(status.st_mode) || status.st_size == 0) return;
  std::byte last[1];
  file.read_at(static_cast<std::uint64_t>(status.st_size) - 1, last);
  if (last[0] != std::byte{'\n'}) file.write("\n");
}

JsonWriter RunLog::event(const char* name) {
  JsonWriter json;
  json.begin_object().member("schema", "mt-pretrain/1").member("event", name);
  return json;
}

void RunLog::write(JsonWriter& open_object) {
  const std::string line = open_object.end_object().text() + "\n";
  if (!path_.empty()) {
    if (!file_) end_last_line(file_.emplace(open_to_append(path_)));
    file_->write(line);
  }
  if (to_stdout_) {
    std::fwrite(line.data(), 1, line.size(), stdout);
    if (std::fflush(stdout) != 0) fail_errno("stdout", "cannot write", Exit::io_error);
  }
}

void RunLog::step(const StepReport& r) {
  JsonWriter json = event("step");
  json.member("iteration", r.iteration)
      .member("consumed_samples", r.consumed_samples)
      .member("loss", r.loss)
      .member("lr", r.learning_rate)
      .member("grad_norm", r.grad_norm);
  if (r.num_zeros) json.member("num_zeros", *r.num_zeros);
  json.member("tokens_per_second", static_cast<double>(r.tokens) / r.seconds)
      .member("step_seconds", r.seconds);
  write(json);
}

static std::string formatted(const char* format, auto... values) {
  char line[512];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

static std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local;
  ::localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

void MegatronLog::step(const StepReport& r) {
  ++steps_;
  loss_sum_ += r.loss;
  seconds_ += r.seconds;
  if (r.iteration % interval_ != 0) return;
  const auto n = static_cast<double>(steps_);
  std::string line = formatted(
      " [%s] iteration %8lld/%8lld | consumed samples: %12lld | elapsed time per iteration (ms): "
      "%.1f |"
      " learning rate: %.6E | global batch size: %5lld | lm loss: %.6E | loss scale: 1.0 |"
      " grad norm: %.3f |%s number of skipped iterations:   0 | number of nan iterations:   0 |",
      timestamp().c_str(), static_cast<long long>(r.iteration),
      static_cast<long long>(train_iters_), static_cast<long long>(r.consumed_samples),
      1000 * seconds_ / n, r.next_learning_rate, static_cast<long long>(r.global_batch_size),
      loss_sum_ / n, r.grad_norm,
      r.num_zeros ? concat(" num zeros: ", *r.num_zeros, ".0 |").c_str() : "");
  if (log_.shows(Log::Level::normal)) log_.write_line(std::move(line));
  steps_ = 0;
  loss_sum_ = seconds_ = 0;
}

void MegatronLog::evaluation(std::int64_t iteration, const std::string& where, double loss) const {
  if (!log_.shows(Log::Level::normal)) return;
  const std::string line = formatted(
      " validation loss at iteration %lld%s | lm loss value: %.6E | lm loss PPL: %.6E | ",
      static_cast<long long>(iteration), where.c_str(), loss, std::exp(std::min(20.0, loss)));
  const std::string dashes(line.size() + 1, '-');
  log_.write_line(dashes);
  log_.write_line(line);
  log_.write_line(dashes);
}

}  // namespace mt
