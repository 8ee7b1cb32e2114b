#include "text/training/unigram_lattice.h"

#include <cmath>
#include <limits>

#include "text/unicode/utf8_length.h"

namespace mt {

static constexpr int kStepBits = 256;
static constexpr double kStep = 0x1p-256;  // 2^-kStepBits

double UnigramLattice::scaled_down(double value, int steps) {
  return steps == 0 ? value : std::ldexp(value, -kStepBits * steps);
}

void UnigramLattice::Scaled::add(double more, int more_steps) {
  if (value == 0) steps = more_steps;
  if (steps > more_steps) {  // the other one is larger
    value = scaled_down(value, steps - more_steps);
    steps = more_steps;
  }
  value += scaled_down(more, more_steps - steps);
}

void UnigramLattice::Scaled::normalize() {
  for (; value > 0 && value < kStep; ++steps) value /= kStep;
}

void UnigramLattice::read(std::string_view word, bool parts_only) {
  size_ = word.size();
  edges_.clear();
  for (std::size_t at = 0; at < size_; at += utf8_length(word[at])) add_edges(word, at, parts_only);
}

void UnigramLattice::add_edges(std::string_view word, std::size_t begin, bool parts_only) {
  ByteTrie::Node node = ByteTrie::kRoot;
  for (std::size_t at = begin; at < size_ && trie_.step(node, word[at]);) {
    ++at;
    const std::int32_t id = trie_.value(node);
    if (id == ByteTrie::kNone || (parts_only && at - begin == size_)) continue;
    edges_.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at), id,
                      weights_[static_cast<std::size_t>(id)]});
  }
}

// A byte's sum is complete, and normalized, when the edges on its other side are reached.
void UnigramLattice::sum_ways() {
  before_.assign(size_ + 1, {});
  after_.assign(size_ + 1, {});
  before_[0] = after_[size_] = {1, 0};
  std::size_t at = 0;
  for (const Edge& edge : edges_) {
    if (edge.begin != at) before_[at = edge.begin].normalize();
    before_[edge.end].add(before_[at].value * edge.weight, before_[at].steps);
  }
  before_[size_].normalize();
  at = size_;
  for (auto edge = edges_.rbegin(); edge != edges_.rend(); ++edge) {
    if (edge->begin != at) {
      after_[at].normalize();
      at = edge->begin;
    }
    after_[at].add(after_[edge->end].value * edge->weight, after_[edge->end].steps);
  }
  after_[0].normalize();
}

const std::vector<std::int32_t>& UnigramLattice::best() {
  largest_.assign(size_ + 1, -std::numeric_limits<double>::infinity());
  last_.assign(size_ + 1, nullptr);
  largest_[0] = 0;
  for (const Edge& edge : edges_) {
    const double sum = largest_[edge.begin] + edge.weight;
    if (sum <= largest_[edge.end]) continue;
    largest_[edge.end] = sum;
    last_[edge.end] = &edge;
  }
  ids_.clear();
  for (std::size_t end = size_; end > 0; end = last_[end]->begin) ids_.push_back(last_[end]->id);
  return ids_;
}

}  // namespace mt
