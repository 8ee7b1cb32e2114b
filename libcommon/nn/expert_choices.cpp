#include "nn/expert_choices.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/step_record.h"
#include "nn/context_parallel.h"
#include "tensor/dtype.h"

namespace mt {

// body(row of this rank's, text, its token) of each.
template <class Body>
static void for_rows(const Step& s, const Body& body) {
  const std::int64_t length = whole_length(s), rows = s.rows(), first = s.first_row(),
                     text = s.record->first_sample * s.tokens.of_sample;
  const auto add = [&](const TokenRun& run) {
    for (std::int64_t row = run.begin; row < run.end; ++row) {
      const std::int64_t at = run.first + row - run.begin;
      body(row, text + at / length, at % length);
    }
  };
  if (s.context == nullptr) return add({0, rows, first});
  for (const TokenRun& run : token_runs(s, first, first + rows)) add(run);
}

void ExpertChoices::keep(const Step& s, std::int64_t layer, ConstTensor expert) {
  if (!keeps_) return;
  const std::int64_t chosen = expert.shape()[1], length = whole_length(s);
  const auto* const from = expert.as<std::int32_t>();
  const std::lock_guard lock(mutex_);
  for_rows(s, [&](std::int64_t row, std::int64_t text, std::int64_t token) {
    Experts& of_text = kept_[{text, layer}];
    of_text.resize(static_cast<std::size_t>(length * chosen));
    std::copy_n(from + row * chosen, chosen, of_text.begin() + token * chosen);
  });
}

void ExpertChoices::put_keys(const Step& s, std::int64_t layer, Tensor keys,
                             std::int64_t chosen) const {
  const std::int64_t experts = keys.shape()[1], length = whole_length(s);
  with_float_type(keys.dtype(), [&]<class T>() {
    T* const to = keys.as<T>();
    std::fill_n(to, keys.numel(), T(0));
    for_rows(s, [&](std::int64_t row, std::int64_t text, std::int64_t token) {
      const auto found = imposed_.find({text, layer});
      if (found == imposed_.end())
        fail(Exit::bad_data, from_, ": has no experts of text ", text, " in layer ", layer);
      const Experts& of_text = found->second;
      if (std::ssize(of_text) != length * chosen)
        fail(Exit::bad_data, from_, ": text ", text, ", layer ", layer, ": has ", of_text.size(),
             " experts, expected ", chosen, " of each of ", length, " tokens");
      for (std::int64_t j = 0; j < chosen; ++j)
        to[row * experts + of_text[static_cast<std::size_t>(token * chosen + j)]] = 1;
    });
  });
}

ExpertChoices::All ExpertChoices::take_before(std::int64_t text) {
  const std::lock_guard lock(mutex_);
  All taken;
  const auto end = kept_.lower_bound({text, 0});
  while (kept_.begin() != end) taken.insert(kept_.extract(kept_.begin()));
  return taken;
}

}  // namespace mt
