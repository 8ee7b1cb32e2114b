#include "formats/names/trtllm.h"

#include "base/error.h"
#include "model/config/model_config.h"
#include "model/keys.h"

namespace mt {
namespace {

using enum PartOfRow;

constexpr ModuleName kNames[] = {
    {"embedding.word_embeddings", "transformer.vocab_embedding"},
    {"embedding.position_embeddings", "transformer.position_embedding"},
    {"decoder.final_layernorm", "transformer.ln_f"},
    {"output_layer", "lm_head"},
    {"self_attention.linear_qkv", "attention.qkv", by_kind},
    {"self_attention.linear_proj", "attention.dense"},
    {"mlp.linear_fc1", "mlp.fc", ungated},
    {"mlp.linear_fc1", "mlp.fc", gate},
    {"mlp.linear_fc1", "mlp.gate", up},
    {"mlp.linear_fc2", "mlp.proj"},
    {"input_layernorm", "input_layernorm"},
    {"pre_mlp_layernorm", "post_layernorm"}};

TrtllmShare share_of(const RowPlace& place) {
  using enum TrtllmShare;
  if (place.stack == "output_layer") return words;
  if (place.module == "self_attention.linear_qkv") return heads;
  if (place.module == "mlp.linear_fc1") return rows;
  const bool by_inputs =
      place.module == "self_attention.linear_proj" || place.module == "mlp.linear_fc2";
  return by_inputs && place.param == "weight" ? columns : all;
}

}  // namespace

std::vector<TrtllmName> trtllm_names(const ModelConfig& c, const Param& row) {
  const std::string layer =
      row.place.layer ? concat("transformer.layers.", *row.place.layer, ".") : "";
  std::vector<TrtllmName> names;
  for (ForeignName& name : names_in(kNames, c, row, layer))
    names.push_back({std::move(name), share_of(local_spec_place(row.place))});
  if (names.empty())
    fail(Exit::bad_config, "--saver trtllm: ", row.name(),
         ": has no place in TensorRT-LLM's model");
  const bool is_words = row.place.module == "word_embeddings";
  if (is_words && !c.untie_embeddings_and_output_weights)
    names.push_back({{.name = "lm_head.weight"}, TrtllmShare::words});
  return names;
}

}  // namespace mt
