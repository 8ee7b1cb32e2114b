#include "data/samples/batch_schedule.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace mt {

BatchSchedule::BatchSchedule(std::int64_t global_batch_size,
                             const std::vector<std::int64_t>& rampup)
    : final_(global_batch_size) {
  if (rampup.empty()) return;
  const auto refuse = [](const auto&... parts) {
    fail(Exit::bad_config, "--rampup-batch-size: ", parts...);
  };
  if (rampup.size() != 3)
    refuse(rampup.size(), " numbers, expected three: start, increment and samples");
  start_ = rampup[0], increment_ = rampup[1], rampup_samples_ = rampup[2];
  if (start_ < 1 || increment_ < 1 || rampup_samples_ < 1)
    refuse("start ", start_, ", increment ", increment_, ", samples ", rampup_samples_,
           ": expected numbers above 0");
  if (start_ >= final_)
    refuse("starts at ", start_, ", expected less than --global-batch-size ", final_);
  if ((final_ - start_) % increment_ != 0)
    refuse("from ", start_, " to --global-batch-size ", final_,
           " is not a multiple of the increment ", increment_);
  const std::int64_t increments = (final_ - start_) / increment_;
  samples_per_increment_ = static_cast<double>(rampup_samples_) / static_cast<double>(increments);
}

// "250B" as a whole number, in f64 as Megatron computes it; nothing if it is none below 2^62.
static std::optional<std::int64_t> parse_count(std::string_view text) {
  static constexpr std::string_view kSuffixes = "KMBT";
  if (text.empty()) return std::nullopt;
  const auto suffix = kSuffixes.find(static_cast<char>(std::toupper(text.back())));
  double scale = 1;
  if (suffix != std::string_view::npos) {
    text.remove_suffix(1);
    for (std::size_t i = 0; i <= suffix; ++i) scale *= 1000;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(number >= 0) || number * scale > 0x1p62) return std::nullopt;
  return static_cast<std::int64_t>(number * scale);
}

BatchSchedule BatchSchedule::by_tokens(const std::string& text, std::int64_t seq_length) {
  const auto refuse = [&](const auto&... parts) {
    fail(Exit::bad_config, "--step-batch-size-schedule \"", text, "\": ", parts...);
  };
  BatchSchedule schedule;
  for (std::size_t at = text.find_first_not_of(" ,"); at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" ,", at), text.size());
    const std::string entry = text.substr(at, end - at);
    const std::size_t colon = std::min(entry.find(':'), entry.size());
    const auto tokens = parse_count(std::string_view(entry).substr(0, colon));
    const auto size =
        parse_count(std::string_view(entry).substr(std::min(colon + 1, entry.size())));
    if (!tokens || !size || *size < 1) refuse("\"", entry, "\": expected TOKENS:SEQUENCES");
    schedule.steps_.push_back({*tokens / seq_length, *size});
    at = text.find_first_not_of(" ,", end);
  }
  auto& steps = schedule.steps_;
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.from < b.from; });
  if (steps.empty() || steps.front().from != 0) refuse("expected one that begins at 0 tokens");
  for (std::size_t i = 1; i < steps.size(); ++i)
    if (steps[i].from == steps[i - 1].from)
      refuse("two begin at ", steps[i].from, " sequences of ", seq_length, " tokens");
  schedule.final_ = steps.back().size;
  return schedule;
}

std::int64_t BatchSchedule::at(std::int64_t consumed) const {
  if (increment_ > 0) {
    if (consumed > rampup_samples_) return final_;
    const auto steps =
        static_cast<std::int64_t>(static_cast<double>(consumed) / samples_per_increment_);
    return std::min(start_ + steps * increment_, final_);
  }
  std::int64_t size = final_;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    size = step->size;
    if (step->from <= consumed) break;
  }
  return size;
}

std::vector<std::int64_t> BatchSchedule::sizes_from(std::int64_t consumed) const {
  std::vector<std::int64_t> sizes{at(consumed)};
  if (increment_ > 0)
    while (sizes.back() < final_) sizes.push_back(sizes.back() + increment_);
  for (const Step& step : steps_)
    if (step.from > consumed) sizes.push_back(step.size);
  return sizes;
}

// Steps of one size behind the one at `consumed`, the last of which begins at `last` or before.
std::int64_t BatchSchedule::more_alike(std::int64_t consumed, std::int64_t last) const {
  for (const Step& step : steps_)
    if (step.from > consumed) last = std::min(last, step.from - 1);
  const std::int64_t size = at(consumed);
  std::int64_t least = 0, most = (last - consumed) / size;  // a ramp-up's sizes only grow
  while (least < most) {
    const std::int64_t middle = most - (most - least) / 2;
    if (at(consumed + middle * size) == size)
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

std::int64_t BatchSchedule::iterations(std::int64_t samples) const {
  std::int64_t iterations = 0, consumed = 0;
  const auto count_while = [&](std::int64_t last) {
    while (consumed <= last) {
      const std::int64_t size = at(consumed), more = more_alike(consumed, last);
      iterations += more + 1;
      consumed += more * size;  // at most the last
      consumed += std::min(size, std::numeric_limits<std::int64_t>::max() - consumed);
      if (consumed == std::numeric_limits<std::int64_t>::max()) return;
    }
  };
  if (!steps_.empty()) {
    count_while(samples - 1);
    return iterations;
  }
  if (increment_ > 0) count_while(std::min(rampup_samples_, samples));
  return iterations + std::max<std::int64_t>(0, samples - consumed) / final_;
}

}  // namespace mt
