#include "data/samples/blend.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "data/samples/split.h"

namespace mt {
namespace {

std::string stripped(const std::string& text) {
  constexpr const char* kSpaces = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::optional<double> parse_number(const std::string& text) {
  double number = 0;
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [stop, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Blend parse_blend(const std::string& option, std::vector<std::string> words) {
  for (std::string& word : words) word = stripped(word);
  if (words.empty() || std::ranges::count(words, std::string()) > 0)
    fail(Exit::usage, option, ": expected prefixes of token files, or a weight before each");
  std::vector<std::optional<double>> weights;
  if (words.size() % 2 == 0)
    for (std::size_t i = 0; i < words.size(); i += 2) weights.push_back(parse_number(words[i]));
  if (std::ranges::none_of(weights, [](const auto& w) { return w.has_value(); }))
    return {words, {}};
  Blend blend;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::string& word = words[2 * i];
    const std::string& prefix = words[2 * i + 1];
    if (!weights[i])
      fail(Exit::usage, option, ": \"", word, "\" before ", prefix,
           " is not a number, expected a weight before each prefix or before none");
    if (!(*weights[i] > 0) || !std::isfinite(*weights[i]))
      fail(Exit::usage, option, ": weight ", word, " of ", prefix, ": expected more than 0");
    blend.weights.push_back(*weights[i]);
    blend.prefixes.push_back(prefix);
  }
  if (const double sum = numpy_sum(blend.weights); !std::isfinite(sum))
    fail(Exit::usage, option, ": the weights sum to ", sum);
  return blend;
}

std::int64_t blend_target(std::int64_t samples, double weight) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(samples) * weight));
}

std::int64_t blend_build_size(std::int64_t samples, double weight) {
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(blend_target(samples, weight)) * (1 + 0.5 / 100)));
}

void blend_samples(std::span<const double> weights, std::span<const std::int64_t> sizes,
                   std::int64_t samples, const std::function<void(std::size_t dataset)>& next) {
  std::vector<std::int64_t> taken(weights.size());
  for (std::int64_t i = 0; i < samples; ++i) {
    const double place = std::max(static_cast<double>(i), 1.0);
    std::size_t best = weights.size();
    double largest = 0;
    for (std::size_t d = 0; d < weights.size(); ++d) {
      if (!sizes.empty() && taken[d] == sizes[d]) continue;
      const double error = weights[d] * place - static_cast<double>(taken[d]);
      if (best < weights.size() && !(error > largest)) continue;
      largest = error;
      best = d;
    }
    ++taken[best];
    next(best);
  }
}

}  // namespace mt
