// The element-wise steps of optimizers.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "base/threads.h"
#include "kernels/muon.h"
#include "kernels/sgd.h"
#include "ops/check.h"
#include "ops/kept.h"
#include "ops/ops.h"

namespace mt {

static std::span<const UpdateChunk> chunks_of(const FlatUpdate& update) {
  return {static_cast<const UpdateChunk*>(update.chunks.data()),
          update.chunks.bytes() / sizeof(UpdateChunk)};
}

// Each element's value, gradient and state: read, and written but for the gradient.
static Cost cost_of(const FlatUpdate& update, std::initializer_list<Tensor> states) {
  std::size_t each = 2 * size_of(update.p.values.dtype()) + size_of(update.g.dtype());
  for (const Tensor& state : states) each += 2 * size_of(state.dtype());
  if (update.copy) each += size_of(update.copy.dtype());
  return {.bytes = static_cast<double>(each) * static_cast<double>(update.elements)};
}

// A chunk's, on the CPU.
struct HostKept {
  HostKept(const Kept& kept, const UpdateChunk& chunk) : values(kept.values) {
    if (kept.scales) own = kept.scales.as<float>() + chunk.piece;
    if (own != nullptr) scale = next = *own;
  }
  Tensor values;
  float* own = nullptr;
  float scale = 1, next = 1;
};

template <class T>
static T largest_of(const T* x, std::int64_t count) {
  T largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(x[i]));
  return largest;
}

// Where a moment is not of T both go by way of T, some at a time; if one is scaled the update is
// made twice, first of copies to see how large it becomes.
template <class T>
static void adam_on_cpu(T* p, HostKept m, HostKept v, const T* g, const UpdateChunk& c,
                        const AdamOptions& options, const StepRecord* record) {
  if (m.values.dtype() == dtype_of<T>() && v.values.dtype() == dtype_of<T>())
    return cpu::adam(p, m.values.as<T>() + c.state, v.values.as<T>() + c.state, g, c.count, options,
                     c.lr_mult, c.decay_mult, record);
  constexpr std::int64_t kSome = 4096;
  const std::int64_t blocks = (c.count + kSome - 1) / kSome;
  std::vector<std::array<T, 2>> largest(static_cast<std::size_t>(blocks));
  const auto update = [&](bool first) {
    parallel_for(blocks, [&](std::int64_t block) {
      const std::int64_t begin = block * kSome, count = std::min(kSome, c.count - begin);
      T of_p[kSome], of_m[kSome], of_v[kSome];
      const auto size = static_cast<std::size_t>(count);
      read_kept(std::span(of_m, size), m.values, c.state + begin, m.scale);
      read_kept(std::span(of_v, size), v.values, c.state + begin, v.scale);
      if (first) std::copy_n(p + begin, count, of_p);
      cpu::adam(first ? of_p : p + begin, of_m, of_v, g + begin, count, options, c.lr_mult,
                c.decay_mult, record);
      largest[static_cast<std::size_t>(block)] = {largest_of(of_m, count), largest_of(of_v, count)};
      if (first) return;
      write_kept(m.values, c.state + begin, std::span<const T>(of_m, size), m.next);
      write_kept(v.values, c.state + begin, std::span<const T>(of_v, size), v.next);
    });
  };
  const bool scaled = m.own != nullptr || v.own != nullptr;
  if (scaled) update(true);
  std::array<T, 2> most = {};
  for (const auto& [of_m, of_v] : largest)
    most = {std::max(most[0], of_m), std::max(most[1], of_v)};
  if (m.own != nullptr) m.next = kept_scale_of(m.values.dtype(), most[0]);
  if (v.own != nullptr) v.next = kept_scale_of(v.values.dtype(), most[1]);
  update(false);
  if (m.own != nullptr) *m.own = m.next;
  if (v.own != nullptr) *v.own = v.next;
}

