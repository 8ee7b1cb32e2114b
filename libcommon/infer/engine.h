// Engine: continues many texts at a time, token by token.  It admits what is submitted while it has
// a page of its cache for it; the others wait, in their order.  What a text becomes does not depend
// on the others (infer/cached_pass.h).  Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "infer/cached_pass.h"
#include "infer/completion.h"

namespace mt {

struct EngineOptions {
  std::int64_t vocab_size = 0;    // the tokenizer's
  std::int64_t max_requests = 1;  // continued at a time
  int threads = 0;                // of the CPU; 0: one a core
  // Tokens that a page is made for beyond a prompt, where more may come: pages grow.
  std::int64_t most_ahead = std::numeric_limits<std::int64_t>::max();
  // Is told of a completion for which no token can be chosen, and that it gets no more; without it
  // step() throws what is wrong.
  std::function<void(std::uint64_t ticket, const std::string& why)> failed = {};
};

class Engine {
 public:
  using Ticket = std::uint64_t;

  Engine(const Model& model, const EngineOptions& options);

  std::int64_t max_tokens() const { return pass_.max_tokens(); }  // of a prompt
  // Whether what is submitted now has to wait for others to end.
  bool full() const;

  // Each step then gives the completion a token, until it is finished.  Its prompt has at least one
  // token and at most max_tokens().  The caller keeps it in its place until then or until cancel().
  Ticket submit(Completion& completion);
  // The completion gets no more tokens; nothing happens if it is finished.
  void cancel(Ticket ticket);
  // Gives each admitted completion one token more; false if there is none.  Once the model's
  // positions are used up, the later half of what a completion has seen is its new prompt; one
  // whose prompt an encoder reads asks for no more tokens than the decoder has positions.
  bool step();

 private:
  struct Active {
    Ticket ticket = 0;
    Completion* completion = nullptr;  // null: its page is free
    bool started = false;              // all but the last token are cached
    bool failed = false;
  };
  void admit();
  void begin(std::int64_t page);
  void go_on(std::span<const std::int64_t> pages);
  void choose(std::int64_t page, ConstTensor logits);
  void end(std::size_t page);

  EngineOptions options_;
  CachedPass pass_;
  std::vector<Active> active_;  // by the page of each
  std::deque<Active> waiting_;
  Ticket submitted_ = 0;
  std::vector<double> logits_;
};

}  // namespace mt
