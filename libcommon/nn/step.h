// Step: all that a module sees besides its input (DESIGN D2a): where to put things, what to
// multiply with, which random numbers, positions and cache to use.
//
// Lifetimes (DESIGN D2).  keep: what the micro-batch's backward needs, until that backward is done.
// layer: rewound by whoever called a layer.  deferred: the dy of weight gradients that wait in the
// queue, and the x that were made again for them.  A module is told where its output goes; `kept`,
// `scratch` and `gradient` are for what it makes inside.
//
// Each module has
//   void forward(Step&, Tensor y, ConstTensor x, Saved* saved) const;
//   void backward(Step&, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved) const;
// for y = f(x) and dx = f'(x)^T dy.  y and dx are overwritten; gradients of parameters are added
// to.  With a null `saved` nothing is kept (evaluation, generation, the first pass under
// recompute).  The caller has x still, or makes it again, so `saved` holds only what the module
// itself made.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/dropout.h"
#include "nn/cached_past.h"
#include "nn/side_adapters.h"
#include "tensor/arena.h"
#include "tensor/param.h"
#include "tensor/stream.h"

namespace mt {

// What a random number of a layer is for.
enum class Purpose : std::uint32_t {
  embedding_dropout,
  attention_dropout,
  hidden_dropout1,
  hidden_dropout2,
  cross_attention_dropout,
  cross_hidden_dropout,
  head_dropout,
  qkv_adapter_dropout,
  proj_adapter_dropout,
  fc1_adapter_dropout,
  fc2_adapter_dropout,
  router_jitter,
  cross_q_adapter_dropout,
  cross_kv_adapter_dropout,
  cross_proj_adapter_dropout,
  drop_path,
  count
};
inline constexpr std::uint32_t kPurposes = 16;  // of a layer, at most
static_assert(static_cast<std::uint32_t>(Purpose::count) <= kPurposes);

class ContextParallel;
class ExpertChoices;
class ExpertParallel;
class Fp8Layers;
class Group;
class Probe;
class WeightGrads;

// Tokens: those whose hidden states a stack works on, a micro-batch's.
struct Tokens {
  std::int64_t sequences = 0, length = 0;  // of each sequence
  ConstTensor positions;                   // [count()] i32
  ConstTensor first_key = {};              // [count()] i32: see Field; empty: 0 for all
  ConstTensor lengths = {};    // [sequences] i32: tokens before a sequence's padding; empty: length
  bool causal = true;          // no token sees those behind it
  std::uint32_t stack = 0;     // below 256; part of the key of every random number
  std::int64_t of_sample = 1;  // sequences that each sample of the micro-batch has
  std::int64_t count() const { return sequences * length; }
};

// Memory: what an encoder made of other tokens, which cross-attention reads.  As for the Step's own
// tokens, tensor-parallel ranks may share the rows.
struct Memory {
  Tokens tokens;
  ConstTensor hidden;  // [rows, hidden_size]
  Tensor gradient;     // as hidden; each cross-attention's backward adds to it
};

// Neighbours: texts that a layer of the stack itself encodes, and that it and layers behind it
// attend to (nn/chunked_cross_attention.h); of each chunk of the Step's tokens as many.  A layer
// that encodes reads `embedded`, fills `encoded`, and in its backward fills `d_embedded`.
struct Neighbours {
  Tokens tokens;                 // of the encoder's
  Tensor embedded, encoded;      // [rows, hidden_size]
  Tensor d_embedded, d_encoded;  // gradients; each cross-attention's backward adds to the latter
};

// Inserted: rows of hidden states that stand in the places of some of the Step's tokens, of which
// ids name no word.  Each sequence has as many of them.
struct Inserted {
  // [tokens] i32: which of its sequence's rows stands there; -1: the token's own
  ConstTensor row_of = {};
  ConstTensor hidden = {};  // [sequences rows, hidden_size]
  Tensor gradient = {};     // as hidden, of sums; the embedding's backward adds to it
};

struct Step {
  Stream& stream;
  Arena& keep;
  Arena& layer;
  Arena& deferred;
  WeightGrads& weight_grads;
  const StepRecord* record = nullptr;  // on the device
  std::int64_t first_sample = 0;       // the record's, for the host, where nothing is captured
  DType dtype = DType::f32;            // of activations
  int chunk = 0;                       // of the model, where it is in several
  std::uint64_t seed = 0;
  bool training = false;  // dropout is on
  bool again = false;     // a forward that is repeated for its backward
  // On the CPU: a token gets the bits that it gets alone (ModelConfig::batch_invariant).
  bool batch_invariant = false;
  Tokens tokens;
  Memory memory = {};
  Neighbours neighbours = {};
  Inserted inserted = {};
  CachedPast past = {};  // generation: what the sequences follow
  // Generation: the adapters of linear layers, and which sequences have which; null: there are
  // none.
  const SideAdapters* adapters = nullptr;
  std::span<const AdaptedRun> adapted = {};
  Probe* probe = nullptr;          // sees what modules read and make
  Group* tensor = nullptr;         // ranks that share the matrices; null: this one has them whole
  bool sequence_parallel = false;  // they share the rows of hidden states too
  bool tensor_overlap = false;     // those travel while products of other rows are computed
  const ContextParallel* context = nullptr;  // ranks that share sequences; null: none does
  Group* data = nullptr;  // ranks whose micro-batches are one batch to a loss; null: none's are
  const ExpertParallel* experts = nullptr;  // ranks that share experts; null: none does
  // [sequences, layers chosen, tokens of each] i32: the experts that tokens go to; -1: those that
  // routers choose; empty: these choose for all.
  ConstTensor imposed = {};
  ExpertChoices* choices = nullptr;  // keeps what routers choose, or imposes it; null: neither
  // [layers, this rank's heads] f64: the largest scores that attentions have found; empty: they are
  // not wanted.
  Tensor largest_scores = {};
  const Fp8Layers* fp8 = nullptr;  // linear layers that multiply eight bits; null: none does
  bool new_weights = false;        // a step's first forward, before which weights had other values

