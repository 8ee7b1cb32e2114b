#include "data/samples/split.h"

#include <charconv>
#include <cmath>

#include "base/error.h"

namespace mt {

double numpy_sum(std::span<const double> values) {
  const std::size_t n = values.size();
  if (n > 128) {
    const std::size_t half = n / 2 - n / 2 % 8;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  double sum = 0;
  std::size_t i = 0;
  if (n >= 8) {
    double part[8];
    for (std::size_t j = 0; j < 8; ++j) part[j] = values[j];
    for (i = 8; i < n - n % 8; i += 8)
      for (std::size_t j = 0; j < 8; ++j) part[j] += values[i + j];
    sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
  }
  for (; i < n; ++i) sum += values[i];
  return sum;
}

std::vector<double> normalized(std::span<const double> weights) {
  const double sum = numpy_sum(weights);
  std::vector<double> result(weights.begin(), weights.end());
  for (double& weight : result) weight /= sum;
  return result;
}

static std::vector<double> parse_shares(const std::string& option, const std::string& text) {
  constexpr const char* kDigits = ".0123456789";
  std::vector<double> shares;
  for (std::size_t at = 0; at < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[at]);
    if (c == '+' || c == '-' || std::isalpha(c))
      fail(Exit::usage, option, " \"", text, "\": '", text[at], "' at column ", at + 1,
           ", expected plain decimal numbers");
    const std::size_t end = std::min(text.find_first_not_of(kDigits, at), text.size());
    if (end == at) {
      ++at;
      continue;
    }
    double share = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, share);
    if (error != std::errc() || stop != text.data() + end)
      fail(Exit::usage, option, " \"", text, "\": \"", text.substr(at, end - at),
           "\" is not a number");
    shares.push_back(share);
    at = end;
  }
  return shares;
}

std::array<std::optional<ItemRange>, kSplits> split_ranges(const std::string& option,
                                                           const std::string& text,
                                                           std::int64_t count) {
  std::vector<double> shares = parse_shares(option, text);
  if (shares.size() > kSplits)
    fail(Exit::usage, option, " \"", text, "\": ", shares.size(), " numbers, expected up to three");
  shares.resize(kSplits, 0.0);
  if (const double sum = numpy_sum(shares); !(sum > 0) || !std::isfinite(sum))
    fail(Exit::usage, option, " \"", text, "\": the numbers sum to ", sum,
         ", expected more than 0");
  shares = normalized(shares);
  std::array<std::optional<ItemRange>, kSplits> ranges;
  double begin = 0;
  for (int i = 0; i < kSplits; ++i) {
    const double end = begin + shares[i];
    const auto bound = [&](double share) {  // ties to even, the rounding mode of every thread
      return static_cast<std::int64_t>(std::nearbyint(share * static_cast<double>(count)));
    };
    if (end > begin) ranges[i] = ItemRange{bound(begin), bound(end)};
    begin = end;
  }
  return ranges;
}

static std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result;
  if (__builtin_mul_overflow(a, b, &result))
    fail(Exit::usage, a, " times ", b, " samples: more than 2^63");
  return result;
}

std::array<std::optional<std::int64_t>, kSplits> target_samples(const TrainingLength& length) {
  if (length.eval_interval < 1)
    fail(Exit::usage, "--eval-interval ", length.eval_interval, ": expected at least 1");
  const std::int64_t train = length.train_samples > 0
                                 ? length.train_samples
                                 : product(length.train_iters, length.global_batch_size);
  const std::int64_t batch =
      length.eval_batch_size > 0 ? length.eval_batch_size : length.global_batch_size;
  const std::int64_t once = product(length.eval_iters, batch);
  const std::int64_t evaluations =
      length.skip_train ? 1 : length.train_iters / length.eval_interval + 1;
  std::array<std::optional<std::int64_t>, kSplits> samples = {length.skip_train ? 0 : train,
                                                              product(evaluations, once), once};
  if (length.full_validation) samples[1].reset();
  return samples;
}

}  // namespace mt
