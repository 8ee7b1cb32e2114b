// The rows of what a Retro's layers have beside a GPT's: chunked cross-attention, and, in the first
// layer that retrieves, the encoder of neighbours.  Its first layer attends to the chunk that they
// are of, too; the others are a GPT's.
#include "base/error.h"
#include "model/layers/layer_rows.h"
#include "nn/chunked_cross_attention.h"
#include "nn/stack.h"

namespace mt {

extern const BranchKind kAttention, kMlp;
extern const BranchKind kChunkedCrossAttention, kEncodingCrossAttention;

constexpr const char* kNorm = "pre_cross_attn_layernorm";
constexpr const char* kAttends = "cross_attention.attn";
constexpr const char* kFirstMlpNorm = "pre_mlp_layernorm.norm";

// It is the norm of what it reads that what it makes is added to.
static Branch make_neighbour_attention(const LayerRows& layer) {
  const Norm norm = layer.make_branch_norm(kNorm, "weight");
  return Branch(norm, make_cross_attention_module(layer, kAttends, layer.output_init()),
                layer.config.recompute.part("layernorm"),
                Branch::Behind{.layer = layer.layer, .to_normed = true});
}

// Its norm has a module of its own.
static Branch make_first_mlp(const LayerRows& layer) {
  const Norm norm = layer.make_branch_norm(kFirstMlpNorm, "weight");
  return Branch(norm, make_mlp_module(layer), layer.config.recompute.part("layernorm"));
}

// A GPT's settings, but for what is an encoder's own: nothing turns there.
static ModelConfig encoder_config(const ModelConfig& model) {
  ModelConfig c = model;
  c.hidden_dropout = model.retro_encoder_hidden_dropout;
  c.attention_dropout = model.retro_encoder_attention_dropout;
  c.position_embedding_type = "none";
  return c;
}

// What names of its layers' modules begin with.
static std::string encoder_layer(std::int64_t number) {
  return concat("cross_attention.encoder.layers.", number, ".");
}

static std::shared_ptr<const Stack> make_encoder(const LayerRows& decoder) {
  const ModelConfig c = encoder_config(decoder.config);
  std::vector<Stack::Layer> layers;
  std::vector<LayerRun> runs;
  for (std::int64_t i = 0; i < c.retro_encoder_num_layers; ++i) {
    // Initial weights are by how many layers the decoder has.
    LayerRows layer{{decoder.table, c, decoder.part}, decoder.stack, i, decoder.layers, false};
    layer.inside = {decoder.layer, encoder_layer(i)};
    std::vector<Branch> branches;
    branches.push_back(kAttention.make(layer));
    if (i == 0) {
      branches.push_back(make_neighbour_attention(layer));
      branches.push_back(make_first_mlp(layer));
    } else {
      branches.push_back(kMlp.make(layer));
    }
    layers.push_back({i, std::move(branches), {}});
    const auto at = static_cast<std::size_t>(i);
    runs.push_back({.begin = at, .end = at + 1, .again = false});
  }
  return std::make_shared<const Stack>(std::move(layers), std::move(runs));
}

static Branch make_chunked_cross_attention(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const Norm norm = layer.make_branch_norm(kNorm, "weight");
  CrossAttention attention = make_cross_attention_module(
      layer, kAttends, c.retro_zero_init ? Initializer{} : layer.output_init());
  const bool encodes = layer.layer == first_retro_layer(c.num_layers);
  return Branch(norm,
                ChunkedCrossAttention(std::move(attention), c.retro_chunk_length,
                                      encodes ? make_encoder(layer) : nullptr),
                c.recompute.part("layernorm"));
}

// Modules of it, in a layer or in the encoder's.
static void add_extra_states(std::vector<ExtraState>& states, const std::string& in) {
  states.push_back({in + kNorm});
  for (const char* part : {".linear_q", ".linear_kv", ".linear_proj", ".core_attention"})
    states.push_back({in + kAttends + part});
}

static std::vector<ExtraState> extra_states(const ModelConfig&) {
  std::vector<ExtraState> states;
  add_extra_states(states, "");
  return states;
}

static std::vector<ExtraState> encoding_extra_states(const ModelConfig& c) {
  std::vector<ExtraState> states = extra_states(c);
  for (std::int64_t i = 0; i < c.retro_encoder_num_layers; ++i) {
    const std::string in = encoder_layer(i);
    for (const ExtraState& of : kAttention.extra_states(c)) states.push_back({in + of.module});
    if (i == 0) {
      add_extra_states(states, in);
      states.push_back({in + kFirstMlpNorm});
    }
    for (const ExtraState& of : kMlp.extra_states(c)) states.push_back({in + of.module});
  }
  return states;
}

static double inner(const ModelConfig& c) {
  return static_cast<double>(c.num_attention_heads * c.head_dim());
}

// The encoder reads the neighbours' tokens, and so does what attends to them, but in the encoder's
// first layer, where a chunk's tokens are attended to.  Where nothing is retrieved, `memory` is 0,
// no matrix is used.
static double reads(const ModelConfig& /*c*/, const RowPlace& matrix, double length,
                    double memory) {
  constexpr std::string_view kOwn = "cross_attention.";
  if (!matrix.module.starts_with(kOwn)) return 1;
  if (memory == 0) return 0;
  const bool of_memory = matrix.module.ends_with(concat(kAttends, ".linear_kv")),
             encodes = matrix.module.starts_with(concat(kOwn, "encoder."));
  return of_memory != encodes ? memory / length : 1;
}

// A token attends to all that its chunk's neighbours are.
static double flops(const ModelConfig& c, double /*length*/, double memory) {
  const auto seen = static_cast<double>(c.retro_num_neighbors * c.retrieved_length());
  return memory == 0 ? 0 : 12 * seen * inner(c);
}

// The cross-attention of a layer that encodes neighbours, too, takes what the encoder takes.
static double encoding_flops(const ModelConfig& c, double length, double memory) {
  const auto each = static_cast<double>(c.retrieved_length()),
             chunk = static_cast<double>(c.retro_chunk_length),
             layers = static_cast<double>(c.retro_encoder_num_layers);
  const double of_scores = layers * kAttention.flops(c, each, 0) + 12 * chunk * inner(c);
  return flops(c, length, memory) + of_scores * memory / length;
}

extern const BranchKind kChunkedCrossAttention{.letter = 'c',
                                               .make = make_chunked_cross_attention,
                                               .extra_states = extra_states,
                                               .flops = flops,
                                               .reads = reads};
extern const BranchKind kEncodingCrossAttention{.letter = 'e',
                                                .make = make_chunked_cross_attention,
                                                .extra_states = encoding_extra_states,
                                                .flops = encoding_flops,
                                                .reads = reads};

}  // namespace mt
