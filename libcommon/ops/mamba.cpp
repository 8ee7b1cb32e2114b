#include "ops/mamba.h"

#include <algorithm>

#include "kernels/causal_conv.h"
#include "kernels/chunk_scan.h"
#include "kernels/gated_norm.h"
#include "ops/check.h"

namespace mt {
namespace {

void check_rows(const char* operation, const char* name, const ConstTensor& rows,
                std::int64_t width, const MambaShape& s) {
  check_shape(operation, name, rows, {s.tokens(), width});
}

template <class T>
T* cache_of(const SequencePast& past) {
  return past.cache ? past.cache.as<T>() : nullptr;
}

// Chunks no longer than the sequences are.
MambaShape fitted(const char* operation, const MambaShape& shape) {
  if (shape.chunk < 1 || shape.chunk > kMostChunk)
    fail(Exit::internal, operation, ": a chunk of ", shape.chunk, " tokens");
  MambaShape s = shape;
  s.chunk = std::clamp<std::int64_t>(s.length, 1, s.chunk);
  return s;
}

template <class T>
ScanWeights<T> weights_of(const ScanParams& p) {
  return {p.dt_bias.as<T>(), p.a_log.as<T>(), p.d.as<T>()};
}
template <class G>
ScanGradients<G> gradients_of(const ScanParamGradients& p) {
  return {p.dt_bias.as<G>(), p.a_log.as<G>(), p.d.as<G>()};
}

void check_heads(const char* operation, const ScanParams& p, const MambaShape& s) {
  check_shape(operation, "dt_bias", p.dt_bias, {s.heads});
  check_shape(operation, "A_log", p.a_log, {s.heads});
  check_shape(operation, "D", p.d, {s.heads});
}

// FLOPs of the forward: of a chunk's pairs, by groups and by heads, and of states, written and
// read.
double scan_flops(const MambaShape& s) {
  const auto tokens = static_cast<double>(s.tokens()), chunk = static_cast<double>(s.chunk),
             inner = static_cast<double>(s.inner());
  return 2 * tokens *
         (chunk * (static_cast<double>(s.states()) + inner) +
          2 * inner * static_cast<double>(s.state_dim));
}

}  // namespace

// --- Convolution --------------------------------------------------------------------------------

void causal_conv_forward(Tensor mixed, ConstTensor projected, ConstTensor w, ConstTensor b,
                         ConstTensor first_key, const SequencePast& past, const MambaShape& s,
                         Stream& stream) {
  constexpr const char* kName = "causal_conv_forward";
  check_rows(kName, "mixed", mixed, s.mixed(), s);
  check_rows(kName, "projected", projected, s.projected(), s);
  check_shape(kName, "b", b, {s.mixed()});
  if (s.taps < 1 || s.taps > kMostTaps || w.numel() != s.mixed() * s.taps)
    fail(Exit::internal, kName, ": w is ", w.shape(), " of ", s.taps, " taps");
  const CacheSlots slots = past.places();
  dispatch(
      Family::attention, projected, {.bytes = 2.0 * static_cast<double>(mixed.bytes())}, stream,
      [&]<class T>() {
        cpu::causal_conv_forward(mixed.as<T>(), cache_of<T>(past), projected.as<T>(), w.as<T>(),
                                 b.as<T>(), or_null<std::int32_t>(first_key), slots, s);
      },
      [&]<class T>() {
        cuda::causal_conv_forward(mixed.as<T>(), cache_of<T>(past), projected.as<T>(), w.as<T>(),
                                  b.as<T>(), or_null<std::int32_t>(first_key), slots, s,
                                  stream.handle());
      });
}

void causal_conv_backward(Tensor d_projected, Tensor dw, Tensor db, ConstTensor d_mixed,
                          ConstTensor projected, ConstTensor w, ConstTensor b,
                          ConstTensor first_key, const MambaShape& s, Stream& stream) {
  constexpr const char* kName = "causal_conv_backward";
  check_rows(kName, "d_projected", d_projected, s.projected(), s);
  check_rows(kName, "d_mixed", d_mixed, s.mixed(), s);
  check_shape(kName, "dw", dw, w.shape());
  check_shape(kName, "db", db, {s.mixed()});
  void* const work =
      gpu_work(projected, stream, [&] { return cuda::causal_conv_backward_work(s); });
  dispatch(
      Family::attention, projected, {.bytes = 3.0 * static_cast<double>(d_mixed.bytes())}, stream,
      [&]<class T>() {
        cpu::causal_conv_backward(d_projected.as<T>(), dw.as<T>(), db.as<T>(), d_mixed.as<T>(),
                                  projected.as<T>(), w.as<T>(), b.as<T>(),
                                  or_null<std::int32_t>(first_key), s);
      },
      [&]<class T>() {
        with_gradient_type<T>(dw, [&]<class G>() {
          cuda::causal_conv_backward(d_projected.as<T>(), dw.as<G>(), db.as<G>(), d_mixed.as<T>(),
                                     projected.as<T>(), w.as<T>(), b.as<T>(),
                                     or_null<std::int32_t>(first_key), s, work, stream.handle());
        });
      });
}

// --- Scan ---------------------------------------------------------------------------------------

void chunk_scan_forward(Tensor y, ConstTensor mixed, ConstTensor projected,
                        const ScanParams& params, ConstTensor first_key, const SequencePast& past,
                        const MambaShape& shape, Stream& stream) {
  constexpr const char* kName = "chunk_scan_forward";
  const MambaShape s = fitted(kName, shape);
  check_rows(kName, "y", y, s.inner(), s);
  check_rows(kName, "mixed", mixed, s.mixed(), s);
  check_rows(kName, "projected", projected, s.projected(), s);
  check_heads(kName, params, s);
  const CacheSlots slots = past.places();
  void* const work = gpu_work(mixed, stream, [&] { return cuda::chunk_scan_work(s); });
  dispatch(
      Family::attention, mixed,
      {.flops = scan_flops(s), .bytes = static_cast<double>(y.bytes() + mixed.bytes())}, stream,
      [&]<class T>() {
        T* const cache = cache_of<T>(past);
        cpu::chunk_scan_forward(y.as<T>(), mixed.as<T>(), projected.as<T>(), weights_of<T>(params),
                                or_null<std::int32_t>(first_key), ScanEnds<T>{cache, cache, slots},
                                s);
      },
      [&]<class T>() {
        float* const cache = cache_of<float>(past);
        cuda::chunk_scan_forward(
            y.as<T>(), mixed.as<T>(), projected.as<T>(), weights_of<T>(params),
            or_null<std::int32_t>(first_key),
            ScanEnds<float>{cache, cache, slots, past.ahead ? past.ahead.data() : nullptr,
                            past.ahead ? past.ahead.bytes() : 0},
            s, work, stream.handle());
      });
}

void chunk_scan_backward(Tensor d_mixed, Tensor d_projected, const ScanParamGradients& gradients,
                         ConstTensor dy, ConstTensor mixed, ConstTensor projected,
                         const ScanParams& params, ConstTensor first_key, const MambaShape& shape,
                         Stream& stream) {
  constexpr const char* kName = "chunk_scan_backward";
  const MambaShape s = fitted(kName, shape);
  check_rows(kName, "d_mixed", d_mixed, s.mixed(), s);
  check_rows(kName, "d_projected", d_projected, s.projected(), s);
  check_rows(kName, "dy", dy, s.inner(), s);
  check_heads(kName, {gradients.dt_bias, gradients.a_log, gradients.d}, s);
  void* const work = gpu_work(mixed, stream, [&] { return cuda::chunk_scan_backward_work(s); });
  dispatch(
      Family::attention, mixed,
      {.flops = 2 * scan_flops(s),
       .bytes = static_cast<double>(dy.bytes() + mixed.bytes() + d_mixed.bytes())},
      stream,
      [&]<class T>() {
        cpu::chunk_scan_backward(d_mixed.as<T>(), d_projected.as<T>(), gradients_of<T>(gradients),
                                 dy.as<T>(), mixed.as<T>(), projected.as<T>(),
                                 weights_of<T>(params), or_null<std::int32_t>(first_key), s);
      },
      [&]<class T>() {
        with_gradient_type<T>(gradients.d, [&]<class G>() {
          cuda::chunk_scan_backward(d_mixed.as<T>(), d_projected.as<T>(),
                                    gradients_of<G>(gradients), dy.as<T>(), mixed.as<T>(),
                                    projected.as<T>(), weights_of<T>(params),
                                    or_null<std::int32_t>(first_key), s, work, stream.handle());
        });
      });
}

// --- Gated norm ---------------------------------------------------------------------------------

void gated_norm_forward(Tensor out, Tensor rstd, ConstTensor y, ConstTensor projected,
                        ConstTensor w, double eps, const MambaShape& s, Stream& stream) {
  constexpr const char* kName = "gated_norm_forward";
  check_rows(kName, "out", out, s.inner(), s);
  check_rows(kName, "y", y, s.inner(), s);
  check_rows(kName, "projected", projected, s.projected(), s);
  check_shape(kName, "w", w, {s.inner()});
  check_shape(kName, "rstd", rstd, {s.tokens(), s.groups});
  dispatch(
      Family::norm, y, {.bytes = 3.0 * static_cast<double>(y.bytes())}, stream,
      [&]<class T>() {
        cpu::gated_norm_forward(out.as<T>(), rstd.as<T>(), y.as<T>(), projected.as<T>(), w.as<T>(),
                                eps, s);
      },
      [&]<class T>() {
        cuda::gated_norm_forward(out.as<T>(), rstd.as<float>(), y.as<T>(), projected.as<T>(),
                                 w.as<T>(), eps, s, stream.handle());
      });
}

void gated_norm_backward(Tensor dy, Tensor d_projected, Tensor dw, ConstTensor d_out, ConstTensor y,
                         ConstTensor projected, ConstTensor rstd, ConstTensor w,
                         const MambaShape& s, Stream& stream) {
  constexpr const char* kName = "gated_norm_backward";
  check_rows(kName, "dy", dy, s.inner(), s);
  check_rows(kName, "d_out", d_out, s.inner(), s);
  check_rows(kName, "d_projected", d_projected, s.projected(), s);
  check_shape(kName, "dw", dw, {s.inner()});
  void* const work = gpu_work(y, stream, [&] { return cuda::gated_norm_backward_work(s); });
  dispatch(
      Family::norm, y, {.bytes = 5.0 * static_cast<double>(y.bytes())}, stream,
      [&]<class T>() {
        cpu::gated_norm_backward(dy.as<T>(), d_projected.as<T>(), dw.as<T>(), d_out.as<T>(),
                                 y.as<T>(), projected.as<T>(), rstd.as<T>(), w.as<T>(), s);
      },
      [&]<class T>() {
        with_gradient_type<T>(dw, [&]<class G>() {
          cuda::gated_norm_backward(dy.as<T>(), d_projected.as<T>(), dw.as<G>(), d_out.as<T>(),
                                    y.as<T>(), projected.as<T>(), rstd.as<float>(), w.as<T>(), s,
                                    work, stream.handle());
        });
      });
}

// --- Shares of heads ----------------------------------------------------------------------------

static void check_shares(const char* name, const ConstTensor& shares, const ConstTensor& projected,
                         const HeadShares& of) {
  check_rows(name, "projected", projected, of.whole.projected(), of.whole);
  if (shares.numel() != of.whole.tokens() * of.ranks * of.part().projected())
    fail(Exit::internal, name, ": shares are ", shares.shape(), " of ", of.ranks, " ranks");
}

void split_heads(Tensor shares, ConstTensor projected, const HeadShares& of, Stream& stream) {
  check_shares("split_heads", shares, projected, of);
  dispatch(
      Family::attention, projected, {.bytes = 2.0 * static_cast<double>(shares.bytes())}, stream,
      [&]<class T>() { cpu::split_heads(shares.as<T>(), projected.as<T>(), of); },
      [&]<class T>() {
        cuda::split_heads(shares.as<T>(), projected.as<T>(), of, stream.handle());
      });
}

void merge_heads(Tensor d_projected, ConstTensor d_shares, const HeadShares& of, Stream& stream) {
  check_shares("merge_heads", d_shares, d_projected, of);
  dispatch(
      Family::attention, d_shares, {.bytes = 2.0 * static_cast<double>(d_shares.bytes())}, stream,
      [&]<class T>() { cpu::merge_heads(d_projected.as<T>(), d_shares.as<T>(), of); },
      [&]<class T>() {
        cuda::merge_heads(d_projected.as<T>(), d_shares.as<T>(), of, stream.handle());
      });
}

}  // namespace mt
