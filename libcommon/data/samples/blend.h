// Blends: several token files read in turn, in given proportions.  Rules: Megatron-LM
// core_v0.12.1, megatron/core/datasets/{utils,blended_megatron_dataset_builder}.py and helpers.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mt {

struct Blend {
  std::vector<std::string> prefixes;
  std::vector<double> weights;  // one a prefix, as given; empty: none
};

// What `words`, the value of `option`, mean: "A", "A B C", or "0.3 A 0.7 B".  Throws Exit::usage
// for a mix of the two, and for weights that are not above 0.
Blend parse_blend(const std::string& option, std::vector<std::string> words);

// How many samples of a blend of `samples` come from a dataset with the share `weight` of it; and
// how many that dataset is made to have, which is up to 0.5 % more.
std::int64_t blend_target(std::int64_t samples, double weight);
std::int64_t blend_build_size(std::int64_t samples, double weight);

// Sample i comes from the dataset d for which weights[d] max(i, 1) - taken[d] is largest, ties from
// the lowest; calls next(d) for i in [0, samples).  With `sizes`, a dataset is passed over once
// sizes[d] of its samples are taken.
void blend_samples(std::span<const double> weights, std::span<const std::int64_t> sizes,
                   std::int64_t samples, const std::function<void(std::size_t dataset)>& next);

}  // namespace mt
