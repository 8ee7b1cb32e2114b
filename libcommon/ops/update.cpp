// The element-wise steps of optimizers.
#include <algorithm>
#include <span>

#include "base/threads.h"
#include "kernels/muon.h"
#include "kernels/sgd.h"
#include "ops/check.h"
#include "ops/ops.h"
#include "tensor/half.h"

namespace mt {

static std::span<const UpdateChunk> chunks_of(const FlatUpdate& update) {
  return {static_cast<const UpdateChunk*>(update.chunks.data()),
          update.chunks.bytes() / sizeof(UpdateChunk)};
}

// Each element's value, gradient and state: read, and written but for the gradient.
static Cost cost_of(const FlatUpdate& update, std::initializer_list<Tensor> states) {
  std::size_t each = 2 * size_of(update.p.dtype()) + size_of(update.g.dtype());
  for (const Tensor& state : states) each += 2 * size_of(state.dtype());
  if (update.copy) each += size_of(update.copy.dtype());
  return {.bytes = static_cast<double>(each) * static_cast<double>(update.elements)};
}

// Some elements of a moment, from `at` on, as T; and back, rounded.
template <class T>
static void read(std::span<T> to, const Tensor& moment, std::int64_t at) {
  if (moment.dtype() != DType::bf16) {
    std::copy_n(moment.as<T>() + at, to.size(), to.begin());
    return;
  }
  const auto* from = static_cast<const Bf16*>(moment.data()) + at;
  for (T& x : to) x = static_cast<float>(*from++);
}
template <class T>
static void write(const Tensor& moment, std::int64_t at, std::span<const T> from) {
  if (moment.dtype() != DType::bf16) {
    std::ranges::copy(from, moment.as<T>() + at);
    return;
  }
  auto* to = static_cast<Bf16*>(moment.data()) + at;
  for (const T x : from) *to++ = Bf16(static_cast<float>(x));
}

// Where a moment has 16 bits both go by way of T, some at a time.
template <class T>
static void adam_on_cpu(T* p, const Tensor& m, const Tensor& v, const T* g, const UpdateChunk& c,
                        const AdamOptions& options, const StepRecord* record) {
  if (m.dtype() != DType::bf16 && v.dtype() != DType::bf16)
    return cpu::adam(p, m.as<T>() + c.state, v.as<T>() + c.state, g, c.count, options, c.lr_mult,
                     c.decay_mult, record);
  constexpr std::int64_t kSome = 4096;
  parallel_for((c.count + kSome - 1) / kSome, [&](std::int64_t block) {
    const std::int64_t begin = block * kSome, count = std::min(kSome, c.count - begin);
    T first[kSome], second[kSome];
    const std::span<T> of_m(first, static_cast<std::size_t>(count)), of_v(second, of_m.size());
    read(of_m, m, c.state + begin);
    read(of_v, v, c.state + begin);
    cpu::adam(p + begin, first, second, g + begin, count, options, c.lr_mult, c.decay_mult, record);
    write<T>(m, c.state + begin, of_m);
    write<T>(v, c.state + begin, of_v);
  });
}

// body.operator()<T>() for the type of a moment on a GPU.
template <class Body>
static void with_moment(const Tensor& moment, const Body& body) {
  if (moment.dtype() == DType::bf16)
    body.template operator()<__nv_bfloat16>();
  else
    body.template operator()<float>();
}

void adam(const FlatUpdate& update, Tensor m, Tensor v, const AdamOptions& options,
          const StepRecord* record, Stream& stream) {
  check_shape("adam", "v", v, m.shape());
  const std::span<const UpdateChunk> chunks = chunks_of(update);
  dispatch(
      Family::optimizer, update.p, cost_of(update, {m, v}), stream,
      [&]<class T>() {
        for (const UpdateChunk& c : chunks)
          adam_on_cpu(update.p.as<T>() + c.first, m, v,
                      update.g.as<T>() + c.first + c.gradient_shift, c, options, record);
      },
      [&]<class P>() {
        with_gpu_type(update.copy ? update.copy.dtype() : DType::f32, [&]<class T>() {
          with_moment(m, [&]<class First>() {
            with_moment(v, [&]<class Second>() {
              with_gradient_type<T>(update.g, [&]<class G>() {
                cuda::adam(update.p.as<float>(), m.as<First>(), v.as<Second>(),
                           update.copy ? update.copy.as<T>() : nullptr, update.g.as<G>(),
                           chunks.data(), std::ssize(chunks), options, record, stream.handle());
              });
            });
          });
        });
      });
}

void sgd(const FlatUpdate& update, Tensor b, double momentum, const StepRecord* record,
         Stream& stream) {
  const std::span<const UpdateChunk> chunks = chunks_of(update);
  dispatch(
      Family::optimizer, update.p, cost_of(update, {b}), stream,
      [&]<class T>() {
        for (const UpdateChunk& c : chunks)
          cpu::sgd(update.p.as<T>() + c.first, b.as<T>() + c.state,
                   update.g.as<T>() + c.first + c.gradient_shift, c.count, momentum, c.lr_mult,
                   c.decay_mult, record);
      },
      [&]<class P>() {
        with_gpu_type(update.copy ? update.copy.dtype() : DType::f32, [&]<class T>() {
          with_gradient_type<T>(update.g, [&]<class G>() {
            cuda::sgd(update.p.as<float>(), b.as<float>(),
                      update.copy ? update.copy.as<T>() : nullptr, update.g.as<G>(), chunks.data(),
                      std::ssize(chunks), momentum, record, stream.handle());
          });
        });
      });
}

void decide_update(std::span<StepRecord> records, StepOutcome* outcome, const UpdateRules& rules,
                   Stream& stream) {
  if (stream.device() == Device::meta) return;
  const Stream::Working working(stream, Family::optimizer);
  const int count = static_cast<int>(records.size());
  if constexpr (kWithCuda)
    if (stream.device() == Device::cuda)
      return cuda::decide_update(records.data(), count, outcome, rules, stream.handle());
  cpu::decide_update(records.data(), count, outcome, rules);
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
