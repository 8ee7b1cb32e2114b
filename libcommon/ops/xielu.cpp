#include "ops/xielu.h"

#include "kernels/xielu.h"
#include "ops/check.h"

namespace mt {

template <class T>
static XieluNumbers<T> numbers(const XieluTensors& of) {
  return {of.alpha_p.as<T>(), of.alpha_n.as<T>(), of.beta.as<T>(), of.eps.as<T>()};
}

static void check_numbers(const char* operation, const XieluTensors& of) {
  check_shape(operation, "alpha_p", of.alpha_p, {1});
  check_shape(operation, "alpha_n", of.alpha_n, {1});
  check_shape(operation, "beta", of.beta, {1});
  check_shape(operation, "eps", of.eps, {1});
}

void xielu_forward(Tensor y, ConstTensor x, const XieluTensors& of, Stream& stream) {
  constexpr const char* kName = "xielu_forward";
  check_shape(kName, "y", y, x.shape());
  check_numbers(kName, of);
  dispatch_cpu(Family::activation, kName, x, moves(x, y), stream, [&]<class T>() {
    cpu::xielu_forward(y.as<T>(), x.as<T>(), numbers<T>(of), x.numel());
  });
}

void xielu_backward(Tensor dx, Tensor d_alpha_p, Tensor d_alpha_n, ConstTensor dy, ConstTensor x,
                    const XieluTensors& of, Stream& stream) {
  constexpr const char* kName = "xielu_backward";
  check_shape(kName, "dx", dx, x.shape());
  check_shape(kName, "dy", dy, x.shape());
  check_numbers(kName, of);
  dispatch_cpu(Family::activation, kName, x, moves(x, dy, dx), stream, [&]<class T>() {
    cpu::xielu_backward(dx.as<T>(), d_alpha_p ? d_alpha_p.as<T>() : nullptr,
                        d_alpha_n ? d_alpha_n.as<T>() : nullptr, dy.as<T>(), x.as<T>(),
                        numbers<T>(of), x.numel());
  });
}

}  // namespace mt
