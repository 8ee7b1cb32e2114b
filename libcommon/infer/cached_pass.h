// CachedPass: passes over sequences whose keys and values are kept, so that their tokens come in
// pieces, as many more of one sequence as there are or one more of each of several.  What they have
// seen lies in pages of a cache, of so many tokens each, which are made as they are asked for.
// Not thread-safe.
//
// Several tokens of a sequence are taken in pieces that end where a page does, so that what a
// prompt's tokens leave in a page depends on them and on those before them alone, to the bit: a
// sequence that begins with the same whole pages may begin with those that another has left.
//
// A sequence of a model with an encoder begins with a text that the encoder reads, once, and its
// tokens are the decoder's: the cache has what the decoder's layers see of that text, too.  Its
// pages are its own, and so are those of a model whose layers pass states on.
//
// Everything that a step needs from the host goes to a GPU in one copy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "infer/page_pool.h"
#include "kernels/gemm.h"
#include "model/pass.h"
#include "nn/kv_cache.h"

namespace mt {

class TokenSteps;

class CachedPass {
 public:
  // Sequences that run together at most; in such company each gets the bits that it gets alone.
  static constexpr std::int64_t kTogether = 256;

  struct Options {
    std::int64_t vocab_size = 0;    // the tokenizer's: logits are of these tokens
    std::int64_t sequences = 1;     // at most
    std::int64_t rows = 0;          // tokens of a step at most, where keeps_tokens_apart();
                                    // else, and if 0, one of each sequence
    std::int64_t asked = 0;         // of them those whose logits are asked for at most; 0: all
    int threads = 0;                // of the CPU; 0: one a core
    std::int64_t cache_tokens = 0;  // of all sequences; 0: as many as they come to
    std::int64_t page_tokens = 0;   // a power of two; 0: as suits the device
    std::int64_t guesses = 0;       // guess() may be called for so many tokens
    CacheForm form = {};            // Exit::bad_config for codes where none are kept
    PassRanks ranks = {};           // each of which calls the same, with the same arguments
  };
  CachedPass(const Model& model, const Options& options);
  ~CachedPass();

  std::int64_t max_tokens()
      const;                      // of a sequence: the model's positions, where the cache has them
  std::int64_t max_read() const;  // of a text: the model's positions
  std::int64_t sequences() const { return std::ssize(sequences_); }
  std::int64_t page_tokens() const { return page_tokens_; }
  const PagePool& pages() const { return pool_; }
  bool has_encoder() const;
  // Whether none of the layers passes states on.  Then tokens can be taken back, and a sequence may
  // come several times in a pass.
  bool keeps_tokens_apart() const { return !has_states_; }
  // Whether a sequence has more than its pages, which then are no other's.
  bool has_slots() const { return has_states_ || has_encoder(); }

  // A sequence's tokens follow those that it has seen since it started; its pages are left.
  // adapter: of the model's, which it has from now on, counted from 1; 0: none.  alone: its pages
  // are no other's, as where they are not of its tokens alone.
  void start(std::int64_t sequence, std::int64_t adapter = 0, bool alone = false);
  // Images: rows of hidden states that stand in the places of some of a sequence's next tokens.
  struct Images {
    std::span<const std::int32_t> row_of = {};  // of each of these tokens; -1: its own
    ConstTensor hidden = {};                    // [rows, hidden_size] of the sum_dtype
  };
  // Starts it with the pages that others with this adapter have left of the same first tokens, but
  // not with all of them, and returns how many it has seen so.
  std::int64_t start(std::int64_t sequence, std::span<const std::int32_t> ids,
                     std::int64_t adapter = 0);
  // A sequence that has pages for as much has seen what another has, where nobody has slots: it
  // shares the pages that this fills, and has a copy of the one behind them.  Those that have seen
  // the same tokens in the same pieces have the same bits.
  void follow(std::int64_t sequence, std::int64_t other);
  // Whether nobody has slots, and these have the same adapter and have seen the same pages, whole.
  bool has_same_pages(std::int64_t sequence, std::int64_t other) const;
  std::int64_t length(std::int64_t sequence) const { return at(sequence).length; }
  // Of each token that the sequence has seen, in each of the model's layers, the experts that it
  // went to, ascending, or as many -1 where it has none; nothing where a generation does not keep
  // them (ModelConfig::keeps_choices).
  std::vector<std::int32_t> choices(std::int64_t sequence) const;
  // The sequence has not seen its last tokens, of those that came one by one since its last piece.
  void take_back(std::int64_t sequence, std::int64_t tokens);
  // Makes sure that the sequence has pages for so many more tokens, and room for so many that an
  // encoder reads; false where others have all pages that there may be.
  bool reserve(std::int64_t sequence, std::int64_t tokens, std::int64_t read = 0);

