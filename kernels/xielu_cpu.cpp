#include "kernels/xielu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/loops.h"
#include "kernels/sigmoid.h"

namespace mt::cpu {
namespace {

template <class T>
struct Slopes {
  explicit Slopes(const XieluNumbers<T>& of)
      : p(softplus(*of.alpha_p)), beta(*of.beta), n(beta + softplus(*of.alpha_n)), eps(*of.eps) {}
  T p, beta, n, eps;
};

}  // namespace

template <class T>
void xielu_forward(T* y, const T* x, const XieluNumbers<T>& of, std::int64_t count) {
  const Slopes<T> s(of);
  for_blocks(count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      y[i] = (x[i] > 0 ? s.p * x[i] * x[i] : (std::expm1(std::min(x[i], s.eps)) - x[i]) * s.n) +
             s.beta * x[i];
  });
}

template <class T>
void xielu_backward(T* dx, T* d_alpha_p, T* d_alpha_n, const T* dy, const T* x,
                    const XieluNumbers<T>& of, std::int64_t count) {
  constexpr std::int64_t kPart = 4096;
  struct Sums {
    double p = 0, n = 0;
  };
  const Slopes<T> s(of);
  std::vector<Sums> parts(static_cast<std::size_t>((count + kPart - 1) / kPart));
  for_blocks(std::ssize(parts), std::max<std::int64_t>(kBlock / kPart, 1),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t part = first; part < last; ++part) {
                 Sums sums;
                 for (std::int64_t i = part * kPart; i < std::min(count, (part + 1) * kPart); ++i) {
                   const T at = x[i], d = dy[i];
                   if (at > 0) {
                     sums.p += static_cast<double>(d * at * at);
                     dx[i] = d * (2 * s.p * at + s.beta);
                   } else {
                     sums.n += static_cast<double>(d * (std::expm1(std::min(at, s.eps)) - at));
                     dx[i] = d * (((at < s.eps ? std::exp(at) : T{0}) - 1) * s.n + s.beta);
                   }
                 }
                 parts[static_cast<std::size_t>(part)] = sums;
               }
             });
  Sums all;
  for (const Sums& part : parts) {
    all.p += part.p;
    all.n += part.n;
  }
  if (d_alpha_p) *d_alpha_p += static_cast<T>(all.p) * sigmoid(*of.alpha_p);
  if (d_alpha_n) *d_alpha_n += static_cast<T>(all.n) * sigmoid(*of.alpha_n);
}

#define INSTANTIATE(T)                                                                 \
  template void xielu_forward(T*, const T*, const XieluNumbers<T>&, std::int64_t);     \
  template void xielu_backward(T*, T*, T*, const T*, const T*, const XieluNumbers<T>&, \
                               std::int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace mt::cpu
