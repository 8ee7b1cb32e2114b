#include "infer/generator.h"

#include <algorithm>
#include <cassert>

namespace mt {

bool Generator::full() const {
  return std::ranges::all_of(places_, [](const Place& p) { return p.completion != nullptr; });
}

void Generator::add(Completion& completion) {
  assert(!completion.ids().empty() &&
         static_cast<std::int64_t>(completion.ids().size()) <= runner_.max_tokens());
  if (completion.finish() != Completion::Finish::none) return;
  std::ranges::find(places_, nullptr, &Place::completion)->completion = &completion;
}

void Generator::choose(Completion& completion, ConstTensor logits) {
  logits_.resize(static_cast<std::size_t>(logits.numel()));
  with_float_type(logits.dtype(),
                  [&]<class T>() { std::ranges::copy(logits.span<T>(), logits_.begin()); });
  completion.choose(logits_);
}

void Generator::begin(std::int64_t sequence) {
  Completion& completion = *places_[static_cast<std::size_t>(sequence)].completion;
  const std::span<const std::int32_t> ids = completion.ids();
  const auto room = static_cast<std::size_t>(runner_.max_tokens());
  runner_.start(sequence);
  choose(completion,
         runner_.next_logits(
             sequence, ids.size() <= room ? ids : ids.last(std::max<std::size_t>(1, room / 2))));
}

void Generator::go_on(std::span<const std::int64_t> sequences) {
  std::vector<std::int32_t> ids;
  std::vector<Choice> choices;
  bool log_probs = false;
  for (const std::int64_t i : sequences) {
    const Completion& completion = *places_[static_cast<std::size_t>(i)].completion;
    ids.push_back(completion.ids().back());
    choices.push_back(completion.choice());
    log_probs |= completion.wants_log_probs();
  }
  const auto completion = [&](std::size_t i) -> Completion& {
    return *places_[static_cast<std::size_t>(sequences[i])].completion;
  };
  if (!log_probs) {
    const std::span<const std::int32_t> tokens = runner_.next_tokens(sequences, ids, choices);
    for (std::size_t i = 0; i < sequences.size(); ++i) completion(i).take_token(tokens[i]);
    return;
  }
  const ConstTensor logits = runner_.next_logits(sequences, ids);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    choose(completion(i), logits.rows(row, row + 1));
  }
}

void Generator::step() {
  std::vector<std::int64_t> going_on;
  for (std::int64_t i = 0; i < runner_.sequences(); ++i) {
    Place& place = places_[static_cast<std::size_t>(i)];
    if (place.completion == nullptr) continue;
    if (place.started && runner_.length(i) < runner_.max_tokens())
      going_on.push_back(i);
    else
      begin(i);
    place.started = true;
  }
  for (std::span<const std::int64_t> left(going_on); !left.empty();) {
    const std::size_t count = std::min(left.size(), static_cast<std::size_t>(Runner::kTogether));
    go_on(left.first(count));
    left = left.subspan(count);
  }
  for (Place& place : places_)
    if (place.completion && place.completion->finish() != Completion::Finish::none) place = {};
}

}  // namespace mt
