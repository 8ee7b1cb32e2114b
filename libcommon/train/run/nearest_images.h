// Nearest images: how often the classes of those that a model knows by about the same numbers are
// an image's own (Wu et al.: arXiv:1805.01978, section 3.4; Megatron-LM core_v0.12.1,
// megatron/legacy/model/vision/knn_monitor.py).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mt {

// Features of images, one behind the other, each the first `width` of `stride` numbers, and the
// images' classes.
struct KnownImages {
  std::span<const double> features;
  std::int64_t width = 0, stride = 0;
  std::vector<std::int32_t> labels;
};

// For each k the percentage of `asked` whose class is the one with most votes: each of the k of
// `known` with the largest cosine has exp(cosine / temperature) of them.
std::vector<double> nearest_accuracy(const KnownImages& known, const KnownImages& asked,
                                     std::int64_t classes, std::span<const std::int64_t> k,
                                     double temperature);

}  // namespace mt
