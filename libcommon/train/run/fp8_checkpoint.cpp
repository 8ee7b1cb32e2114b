#include "train/run/fp8_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/log.h"
#include "ckpt/te_state.h"
#include "model/keys.h"
#include "train/run/broadcast_text.h"

namespace mt {

static constexpr auto kOperands = static_cast<std::size_t>(Fp8Layers::kOperands);

// The oldest of a history counts no more by the end of the next step, and has no place there.
static std::string state_of(const Fp8Rules& rules, const std::vector<float>& numbers) {
  const auto length = static_cast<std::ptrdiff_t>(numbers.size() / kOperands - 1);
  DelayedScales scales;
  for (std::size_t i = 0; i < kOperands; ++i) {
    const auto newest = numbers.begin() + kOperands + static_cast<std::ptrdiff_t>(i) * length;
    scales.scales[i] = numbers[i];
    scales.amaxes[i].assign(newest, newest + length - 1);
  }
  return encode_te_state({.hybrid = rules.hybrid,
                          .most_recent = rules.delayed->most_recent,
                          .margin = rules.delayed->margin},
                         scales);
}

// A stage's layers: of each its name, a line, and its numbers' bytes; all have as many.
static std::string packed(const std::vector<Fp8Layers::Memory>& memories) {
  std::string text;
  for (const Fp8Layers::Memory& memory : memories) {
    text += memory.name + "\n";
    text.append(reinterpret_cast<const char*>(memory.numbers.data()),
                memory.numbers.size() * sizeof(float));
  }
  return text;
}

std::map<std::string, std::string> fp8_states(const Fp8Layers& fp8, const ParamTable& whole,
                                              const World& world, Stream& stream) {
  std::map<std::string, std::string> keys;  // by weights' names
  for (const Param& row : whole.rows())
    if (row.place.param == "weight") keys[row.name()] = extra_state_key(row);
  const std::string own = packed(fp8.memories(stream));
  std::map<std::string, std::string> states;
  std::vector<float> numbers(fp8.remembered());
  const std::size_t bytes = numbers.size() * sizeof(float);
  Group& stages = world.pipeline();
  for (int stage = 0; stage < stages.size(); ++stage) {
    const std::string text = broadcast_text(stages, stage == stages.rank() ? own : "", stage);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      std::memcpy(numbers.data(), text.data() + end + 1, bytes);
      states[keys.at(text.substr(at, end - at))] = state_of(fp8.rules(), numbers);
      at = end + 1 + bytes;
    }
  }
  return states;
}

// The name of the first rank that has one, on every rank; empty: none has.
static std::string first_name(const std::string& own, Group& ranks) {
  auto first = static_cast<double>(own.empty() ? -ranks.size() : -ranks.rank());
  ranks.all_reduce({&first, DType::f64, {1}}, Reduction::max).wait();
  const int root = static_cast<int>(-first);
  return root == ranks.size() ? "" : broadcast_text(ranks, own, root);
}

void load_fp8(Fp8Layers& fp8, const ParamTable& table,
              const std::function<std::string(const Param&)>& stored, const std::string& where,
              const World& world, Stream& stream, const Log& log) {
  std::string anew, overflowed;
  for (Fp8Layers::Memory& memory : fp8.memories(stream)) {
    const Param& row = *std::ranges::find(table.rows(), memory.name, &Param::name);
    const std::string here = concat(where, ": ", memory.name, ": extra state");
    const std::optional<DelayedScales> scales = decode_te_state(stored(row), here);
    if (!scales) {
      anew = memory.name;
      continue;
    }
    const std::size_t length = memory.numbers.size() / kOperands - 1;
    for (std::size_t i = 0; i < kOperands; ++i) {
      const float scale = memory.numbers[i] = scales->scales[i];
      if (!(scale > 0 && std::isfinite(scale))) fail(Exit::bad_data, here, ": a scale is ", scale);
      const std::vector<float>& amaxes = scales->amaxes[i];
      for (const float amax : amaxes) {
        if (amax < 0) fail(Exit::bad_data, here, ": a largest number is ", amax);
        if (!std::isfinite(amax)) overflowed = memory.name;
      }
      std::copy_n(amaxes.begin(), std::min(length, amaxes.size()),
                  memory.numbers.begin() + static_cast<std::ptrdiff_t>(kOperands + i * length));
    }
    fp8.remember(memory, stream);
  }
  anew = first_name(anew, world.all());
  overflowed = first_name(overflowed, world.all());
  if (world.all().rank() > 0) return;
  if (!anew.empty()) log.note(concat(where, ": has no scales of ", anew, "; they begin anew"));
  if (!overflowed.empty())
    log.warn(concat(where, ": ", overflowed,
                    ": largest numbers of some steps are not finite; its scales stay until these "
                    "steps count no more"));
}

}  // namespace mt
