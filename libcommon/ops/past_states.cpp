#include "ops/past_states.h"

#include "kernels/past_states.h"
#include "ops/check.h"

namespace mt {

static PastStatesShape check_places(const char* operation, const ConstTensor& states,
                                    const ConstTensor& x, const TokenPlaces& at) {
  const Shape &slots = at.slots.shape(), &all = states.shape();
  const PastStatesShape s{.tokens = x.shape()[0],
                          .sequences = slots[0],
                          .cols = x.shape()[1],
                          .capacity = all[1],
                          .runs = slots[1]};
  check_shape(operation, "states", states, {all[0], s.capacity, s.cols});
  check_shape(operation, "positions", at.positions, {s.tokens});
  return s;
}

void keep_states(Tensor states, ConstTensor x, const TokenPlaces& at, Stream& stream) {
  const PastStatesShape s = check_places("keep_states", states, x, at);
  const auto *positions = at.positions.as<std::int32_t>(), *slots = at.slots.as<std::int32_t>();
  dispatch(
      Family::elementwise, x, moves(x, x), stream,
      [&]<class T>() { cpu::keep_states(states.as<T>(), x.as<T>(), positions, slots, s); },
      [&]<class T>() {
        cuda::keep_states(states.as<T>(), x.as<T>(), positions, slots, s, stream.handle());
      });
}

void states_before(Tensor x, Tensor first, ConstTensor states, const TokenPlaces& at,
                   std::int32_t least, Stream& stream) {
  const PastStatesShape s = check_places("states_before", states, x, at);
  check_shape("states_before", "first", first, {s.tokens});
  const auto *positions = at.positions.as<std::int32_t>(), *slots = at.slots.as<std::int32_t>();
  auto* const keys = first.as<std::int32_t>();
  dispatch(
      Family::elementwise, x, moves(x, x), stream,
      [&]<class T>() {
        cpu::states_before(x.as<T>(), keys, states.as<T>(), positions, slots, least, s);
      },
      [&]<class T>() {
        cuda::states_before(x.as<T>(), keys, states.as<T>(), positions, slots, least, s,
                            stream.handle());
      });
}

}  // namespace mt
