// Models are put together of kinds of branches and of these functions.  Each adds the rows of one
// module to a model's table, and no other place knows them; those called make_ return the module,
// too, and those called declare_ the row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/model_config.h"
#include "model/stage_range.h"
#include "model/tensor_part.h"
#include "nn/bert_heads.h"
#include "nn/dino_head.h"
#include "nn/further_tokens.h"
#include "nn/patch_embedding.h"
#include "nn/sequence_head.h"
#include "nn/stack.h"
#include "nn/value_head.h"
#include "tensor/param.h"

namespace mt {

// ModelRows: the table that rows are added to, and the settings and the rank that they depend on.
struct ModelRows {
  ParamTable& table;
  const ModelConfig& config;
  TensorPart part = {};

  // Describes the scale at this place of a norm over hidden states.
  Param norm_row(RowPlace place) const;
  // Adds the rows of a norm with this scale; an epsilon of 0 is the model's.
  Norm make_norm(Param scale, double epsilon = 0) const;
};

// The initialiser of a matrix that does not end a residual branch.
Initializer matrix_init(const ModelConfig& config, const Shape& shape);

// What a part of a module has of the weights that other libraries have (Adapter::Options): a T5's
// queries are those of transformers times the square root of a head's width, by which scores are
// divided here.
double adapter_multiple(const ModelConfig& config, std::string_view module, std::string_view part);

// --- Layers -------------------------------------------------------------------------------------

// LayerRows: the same for a layer of a stack.
struct LayerRows : ModelRows {
  std::string_view stack;
  std::int64_t layer, layers;             // its number, and how many the stack has
  bool stacked = true;                    // LayerPlan's
  Rotary rotary = {};                     // of all layers
  std::optional<RelativeBias> bias = {};  // SelfAttention::Options's
  // Inside says where a layer stands that is a part of another of the stack: in which layer, and
  // in which of its modules, "cross_attention.encoder.layers.0." say (keys.h: inner_layer()).
  struct Inside {
    std::int64_t layer = 0;
    std::string module;
    std::string_view inner = {};  // RowPlace's, and its inner_layer
    std::optional<std::int64_t> inner_layer = {};
  };
  std::optional<Inside> inside = {};

