// The element-wise steps of optimizers.
#include <span>

#include "kernels/muon.h"
#include "kernels/sgd.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

static std::span<const UpdateChunk> chunks_of(const FlatUpdate& update) {
  return {static_cast<const UpdateChunk*>(update.chunks.data()),
          update.chunks.bytes() / sizeof(UpdateChunk)};
}

// Each element's value, gradient and state: read, and written but for the gradient.
static Cost cost_of(const FlatUpdate& update, int states) {
  const auto each = static_cast<double>((3 + 2 * states) * size_of(update.g.dtype()) +
                                        (update.copy ? size_of(update.copy.dtype()) : 0));
  return {.bytes = each * static_cast<double>(update.elements)};
}

void adam(const FlatUpdate& update, Tensor m, Tensor v, const AdamOptions& options,
          const StepRecord* record, Stream& stream) {
  check_shape("adam", "v", v, m.shape());
  const std::span<const UpdateChunk> chunks = chunks_of(update);
  dispatch(
      Family::optimizer, update.p, cost_of(update, 2), stream,
      [&]<class T>() {
        for (const UpdateChunk& c : chunks)
          cpu::adam(update.p.as<T>() + c.first, m.as<T>() + c.state, v.as<T>() + c.state,
                    update.g.as<T>() + c.first + c.gradient_shift, c.count, options, c.lr_mult,
                    c.decay_mult, record);
      },
      [&]<class P>() {
        with_gpu_type(update.copy ? update.copy.dtype() : DType::f32, [&]<class T>() {
          cuda::adam(update.p.as<float>(), m.as<float>(), v.as<float>(),
                     update.copy ? update.copy.as<T>() : nullptr, update.g.as<float>(),
                     chunks.data(), std::ssize(chunks), options, record, nullptr, stream.handle());
        });
      });
}

void sgd(const FlatUpdate& update, Tensor b, double momentum, const StepRecord* record,
         Stream& stream) {
  const std::span<const UpdateChunk> chunks = chunks_of(update);
  dispatch(
      Family::optimizer, update.p, cost_of(update, 1), stream,
      [&]<class T>() {
        for (const UpdateChunk& c : chunks)
          cpu::sgd(update.p.as<T>() + c.first, b.as<T>() + c.state,
                   update.g.as<T>() + c.first + c.gradient_shift, c.count, momentum, c.lr_mult,
                   c.decay_mult, record);
      },
      [&]<class P>() {
        with_gpu_type(update.copy ? update.copy.dtype() : DType::f32, [&]<class T>() {
          cuda::sgd(update.p.as<float>(), b.as<float>(),
                    update.copy ? update.copy.as<T>() : nullptr, update.g.as<float>(),
                    chunks.data(), std::ssize(chunks), momentum, record, nullptr, stream.handle());
        });
      });
}

void muon_momentum(Tensor u, Tensor m, ConstTensor g, double momentum, bool nesterov,
                   const StepRecord* record, Stream& stream) {
  check_shape("muon_momentum", "m", m, u.shape());
  check_shape("muon_momentum", "g", g, u.shape());
  dispatch_cpu(Family::optimizer, "muon_momentum", u, moves(u, m, m, g), stream, [&]<class T>() {
    cpu::muon_momentum(u.as<T>(), m.as<T>(), g.as<T>(), u.numel(), momentum, nesterov, record);
  });
}

void muon_apply(Tensor p, ConstTensor u, double factor, double lr_mult, double decay_mult,
                const StepRecord* record, Stream& stream) {
  check_shape("muon_apply", "u", u, p.shape());
  dispatch_cpu(Family::optimizer, "muon_apply", p, moves(p, p, u), stream, [&]<class T>() {
    cpu::muon_apply(p.as<T>(), u.as<T>(), p.numel(), factor, lr_mult, decay_mult, record);
  });
}

}  // namespace mt
