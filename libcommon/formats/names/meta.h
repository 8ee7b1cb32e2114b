// A Llama as Meta publishes it: params.json, and consolidated.NN.pth, a state dict of torch.save
// for each of the ranks that share every matrix:
//   attention.wq wk wv, feed_forward.w1 w3, output   rows
//   attention.wo, feed_forward.w2                    columns
//   tok_embeddings                                   columns, of Llama 3 rows
// Norms are the same on all.  Rotary positions turn neighbouring rows of a head of wq and wk
// together, not row j of its first half and row j of its second as Hugging Face's and ours do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/names/foreign_name.h"

namespace mt {

struct ModelConfig;

inline constexpr const char* kMetaFormat = "meta";
inline constexpr const char* kMetaParams = "params.json";
inline constexpr const char* kMetaWords = "tok_embeddings.weight";
inline constexpr const char* kMetaScaling = "rope_scaling_factor";  // in params.json, of few
inline constexpr const char* kMetaOutput = "output.weight";

// The tensors of a row there, of all ranks together.  Exit::bad_config for a row that has no place.
std::vector<ForeignName> meta_tensors(const ModelConfig& config, const Param& row);

// What of a tensor lies on one rank.
enum class MetaShare : std::uint8_t { all, rows, columns };
// Says how ranks share a tensor of this name; nothing where no Llama has such a one.
std::optional<MetaShare> meta_share(std::string_view name);

// By what a published model of such a width stretches its rotary positions, where params.json does
// not say: Llama 3.2's 32, Llama 3.1's 8.
double meta_scaling_factor(const ModelConfig& config);

std::string meta_file_name(std::int64_t rank);  // consolidated.00.pth

// Rows of heads in our order, that of halves, become those in which neighbours are turned together.
void turn_neighbours(Transform& transform, const Shape& row, std::int64_t head_dim);

}  // namespace mt
