#include "infer/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace mt {

BeamSearch::BeamSearch(const Options& options, std::vector<std::int32_t> prompt)
    : options_(options), prompt_(prompt.size()) {
  Text first{.ids = std::move(prompt)};
  if (options_.num_tokens > 0)
    open_.push_back(std::move(first));
  else
    found_.push_back(std::move(first));
}

void BeamSearch::find(const Text& text, std::int64_t length) {
  const double score = text.score / std::pow(static_cast<double>(length), options_.length_penalty);
  const auto place = std::ranges::upper_bound(found_, score, std::greater(), &Text::score);
  found_.insert(place, {.ids = text.ids, .score = score});
  if (std::ssize(found_) > options_.width) found_.pop_back();
}

void BeamSearch::take(std::span<const std::vector<double>> logits) {
  struct Candidate {
    std::size_t beam;
    std::int32_t token;
    double score;
  };
  std::vector<Candidate> all;
  for (std::size_t beam = 0; beam < open_.size(); ++beam) {
    const double largest = std::ranges::max(logits[beam]);
    double sum = 0;
    for (const double x : logits[beam]) sum += std::exp(x - largest);
    const double lse = largest + std::log(sum);
    for (std::int32_t id = 0; id < std::ssize(logits[beam]); ++id)
      all.push_back(
          {beam, id, open_[beam].score + logits[beam][static_cast<std::size_t>(id)] - lse});
  }
  const auto kept = std::min(2 * options_.width, std::ssize(all));
  std::partial_sort(all.begin(), all.begin() + kept, all.end(),
                    [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  const auto made = static_cast<std::int64_t>(open_.front().ids.size() - prompt_) + 1;
  std::vector<Text> next;
  for (std::int64_t rank = 0; rank < kept && std::ssize(next) < options_.width; ++rank) {
    const Candidate& candidate = all[static_cast<std::size_t>(rank)];
    Text text{.ids = open_[candidate.beam].ids, .score = candidate.score};
    if (candidate.token == options_.stop_token) {
      if (rank < options_.width) find(text, made);
      continue;
    }
    text.ids.push_back(candidate.token);
    next.push_back(std::move(text));
  }
  open_ = std::move(next);
  const double best =
      all.front().score / std::pow(static_cast<double>(made), options_.length_penalty);
  if (std::ssize(found_) >= options_.width && found_.back().score >= best) open_.clear();
  if (made < options_.num_tokens) return;
  for (const Text& text : open_) find(text, made);
  open_.clear();
}

}  // namespace mt
