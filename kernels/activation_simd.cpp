// kernels/activation_simd.cpp: the activations for float, on vectors.  The tanh form uses
// (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)), which keeps its relative accuracy where u is very
// negative.
#include "kernels/simd.h"
#include "kernels/vector_math.h"

namespace mt::cpu::simd {
namespace {

constexpr float kTwoRoot = 1.59576912161f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

[[gnu::always_inline]] inline Floats sigmoid(Floats a) { return 1.0f / (1.0f + exp(-a)); }

[[gnu::always_inline]] inline Floats gelu_gate(Floats x) {  // (1 + tanh u) / 2
  return sigmoid(kTwoRoot * (x + kCubic * x * x * x));
}

struct GeluTanh {
  [[gnu::always_inline]] Floats operator()(Floats x) const { return x * gelu_gate(x); }
};

[[gnu::always_inline]] inline Floats gelu_tanh_slope(Floats x, Floats s) {  // s: its gate
  return s + x * s * (1.0f - s) * (kTwoRoot * (1.0f + 3 * kCubic * x * x));
}

struct GeluTanhGradient {
  [[gnu::always_inline]] Floats operator()(Floats dy, Floats x) const {
    return dy * gelu_tanh_slope(x, gelu_gate(x));
  }
};

struct GeluErf {
  [[gnu::always_inline]] Floats operator()(Floats x) const { return x * normal_cdf(x); }
};

struct GeluErfGradient {
  [[gnu::always_inline]] Floats operator()(Floats dy, Floats x) const {
    const Floats density = 0.398942280401f * exp(-0.5f * x * x);
    return dy * (normal_cdf(x) + x * density);
  }
};

constexpr auto kQuick = static_cast<float>(kQuickGelu);

struct GeluQuick {
  [[gnu::always_inline]] Floats operator()(Floats x) const { return x * sigmoid(kQuick * x); }
};

struct GeluQuickGradient {
  [[gnu::always_inline]] Floats operator()(Floats dy, Floats x) const {
    const Floats s = sigmoid(kQuick * x);
    return dy * (s + kQuick * x * s * (1.0f - s));
  }
};

struct Swiglu {
  [[gnu::always_inline]] Floats operator()(Floats gate, Floats up) const {
    return gate * sigmoid(gate) * up;
  }
};

struct Geglu {
  [[gnu::always_inline]] Floats operator()(Floats gate, Floats up) const {
    return gate * gelu_gate(gate) * up;
  }
};

struct Exp {
  [[gnu::always_inline]] Floats operator()(Floats x) const { return exp(x); }
};

struct NormalCdf {
  [[gnu::always_inline]] Floats operator()(Floats x) const { return normal_cdf(x); }
};

struct SwigluSlope {
  [[gnu::always_inline]] static Floats gate(Floats a) { return sigmoid(a); }
  [[gnu::always_inline]] static Floats slope(Floats a, Floats s) {
    return s * (1.0f + a * (1.0f - s));
  }
};

struct GegluSlope {
  [[gnu::always_inline]] static Floats gate(Floats a) { return gelu_gate(a); }
  [[gnu::always_inline]] static Floats slope(Floats a, Floats s) { return gelu_tanh_slope(a, s); }
};

// A row of the gradient of y = a gate(a) up.
template <class Slope>
[[gnu::always_inline]] inline void gated_gradient_row(float* dx, const float* dy, const float* x,
                                                      std::int64_t cols) {
  for (std::int64_t c = 0; c < cols; c += kLanes) {
    const std::int64_t lanes = std::min<std::int64_t>(kLanes, cols - c);
    const Floats d = load(dy + c, lanes, 0.0f), gate = load(x + c, lanes, 0.0f);
    const Floats up = load(x + cols + c, lanes, 0.0f), s = Slope::gate(gate);
    store(dx + c, d * up * Slope::slope(gate, s), lanes);
    store(dx + cols + c, d * gate * s, lanes);
  }
}

}  // namespace

void gelu_forward(float* y, const float* x, std::int64_t count, GeluForm form) {
  if (form == GeluForm::tanh) return run([=] { map(y, count, GeluTanh(), x); });
  if (form == GeluForm::quick) return run([=] { map(y, count, GeluQuick(), x); });
  run([=] { map(y, count, GeluErf(), x); });
}

void gelu_backward(float* dx, const float* dy, const float* x, std::int64_t count, GeluForm form) {
  if (form == GeluForm::tanh) return run([=] { map(dx, count, GeluTanhGradient(), dy, x); });
  if (form == GeluForm::quick) return run([=] { map(dx, count, GeluQuickGradient(), dy, x); });
  run([=] { map(dx, count, GeluErfGradient(), dy, x); });
}

void swiglu_forward(float* y, const float* x, std::int64_t rows, std::int64_t cols) {
  run([=] {
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* gate = x + 2 * r * cols;
      map(y + r * cols, cols, Swiglu(), gate, gate + cols);
    }
  });
}

void swiglu_backward(float* dx, const float* dy, const float* x, std::int64_t rows,
                     std::int64_t cols) {
  run([=] {
    for (std::int64_t r = 0; r < rows; ++r)
      gated_gradient_row<SwigluSlope>(dx + 2 * r * cols, dy + r * cols, x + 2 * r * cols, cols);
  });
}

void geglu_forward(float* y, const float* x, std::int64_t rows, std::int64_t cols) {
  run([=] {
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* gate = x + 2 * r * cols;
      map(y + r * cols, cols, Geglu(), gate, gate + cols);
    }
  });
}

void geglu_backward(float* dx, const float* dy, const float* x, std::int64_t rows,
                    std::int64_t cols) {
  run([=] {
    for (std::int64_t r = 0; r < rows; ++r)
      gated_gradient_row<GegluSlope>(dx + 2 * r * cols, dy + r * cols, x + 2 * r * cols, cols);
  });
}

void exp(float* y, const float* x, std::int64_t count) {
  run([=] { map(y, count, Exp(), x); });
}

void normal_cdf(float* y, const float* x, std::int64_t count) {
  run([=] { map(y, count, NormalCdf(), x); });
}

}  // namespace mt::cpu::simd
