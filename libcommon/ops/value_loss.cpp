#include "ops/value_loss.h"

#include "kernels/value_loss.h"
#include "ops/check.h"

namespace mt {

void value_loss(const ValueProblem& p, double clip, Stream& stream) {
  const std::int64_t tokens = p.x.numel();
  check_shape("value_loss", "loss", p.loss, {2, tokens});
  check_shape("value_loss", "returns", p.returns, {2 * tokens});
  for (const ConstTensor* each : {&p.mask, &p.weight})
    if (*each) check_shape("value_loss", "each", *each, {tokens});
  const auto tensors = [&]<class T>() {
    return ValueTensors<T>{.loss = p.loss.as<T>(),
                           .x = p.x.as<T>(),
                           .returns = p.returns.as<T>(),
                           .mask = p.mask.as<T>(),
                           .weight = or_null<T>(p.weight),
                           .rows = p.rows,
                           .tokens = tokens / p.rows};
  };
  dispatch(
      Family::cross_entropy, p.x, moves(p.loss, p.x), stream,
      [&]<class T>() { cpu::value_loss(tensors.template operator()<T>(), clip); },
      [&]<class T>() {
        if constexpr (std::is_same_v<T, float>)
          cuda::value_loss(tensors.template operator()<T>(), clip, stream.handle());
        else
          fail(Exit::internal, "value_loss: of ", name_of(p.x.dtype()), ", expected float32");
      });
}

}  // namespace mt