  RowPlace place(std::string module, std::string_view param) const;
  // Describes a row of this layer.
  Param row(std::string module, std::string_view param, Shape shape, Initializer init,
            std::vector<Segment> segments = {}) const;
  // Adds the norm in front of a branch.  Its scale is the weight of a module of its own, or the
  // layer_norm_weight of a linear one that is fused with it.
  Norm make_branch_norm(std::string module, std::string_view param) const;
  // What stands in front of a branch and behind it: the latter is a row of its last linear module.
  std::optional<Norm> make_pre_norm(std::string module, std::string_view param) const;
  Branch::Behind make_behind(const std::string& module, Purpose dropout) const;
  // Adds a linear module with this weight, and the adapters that it is to have.
  Linear make_linear(Param weight, bool has_bias, Purpose adapter_dropout) const;
  // The initialiser of a matrix that ends a residual branch.
  Initializer output_init() const;
};

// ExtraState: a module of a layer, "mlp.linear_fc1" say, for which Megatron asks an empty object
// (model/keys.h).
struct ExtraState {
  // Where it stands in a file: among the others of its layer, behind them, or behind all layers.
  enum class Turn : std::uint8_t { in_layer, end_of_layer, behind_layers };
  std::string module;
  Turn turn = Turn::in_layer;
  bool of_experts = false;  // each expert has one
};

struct CacheRoom;
struct CacheShape;

// BranchKind: all that is known of a kind of branch, which its module's file defines.
struct BranchKind {
  char letter;                             // in patterns of layers
  Branch (*make)(const LayerRows& layer);  // adds its rows, too
  std::vector<ExtraState> (*extra_states)(const ModelConfig& config);
  // FLOPs of a training step for a token of a sequence of this length, whose memory is of so many
  // tokens, beside those of its matrices; null: none.
  double (*flops)(const ModelConfig& config, double length, double memory) = nullptr;
  // Says how many tokens a matrix of such a layer reads for each of the layer's own; null: one.
  double (*reads)(const ModelConfig& config, const RowPlace& matrix, double length,
                  double memory) = nullptr;
  // Adds what a generation keeps of a layer's tokens (nn/kv_cache.h); null: nothing.
  void (*keep)(CacheShape& shape, const ModelConfig& config, const CacheRoom& room) = nullptr;
};

// The modules of a layer without the norm in front of them, and what is known of them.
SelfAttention make_self_attention(const LayerRows& layer);
// `module`: "cross_attention", or where its rows stand otherwise; the last matrix begins so.
CrossAttention make_cross_attention_module(const LayerRows& layer, const std::string& module,
                                           const Initializer& output_init);
Mlp make_mlp_module(const LayerRows& layer);
std::vector<ExtraState> extra_states_of_attention(const ModelConfig& config);
double flops_of_attention(const ModelConfig& config, double length, double memory);
void keep_of_attention(CacheShape& shape, const ModelConfig& config, const CacheRoom& room);

// The head of a model that learns from parts of images, and the stack that its rows are of.
inline constexpr std::string_view kDinoHead = "dino_head";
DinoHead make_dino_head(const ModelRows& rows);

// Adds the rows of the layers of a stage, or of those of one stack, each a unit of the table, and
// returns the stack of them.  rotary, bias: LayerRows's.
Stack make_stack(const ModelRows& rows, const StageRange& range, const Rotary& rotary,
                 const std::optional<RelativeBias>& bias = {});

// Adds the rows of the layers that predict further tokens, each like the model's last, and returns
// them, with the embedding and the head of the model.
FurtherTokens make_further_tokens(const ModelRows& rows, const Rotary& rotary,
                                  const Embedding& embedding, const LmHead& head);

// Returns what make_stack() is told of rotary positions, in memory of `storage`.
Rotary make_rotary(const ModelConfig& config, Buffer& storage);

// Adds rows that are used together, and returns which these are.
template <class Add>
RowRange make_unit(ParamTable& table, const Add& add) {
  const std::size_t begin = table.rows().size();
  table.begin_unit();
  add();
  return {begin, table.rows().size()};
}

// --- Beside the layers --------------------------------------------------------------------------

// The embedding of words.  shared, copy: as in Param.
const Param& declare_words(const ModelRows& rows, bool shared = false, bool copy = false);
const Param& declare_positions(const ModelRows& rows);
// The norm behind a stack, which a MambaModel has by a name of its own.
Norm make_final_norm(const ModelRows& rows, std::string_view stack);
// An output layer that is not tied to the words.
const Param& declare_output(const ModelRows& rows);
const Param& declare_output_bias(const ModelRows& rows);

// The types of BERT's tokens, and what reads its first one.
const Param& declare_types(const ModelRows& rows);
Linear make_pooler(const ModelRows& rows);
// BERT's heads for masked words, with this output layer, and for the order of texts.
BertHeads make_bert_heads(const ModelRows& rows, const Param& output);
// The head of a task, which a model has in place of what it was pretrained with: a BERT's reads
// what its pooler makes, a GPT's has no bias.
SequenceHead make_task_head(const ModelRows& rows);
// What says tokens' values, beside the head of words.
ValueHead make_value_head(const ModelRows& rows);
// A ViT's: what stands in front of its layers, and what tells an image's class by its first token,
// or paints all of its patches.
PatchEmbedding make_patch_embedding(const ModelRows& rows);
SequenceHead make_image_head(const ModelRows& rows);
// The rows of transformers' pooling head of a SigLIP, which stay as they are: nothing reads them.
void declare_pooling_head(const ModelRows& rows);
// What makes a tower's vectors, of so many numbers, of hidden states.
Linear make_projection(const ModelRows& rows, std::string_view stack, std::int64_t width);
// A T5's relative positions, which all layers of a stack have in common: the rows of
// "encoder_relative_pos_emb", say.
const Param& declare_relative_bias(const ModelRows& rows, std::string_view stack);
// What a T5's output layer has of its own: its weight, or a bias where it has the words'.
const Param& declare_t5_head(const ModelRows& rows);

}  // namespace mt
