#include "formats/megatron/rank_layout.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/error.h"
#include "model/model_rows.h"

namespace mt {

// --- Names and order ----------------------------------------------------------------------------

std::string local_spec_name(const std::string& name) {
  for (const auto& [fused, own] :
       {std::pair{"self_attention.linear_qkv.layer_norm_", "input_layernorm."},
        std::pair{"mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm."}})
    if (const std::size_t at = name.find(fused); at != std::string::npos)
      return name.substr(0, at) + own + name.substr(at + std::strlen(fused));
  return name;
}

constexpr std::string_view kExperts = ".mlp.experts.", kSequential = ".mlp.experts.local_experts.";

std::string SpecNames::of(const std::string& name) const {
  const std::int64_t expert = grouped ? expert_in(name) : -1;
  if (expert < 0) return local_spec ? local_spec_name(name) : name;
  const std::string before = name.substr(0, name.find(kSequential)),
                    module = name.substr(name.find(".linear_") + 1);
  return concat(before, kExperts, module, expert);
}

std::vector<std::string> state_dict_names(const std::string& name, const SpecNames& names) {
  std::vector<std::string> found = {names.of(name)};
  const std::string head = "lm_head.output_layer.";
  if (found[0].starts_with(head)) found.push_back(found[0].substr(std::strlen("lm_head.")));
  return found;
}

RowNames rows_named(const std::string& name, std::int64_t experts) {
  const std::size_t at = name.find(kExperts);
  if (at == std::string::npos || expert_in(name) >= 0) return {{name}};
  const std::string own = name.substr(at + kExperts.size());
  const auto row = [&](const auto& expert, const std::string& module) {
    return concat(name.substr(0, at), kSequential, expert, ".", module);
  };
  for (const char* number : {"1", "2"}) {
    const std::string module = concat("linear_fc", number, ".weight");
    if (own == concat("weight", number)) {
      RowNames all{{}, true};
      for (std::int64_t expert = 0; expert < experts; ++expert)
        all.names.push_back(row(expert, module));
      return all;
    }
    const std::string expert = own.starts_with(module) ? own.substr(module.size()) : "";
    if (!expert.empty() && expert.find_first_not_of("0123456789") == std::string::npos)
      return {{row(expert, module)}};
  }
  return {{name}};
}

StoredTensor expert_part(const StoredTensor& whole, std::size_t number, std::size_t parts,
                         const Shape& row) {
  const auto count = static_cast<std::int64_t>(parts);
  if (whole.shape.numel() != row.numel() * count || row.rank() != 2 || !whole.contiguous())
    return whole;
  const std::size_t bytes = static_cast<std::size_t>(row.numel()) * size_of(whole.dtype);
  return {
      whole.dtype, row, {1, row[0]}, whole.bytes.subspan(number * bytes, bytes), whole.big_endian};
}

// Of a row's module among those of the model, all others last.
static std::size_t place_in_model(const std::string& name) {
  static constexpr const char* kModules[] = {"embedding.", "encoder_relative_pos_emb.",
                                             "decoder_relative_pos_emb.", "encoder.", "decoder."};
  const auto* const found =
      std::find_if(std::begin(kModules), std::end(kModules),
                   [&](const char* module) { return name.starts_with(module); });
  return static_cast<std::size_t>(found - std::begin(kModules));
}

// Of a row's module among those of its layer.  A module's own parameters stand before those of
// modules in it.
static std::size_t place_in_layer(const std::string& name) {
  static constexpr const char* kModules[] = {".mixer.dt_bias",
                                             ".mixer.A_log",
                                             ".mixer.D",
                                             ".input_layernorm.",
                                             ".self_attention.linear_proj.",
                                             ".linear_qkv.",
                                             ".q_layernorm.",
                                             ".k_layernorm.",
                                             ".pre_cross_attn_layernorm.",
                                             ".cross_attention.linear_proj.",
                                             ".cross_attention.linear_q.",
                                             ".cross_attention.linear_kv.",
                                             ".pre_mlp_layernorm.",
                                             ".router.",
                                             ".local_experts.",
                                             ".linear_fc1.",
                                             ".linear_fc2."};
  const auto* const found =
      std::find_if(std::begin(kModules), std::end(kModules),
                   [&](const char* module) { return name.find(module) != std::string::npos; });
  return static_cast<std::size_t>(found - std::begin(kModules));
}

bool ChunkLayers::has(const Param& row) const {
  if (is_relative_position(row)) return true;
  if (lacks(row)) return false;
  if (range.first && range.last) return true;
  const std::int64_t layer = layer_in(row.name);
  if (layer >= 0) return layer >= range.begin && layer < range.end;
  return row.name.starts_with("embedding.") ? range.first : range.last;
}

std::vector<const Param*> registered_rows(const ParamTable& table, const ChunkLayers& chunk,
                                          const SpecNames& names, bool tied) {
  std::vector<const Param*> rows;
  for (const Param& row : table.rows())
    if (chunk.has(row)) rows.push_back(&row);
  const auto place = [&](const Param* row) {
    const std::string name = names.of(row->name);
    const std::int64_t layer = layer_in(name);  // a stack ends with a norm
    return std::tuple(place_in_model(name), layer < 0 ? std::ssize(table.rows()) : layer,
                      place_in_layer(name));
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Param* a, const Param* b) { return place(a) < place(b); });
  if (tied && chunk.has_tied_copy()) {
    const auto bias = std::find_if(rows.begin(), rows.end(), [](const Param* row) {
      return row->name.ends_with("output_layer.bias");
    });
    rows.insert(bias, &table.rows().front());
  }
  return rows;
}

