// Engine: continues many texts at a time, token by token.  It admits what is submitted while its
// cache has pages for the prompt; the others wait, in their order.  Prompts are read in pieces,
// between which all that are being continued get their tokens, short pieces in one pass with these,
// and begin with what others that begin alike have left in the cache; the pieces that several which
// are read begin with are read once.  Where pages run out the text that was submitted last gives
// its own up, and waits to be seen again.  What a text becomes depends on none of this: the same
// tokens are always taken in the same pieces (infer/cached_pass.h).  Nor does it depend on what is
// guessed of it (infer/drafts.h): the model sees a guess in the same step as the token in front of
// it, and of what it chooses then all counts up to the first token that was not guessed.  How
// likely its tokens were, where it is scored (infer/completion.h), is of the same logits, but a GPU
// or, where one of a step wants logits on the host or has guesses, the host says it: these numbers
// may differ in their last bits.  Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/cache_options.h"
#include "infer/cached_pass.h"
#include "infer/completion.h"
#include "infer/drafts.h"

namespace mt {

// How much is done at a time, which changes no result.
struct EngineLimits {
  std::int64_t max_requests = 8;    // continued at a time
  int threads = 0;                  // of the CPU; 0: one a core
  std::int64_t cache_tokens = 0;    // of all texts together; 0: as many as they come to
  std::int64_t prefill_tokens = 0;  // of prompts, that a step reads at least; 0: what suits
  std::int64_t draft_tokens = 0;    // of each text, that a step tries to add to its next
  // The model's layers that predict further tokens, which guess; 0: they do not.
  std::int64_t further_layers = 0;
  // What keys and values are kept as, which alone changes results: as asked for, and, of the model
  // that was loaded, the form itself.
  CacheOptions kept = {};
  CacheForm cache = {};

  void add_to(CommandLine& cl);
  // Exit::usage where nothing is to be guessed by what guesses, or two are to guess, or layers that
  // predict further tokens beside adapters that are not merged.
  void check_draft(const std::string& draft_load, bool has_adapters) const;
};

struct EngineOptions {
  std::int64_t vocab_size = 0;  // the tokenizer's
  EngineLimits limits = {};
  const Model* draft = nullptr;  // guesses draft_tokens; null: further_layers do, or n-grams
  std::int64_t page_tokens = 0;  // of the cache, and of a piece; 0: as suits the device
  // Each of which submits the same and makes the same steps; no model guesses for them.
  PassRanks ranks = {};
  // Is told of a completion for which no token can be chosen, and that it gets no more; without it
  // step() throws what is wrong.
  std::function<void(std::uint64_t ticket, const std::string& why)> failed = {};
};

class Engine {
 public:
  using Ticket = std::uint64_t;

  // Exit::bad_config for drafts of a model whose layers pass states on, which nothing takes back.
  Engine(const Model& model, const EngineOptions& options);

  // How many tokens a prompt and what follows it may have before its beginning is forgotten.
  std::int64_t max_tokens() const { return pass_.max_tokens(); }
  // Whether what is submitted now has to wait for others to end.
  bool full() const;

  // Steps then give the completion its tokens, until it is finished.  Its prompt has at least one
  // token and at most max_tokens().  The caller keeps it in its place until then or until cancel().
  Ticket submit(Completion& completion);
  // Whether it has got no place yet.
  bool waits(Ticket ticket) const;
  // The completion gets no more tokens, and its pages are others' at once; nothing happens if it is
  // finished.
  void cancel(Ticket ticket);
  // Reads pieces of the prompts of admitted completions, and gives each of the others a token more;
  // false if none is submitted.  Once the positions are used up, the later half of what a
  // completion has seen is its new prompt; one whose prompt an encoder reads asks for no more
  // tokens than the decoder has positions.
  bool step();
  // Waits until nothing reads the model's values, which may change then: what is drawn from there
  // on is drawn by the new ones, and texts keep what they have of keys and values, which none that
  // begins from there on shares.
  void settle() { pass_.settle(); }

  struct Counts {
    std::int64_t pages = 0, held_pages = 0;
    std::int64_t read = 0, shared = 0;  // tokens of prompts: computed, and found in the cache
    std::int64_t preempted = 0;
    std::int64_t guessed = 0, accepted = 0;  // tokens, and of them those that the model chose
  };
  Counts counts() const;

 private:
  struct Active {
    Ticket ticket = 0;
    Completion* completion = nullptr;  // null: the sequence is free
    // What it sees of the completion's tokens begins there, and of that so many are read as a
    // prompt; those behind are taken one by one, as they were made.
    std::int64_t first = 0, prompt = 0;
    bool failed = false, begun = false;
    std::optional<std::size_t> run = {};  // that its last turn was in (infer/step_runs.h)
  };
  Active& at(std::int64_t sequence) { return active_[static_cast<std::size_t>(sequence)]; }
  const Active& at(std::int64_t sequence) const {
    return active_[static_cast<std::size_t>(sequence)];
  }
  static std::span<const std::int32_t> unseen(const Active& active, std::int64_t seen);
  bool reads_prompt(std::int64_t sequence);
  void slide(std::int64_t sequence);
  void admit();
  bool begin(std::int64_t sequence);
  bool make_room(std::int64_t sequence, std::int64_t tokens);
  void preempt(std::int64_t sequence);
  std::vector<std::int64_t> read_prompts(std::span<const std::int64_t> sequences);
  bool is_short(std::int64_t sequence, std::int64_t tokens);
  ConstTensor read_piece(std::int64_t sequence, std::int64_t tokens);
  std::int64_t next_piece(std::int64_t sequence) const;
  bool reads_the_same(std::int64_t sequence, std::int64_t other) const;
  // A sequence's next tokens: so many of its text, and guesses behind the last.
  struct Turn {
    std::int64_t sequence;
    std::vector<std::int32_t> ids;
    std::size_t known;
    bool is_last;  // no other token of the text follows those that are known
  };
  std::vector<Turn> turns_of(std::span<const std::int64_t> sequences);
  std::vector<std::vector<Turn>> runs_of(std::vector<Turn> turns);
  void go_on(std::span<const Turn> turns, std::size_t run);
  void take(const Turn& turn, ConstTensor logits);
  void choose(std::span<const std::int64_t> sequences, ConstTensor logits);
  void end(std::int64_t sequence);
  void finish(std::int64_t sequence);

  EngineOptions options_;
  CachedPass pass_;
  std::unique_ptr<Drafts> drafts_;  // null: nothing is guessed
  std::vector<Active> active_;      // by the sequence of each
  std::deque<Active> waiting_;      // by their tickets
  Ticket submitted_ = 0;
  Counts counts_;
  std::vector<double> logits_;
};

}  // namespace mt
