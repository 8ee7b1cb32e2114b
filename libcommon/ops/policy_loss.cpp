#include "ops/policy_loss.h"

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void policy_loss(const PolicyProblem& p, const PolicyRules& rules, Stream& stream) {
  const std::int64_t tokens = p.x.numel();
  check_shape("policy_loss", "loss", p.loss, {kPolicyRows, tokens});
  check_shape("policy_loss", "others", p.others, {3 * tokens});
  for (const ConstTensor* each : {&p.advantage, &p.mask, &p.weight})
    if (*each) check_shape("policy_loss", "each", *each, {tokens});
  const auto tensors = [&]<class T>() {
    return PolicyTensors<T>{.loss = p.loss.as<T>(),
                            .x = p.x.as<T>(),
                            .others = p.others.as<T>(),
                            .advantage = p.advantage.as<T>(),
                            .mask = p.mask.as<T>(),
                            .weight = or_null<T>(p.weight),
                            .rows = {.lengths = p.lengths.as<std::int32_t>(),
                                     .rows = p.rows,
                                     .tokens = tokens / p.rows,
                                     .texts = p.lengths.numel() / p.rows}};
  };
  dispatch(
      Family::cross_entropy, p.x, moves(p.loss, p.x), stream,
      [&]<class T>() { cpu::policy_loss(tensors.template operator()<T>(), rules); },
      [&]<class T>() {
        if constexpr (std::is_same_v<T, float>)
          cuda::policy_loss(tensors.template operator()<T>(), rules, stream.handle());
        else
          fail(Exit::internal, "policy_loss: of ", name_of(p.x.dtype()), ", expected float32");
      });
}

}  // namespace mt
