// UnigramLattice: all ways to cut a word into pieces, for the training of unigram models
// (text/training/unigram_trainer.h).  For one thread; the trie and the weights must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/sentencepiece/byte_trie.h"

namespace mt {

class UnigramLattice {
 public:
  // `weights`: of the pieces by id, that the trie has as values; what they are is said below.
  UnigramLattice(const ByteTrie& trie, std::span<const double> weights)
      : trie_(trie), weights_(weights) {}

  // Each character of the word, which is well-formed UTF-8, is a piece.  With `parts_only` the
  // piece that is the whole word is left out.
  void read(std::string_view word, bool parts_only = false);

  // Weights are probabilities: calls found(id, p) for each piece at each place where it can be,
  // with the probability that it is there, by the forward-backward algorithm.
  template <class Found>
  void for_each_expected(const Found& found) {
    sum_ways();
    const Scaled all = after_[0];
    for (const Edge& edge : edges_) {
      const Scaled before = before_[edge.begin], after = after_[edge.end];
      const double p = before.value * edge.weight * after.value / all.value;
      found(edge.id, scaled_down(p, before.steps + after.steps - all.steps));
    }
  }

  // Weights are logarithms of probabilities: the ids of the most probable way, from its last piece
  // to its first; of equal ones that of the longest pieces at the end.
  const std::vector<std::int32_t>& best();

 private:
  struct Edge {
    std::uint32_t begin, end;
    std::int32_t id;
    double weight;
  };
  // The number value * 2^(-256 steps): a word of a thousand characters has ways of far smaller
  // probabilities than a double can be.
  struct Scaled {
    double value = 0;
    int steps = 0;
    void add(double more, int more_steps);
    void normalize();  // unless it is 0, `value` is in [2^-256, 2^256)
  };
  static double scaled_down(double value, int steps);

  void add_edges(std::string_view word, std::size_t begin, bool parts_only);
  void sum_ways();

  const ByteTrie& trie_;
  std::span<const double> weights_;
  std::size_t size_ = 0;                // of the word, in bytes
  std::vector<Edge> edges_;             // by where they begin
  std::vector<Scaled> before_, after_;  // the sum of the ways to a byte, and from it to the end
  std::vector<double> largest_;         // of the ways to a byte, as logarithm
  std::vector<const Edge*> last_;
  std::vector<std::int32_t> ids_;
};

}  // namespace mt
