#include "ops/expert_capacity.h"

#include "kernels/expert_capacity.h"
#include "ops/check.h"

namespace mt {

void keep_tokens(Tensor kept, ConstTensor expert, ConstTensor weight, std::int64_t experts,
                 std::int64_t capacity, Stream& stream) {
  check_shape("keep_tokens", "kept", kept, expert.shape());
  if (weight) check_shape("keep_tokens", "weight", weight, expert.shape());
  const CapacityShape s{.tokens = expert.shape()[0],
                        .chosen = expert.shape()[1],
                        .experts = experts,
                        .capacity = capacity};
  if (expert.device() == Device::meta)
    return stream.count(moves(kept, expert), Family::elementwise);
  const Stream::Working working(stream, Family::elementwise);
  auto* const to = kept.as<std::int32_t>();
  const auto* const chosen = expert.as<std::int32_t>();
  if constexpr (kWithCuda)
    if (expert.device() == Device::cuda)
      return cuda::keep_tokens(to, chosen, weight ? weight.as<float>() : nullptr, s,
                               stream.handle());
  stream.run([&] {
    if (weight && weight.dtype() == DType::f64)
      cpu::keep_tokens(to, chosen, weight.as<double>(), s);
    else
      cpu::keep_tokens(to, chosen, weight ? weight.as<float>() : nullptr, s);
  });
}

void add_dropped(Tensor sum, ConstTensor kept, Stream& stream) {
  check_shape("add_dropped", "sum", sum, {1});
  if (kept.device() == Device::meta) return stream.count(moves(kept), Family::elementwise);
  const Stream::Working working(stream, Family::elementwise);
  auto* const to = sum.as<double>();
  const auto* const from = kept.as<std::int32_t>();
  if constexpr (kWithCuda)
    if (kept.device() == Device::cuda)
      return cuda::add_dropped(to, from, kept.numel(), stream.handle());
  stream.run([&] { cpu::add_dropped(to, from, kept.numel()); });
}

}  // namespace mt
