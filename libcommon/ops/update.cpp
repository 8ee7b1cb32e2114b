// The element-wise steps of optimizers.
#include "kernels/muon.h"
#include "kernels/sgd.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void adam(Tensor p, Tensor m, Tensor v, ConstTensor g, const AdamOptions& options, double lr_mult,
          double decay_mult, const StepRecord* record, Stream& stream) {
  check_shape("adam", "m", m, p.shape());
  check_shape("adam", "v", v, p.shape());
  check_shape("adam", "g", g, p.shape());
  dispatch(p, moves(p, p, m, m, v, v, g), stream, [&]<class T>() {
    cpu::adam(p.as<T>(), m.as<T>(), v.as<T>(), g.as<T>(), p.numel(), options, lr_mult, decay_mult,
              record);
  });
}

void sgd(Tensor p, Tensor b, ConstTensor g, double momentum, double lr_mult, double decay_mult,
         const StepRecord* record, Stream& stream) {
  check_shape("sgd", "b", b, p.shape());
  check_shape("sgd", "g", g, p.shape());
  dispatch(p, moves(p, p, b, b, g), stream, [&]<class T>() {
    cpu::sgd(p.as<T>(), b.as<T>(), g.as<T>(), p.numel(), momentum, lr_mult, decay_mult, record);
  });
}

void muon_momentum(Tensor u, Tensor m, ConstTensor g, double momentum, bool nesterov,
                   const StepRecord* record, Stream& stream) {
  check_shape("muon_momentum", "m", m, u.shape());
  check_shape("muon_momentum", "g", g, u.shape());
  dispatch(u, moves(u, m, m, g), stream, [&]<class T>() {
    cpu::muon_momentum(u.as<T>(), m.as<T>(), g.as<T>(), u.numel(), momentum, nesterov, record);
  });
}

void muon_apply(Tensor p, ConstTensor u, double factor, double lr_mult, double decay_mult,
                const StepRecord* record, Stream& stream) {
  check_shape("muon_apply", "u", u, p.shape());
  dispatch(p, moves(p, p, u), stream, [&]<class T>() {
    cpu::muon_apply(p.as<T>(), u.as<T>(), p.numel(), factor, lr_mult, decay_mult, record);
  });
}

}  // namespace mt
