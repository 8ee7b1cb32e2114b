// Unigram: of all ways to cut a text into pieces the one of the highest sum of scores (Kudo:
// arXiv:1804.10959), by Viterbi's algorithm over the text's bytes; linear in its length.
//   best[0] = score of what came before,  best[j] = max over pieces text[i, j) of best[i] + score
// Where sums are equal, the one of the longest last piece wins, as it is met first.  A character
// that is no piece by itself may also be cut off as unknown.  Sums are of type Real, rounded after
// each piece: SentencePiece computes in float, Hugging Face's Unigram in double, and both decide
// ties so. Constant once made; encode() is thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "text/sentencepiece/byte_trie.h"

namespace mt {

// A piece of the text: its id, or kUnknownPiece, and where it ends.
struct TextSegment {
  std::int32_t id;
  std::uint32_t end;
  bool operator==(const TextSegment&) const = default;
};
inline constexpr std::int32_t kUnknownPiece = -1;

// Exit::bad_data for a text with places that do not fit in 32 bits, of which the last is none.
void check_segment_ends(std::string_view text);

template <class Real>
class Unigram {
 public:
  struct Piece {
    std::string text;  // empty: an id that no text gets
    Real score = 0;
  };
  struct Options {
    Real unknown_score = 0;
    // A sum beyond this is subtracted from all sums that are still needed before going on:
    // SentencePiece does so (0.2.2 and later), at 1e5.
    Real rebase_beyond = std::numeric_limits<Real>::infinity();
  };
  // What one thread needs to encode; reused, it allocates nothing more.
  class Scratch {
    friend class Unigram;
    struct Node {  // the best path to this byte
      Real sum, second;
      std::int32_t id;       // of its last piece
      std::uint32_t length;  // of that, in bytes; 0: no path leads here
    };
    std::vector<Node> nodes;  // of the bytes from the last one on that all paths go through
  };
  // How far the result is from being another one, if the sum before the text were another one.
  struct Margin {
    Real to_second = std::numeric_limits<Real>::infinity();  // least, along the best path
    Real largest = 0;                                        // absolute value among all sums
  };

  Unigram(const std::vector<Piece>& pieces, const Options& options);

  // Cuts `text`, well-formed UTF-8, and overwrites `segments`.  `sum` goes from that before the
  // text to that after it.  Throws for 4 GiB or more.  Of a long text, `settled` is called whenever
  // some more segments are known; it may take them away.
  void encode(std::string_view text, Real& sum, std::vector<TextSegment>& segments,
              Scratch& scratch, Margin* margin = nullptr,
              const std::function<void()>& settled = nullptr) const;

  // The sum after one more segment.
  Real add(Real sum, std::int32_t id) const {
    return sum + (id == kUnknownPiece ? options_.unknown_score : scores_[id]);
  }

 private:
  template <bool kWithMargin>
  class Run;

  ByteTrie trie_;
  std::vector<Real> scores_;  // by id
  std::size_t longest_ = 0;   // piece, in bytes
  Options options_;
};

}  // namespace mt
