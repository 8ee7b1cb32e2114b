#include "ops/delta.h"

#include <algorithm>

#include "kernels/causal_conv.h"
#include "kernels/delta_rule.h"
#include "kernels/output_gate.h"
#include "ops/check.h"

namespace mt {
namespace {

void check_rows(const char* operation, const char* name, const ConstTensor& rows,
                std::int64_t width, const DeltaShape& s) {
  check_shape(operation, name, rows, {s.tokens(), width});
}

void check_heads(const char* operation, const DeltaParams& p, const DeltaShape& s) {
  check_shape(operation, "dt_bias", p.dt_bias, {s.value_heads});
  check_shape(operation, "A_log", p.a_log, {s.value_heads});
}

void check_dims(const char* operation, const DeltaShape& s, const ConstTensor& like) {
  if (like.device() == Device::cuda && std::max(s.key_dim, s.value_dim) > kMostDeltaDim)
    fail(Exit::internal, operation, ": heads of ", s.key_dim, " and ", s.value_dim, " channels");
}

template <class T>
T* cache_of(const SequencePast& past) {
  return past.cache ? past.cache.as<T>() : nullptr;
}

// FLOPs of the forward: the state is multiplied with a key and a query, and a product is added.
double rule_flops(const DeltaShape& s) {
  return 6 * static_cast<double>(s.tokens() * s.value_heads * s.state());
}

}  // namespace

// --- Convolution --------------------------------------------------------------------------------

void causal_conv_forward(Tensor mixed, ConstTensor projected, ConstTensor w, ConstTensor first_key,
                         const SequencePast& past, const DeltaShape& s, Stream& stream) {
  constexpr const char* kName = "causal_conv_forward";
  check_rows(kName, "mixed", mixed, s.mixed(), s);
  check_rows(kName, "projected", projected, s.projected(), s);
  if (s.taps < 1 || s.taps > kMostTaps || w.numel() != s.mixed() * s.taps)
    fail(Exit::internal, kName, ": w is ", w.shape(), " of ", s.taps, " taps");
  const CacheSlots slots = past.places();
  dispatch(
      Family::attention, projected, {.bytes = 2.0 * static_cast<double>(mixed.bytes())}, stream,
      [&]<class T>() {
        cpu::causal_conv_forward<T>(mixed.as<T>(), cache_of<T>(past), projected.as<T>(), w.as<T>(),
                                    nullptr, or_null<std::int32_t>(first_key), slots, s);
      },
      [&]<class T>() {
        cuda::causal_conv_forward<T>(mixed.as<T>(), cache_of<T>(past), projected.as<T>(), w.as<T>(),
                                     nullptr, or_null<std::int32_t>(first_key), slots, s,
                                     stream.handle());
      });
}

void causal_conv_backward(Tensor d_projected, Tensor dw, ConstTensor d_mixed, ConstTensor projected,
                          ConstTensor w, ConstTensor first_key, const DeltaShape& s,
                          Stream& stream) {
  constexpr const char* kName = "causal_conv_backward";
  check_rows(kName, "d_projected", d_projected, s.projected(), s);
  check_rows(kName, "d_mixed", d_mixed, s.mixed(), s);
  check_shape(kName, "dw", dw, w.shape());
  void* const work =
      gpu_work(projected, stream, [&] { return cuda::causal_conv_backward_work(s); });
  dispatch(
      Family::attention, projected, {.bytes = 3.0 * static_cast<double>(d_mixed.bytes())}, stream,
      [&]<class T>() {
        cpu::causal_conv_backward<T>(d_projected.as<T>(), dw.as<T>(), nullptr, d_mixed.as<T>(),
                                     projected.as<T>(), w.as<T>(), nullptr,
                                     or_null<std::int32_t>(first_key), s);
      },
      [&]<class T>() {
        with_gradient_type<T>(dw, [&]<class G>() {
          cuda::causal_conv_backward<T, G>(
              d_projected.as<T>(), dw.as<G>(), nullptr, d_mixed.as<T>(), projected.as<T>(),
              w.as<T>(), nullptr, or_null<std::int32_t>(first_key), s, work, stream.handle());
        });
      });
}

// --- The rule -----------------------------------------------------------------------------------

void delta_rule_forward(Tensor y, ConstTensor mixed, ConstTensor projected,
                        const DeltaParams& params, ConstTensor first_key, const SequencePast& past,
                        const DeltaShape& s, Stream& stream) {
  constexpr const char* kName = "delta_rule_forward";
  check_rows(kName, "y", y, s.values(), s);
  check_rows(kName, "mixed", mixed, s.mixed(), s);
  check_rows(kName, "projected", projected, s.projected(), s);
  check_heads(kName, params, s);
  check_dims(kName, s, mixed);
  const CacheSlots slots = past.places();
  dispatch(
      Family::attention, mixed,
      {.flops = rule_flops(s), .bytes = static_cast<double>(y.bytes() + mixed.bytes())}, stream,
      [&]<class T>() {
        cpu::delta_rule_forward(y.as<T>(), mixed.as<T>(), projected.as<T>(), params.dt_bias.as<T>(),
                                params.a_log.as<T>(), or_null<std::int32_t>(first_key),
                                DeltaStates<T>{cache_of<T>(past), slots}, s);
      },
      [&]<class T>() {
        cuda::delta_rule_forward(y.as<T>(), mixed.as<T>(), projected.as<T>(),
                                 params.dt_bias.as<T>(), params.a_log.as<T>(),
                                 or_null<std::int32_t>(first_key), {cache_of<float>(past), slots},
                                 s, stream.handle());
      });
}

void delta_rule_backward(Tensor d_mixed, Tensor d_projected, const DeltaParamGradients& gradients,
                         ConstTensor dy, ConstTensor mixed, ConstTensor projected,
                         const DeltaParams& params, ConstTensor first_key, const DeltaShape& s,
                         Stream& stream) {
  constexpr const char* kName = "delta_rule_backward";
  check_rows(kName, "d_mixed", d_mixed, s.mixed(), s);
  check_rows(kName, "d_projected", d_projected, s.projected(), s);
  check_rows(kName, "dy", dy, s.values(), s);
  check_heads(kName, {gradients.dt_bias, gradients.a_log}, s);
  check_dims(kName, s, mixed);
  void* const work = gpu_work(mixed, stream, [&] { return cuda::delta_rule_backward_work(s); });
  dispatch(
      Family::attention, mixed,
      {.flops = 3 * rule_flops(s),
       .bytes = static_cast<double>(dy.bytes() + mixed.bytes() + d_mixed.bytes())},
      stream,
      [&]<class T>() {
        cpu::delta_rule_backward(d_mixed.as<T>(), d_projected.as<T>(), gradients.dt_bias.as<T>(),
                                 gradients.a_log.as<T>(), dy.as<T>(), mixed.as<T>(),
                                 projected.as<T>(), params.dt_bias.as<T>(), params.a_log.as<T>(),
                                 or_null<std::int32_t>(first_key), s);
      },
      [&]<class T>() {
        with_gradient_type<T>(gradients.a_log, [&]<class G>() {
          cuda::delta_rule_backward(d_mixed.as<T>(), d_projected.as<T>(), gradients.dt_bias.as<G>(),
                                    gradients.a_log.as<G>(), dy.as<T>(), mixed.as<T>(),
                                    projected.as<T>(), params.dt_bias.as<T>(), params.a_log.as<T>(),
                                    or_null<std::int32_t>(first_key), s, work, stream.handle());
        });
      });
}

// --- Norm and gate ------------------------------------------------------------------------------

void delta_norm_forward(Tensor out, Tensor rstd, ConstTensor y, ConstTensor projected,
                        ConstTensor w, const DeltaNorm& norm, const DeltaShape& s, Stream& stream) {
  constexpr const char* kName = "delta_norm_forward";
  check_rows(kName, "out", out, s.values(), s);
  check_rows(kName, "y", y, s.values(), s);
  check_rows(kName, "projected", projected, s.projected(), s);
  check_shape(kName, "w", w, {s.value_dim});
  check_shape(kName, "rstd", rstd, {s.tokens(), s.value_heads});
  dispatch(
      Family::norm, y, {.bytes = 3.0 * static_cast<double>(y.bytes())}, stream,
      [&]<class T>() {
        cpu::delta_norm_forward(out.as<T>(), rstd.as<T>(), y.as<T>(), projected.as<T>(), w.as<T>(),
                                norm, s);
      },
      [&]<class T>() {
        cuda::delta_norm_forward(out.as<T>(), rstd.as<float>(), y.as<T>(), projected.as<T>(),
                                 w.as<T>(), norm, s, stream.handle());
      });
}

void delta_norm_backward(Tensor dy, Tensor d_projected, Tensor dw, ConstTensor d_out, ConstTensor y,
                         ConstTensor projected, ConstTensor rstd, ConstTensor w,
                         const DeltaNorm& norm, const DeltaShape& s, Stream& stream) {
  constexpr const char* kName = "delta_norm_backward";
  check_rows(kName, "dy", dy, s.values(), s);
  check_rows(kName, "d_out", d_out, s.values(), s);
  check_rows(kName, "d_projected", d_projected, s.projected(), s);
  check_shape(kName, "dw", dw, {s.value_dim});
  void* const work = gpu_work(y, stream, [&] { return cuda::delta_norm_backward_work(s); });
  dispatch(
      Family::norm, y, {.bytes = 5.0 * static_cast<double>(y.bytes())}, stream,
      [&]<class T>() {
        cpu::delta_norm_backward(dy.as<T>(), d_projected.as<T>(), dw.as<T>(), d_out.as<T>(),
                                 y.as<T>(), projected.as<T>(), rstd.as<T>(), w.as<T>(), norm, s);
      },
      [&]<class T>() {
        with_gradient_type<T>(dw, [&]<class G>() {
          cuda::delta_norm_backward(dy.as<T>(), d_projected.as<T>(), dw.as<G>(), d_out.as<T>(),
                                    y.as<T>(), projected.as<T>(), rstd.as<float>(), w.as<T>(), norm,
                                    s, work, stream.handle());
        });
      });
}

// --- Attention's gate ---------------------------------------------------------------------------

void output_gate_forward(Tensor y, ConstTensor x, ConstTensor gate, Stream& stream) {
  constexpr const char* kName = "output_gate_forward";
  check_shape(kName, "x", x, y.shape());
  check_shape(kName, "gate", gate, y.shape());
  dispatch(
      Family::attention, x, moves(y, x, gate), stream,
      [&]<class T>() { cpu::output_gate_forward(y.as<T>(), x.as<T>(), gate.as<T>(), y.numel()); },
      [&]<class T>() {
        cuda::output_gate_forward(y.as<T>(), x.as<T>(), gate.as<T>(), y.numel(), stream.handle());
      });
}

void output_gate_backward(Tensor dx, Tensor d_gate, ConstTensor dy, ConstTensor x, ConstTensor gate,
                          Stream& stream) {
  constexpr const char* kName = "output_gate_backward";
  for (const ConstTensor& other : {ConstTensor(d_gate), dy, x, gate})
    check_shape(kName, "a tensor", other, dx.shape());
  dispatch(
      Family::attention, x, moves(dx, d_gate, dy, x, gate), stream,
      [&]<class T>() {
        cpu::output_gate_backward(dx.as<T>(), d_gate.as<T>(), dy.as<T>(), x.as<T>(), gate.as<T>(),
                                  dx.numel());
      },
      [&]<class T>() {
        cuda::output_gate_backward(dx.as<T>(), d_gate.as<T>(), dy.as<T>(), x.as<T>(), gate.as<T>(),
                                   dx.numel(), stream.handle());
      });
}

static void check_gates(const char* operation, const ConstTensor& q, const ConstTensor& gate,
                        const ConstTensor& both, std::int64_t groups) {
  const Shape& s = q.shape();
  check_shape(operation, "gate", gate, s);
  check_shape(operation, "both", both, {s[0], 2 * s[1], s[2]});
  if (s[1] % groups != 0) fail(Exit::internal, operation, ": ", groups, " groups of ", s);
}

void split_gates(Tensor q, Tensor gate, ConstTensor both, std::int64_t groups, Stream& stream) {
  constexpr const char* kName = "split_gates";
  check_gates(kName, q, gate, both, groups);
  const Shape& s = q.shape();
  dispatch(
      Family::attention, both, moves(q, gate, both), stream,
      [&]<class T>() {
        cpu::split_gates(q.as<T>(), gate.as<T>(), both.as<T>(), s[0] * groups,
                         s[1] / groups * s[2]);
      },
      [&]<class T>() {
        cuda::split_gates(q.as<T>(), gate.as<T>(), both.as<T>(), s[0] * groups,
                          s[1] / groups * s[2], stream.handle());
      });
}

void merge_gates(Tensor both, ConstTensor q, ConstTensor gate, std::int64_t groups,
                 Stream& stream) {
  constexpr const char* kName = "merge_gates";
  check_gates(kName, q, gate, both, groups);
  const Shape& s = q.shape();
  dispatch(
      Family::attention, both, moves(q, gate, both), stream,
      [&]<class T>() {
        cpu::merge_gates(both.as<T>(), q.as<T>(), gate.as<T>(), s[0] * groups,
                         s[1] / groups * s[2]);
      },
      [&]<class T>() {
        cuda::merge_gates(both.as<T>(), q.as<T>(), gate.as<T>(), s[0] * groups,
                          s[1] / groups * s[2], stream.handle());
      });
}

}  // namespace mt
