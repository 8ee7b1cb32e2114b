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

void Model::initialize(std::uint64_t seed, Stream& stream) {
  for (Param& row : table_.rows()) {
    switch (row.init.kind) {
      case Initializer::Kind::zeros:
        set_zero(row.value, stream);
        break;
      case Initializer::Kind::ones:
        fill(row.value, 1, stream);
        break;
      case Initializer::Kind::normal:
        fill_normal(row.value, row.init.std, RandomKey::make(seed, purpose_of(row.name)),
                    row.runs(), stream);
        break;
      case Initializer::Kind::uniform:
        fill_uniform(row.value, row.init.std * std::numbers::sqrt3,
                     RandomKey::make(seed, purpose_of(row.name)), row.runs(), stream);
        break;
    }
  }
}

}  // namespace mt
