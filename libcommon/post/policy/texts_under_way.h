// TextsUnderWay: texts that are drawn some tokens at a time, between which the model's values
// change: each token is drawn by the values of then, and what texts have of keys and values stays
// as it was made (in-flight updates: arXiv:2509.19128, 4).  How many tokens a text gets at a time
// depends on nothing but these times.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "post/policy/drawn_texts.h"

namespace mt {

class Engine;

class TextsUnderWay {
 public:
  // The texts have one turn each.  The model, and what the options name, must outlive this.
  TextsUnderWay(const Model& model, CompletionModel about, std::span<const AskedText> asked,
                DrawOptions options);
  ~TextsUnderWay();

  // Gives each text up to so many tokens, or all that it gets, drawn by weights that have learnt
  // `version` steps; false where it is to end.
  static constexpr std::int64_t kAll = -1;
  bool go_on(std::int64_t tokens, std::int64_t version);
  // In their order, once all have all; each says the versions of its tokens.
  std::vector<DrawnText> take();

 private:
  CompletionModel about_;
  DrawOptions options_;
  AgreedEnd ends_{options_};
  std::vector<DrawnText> texts_;
  std::deque<Completion> completions_;  // the engine points into it
  std::unique_ptr<Engine> engine_;
};

}  // namespace mt