template <class Q>
static cuda::Kept<Q> on_gpu(const Kept& kept) {
  cuda::Kept<Q> there{kept.values.as<Q>()};
  if (kept.scales) {
    there.scales = kept.scales.as<float>();
    there.largest = there.scales + kept.scales.shape()[1];
  }
  return there;
}
// body(q) for what is kept on a GPU.
template <class Body>
static void with_kept(const Kept& kept, const Body& body) {
  const auto of = [&]<class Q>() { body(on_gpu<Q>(kept)); };
  if (kept.values.dtype() == DType::f8) return of.template operator()<__nv_fp8_e4m3>();
  with_gpu_type(kept.values.dtype(), of);
}
// body.operator()<P, T>() for the types of masters and their copy on a GPU, or of values that have
// none and float.
template <class Body>
static void with_master(const FlatUpdate& update, const Body& body) {
  with_gpu_type(update.copy ? update.copy.dtype() : DType::f32, [&]<class T>() {
    if constexpr (!std::is_same_v<T, float>)
      if (update.p.scales) return body.template operator()<__half, T>();
    body.template operator()<float, T>();
  });
}

void adam(const FlatUpdate& update, const Kept& m, const Kept& v, const AdamOptions& options,
          const StepRecord* record, Stream& stream) {
  check_shape("adam", "v", v.values, m.values.shape());
  const std::span<const UpdateChunk> chunks = chunks_of(update);
  Cost cost = cost_of(update, {m.values, v.values});
  if (update.p.scales || m.scales || v.scales)  // read twice
    cost.bytes +=
        static_cast<double>(size_of(update.g.dtype()) + size_of(m.values.dtype()) +
                            size_of(v.values.dtype()) +
                            (update.p.scales ? size_of(update.p.values.dtype()) : std::size_t{0})) *
        static_cast<double>(update.elements);
  dispatch(
      Family::optimizer, update.p.values, cost, stream,
      [&]<class T>() {
        for (const UpdateChunk& c : chunks)
          adam_on_cpu(update.p.values.as<T>() + c.first, {m, c}, {v, c},
                      update.g.as<T>() + c.first + c.gradient_shift, c, options, record);
      },
      [&]<class>() {
        with_master(update, [&]<class P, class T>() {
          with_kept(m, [&](auto first) {
            with_kept(v, [&](auto second) {
              with_gradient_type<T>(update.g, [&]<class G>() {
                cuda::adam(on_gpu<P>(update.p), first, second,
                           update.copy ? update.copy.as<T>() : nullptr, update.g.as<G>(),
                           chunks.data(), std::ssize(chunks), options, record, stream.handle());
              });
            });
          });
        });
      });
}

void take_scales(const Kept& kept, const StepRecord* record, Stream& stream) {
  if (!kept.scales || stream.device() != Device::cuda) return;
  const Stream::Working working(stream, Family::optimizer);
  if constexpr (kWithCuda)
    with_kept(kept, [&]<class Q>(cuda::Kept<Q> there) {
      if constexpr (std::is_same_v<Q, __half> || std::is_same_v<Q, __nv_fp8_e4m3>)
        cuda::take_scales(there, kept.scales.shape()[1], record, stream.handle());
    });
}

void sgd(const FlatUpdate& update, Tensor b, double momentum, const StepRecord* record,
         Stream& stream) {
  const std::span<const UpdateChunk> chunks = chunks_of(update);
  dispatch(
      Family::optimizer, update.p.values, cost_of(update, {b}), stream,
      [&]<class T>() {
        for (const UpdateChunk& c : chunks)
          cpu::sgd(update.p.values.as<T>() + c.first, b.as<T>() + c.state,
                   update.g.as<T>() + c.first + c.gradient_shift, c.count, momentum, c.lr_mult,
                   c.decay_mult, record);
      },
      [&]<class P>() {
        with_gpu_type(update.copy ? update.copy.dtype() : DType::f32, [&]<class T>() {
          with_gradient_type<T>(update.g, [&]<class G>() {
            cuda::sgd(update.p.values.as<float>(), b.as<float>(),
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
