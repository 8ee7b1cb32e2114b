#include "nn/expert_choices.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/group.h"
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
    of_text.resize(static_cast<std::size_t>(length * chosen), -1);
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

// --- Of several processes -----------------------------------------------------------------------

// Numbers that a round of a gathering brings, of all ranks together.
static constexpr std::int64_t kRound = std::int64_t{1} << 21;

// A text, a layer, how many experts, and these.
static std::vector<std::int64_t> in_numbers(const ExpertChoices::All& choices) {
  std::vector<std::int64_t> numbers;
  for (const auto& [place, experts] : choices) {
    numbers.insert(numbers.end(), {place.text, place.layer, std::ssize(experts)});
    numbers.insert(numbers.end(), experts.begin(), experts.end());
  }
  return numbers;
}

// Adds those of another rank, which has other tokens; behind them are numbers below 0.
static void add_numbers(ExpertChoices::All& all, const std::vector<std::int64_t>& numbers) {
  for (auto at = numbers.begin(); at != numbers.end() && *at >= 0;) {
    const ExpertChoices::Place place{at[0], at[1]};
    const std::int64_t count = at[2];
    at += 3;
    ExpertChoices::Experts& experts = all[place];
    experts.resize(static_cast<std::size_t>(count), -1);
    for (std::int32_t& expert : experts)
      expert = std::max(expert, static_cast<std::int32_t>(*at++));
  }
}

ExpertChoices::All ExpertChoices::gather_before(std::int64_t text, Group& ranks) {
  std::vector<std::int64_t> own = in_numbers(take_before(text));
  auto most = static_cast<double>(own.size());
  ranks.all_reduce({&most, DType::f64, {1}}, Reduction::max).wait();
  const std::int64_t part = std::max<std::int64_t>(1, kRound / ranks.size()),
                     rounds = (static_cast<std::int64_t>(most) + part - 1) / part;
  own.resize(static_cast<std::size_t>(rounds * part), -1);
  std::vector<std::int64_t> brought(static_cast<std::size_t>(part * ranks.size()));
  std::vector<std::vector<std::int64_t>> of_ranks(static_cast<std::size_t>(ranks.size()));
  for (std::int64_t round = 0; round < rounds; ++round) {
    ranks
        .all_gather({brought.data(), DType::i64, {part * ranks.size()}},
                    {own.data() + round * part, DType::i64, {part}})
        .wait();
    if (ranks.rank() > 0) continue;
    for (auto [from, to] = std::pair(brought.begin(), of_ranks.begin()); to != of_ranks.end();
         from += part, ++to)
      to->insert(to->end(), from, from + part);
  }
  All all;
  for (const std::vector<std::int64_t>& numbers : of_ranks) add_numbers(all, numbers);
  return all;
}

}  // namespace mt
