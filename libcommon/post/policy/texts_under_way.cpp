#include "post/policy/texts_under_way.h"

#include <utility>

#include "infer/engine.h"

namespace mt {

TextsUnderWay::TextsUnderWay(const Model& model, CompletionModel about,
                             std::span<const AskedText> asked, DrawOptions options)
    : about_(std::move(about)), options_(std::move(options)) {
  if (asked.empty()) return;
  std::int64_t prompts = 0;  // their tokens
  for (const AskedText& one : asked) prompts += std::ssize(one.prompt->ids);
  // A step gives each text a token, as none waits for another and the first step reads all prompts.
  engine_ =
      std::make_unique<Engine>(model, EngineOptions{.vocab_size = about_.vocab_size,
                                                    .limits = {.max_requests = std::ssize(asked),
                                                               .threads = options_.threads,
                                                               .prefill_tokens = prompts},
                                                    .ranks = options_.ranks});
  for (const AskedText& one : asked) {
    Example& text = texts_.emplace_back().rollout.text;
    text.ids = one.prompt->ids;
    text.learnt.assign(text.ids.size(), false);
    engine_->submit(completions_.emplace_back(about_, text.ids, completion_of(text, options_),
                                              static_cast<std::uint32_t>(one.group),
                                              static_cast<std::uint32_t>(one.member)));
  }
}

TextsUnderWay::~TextsUnderWay() = default;

bool TextsUnderWay::go_on(std::int64_t tokens, std::int64_t version) {
  bool ends = false;
  for (std::int64_t i = 0; engine_ && !ends && (tokens == kAll || i < tokens) && engine_->step();
       ++i)
    ends = ends_.behind_step();
  if (engine_) engine_->settle();
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const Completion& one = completions_[i];
    const std::size_t drawn = one.ids().size() + (one.end_token() ? 1 : 0);
    texts_[i].rollout.versions.resize(drawn - texts_[i].rollout.text.ids.size(), version);
  }
  return !ends;
}

std::vector<DrawnText> TextsUnderWay::take() {
  for (std::size_t i = 0; i < texts_.size(); ++i) take_completion(texts_[i], completions_[i]);
  engine_.reset();
  return std::move(texts_);
}

}  // namespace mt
