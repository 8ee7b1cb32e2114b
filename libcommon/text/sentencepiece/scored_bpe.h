// ScoredBpe: byte-pair encoding as SentencePiece does it.  The text starts as characters; while two
// neighbours put together are a piece, the pair of the highest score is joined, of equal ones the
// leftmost.  Linear in the length for most models: see text/sentencepiece/scored_bpe_stack.h.  For
// others n log n steps for n characters, n of what stands between two that no piece has side by
// side: nothing is joined across these.  Constant once made; encode() is thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/sentencepiece/byte_trie.h"
#include "text/sentencepiece/scored_bpe_stack.h"
#include "text/sentencepiece/unigram.h"

namespace mt {

class ScoredBpe {
 public:
  struct Piece {
    std::string text;  // empty: an id that no text gets
    float score = 0;
    bool whole = false;   // found before all else, longest first, and never joined to anything
    bool unused = false;  // joined, but in the result taken apart again as it was put together
  };
  class Scratch;

  explicit ScoredBpe(const std::vector<Piece>& pieces);

  // Cuts `text`, well-formed UTF-8, and overwrites `segments`.  Throws for 4 GiB or more.
  void encode(std::string_view text, std::vector<TextSegment>& segments, Scratch& scratch) const;

  // How a piece is taken apart may depend on pairs anywhere else in the text.
  bool has_unused() const { return has_unused_; }
  bool is_linear() const { return stack() != nullptr; }

 private:
  class Run;

  // Made when the first long run asks for it.
  struct Stack {
    std::once_flag made;
    std::optional<ScoredBpeStack> stack;  // none where it would find something else
  };

  void add_neighbours(std::string_view piece);
  std::size_t whole_length(std::string_view text, std::size_t at) const;
  bool has_side_by_side(std::uint32_t left, std::uint32_t right) const;
  std::size_t run_end(std::string_view text, std::size_t at, bool between_pieces) const;
  const ScoredBpeStack* stack() const;
  std::optional<ScoredBpeStack> make_stack() const;

  std::vector<std::string> texts_;  // by id
  ByteTrie trie_, whole_;
  std::vector<std::uint64_t> neighbours_;  // bits by the hash of two characters that a piece has
  std::vector<std::uint32_t> ranks_;       // by id: the higher the score, the lower
  std::vector<bool> unused_;
  bool has_whole_ = false, has_unused_ = false;
  std::unique_ptr<Stack> stack_ = std::make_unique<Stack>();
};

// What one thread needs to encode; reused, it allocates nothing more.
class ScoredBpe::Scratch {
  friend class ScoredBpe;
  struct Symbol {
    std::uint32_t begin, end;      // its bytes
    std::uint32_t previous, next;  // the neighbours
    ByteTrie::Node node;           // where its bytes lead to in the trie
    std::uint32_t pair_rank;       // of it and the next together
    ByteTrie::Node pair_node;
    bool whole;
  };
  std::vector<Symbol> symbols;  // of what is joined at a time
  std::vector<std::uint64_t> pairs;
  // How each unused piece of the text was last seen to be put together: bytes of the left part.
  std::unordered_map<std::string_view, std::uint32_t> seams;
};

}  // namespace mt
