// ScoredBpe: byte-pair encoding as SentencePiece does it.  The text starts as characters; while two
// neighbours put together are a piece, the pair of the highest score is joined, of equal ones the
// leftmost.  n log n steps for n characters, n of what stands between two that no piece has side by
// side: nothing is joined across these.  Where n is large, linear for most models: see
// text/scored_bpe_stack.h.  Constant once made; encode() is thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/byte_trie.h"
#include "text/scored_bpe_stack.h"
#include "text/unigram.h"

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
  bool searches() const { return search() != nullptr; }  // are long runs cut in linear time?

 private:
  class Run;

  // Made when the first long run asks for it.
  struct Search {
    std::once_flag made;
    std::optional<ScoredBpeStack> found;  // none where it would find something else
  };

  void add_neighbours(std::string_view piece);
  std::size_t run_end(std::string_view text, std::size_t at) const;
  const ScoredBpeStack* search() const;
  std::optional<ScoredBpeStack> make_search() const;

  std::vector<std::string> texts_;  // by id
  ByteTrie trie_, whole_;
  std::vector<std::uint64_t> neighbours_;  // bits by the hash of two characters that a piece has
  std::vector<std::uint32_t> ranks_;       // by id: the higher the score, the lower
  std::vector<bool> unused_;
  bool has_unused_ = false;
  std::unique_ptr<Search> search_ = std::make_unique<Search>();
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
  std::unordered_map<std::string_view, std::size_t> seams;
};

}  // namespace mt
