// LatentAttention: attention of tokens to tokens of their own sequence, whose queries, keys and
// values are made from short latent vectors (DeepSeek-AI: arXiv:2405.04434), and the residual
// around it.
//   q = W_q x                 or, of low rank, W_q_up norm(W_q_down x)
//   [c | r] = W_kv_down x     the latent, and the key that turns by position, of all heads
//   [k_h | v_h] = W_kv_up norm(c)
//   y = residual + dropout(W_o attend([q_h | turn(q_h)], [k_h | turn(r)], v_h)), residual may be
//       empty
// x, y, residual: [rows, hidden_size].  Neighbouring channels turn together, the last of a query.
// The core's heads are as wide as the wider of keys and values, zeros behind the narrower, and what
// turns comes first in them (kernels/latent_heads.h).
//
// With a past in the Step whose cache has latents and turning keys no heads are made of these:
// W_kv_up is multiplied with queries, and with what they find (kernels/cached_latents.h).  But a
// piece of one sequence may have so many tokens that heads are less work: then they are made, of
// what stands before it, too, so many tokens at a time.  A cache of latents that are too wide for
// all this has the heads' keys and values.
//
// Tensor-parallel ranks share W_q, the up projections and W_o by heads; each has all of the down
// projections, and reads its own rows where they share rows.
#pragma once

#include <optional>

#include "nn/attention_core.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/latent.h"

namespace mt {

class LatentAttention {
 public:
  struct Options {
    AttentionCore::Options core;  // with as many key heads as heads
    LatentHeads heads;            // of this rank; without tokens
    std::int64_t window = -1;     // keys before its own that a token may see; -1: all
    double hidden_dropout = 0;
    ConstTensor inv_freq;  // [turning / 2] f64 of host memory
    double rotary_magnitude = 1;
    bool recompute_up = false;  // the backward makes heads again from the latents
  };
  // A latent vector's projections and norm.
  struct Latent {
    Linear down;
    std::optional<Norm> norm;
  };
  struct Queries {
    std::optional<Latent> latent;  // none: `up` reads x
    Linear up;
  };
  struct Made {  // a latent
    Tensor x;    // before its norm
    Norm::Saved norm;
    Tensor normed;  // without a norm x
  };
  struct Saved {
    Made q, kv;
    Tensor turning;  // [tokens, turning], turned but for a cache, which turns what it takes
    Qkv heads;       // as the core reads them; empty: the backward makes them again
    AttentionCore::Saved core;
  };
  LatentAttention(const Queries& q, const Latent& kv, const Linear& kv_up, const Linear& proj,
                  const Options& options)
      : q_(q),
        kv_(kv),
        kv_up_(kv_up),
        proj_(proj),
        options_(options),
        core_(options.core),
        past_core_(core_of_past(options, kv)) {}

  ConstTensor first_weight() const {  // not to be multiplied with
    return (q_.latent ? q_.latent->down : q_.up).weight();
  }

  // y empty: not wanted.  With a norm, x is its input.  ahead: as in Matmul.
  void forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Saved& saved) const;  // without the residual

 private:
  static AttentionCore::Options core_of_past(const Options& options, const Latent& kv);
  Keys keys(const Step& s) const;
  LatentHeads shape(const Step& s) const;
  Dropout hidden_dropout(const Step& s) const;
  void turn(Step& s, Tensor x, bool inverse) const;
  void make_normed(Step& s, Made& made, const std::optional<Norm>& norm, const Saved* saved) const;
  Tensor normed_gradient(Step& s, const Tensor& d_normed, const std::optional<Norm>& norm,
                         const Made& made) const;
  void make_latents(Step& s, Saved& made, ConstTensor x, const Saved* saved) const;
  void make_heads(Step& s, const Qkv& heads, const Saved& made, ConstTensor x) const;
  Tensor find_by_heads(Step& s, Saved& made, ConstTensor x, Saved* saved) const;
  void put_latents(Step& s, Tensor q, ConstTensor q_rows, const Saved& made) const;
  Tensor find_by_latents(Step& s, const Saved& made, ConstTensor x) const;
  bool heads_are_less(const Step& s) const;
  Qkv past_heads(Step& s, std::int64_t first, std::int64_t end) const;
  Tensor find_by_past_heads(Step& s, const Saved& made, ConstTensor x) const;
  void up_backward(Step& s, Tensor dx, const Qkv& d_heads, ConstTensor x, const Saved& saved) const;
  void kv_backward(Step& s, Tensor dx, Tensor d_rows, Tensor d_turning, ConstTensor x,
                   const Saved& saved) const;

  Queries q_;
  Latent kv_;
  Linear kv_up_, proj_;
  Options options_;
  AttentionCore core_, past_core_;
};

}  // namespace mt
