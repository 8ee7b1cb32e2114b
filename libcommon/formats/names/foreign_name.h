// ForeignName: what a row of a model is called in another library's checkpoint.  Each library has a
// file here, whose tables tell the names of a model's modules by ours.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/param.h"
#include "tensor/transform.h"

namespace mt {

struct ModelConfig;

// ForeignName tells a tensor of theirs, and how it is made of a row of ours; or that this is one of
// the `parts` of theirs, which its first axis counts.
struct ForeignName {
  std::string name;
  Transform transform = {};
  std::int64_t part = 0, parts = 0;  // 0 parts: it is all of theirs

  // Where theirs has this shape: the shape of this one, and where in theirs it begins.
  Shape own_shape(const Shape& theirs) const;
  Shape own_place(const Shape& theirs) const;
};

// PartOfRow: which part of a row a tensor of theirs is.
enum class PartOfRow : std::uint8_t {
  all,
  queries,  // of linear_qkv
  keys,
  values,
  by_kind,     // all of linear_qkv: the queries of all heads, then the keys, then the values
  of_four,     // all of it, in four parts of as many heads: of each queries, values and keys
  cross_keys,  // of linear_kv
  cross_values,
  ungated,  // all of a linear_fc1 without a gate
  gate,     // of a linear_fc1 with one
  up,
};

// ModuleName: a module of theirs that is one of ours, of a layer ("mlp.linear_fc2") or outside of
// all ("decoder.final_layernorm").  The parameters of both are called weight and bias.
struct ModuleName {
  std::string_view ours, theirs;
  PartOfRow part = PartOfRow::all;
};

// Returns the names that a table has for a row, each behind `prefix`; none if it lacks the module.
// A norm that is fused with a linear module is looked for at its local_spec_place(), and an
// expert's module as "experts.linear_fc1".
std::vector<ForeignName> names_in(std::span<const ModuleName> table, const ModelConfig& config,
                                  const Param& row, const std::string& prefix);

}  // namespace mt