  // The logits of the token after `ids` of one sequence, [1, vocab_size], in host memory; valid
  // until the next call.  read: what the encoder of a model that has one reads; with the first of
  // the sequence's ids.  All of these fail with Exit::out_of_memory where reserve() says so.
  ConstTensor next_logits(std::int64_t sequence, std::span<const std::int32_t> ids,
                          std::span<const std::int32_t> read, const Images& images);
  ConstTensor next_logits(std::int64_t sequence, std::span<const std::int32_t> ids,
                          std::span<const std::int32_t> read = {}) {
    return next_logits(sequence, ids, read, {});
  }
  // Does what next_logits() does for a sequence whose next token is not asked for.
  void see(std::int64_t sequence, std::span<const std::int32_t> ids,
           std::span<const std::int32_t> read, const Images& images);
  void see(std::int64_t sequence, std::span<const std::int32_t> ids,
           std::span<const std::int32_t> read = {}) {
    see(sequence, ids, read, {});
  }
  // The logits after one more token of each of some sequences, at most kTogether: [sequences,
  // vocab_size].  Where keeps_tokens_apart(), a sequence may come several times, one behind the
  // other, with as many tokens: each gets the bits that it gets alone.
  ConstTensor next_logits(std::span<const std::int64_t> sequences,
                          std::span<const std::int32_t> ids);
  // Returns such logits of some of these tokens alone, [asked, vocab_size]: `asked` has their
  // numbers.
  ConstTensor next_logits(std::span<const std::int64_t> sequences,
                          std::span<const std::int32_t> ids, std::span<const std::int32_t> asked);
  // Instead of the logits the tokens that are chosen from them (kernels/sample.h), on the model's
  // device; valid until the next call.  A call that goes on with the tokens of the one before, and
  // with the choices that were told to come behind, finds its step running on a GPU.
  struct Ahead {
    std::span<const Choice> choices = {};  // empty: the same of the places behind
    // Where more sequences than run together take turns, which one this is: the call before is that
    // of this turn.  There may be more turns than kTogether sequences each make
    // (infer/step_runs.h): those take the places of the first again, in which nothing runs ahead
    // for them.
    std::size_t turn = 0;
  };
  std::span<const std::int32_t> next_tokens(std::span<const std::int64_t> sequences,
                                            std::span<const std::int32_t> ids,
                                            std::span<const Choice> choices, const Ahead& ahead);
  std::span<const std::int32_t> next_tokens(std::span<const std::int64_t> sequences,
                                            std::span<const std::int32_t> ids,
                                            std::span<const Choice> choices) {
    return next_tokens(sequences, ids, choices, {});
  }
  // On a GPU, how likely each token was that next_tokens() has chosen last in that turn, as
  // sample() says; only those of choices that are scored count.
  std::span<const double> scores(std::size_t turn) const;
  bool scores_tokens() const { return !steps_.empty(); }
  // Waits for all that is queued; of a step that runs ahead nothing counts, and who starts from
  // then on finds none of the pages that are there, as the model's values may change now.
  void settle();
  // Has the model's `further`-th layer that predicts further tokens, from 1, say the likeliest
  // token behind `ids`, of each sequence the token that stands `further` places behind the last
  // that the model has seen, which sees none of them so.  The layers before it have been asked with
  // the nearer tokens.  Each sequence has seen a token, and has pages for `further` more.
  std::vector<std::int32_t> guess(std::span<const std::int64_t> sequences,
                                  std::span<const std::int32_t> ids, std::int64_t further);

 private:
  struct Sequence {
    std::int64_t length = 0, read = 0;  // tokens that it has seen, and of the encoder's text
    std::int64_t adapter = 0;
    bool alone = false;
    std::vector<std::int32_t> pages;
  };
  // What there is room for: pages, tokens of the longest sequence, and sequences that have a slot,
  // for texts that the encoder has read, of so many tokens, or for states.
  struct Room {
    std::int64_t pages = 0, tokens = 0, slots = 0, read = 0;
    bool operator==(const Room&) const = default;
  };
  const Sequence& at(std::int64_t i) const { return sequences_[static_cast<std::size_t>(i)]; }
  Sequence& at(std::int64_t i) { return sequences_[static_cast<std::size_t>(i)]; }
  std::int64_t pages_of(std::int64_t tokens) const {
    return (tokens + page_tokens_ - 1) / page_tokens_;
  }
  DType dtype() const { return pass_.model().table().dtype(); }
  std::vector<CacheShape> cache_layers(std::int64_t pages) const;
  void check_form() const;
  void make(const Room& room);
  std::int64_t pages_in_memory();
  bool grow(Room room, std::int64_t needed);
  void copy_layer(const KvCache::Layer& to, const KvCache::Layer& from, std::int64_t slots);
  void reserve_pass();
  void make_room(std::span<const std::int64_t> sequences, std::int64_t tokens,
                 std::int64_t read = 0);
  void reserve_ahead(std::int64_t sequence);
  void forget_ahead(std::int64_t sequence);
  PassInput put(std::span<const std::int64_t> sequences, std::span<const std::int32_t> ids,
                std::span<const std::int32_t> asked, std::span<const std::int32_t> read,
                const Images& images);
  PassInput put(std::span<const std::int64_t> sequences, std::span<const std::int32_t> ids,
                std::span<const std::int32_t> asked) {
    return put(sequences, ids, asked, {}, {});
  }
  PassSize with_images(PassSize size, std::int64_t rows) const;
  CachedPast past(std::span<const std::int64_t> sequences, const PassSize& size) const;
  std::int64_t kind_of(std::int64_t adapter) const;
  void name_page(const Sequence& sequence, std::span<const std::int32_t> ids);
  std::span<const std::int32_t> see_pieces(std::int64_t sequence, std::span<const std::int32_t> ids,
                                           std::span<const std::int32_t>& read, Images& images,
                                           bool all);

  PassRanks ranks_;
  std::optional<Stream> own_stream_;
  Stream& stream_;
  Pass pass_;
  std::int64_t page_tokens_, most_pages_;
  std::int64_t guesses_;
  CacheForm form_;
  bool has_states_;            // which pass on from token to token
  std::int64_t rows_, asked_;  // of a step
  bool all_at_once_;           // the cache has all pages from the beginning
  Room room_;
  bool has_pass_ = false;  // the pass and the steps have this room; else make() gives it to them
  PagePool pool_;
  std::unique_ptr<KvCache> cache_;
  std::vector<Sequence> sequences_;
  std::int64_t settled_ = 0;                        // calls of settle()
  std::vector<std::unique_ptr<TokenSteps>> steps_;  // on a GPU: of each turn
};

}  // namespace mt
