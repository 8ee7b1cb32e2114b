#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.h"

namespace mt {

// Tokens of the windows that are scored together: enough to fill many batches with windows of like
// length, little enough to report often.
static constexpr std::int64_t kGroup = 1 << 16;

TextScore& TextScore::operator+=(const TextScore& other) {
  nll += other.nll;
  tokens += other.tokens;
  words += other.words;
  bytes += other.bytes;
  return *this;
}

double TextScore::perplexity() const { return std::exp(nats_per_token()); }

double TextScore::adjusted_perplexity() const { return std::exp(nats_per_token() * token_ratio()); }

double TextScore::bits_per_byte() const {
  return nll / std::numbers::ln2 / static_cast<double>(bytes);
}

bool TextScorer::is_context(std::int32_t token) const {
  return std::ranges::find(in_front_, token) != in_front_.end();
}

void TextScorer::add(const EvalText& input) {
  Text& text = texts_.emplace_back();
  text.ids.reserve(input.tokens.size() + 1);
  if (input.tokens.empty() || !is_context(input.tokens.front())) text.ids.push_back(eod_);
  text.ids.insert(text.ids.end(), input.tokens.begin(), input.tokens.end());
  const auto scored = std::count_if(input.tokens.begin(), input.tokens.end(),
                                    [&](std::int32_t token) { return !is_context(token); });
  text.score = {.tokens = scored, .words = input.words, .bytes = input.bytes};
  const auto tokens = static_cast<std::int64_t>(text.ids.size());
  for (std::int64_t i = 0; i < windows_.count(tokens); ++i) {
    const Window window = windows_.at(i, tokens);
    if (window.scored == 0) continue;
    if (pending_tokens_ + window.tokens > kGroup) flush();
    pending_.push_back({&text, window});
    pending_tokens_ += window.tokens;
  }
}

void TextScorer::flush() {
  const std::vector<Pending> pending = std::exchange(pending_, {});
  pending_tokens_ = 0;
  std::vector<double> values;
  std::size_t count = 0;
  for (const Pending& p : pending) count += static_cast<std::size_t>(p.window.scored);
  values.resize(count);
  std::vector<std::span<const std::int32_t>> ids;
  std::vector<std::span<double>> nll;
  std::span<double> left(values);
  for (const auto& [text, window] : pending) {
    ids.push_back(std::span(text->ids).subspan(static_cast<std::size_t>(window.begin),
                                               static_cast<std::size_t>(window.tokens)));
    nll.push_back(left.first(static_cast<std::size_t>(window.scored)));
    left = left.subspan(nll.back().size());
  }
  score_(ids, nll);
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const auto targets = ids[i].last(nll[i].size());
    for (std::size_t j = 0; j < targets.size(); ++j)
      if (!is_context(targets[j])) pending[i].text->score.nll += nll[i][j];
  }
  // All but the last text, whose later windows may be still to come, are complete.
  while (texts_.size() > 1) emit_front();
}

void TextScorer::finish() {
  flush();
  while (!texts_.empty()) emit_front();
}

void TextScorer::emit_front() {
  const TextScore score = texts_.front().score;
  texts_.pop_front();
  if (!std::isfinite(score.nll)) fail(Exit::bad_data, "the model's probabilities are not numbers");
  emit_(score);
}

}  // namespace mt
