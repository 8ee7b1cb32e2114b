#include "ops/given_experts.h"

#include "kernels/given_experts.h"
#include "ops/check.h"

namespace mt {

void take_experts(Tensor expert, ConstTensor given, std::int64_t first, std::int64_t first_token,
                  Stream& stream) {
  const GivenShape s{.tokens = expert.shape()[0],
                     .chosen = expert.shape()[1],
                     .first_token = first_token,
                     .length = given.shape()[2],
                     .width = given.shape()[1],
                     .first = first};
  if (first + s.chosen > s.width || first_token + s.tokens > given.shape()[0] * s.length)
    fail(Exit::internal, "take_experts: given is ", given.shape());
  if (expert.device() == Device::meta)
    return stream.count(moves(expert, expert), Family::elementwise);
  const Stream::Working working(stream, Family::elementwise);
  auto* const to = expert.as<std::int32_t>();
  const auto* const from = given.as<std::int32_t>();
  if constexpr (kWithCuda)
    if (expert.device() == Device::cuda) return cuda::take_experts(to, from, s, stream.handle());
  stream.run([&] { cpu::take_experts(to, from, s); });
}

void keep_experts(Tensor cache, ConstTensor expert, ConstTensor positions, ConstTensor slots,
                  Stream& stream) {
  const KeptShape s{.tokens = expert.shape()[0],
                    .chosen = expert.shape()[1],
                    .length = expert.shape()[0] / slots.shape()[0],
                    .capacity = cache.shape()[1],
                    .runs = slots.shape()[1]};
  check_shape("keep_experts", "positions", positions, {s.tokens});
  if (expert.device() == Device::meta)
    return stream.count(moves(expert, expert), Family::elementwise);
  const Stream::Working working(stream, Family::elementwise);
  auto* const to = cache.as<std::int32_t>();
  const auto* const from = expert.as<std::int32_t>();
  const KeptPlaces places{positions.as<std::int32_t>(), slots.as<std::int32_t>()};
  if constexpr (kWithCuda)
    if (expert.device() == Device::cuda)
      return cuda::keep_experts(to, from, places, s, stream.handle());
  stream.run([&] { cpu::keep_experts(to, from, places, s); });
}

}  // namespace mt
