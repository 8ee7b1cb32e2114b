// Generator: continues several completions at a time, token by token.  What each becomes does not
// depend on the others (infer/runner.h).
#pragma once

#include <vector>

#include "infer/completion.h"
#include "infer/runner.h"

namespace mt {

class Generator {
 public:
  explicit Generator(Runner& runner) : runner_(runner), places_(runner.sequences()) {}

  bool full() const;
  // Until it is finished; not full().  Its prompt has at least one token and at most
  // runner.max_tokens().  Owned by the caller.
  void add(Completion& completion);
  // One token more for each.  Once the model's positions are used up, the later half of what a
  // completion has seen is its new prompt.
  void step();

 private:
  struct Place {                       // for one sequence of the runner
    Completion* completion = nullptr;  // null: free
    bool started = false;              // the runner has seen all but the last token
  };
  void begin(std::int64_t sequence);
  void go_on(std::span<const std::int64_t> sequences);
  void choose(Completion& completion, ConstTensor logits);

  Runner& runner_;
  std::vector<Place> places_;
  std::vector<double> logits_;
};

}  // namespace mt
