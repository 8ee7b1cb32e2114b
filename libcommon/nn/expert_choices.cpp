#include "nn/expert_choices.h"

#include <algorithm>
#include <array>
#include <span>
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

// 32-bit numbers that a round of a gathering brings, of all ranks together.
static constexpr std::int64_t kRound = std::int64_t{1} << 21;
static constexpr std::int64_t kHeader = 4;  // a text's upper and lower half, a layer, and a count

// Each place's header, and the experts.
static std::vector<std::int32_t> in_numbers(const ExpertChoices::All& choices) {
  const auto half = [](std::int64_t number) { return static_cast<std::int32_t>(number); };
  std::vector<std::int32_t> numbers;
  for (const auto& [place, experts] : choices) {
    numbers.insert(numbers.end(), {half(place.text >> 32), half(place.text), half(place.layer),
                                   half(std::ssize(experts))});
    numbers.insert(numbers.end(), experts.begin(), experts.end());
  }
  return numbers;
}

namespace {

// What a rank brings, in pieces, to those of the others, which have other tokens; behind all are
// numbers below 0.
class Brought {
 public:
  void take(ExpertChoices::All& all, std::span<const std::int32_t> numbers) {
    for (const std::int32_t number : numbers) {
      if (at_ < end_) {
        std::int32_t& expert = (*experts_)[at_++];
        expert = std::max(expert, number);
        continue;
      }
      if (known_ == 0 && number < 0) return;
      header_[known_++] = number;
      if (known_ == kHeader) begin(all);
    }
  }

 private:
  void begin(ExpertChoices::All& all) {
    const auto lower = static_cast<std::uint32_t>(header_[1]);
    experts_ = &all[{(std::int64_t{header_[0]} << 32) + lower, header_[2]}];
    end_ = static_cast<std::size_t>(header_[3]);
    experts_->resize(end_, -1);
    at_ = 0;
    known_ = 0;
  }

  std::array<std::int32_t, kHeader> header_ = {};
  std::size_t known_ = 0, at_ = 0, end_ = 0;
  ExpertChoices::Experts* experts_ = nullptr;
};

}  // namespace

// Up to which text, but not with it, this rank's take at most so many numbers, or are of one text.
std::int64_t ExpertChoices::end_of_part(std::int64_t text, std::int64_t most) {
  const std::lock_guard lock(mutex_);
  std::int64_t numbers = 0;
  for (const auto& [place, experts] : kept_) {
    numbers += kHeader + std::ssize(experts);
    if (place.text >= text) return text;
    if (numbers > most) return std::max(place.text, kept_.begin()->first.text + 1);
  }
  return text;
}

void ExpertChoices::gather_before(std::int64_t text, Group& ranks,
                                  const std::function<void(const All&)>& take) {
  const auto largest = [&](std::int64_t of) {
    auto number = static_cast<double>(of);
    ranks.all_reduce({&number, DType::f64, {1}}, Reduction::max).wait();
    return static_cast<std::int64_t>(number);
  };
  const std::int64_t most = std::max<std::int64_t>(1, kRound / ranks.size());
  for (std::int64_t end = 0; end < text;) {
    end = -largest(-end_of_part(text, most));
    std::vector<std::int32_t> own = in_numbers(take_before(end));
    const std::int64_t numbers = largest(std::ssize(own)), part = std::min(most, numbers);
    if (part == 0) continue;
    const std::int64_t rounds = (numbers + part - 1) / part;
    own.resize(static_cast<std::size_t>(rounds * part), -1);
    std::vector<std::int32_t> brought(static_cast<std::size_t>(part * ranks.size()));
    std::vector<Brought> of_ranks(static_cast<std::size_t>(ranks.size()));
    All all;
    for (std::int64_t round = 0; round < rounds; ++round) {
      ranks
          .all_gather({brought.data(), DType::i32, {part * ranks.size()}},
                      {own.data() + round * part, DType::i32, {part}})
          .wait();
      if (ranks.rank() > 0) continue;
      for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
        of_ranks[rank].take(all, std::span(brought).subspan(rank * static_cast<std::size_t>(part),
                                                            static_cast<std::size_t>(part)));
    }
    if (ranks.rank() == 0) take(all);
  }
}

}  // namespace mt
