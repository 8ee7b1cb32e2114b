#include "model/model.h"

#include <numbers>

#include "ops/ops.h"

namespace mt {

// What a weight's random numbers are for: FNV-1a of its name.
static std::uint32_t purpose_of(const std::string& name) {
  std::uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

void initialize(const Param& row, Tensor value, std::uint64_t seed, Stream& stream) {
  initialize(row, row.runs(), value, seed, stream);
}

void initialize(const Param& row, std::span<const ElementRun> runs, Tensor value,
                std::uint64_t seed, Stream& stream) {
  switch (row.init.kind) {
    case Initializer::Kind::zeros:
      return set_zero(value, stream);
    case Initializer::Kind::ones:
      return fill(value, 1, stream);
    case Initializer::Kind::normal:
      return fill_normal(value, row.init.std, RandomKey::make(seed, purpose_of(row.name())), runs,
                         stream);
    case Initializer::Kind::uniform:
      return fill_uniform(value, row.init.std * std::numbers::sqrt3,
                          RandomKey::make(seed, purpose_of(row.name())), runs, stream);
  }
}

void Ends::take_scores(Tensor of_sequences, const Fields& batch, bool training,
                       Stream& stream) const {
  if (logits) copy(logits, of_sequences, stream);
  if (loss) criterion->judge(loss, of_sequences, batch, training ? weight : ConstTensor(), stream);
}

void Model::initialize(std::uint64_t seed, Stream& stream) {
  for (Param& row : table_.rows()) mt::initialize(row, row.value, seed, stream);
}

}  // namespace mt