// --- Flat buffers -------------------------------------------------------------------------------

std::vector<BufferParam> buffer_params(std::span<const ParamRows> params, const ModelConfig& config,
                                       const ChunkLayers& chunk, std::int64_t stages) {
  // The words of a T5's decoder, and of an encoder of one stage, are not the pipeline's ends.
  const bool end = chunk.has_tied_copy() ||
                   (chunk.range.first && !chunk.range.last && chunk.without != "encoder");
  const bool tied = stages > 1 && end && !config.untie_embeddings_and_output_weights;
  std::vector<BufferParam> found;
  for (const ParamRows& param : params)
    found.push_back(
        {param.elements(), tied && param.first().name == "embedding.word_embeddings.weight"});
  return found;
}

BufferRules buffer_rules(const PyValue& args, std::int64_t stage, std::int64_t chunk,
                         const std::string& where) {
  const auto given = [&](const char* name) -> const PyValue* {
    const PyValue* const value = args.find(name);
    return value == nullptr || value->is_none() ? nullptr : value;
  };
  const auto size = [&](const char* name) {
    const PyValue* const value = given(name);
    const std::int64_t number = value == nullptr ? 1 : value->as_integer(where);
    if (number < 1 || number > 1 << 15)
      fail(Exit::bad_data, where, ": args.", name, " is ", number);
    return static_cast<int>(number);
  };
  const auto is_on = [&](const char* name) {
    const PyValue* const value = given(name);
    return value != nullptr && value->as_bool(where);
  };
  const int data_ranks = size("data_parallel_size");
  BufferRules rules{.ranks = data_ranks * size("context_parallel_size"),
                    .pads_for_nccl = is_on("ddp_pad_buckets_for_high_nccl_busbw")};
  // Only what overlaps with the backward pass is cut, and only where that is on the critical path.
  if (!is_on("overlap_grad_reduce") || stage > 0 || chunk > 0) return rules;
  if (given("ddp_num_buckets") != nullptr)
    fail(Exit::bad_data, where, ": args.ddp_num_buckets: is set, which is not supported");
  const PyValue* const bucket = given("ddp_bucket_size");
  rules.bucket = bucket != nullptr ? bucket->as_integer(where) : default_bucket_size(data_ranks);
  return rules;
}

BufferLayout rank_buckets(std::span<const BufferParam> params, const BufferRules& rules) {
  std::vector<std::int64_t> counts;
  std::optional<std::size_t> shared;
  for (const BufferParam& param : params) {
    if (param.shared) shared = counts.size();
    counts.push_back(param.elements);
  }
  return make_layout({.counts = counts,
                      .ranks = rules.ranks,
                      .bucket_size = rules.bucket,
                      .high_bandwidth = rules.pads_for_nccl,
                      .shared = shared});
}

UnpaddedLayout rank_buffer(std::span<const BufferParam> params, const BufferRules& rules) {
  return without_padding(rank_buckets(params, rules));
}

}  // namespace mt
