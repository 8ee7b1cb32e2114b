#include "nn/expert_choices.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "nn/context_parallel.h"
#include "ops/ops.h"

namespace mt {

// body(row of this rank's, text, its token) of each.
template <class Body>
static void for_rows(const Step& s, const Body& body) {
  const std::int64_t length = whole_length(s), rows = s.rows(), first = s.first_row(),
                     text = s.first_sample * s.tokens.of_sample;
  const auto add = [&](const TokenRun& run) {
    for (std::int64_t row = run.begin; row < run.end; ++row) {
      const std::int64_t at = run.first + row - run.begin;
      body(row, text + at / length, at % length);
    }
  };
  if (s.context == nullptr) return add({0, rows, first});
  for (const TokenRun& run : token_runs(s, first, first + rows)) add(run);
}

// Moves experts between the device and the host, which waits.
static void move(Step& s, Tensor to, ConstTensor from) {
  transfer(to, from, s.stream);
  s.stream.synchronize();
  s.stream.note_host_read();
}

std::size_t ExpertChoices::imposed_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [place, experts] : imposed_)
    bytes += sizeof(place) + experts.size() * sizeof(Experts::value_type);
  return bytes;
}

void ExpertChoices::keep(Step& s, std::int64_t layer, ConstTensor expert) {
  if (!keeps_) return;
  const std::int64_t chosen = expert.shape()[1], length = whole_length(s);
  Experts here(static_cast<std::size_t>(expert.numel()));
  move(s, {here.data(), DType::i32, expert.shape()}, expert);
  const std::lock_guard lock(mutex_);
  for_rows(s, [&](std::int64_t row, std::int64_t text, std::int64_t token) {
    Experts& of_text = kept_[{text, layer}];
    of_text.resize(static_cast<std::size_t>(length * chosen));
    std::copy_n(here.begin() + row * chosen, chosen, of_text.begin() + token * chosen);
  });
}

void ExpertChoices::put(Step& s, std::int64_t layer, Tensor expert) const {
  const std::int64_t chosen = expert.shape()[1], length = whole_length(s);
  Experts here(static_cast<std::size_t>(expert.numel()));
  for_rows(s, [&](std::int64_t row, std::int64_t text, std::int64_t token) {
    const auto found = imposed_.find({text, layer});
    if (found == imposed_.end())
      fail(Exit::bad_data, from_, ": has no experts of text ", text, " in layer ", layer);
    const Experts& of_text = found->second;
    if (std::ssize(of_text) != length * chosen)
      fail(Exit::bad_data, from_, ": text ", text, ", layer ", layer, ": has ", of_text.size(),
           " experts, expected ", chosen, " of each of ", length, " tokens");
    std::copy_n(of_text.begin() + token * chosen, chosen, here.begin() + row * chosen);
  });
  move(s, expert, {here.data(), DType::i32, expert.shape()});
}

ExpertChoices::All ExpertChoices::take_before(std::int64_t text) {
  const std::lock_guard lock(mutex_);
  All taken;
  const auto end = kept_.lower_bound({text, 0});
  while (kept_.begin() != end) taken.insert(kept_.extract(kept_.begin()));
  return taken;
}

}  // namespace mt
