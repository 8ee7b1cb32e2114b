#include "post/labels/epoch_order.h"

#include "base/error.h"
#include "base/json.h"
#include "data/samples/sampler.h"

namespace mt {

// Samples of each rank in an epoch.
static std::int64_t of_rank(const EpochOptions& o) { return (o.samples + o.ranks - 1) / o.ranks; }

std::int64_t EpochOptions::steps() const {
  const std::int64_t at_once = micro_batch_size * micro_batches, all = of_rank(*this);
  return keep_last ? (all + at_once - 1) / at_once : all / at_once;
}

std::int64_t EpochSamples::permuted(std::int64_t epoch, std::int64_t at) const {
  const std::lock_guard lock(mutex_);
  Epoch& kept = epochs_[static_cast<std::size_t>(epoch % 2)];
  if (kept.number != epoch) {
    const auto seed = options_.seed + static_cast<std::uint64_t>(options_.changes ? epoch : 0);
    kept.order = torch_permutation(options_.samples, seed);
    kept.number = epoch;
  }
  return kept.order[static_cast<std::size_t>(at % options_.samples)];
}

std::optional<std::int64_t> EpochSamples::sequence(std::int64_t n) const {
  const EpochOptions& o = options_;
  const std::int64_t number = n / o.choices, m = o.micro_batch_size,
                     of_step = m * o.ranks * o.micro_batches, of_epoch = o.steps() * of_step;
  const std::int64_t epoch = number / of_epoch, all = of_rank(o) * o.ranks;
  std::int64_t place = number % of_epoch;
  if (const std::int64_t begin = place / of_step * of_step; begin + of_step > all) {
    const std::int64_t in_step = place - begin, rank = in_step / m % o.ranks,
                       own = in_step / (m * o.ranks) * m + in_step % m;
    place = begin + own * o.ranks + rank;
    if (place >= all) return std::nullopt;
  }
  return permuted(epoch, place) * o.choices + n % o.choices;
}

void EpochSamples::get(std::int64_t n, const Fields& to) const {
  const auto k = sequence(n);
  samples_.get(k.value_or(n % options_.choices), to);
  if (!k) to.span<float>(Field::loss_mask)[0] = 0;
}

std::vector<std::string> EpochSamples::lines(std::int64_t n, const Tokenizer& tokenizer) const {
  const auto k = sequence(n);
  return k ? samples_.lines(*k, tokenizer) : std::vector<std::string>{"padding"};
}

void EpochSamples::write(std::int64_t n, const Tokenizer& tokenizer, JsonWriter& json) const {
  if (const auto k = sequence(n)) return samples_.write(*k, tokenizer, json);
  json.member("set", "");
}

}  // namespace mt
