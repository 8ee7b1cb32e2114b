// Setting: what is known of a variable of a model's settings: its flag, what may be said, and where
// it counts; model/config/settings.h has all of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "model/config/ranges.h"

namespace mt {

// Where --help has an option: the options of a section come in the order of the table, which is
// that of Megatron's args.
enum class Section : std::uint8_t {
  sizes,
  model,
  padding,
  layers,  // what those of some families are made of
  norms,   // likewise
  rules,
  latents,
  positions,
  training,
  no_option
};

enum class Effect : std::uint8_t {
  model,    // what the model computes: a run must have its checkpoint's
  part,     // so, too, but together with other settings: check_same_model() knows how
  reach,    // so, too, of positions, windows and images: a run that begins anew may have another
  training  // a run may have another than its checkpoint
};

struct Setting {
  const char* flag;
  Section section;
  Effect effect;
  const char* help = nullptr;
  const char* metavar = nullptr;  // of a bool null, or kOff
  Range range = {};
  const char* arg = nullptr;  // its name in Megatron's args, where that is not the flag's
  bool rare = false;          // the args have it only where it is not its default
  bool later = false;         // neither GPT-2, Llama nor Qwen has it, nor any family but a GPT
  bool with_experts = false;  // of a later one: but for models of experts
  bool with_mamba = false;    // of a later one: but for hybrids
  bool with_towers = false;   // of a later one: but for towers
  bool with_berts = false;    // of a later one: but for BERTs
  bool latent = false;        // of latent attention

  // Gives its name in Megatron's args, as argparse makes it of a flag; "" where it is in none.
  std::string arg_name() const;
};
inline constexpr const char* kOff = "off";  // the flag makes it false
inline constexpr const char* kNoArg = "";

// Makes a setting that has no option yet.
inline Setting stored(const char* flag, Effect effect, Range range = {}) {
  return {flag, Section::no_option, effect, nullptr, nullptr, std::move(range)};
}

// Makes one that core_v0.12 does not know, or that is said otherwise where it has its default.
inline Setting rare(Setting setting) {
  setting.rare = true;
  return setting;
}

// Makes one of those of which layers of later GPTs are made.
inline Setting later(Setting setting) {
  setting.later = true;
  return rare(std::move(setting));
}

// Makes it one that models of experts may have, too.
inline Setting with_experts(Setting setting) {
  setting.with_experts = true;
  return setting;
}

// Makes it one that hybrids may have, too.
inline Setting with_mamba(Setting setting) {
  setting.with_mamba = true;
  return setting;
}

// Makes it one that towers may have, too.
inline Setting with_towers(Setting setting) {
  setting.with_towers = true;
  return setting;
}

// Makes it one that BERTs may have, too.
inline Setting with_berts(Setting setting) {
  setting.with_berts = true;
  return setting;
}

// Makes one of latent attention.
inline Setting latent(Setting setting) {
  setting.latent = true;
  return rare(std::move(setting));
}

}  // namespace mt
