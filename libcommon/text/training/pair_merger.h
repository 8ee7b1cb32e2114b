// PairMerger: the merges that byte-pair encoding learns (Sennrich et al. 2016, algorithm 1), for
// BPE (text/training/bpe_trainer.h) and WordPiece (text/training/word_piece_trainer.h).
//
// The texts are given as pieces, each a list of tokens, that are never joined.  Again and again the
// pair of adjacent tokens that occurs most often, overlapping occurrences counted, is replaced from
// left to right by a new token. Of pairs that occur equally often the one whose left token has the
// lowest id is taken, then the one whose right token has.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "text/bpe/pair_map.h"

namespace mt {

class PairMerger {
 public:
  using Token = std::int32_t;

  explicit PairMerger(std::size_t tokens);  // that the pieces have: 0 to tokens - 1
  // Adds a piece of at most 2^32 - 1 tokens, which comes `count` times.  All pieces are added
  // before the first merge.
  void add(std::span<const Token> piece, std::int64_t count);

  // Goes on until there are so many merges; false: there is no pair left.  `checkpoint` runs before
  // each; what it throws ends it.
  bool merge(std::size_t merges, const std::function<void()>& checkpoint);

  // The two tokens that make up each new one, whose ids follow those of the first.
  const std::vector<std::pair<Token, Token>>& merges() const { return merges_; }

 private:
  struct Place {  // of a token
    std::uint32_t piece, offset;
  };
  struct Pair {
    Token left, right;
    std::int64_t count;         // how often it occurs in the texts
    std::vector<Place> places;  // of the left token, in order; some may be out of date
  };
  struct Candidate {  // of a pair; its count may since have become smaller
    std::int64_t count;
    Token left, right;
    std::uint32_t pair;
    bool operator<(const Candidate& other) const {  // is merged later
      return std::tie(count, other.left, other.right) < std::tie(other.count, left, right);
    }
  };

  bool merge_next();
  void add_occurrence(Token left, Token right, Place place, std::int64_t count);
  void merge_at(Place place, const Pair& pair, Token merged);

  // slots_ holds a slot for each token given of each piece and kNoToken before and after each
  // piece. The first slot of a token holds the token, the last one ~token (if it is not the first),
  // others kNoToken.
  std::vector<Token> slots_;
  std::vector<std::size_t> starts_;     // of each piece in slots_
  std::vector<std::int64_t> counts_;    // of each piece
  std::vector<std::uint32_t> lengths_;  // of each token, in slots
  PairMap pair_numbers_;
  std::vector<Pair> pairs_;
  std::uint32_t queued_ = 0;  // so many of them have been in queue_
  std::priority_queue<Candidate> queue_;
  std::vector<std::pair<Token, Token>> merges_;
};

}  // namespace mt
