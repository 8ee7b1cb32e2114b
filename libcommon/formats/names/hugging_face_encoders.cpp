#include "formats/names/hugging_face_encoders.h"

#include <cmath>
#include <span>

#include "formats/hugging_face/config_families.h"
#include "model/config/model_config.h"
#include "model/keys.h"

namespace mt {
namespace {

using enum PartOfRow;
using Names = std::vector<ForeignName>;

constexpr ModuleName kBert[] = {
    {"embedding.word_embeddings", "bert.embeddings.word_embeddings"},
    {"embedding.position_embeddings", "bert.embeddings.position_embeddings"},
    {"embedding.tokentype_embeddings", "bert.embeddings.token_type_embeddings"},
    {"encoder.final_layernorm", "bert.encoder.ln"},
    {"lm_head.dense", "cls.predictions.transform.dense"},
    {"lm_head.layer_norm", "cls.predictions.transform.LayerNorm"},
    {"output_layer", "cls.predictions"},
    {"binary_head", "cls.seq_relationship"},
    {"pooler.dense", "bert.pooler.dense"},
    {"classification_head", "classifier"},
    {"multichoice_head", "classifier"},
    {"input_layernorm", "attention.ln"},
    {"self_attention.linear_qkv", "attention.self.query", queries},
    {"self_attention.linear_qkv", "attention.self.key", keys},
    {"self_attention.linear_qkv", "attention.self.value", values},
    {"self_attention.linear_proj", "attention.output.dense"},
    {"pre_mlp_layernorm", "ln"},
    {"mlp.linear_fc1", "intermediate.dense"},
    {"mlp.linear_fc2", "output.dense"},
};

// A BERT of the first kind has its norms behind what it adds: each of ours in front is theirs
// behind the branch before.
constexpr ModuleName kPostNormBert[] = {
    {"embedding.word_embeddings", "embeddings.word_embeddings"},
    {"embedding.position_embeddings", "embeddings.position_embeddings"},
    {"embedding.tokentype_embeddings", "embeddings.token_type_embeddings"},
    {"pooler.dense", "pooler.dense"},
};
constexpr ModuleName kPostNormLayer[] = {
    {"self_attention.linear_qkv", "attention.self.query", queries},
    {"self_attention.linear_qkv", "attention.self.key", keys},
    {"self_attention.linear_qkv", "attention.self.value", values},
    {"self_attention.linear_proj", "attention.output.dense"},
    {"pre_mlp_layernorm", "attention.output.LayerNorm"},
    {"mlp.linear_fc1", "intermediate.dense"},
    {"mlp.linear_fc2", "output.dense"},
};
constexpr ModuleName kBertHeads[] = {
    {"lm_head.dense", "cls.predictions.transform.dense"},
    {"lm_head.layer_norm", "cls.predictions.transform.LayerNorm"},
    {"output_layer", "cls.predictions"},
    {"binary_head", "cls.seq_relationship"},
    {"classification_head", "classifier"},
    {"multichoice_head", "classifier"},
};
constexpr ModuleName kDistilLayer[] = {
    {"self_attention.linear_qkv", "attention.q_lin", queries},
    {"self_attention.linear_qkv", "attention.k_lin", keys},
    {"self_attention.linear_qkv", "attention.v_lin", values},
    {"self_attention.linear_proj", "attention.out_lin"},
    {"pre_mlp_layernorm", "sa_layer_norm"},
    {"mlp.linear_fc1", "ffn.lin1"},
    {"mlp.linear_fc2", "ffn.lin2"},
};
constexpr ModuleName kDistilHeads[] = {
    {"lm_head.dense", "vocab_transform"},
    {"lm_head.layer_norm", "vocab_layer_norm"},
    {"output_layer", "vocab_projector"},
};
constexpr ModuleName kRobertaHeads[] = {
    {"lm_head.dense", "lm_head.dense"}, {"lm_head.layer_norm", "lm_head.layer_norm"},
    {"output_layer", "lm_head"},        {"classification_head", "classifier.out_proj"},
    {"multichoice_head", "classifier"},
};

constexpr ModuleName kT5[] = {
    {"embedding.word_embeddings", "shared"},
    {"encoder_relative_pos_emb.relative_attention_bias",
     "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
    {"decoder_relative_pos_emb.relative_attention_bias",
     "decoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
    {"encoder.final_layernorm", "encoder.final_layer_norm"},
    {"decoder.final_layernorm", "decoder.final_layer_norm"},
    {"lm_head.output_layer", "lm_head"},
    {"input_layernorm", "0.layer_norm"},
    {"self_attention.linear_qkv", "0.SelfAttention.q", queries},
    {"self_attention.linear_qkv", "0.SelfAttention.k", keys},
    {"self_attention.linear_qkv", "0.SelfAttention.v", values},
    {"self_attention.linear_proj", "0.SelfAttention.o"},
    {"pre_cross_attn_layernorm", "1.layer_norm"},
    {"cross_attention.linear_q", "1.EncDecAttention.q"},
    {"cross_attention.linear_kv", "1.EncDecAttention.k", cross_keys},
    {"cross_attention.linear_kv", "1.EncDecAttention.v", cross_values},
    {"cross_attention.linear_proj", "1.EncDecAttention.o"},
};
// Behind the number of its place in the layer.
constexpr ModuleName kT5Mlp[] = {
    {"pre_mlp_layernorm", "layer_norm"},
    {"mlp.linear_fc1", "DenseReluDense.wi", ungated},
    {"mlp.linear_fc1", "DenseReluDense.wi_0", gate},
    {"mlp.linear_fc1", "DenseReluDense.wi_1", up},
    {"mlp.linear_fc2", "DenseReluDense.wo"},
};

// How a BERT of the first kind calls what it has.
struct BertNames {
  const char *model, *layers, *norm;  // the norm behind a layer
  std::span<const ModuleName> layer, heads;
};
constexpr BertNames kBertNames{"bert.", "encoder.layer.", "output.LayerNorm.", kPostNormLayer,
                               kBertHeads},
    kRobertaNames{"roberta.", "encoder.layer.", "output.LayerNorm.", kPostNormLayer, kRobertaHeads},
    kDistilNames{"distilbert.", "transformer.layer.", "output_layer_norm.", kDistilLayer,
                 kDistilHeads};

// The names of a model without a head begin with none of its own.
Names post_norm_bert_names(const ModelConfig& c, const Param& row) {
  const RowPlace place = local_spec_place(row.place);
  const std::string_view type = post_norm_bert_type(c);
  const BertNames& theirs = type == "bert"         ? kBertNames
                            : type == "distilbert" ? kDistilNames
                                                   : kRobertaNames;
  const bool alone = !c.bert_lm_head && !c.has_task_head();
  const std::string model = alone ? "" : theirs.model;
  const auto behind = [&](std::int64_t layers) -> Names {
    const std::string norm =
        layers == 0 ? "embeddings.LayerNorm." : concat(theirs.layers, layers - 1, ".", theirs.norm);
    return {{concat(model, norm, place.param)}};
  };
  if (place.module == "input_layernorm") return behind(*place.layer);
  if (place.module == "final_layernorm") return behind(c.num_layers);
  if (place.layer)
    return names_in(theirs.layer, c, row, concat(model, theirs.layers, *place.layer, "."));
  if (&theirs == &kRobertaNames && c.task_head == kClassificationHead && place.stack == "pooler")
    return {{concat("classifier.dense.", place.param)}};
  const Names heads = names_in(theirs.heads, c, row, "");
  return heads.empty() ? names_in(kPostNormBert, c, row, model) : heads;
}

}  // namespace

Names bert_names(const ModelConfig& c, const Param& row) {
  if (c.residual_of_norm) return post_norm_bert_names(c, row);
  return names_in(
      kBert, c, row,
      row.place.layer ? concat("bert.encoder.layer.", *row.place.layer, ".") : std::string());
}

// Their T5 is the same mathematics in other weights.  Megatron divides scores of attention by
// sqrt(d), T5 does not: its queries times sqrt(d) are Megatron's.  T5 1.0 divides the decoder's
// output by sqrt(h), Megatron does not: its final norm over sqrt(h) is Megatron's.  Both are exact
// where the square roots are powers of two.  There are no biases.
Names t5_names(const ModelConfig& c, const Param& row) {
  const RowPlace& place = row.place;
  if (place.param == "bias" || place.param == "layer_norm_bias") return {};
  const bool decoder = place.stack == "decoder";
  const std::string layer =
      place.layer ? concat(place.stack, ".block.", *place.layer, ".layer.") : std::string();
  Names names = names_in(kT5, c, row, layer);
  if (names.empty()) names = names_in(kT5Mlp, c, row, layer + (decoder ? "2." : "1."));
  if (names.empty()) return names;
  Transform& first = names.front().transform;
  if (place.param == "weight" &&
      (place.module == "self_attention.linear_qkv" || place.module == "cross_attention.linear_q"))
    first.push_back(scale(1 / std::sqrt(static_cast<double>(c.head_dim()))));
  if (decoder && place.module == "final_layernorm" && c.scale_decoder_outputs)
    first.push_back(scale(std::sqrt(static_cast<double>(c.hidden_size))));
  return names;
}

}  // namespace mt
