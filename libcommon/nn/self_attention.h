// SelfAttention: attention of tokens to tokens of their own sequence, with grouped queries, and the
// residual around it.
//   y = residual + dropout(W_o attend(turn(norm(W_qkv x))) + b_o), where residual may be empty
// or, with norms behind, attend(norm(turn(W_qkv x))).  With a clip C, what W_qkv makes lies between
// -C and C.
// x, y, residual: [rows, hidden_size].  With a gate, what W_o reads is attend(...) sigmoid(g),
// where W_qkv makes g, too (kernels/output_gate.h).  The norms are of each head's channels, or of
// all heads' together, of queries and of keys.  A bias of relative positions may be added to the
// scores.  With a past in the Step, keys and values of the tokens before come from its cache, and
// those of x are put there, at the Step's positions.  The Step's first_key parts the documents of a
// sequence. Without a past, rotary positions are those in the sequence, whatever the Step's
// positions are, as in Megatron.
#pragma once

#include <optional>

#include "nn/attention_core.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/relative_bias.h"

namespace mt {

class SelfAttention {
 public:
  struct Options {
    AttentionCore::Options core;
    std::int64_t window = -1;  // keys before its own that a token may see; -1: all
    double hidden_dropout = 0;
    ConstTensor inv_freq;  // [rotated channels / 2] f64 of host memory; empty: no rotary embedding
    bool rotary_interleaved = false;
    double rotary_magnitude = 1;  // kernels/rope.h
    bool norms_of_all = false;    // the norms are of all heads together
    bool gated = false;
    bool norms_behind = false;  // they are of what has turned
    double clip = 0;            // 0: none
    std::optional<RelativeBias> bias = {};
  };
  struct HeadNorm {
    Norm norm;
    // [heads head_dim]: what each head is multiplied by behind the norm, where that has no weight.
    const Param* weights = nullptr;
  };
  struct HeadNorms {  // both or none
    std::optional<HeadNorm> q, k;
  };
  // Queries or keys before their norm, turned if that is behind; without one, those that the core
  // reads.
  struct Raw {
    Tensor x;
    Norm::Saved norm;
  };
  struct Saved {
    Qkv heads;  // as the core reads them
    Raw q, k;   // of heads that are not packed
    Tensor gate;
    Tensor unclipped;  // the projection's rows
    AttentionCore::Saved core;
  };
  SelfAttention(Linear qkv, Linear proj, const Options& options, const HeadNorms& norms = {})
      : qkv_(qkv), proj_(proj), options_(options), core_(options.core), norms_(norms) {}

  ConstTensor first_weight() const { return qkv_.weight(); }  // not to be multiplied with

  // y empty: not wanted.  With a norm, x is its input.  ahead: as in Matmul.
  void forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Saved& saved) const;  // without the residual

 private:
  Keys keys(Step& s) const;  // with their bias in `layer`
  // Whether queries, keys and values stay where the projection puts them.
  bool packed(const Step& s) const { return !norms_.q && !options_.gated && core_.takes_packed(s); }
  Dropout hidden_dropout(const Step& s) const;
  Tensor all_heads(const Tensor& rows) const;
  Saved project(Step& s, ConstTensor x, const Saved* saved, const Norm* norm) const;
  Tensor projection_gradient(Step& s, ConstTensor d_o, const Tensor& d_gate,
                             const AttentionCore::Saved& found, const Saved& saved,
                             const Keys& keys) const;
  void turn(Step& s, Tensor x, bool inverse) const;
  void turn_past(Step& s, Tensor x) const;
  void make_rows(Step& s, Tensor rows, ConstTensor x, const Norm* norm, const Saved* saved,
                 Saved& made) const;
  void norm_heads(Step& s, Tensor y, const HeadNorm& norm, const Tensor& x,
                  Norm::Saved* saved) const;
  Tensor norm_heads_backward(Step& s, Tensor dy, const HeadNorm& norm, const Raw& raw) const;
  void norm_and_turn(Step& s, Tensor y, const std::optional<HeadNorm>& norm, Tensor x,
                     Norm::Saved* saved) const;
  Tensor norm_and_turn_backward(Step& s, Tensor dy, const std::optional<HeadNorm>& norm,
                                const Raw& raw) const;

  Linear qkv_, proj_;
  Options options_;
  AttentionCore core_;
  HeadNorms norms_;
};

}  // namespace mt