  ParamSharing* sharing = nullptr;  // of the parameters; null: nothing is due
  bool last = false;                // the step's last backward of this chunk

  // This Step, over other tokens of the same micro-batch.
  Step over(const Tokens& others) const {
    Step s = *this;
    s.tokens = others;
    return s;
  }

  // Whether rows get the bits that they get alone, as those of sequences that have one more token
  // each do.
  bool rows_alone() const { return batch_invariant || (past.cache != nullptr && !past.slot); }

  int tensor_ranks() const;
  // Rows of hidden states on this rank, consecutive ones of the micro-batch's tokens, and the
  // first.
  bool shares_rows() const { return sequence_parallel && tensor_ranks() > 1; }
  std::int64_t rows() const;
  std::int64_t first_row() const;

  // Until backward if something is saved.  What is made again lives shorter: until whoever repeats
  // the forward rewinds the back of `layer`, or the weight gradients have been run.
  Tensor kept(const void* saved, const Shape& shape) { return kept(saved, shape, dtype); }
  Tensor kept_sums(const void* saved, const Shape& shape) {  // statistics
    return kept(saved, shape, sum_dtype(dtype));
  }
  Tensor kept(const void* saved, const Shape& shape, DType of);
  Tensor scratch(const Shape& shape) { return layer.alloc(dtype, shape); }
  Tensor scratch_sums(const Shape& shape) { return layer.alloc(sum_dtype(dtype), shape); }
  // A dy, or an x made again, that a weight gradient reads.
  Tensor gradient(const Shape& shape) { return gradient(shape, dtype); }
  Tensor gradient(const Shape& shape, DType of);

  void show(const Param& module, const char* what, ConstTensor shown) const;

  // What to multiply with; done() follows its last use.
  ConstTensor weight(const Param& param) const {
    if (sharing != nullptr) sharing->use(param);
    return param.value;
  }
  void done(const Param&) const {}

  // What a gradient is added to.
  Tensor gradient_of(const Param& param) const;
  // No more of this micro-batch is added to the gradients of these rows, but what is queued.
  void complete(RowRange rows) const;

  // Dropout of probability p for one place in the model.
  Dropout dropout(double p, std::int64_t layer_number, Purpose purpose) const {
    return {.p = training ? p : 0.0,
            .key = RandomKey::make(seed, (tokens.stack << 24) +
                                             static_cast<std::uint32_t>(layer_number) * kPurposes +
                                             static_cast<std::uint32_t>(purpose)),
            .seq_length = tokens.length * tokens.of_sample,
            .first_row = first_row(),
            .record = record,
            .of_sample = tokens.of_sample};
  }
};

}  // namespace mt
