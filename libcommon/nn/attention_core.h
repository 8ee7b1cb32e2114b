// AttentionCore: what queries find among keys, between the projections that make both and the one
// that reads it (kernels/attention.h).
//   o = dropout(softmax(cap(scale q k^T / sqrt(head_dim) + bias))) v
// where a head may have a sink, a score that is no key's (kernels/attention_sink.h).
// The keys are those of the Step's tokens, on this rank or on all that share its sequences
// (context_parallel.h), or of a memory's, as many as Keys say, or, with a past in the Step, those
// of a cache, where the tokens' own are put at the Step's positions.
#pragma once

#include <array>
#include <optional>

#include "kernels/attention.h"
#include "kernels/attention_sink.h"
#include "nn/step.h"

namespace mt {

// Queries, keys and values, or their gradients: [tokens, heads or kv_heads, head_dim].  Packed, q
// has them all, as rows of a fused projection (kernels/qkv.h).  Without v alone k has both, as rows
// of a projection with each head's key and behind it its value.
struct Qkv {
  Tensor q, k, v;
  bool packed() const { return !k; }
};

// Keys: which of them a query sees (kernels/attention.h).
struct Keys {
  bool causal = true;
  std::int64_t window = -1;  // keys before its own; -1: all
  ConstTensor first_key;     // [tokens] i32: where each query's document begins; empty: 0 for all
  ConstTensor lengths;       // [sequences] i32: each sequence's keys; empty: as many as there are
  std::int64_t count = 0;    // of a memory's keys at most; 0: the keys are the tokens' own
  // Where a memory's lie: in runs of so many tokens, the i-th sequence's in the i-th of them or in
  // that which its slot says, [sequences] i32, with lengths only.
  std::int64_t stride = 0;  // 0: count
  ConstTensor slots = {};
  ConstTensor bias = {};  // [heads, 2 count - 1] of the sum_dtype; not with ranks that share
                          // sequences
};

// Rotary: how the tokens of a model's layers turn.
struct Rotary {
  // [rotated channels / 2] f64 of host memory, of layers that see all tokens and of those with a
  // window, which may have the same; empty: there are none.
  std::array<ConstTensor, 2> inv_freq = {};
  double magnitude = 1;  // kernels/rope.h, as the next
  bool interleaved = false;
};

// Tells the attentions of the Step's past, if it has one, by which angles its tokens turn; in
// `layer`.
void find_angles(Step& s, const Rotary& rotary);

// HeadSink: what a layer's heads see beside keys.
struct HeadSink {
  bool is_there = false;
  const Param* scores = nullptr;  // [heads] of this rank; null: 0 of each

  // o and lse, of some of this rank's heads from first_head on, become those with it.
  void add(Step& s, Tensor o, Tensor lse, const SinkShape& heads, std::int64_t first_head) const;
  // Adds to the gradient of its scores.
  void backward(Step& s, ConstTensor d_o, ConstTensor o, ConstTensor lse, const SinkShape& heads,
                std::int64_t first_head) const;
};

class AttentionCore {
 public:
  struct Options {
    std::int64_t layer = 0;  // of this model, from 0: the cache's, and of its random numbers
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;  // of this rank
    std::int64_t values = 0;      // channels of a value, zeros behind them; 0: head_dim
    std::int64_t first_head = 0;  // of the layer's, the first of these
    double dropout = 0;
    Purpose purpose = Purpose::attention_dropout;  // of its random numbers
    double scale = 1;                              // of the scores, beside 1 / sqrt(head_dim)
    double softcap = 0;                            // kernels/attention.h
    HeadSink sink = {};
    std::optional<std::size_t> angles = 0;  // which of Rotary's tables; none: nothing turns
    bool recompute = false;                 // the backward makes what was found again
  };
  struct Saved {
    Tensor o, lse;  // [tokens, heads, head_dim], [sequences, heads, length]
  };
  explicit AttentionCore(const Options& options) : options_(options) {}

  const Options& options() const { return options_; }
  // Whether heads may be packed.
  bool takes_packed(const Step& s) const;

  // Returns o.
  Tensor forward(Step& s, const Qkv& heads, const Keys& keys, Saved* saved) const;
  // Returns o of queries [tokens, heads, width] over the latents of the Step's past, which are keys
  // and values of all heads, the tokens' own among them; this core has one key head.
  Tensor forward_latents(Step& s, ConstTensor q, const Keys& keys) const;
  // o and lse, [heads tokens], of the sum_dtype, get what the Step's tokens, of one sequence, find
  // among these keys (kernels/attention_part.h), with what they have found so far or alone; without
  // dropout and sinks.
  void forward_part(Step& s, Tensor o, Tensor lse, const Qkv& heads, const AttentionRange& range,
                    bool so_far) const;
  // Returns what the forward found, kept since then or made again.
  Saved found(Step& s, const Qkv& heads, const Keys& keys, const Saved& saved) const;
  // gradients: packed if the heads are.
  void backward(Step& s, const Qkv& gradients, ConstTensor d_o, const Saved& found,
                const Qkv& heads, const Keys& keys) const;
  // Returns the gradient of the keys' bias, in `layer`.
  Tensor bias_gradient(Step& s, ConstTensor d_o, const Saved& found, const Qkv& heads,
                       const Keys& keys) const;

 private:
  AttentionShape shape(const Step& s, const Keys& keys) const;
  AttentionShape shape_of_past(const Step& s, const Keys& keys, std::int64_t page_tokens) const;
  Dropout dropout(const Step& s) const;
  Shape shape_of_o(const Step& s) const;
  Shape shape_of_lse(const Step& s) const;
  SinkShape sink_shape(const Step& s) const;
  void note_largest(Step& s, const Qkv& heads, const Keys& keys) const;
  void attend(Step& s, const Saved& found, const Qkv& heads, const Keys& keys) const;
  void attend_past(Step& s, const Saved& found, const Qkv& heads, const Keys& keys) const;

  Options options_;
};

}  // namespace mt
