#include "kernels/activation.h"

#include "kernels/fast_math.cuh"
#include "kernels/map.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

constexpr float kRoot = 0.79788456080286535588f;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715f;
constexpr float kInvSqrt2Pi = 0.39894228040143267794f;

// As Silu is.
// (1 + tanh u) / 2 = sigmoid(2 u)
struct TanhGelu {
  __device__ static float gate(float x) { return sigmoid(2 * kRoot * (x + kCubic * x * x * x)); }
  __device__ static float slope(float x, float s) {
    return s + 2 * x * s * (1 - s) * kRoot * (1 + 3 * kCubic * x * x);
  }
};

// x sigmoid(1.702 x)
struct QuickGelu {
  static constexpr auto kBy = static_cast<float>(kQuickGelu);
  __device__ static float gate(float x) { return sigmoid(kBy * x); }
  __device__ static float slope(float x, float s) { return s + kBy * x * s * (1 - s); }
};

struct GeluTanh {
  __device__ float operator()(const float (&in)[1]) const { return in[0] * TanhGelu::gate(in[0]); }
};
struct GeluTanhSlope {
  __device__ float operator()(const float (&in)[2]) const {
    return in[0] * TanhGelu::slope(in[1], TanhGelu::gate(in[1]));
  }
};
struct GeluErf {
  __device__ float operator()(const float (&in)[1]) const { return in[0] * normal_cdf(in[0]); }
};
struct GeluErfSlope {
  __device__ float operator()(const float (&in)[2]) const {
    const float x = in[1];
    return in[0] * (normal_cdf(x) + x * exp_approx(-x * x / 2) * kInvSqrt2Pi);
  }
};
struct GeluQuick {
  __device__ float operator()(const float (&in)[1]) const { return in[0] * QuickGelu::gate(in[0]); }
};
struct GeluQuickSlope {
  __device__ float operator()(const float (&in)[2]) const {
    return in[0] * QuickGelu::slope(in[1], QuickGelu::gate(in[1]));
  }
};
struct Relu {
  __device__ float operator()(const float (&in)[1]) const { return in[0] < 0 ? 0 : in[0]; }
};
struct ReluSlope {
  __device__ float operator()(const float (&in)[2]) const { return in[1] > 0 ? in[0] : 0; }
};
struct SquaredRelu {
  __device__ float operator()(const float (&in)[1]) const { return in[0] < 0 ? 0 : in[0] * in[0]; }
};
struct SquaredReluSlope {
  __device__ float operator()(const float (&in)[2]) const {
    return in[1] < 0 ? 0 : 2 * in[1] * in[0];
  }
};
struct Tanh {
  __device__ float operator()(const float (&in)[1]) const { return tanhf(in[0]); }
};
struct TanhSlope {
  __device__ float operator()(const float (&in)[2]) const { return in[0] * (1 - in[1] * in[1]); }
};

// A thread's pack of y: its row, and where it lies in x (gate; up is cols further).
struct GatedPlace {
  std::int64_t y, x;
  __device__ GatedPlace(std::int64_t pack, std::int64_t packs_per_row, int width) {
    const std::int64_t row = pack / packs_per_row;
    y = pack * width;
    x = y + row * packs_per_row * width;
  }
};

template <class Gate, int N, class T>
__global__ __launch_bounds__(kThreads) void gated_forward_kernel(T* y, const T* x,
                                                                 std::int64_t packs,
                                                                 std::int64_t packs_per_row) {
  const std::int64_t pack = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (pack >= packs) return;
  const GatedPlace at(pack, packs_per_row, N);
  const auto gate = load<N>(x + at.x), up = load<N>(x + at.x + packs_per_row * N);
  float out[N];
#pragma unroll
  for (int n = 0; n < N; ++n) out[n] = gate[n] * Gate::gate(gate[n]) * up[n];
  store(y + at.y, out);
}

template <class Gate, int N, class T>
__global__ __launch_bounds__(kThreads) void gated_backward_kernel(T* dx, const T* dy, const T* x,
                                                                  std::int64_t packs,
                                                                  std::int64_t packs_per_row) {
  const std::int64_t pack = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (pack >= packs) return;
  const GatedPlace at(pack, packs_per_row, N);
  const auto gate = load<N>(x + at.x), up = load<N>(x + at.x + packs_per_row * N);
  const auto d = load<N>(dy + at.y);
  float d_gate[N], d_up[N];
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float s = Gate::gate(gate[n]);
    d_gate[n] = d[n] * up[n] * Gate::slope(gate[n], s);
    d_up[n] = d[n] * gate[n] * s;
  }
  store(dx + at.x, d_gate);
  store(dx + at.x + packs_per_row * N, d_up);
}

template <class Gate, class T>
void gated_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols, cudaStream_t stream) {
  if (rows * cols == 0) return;
  with_width<kWide<T>>(aligned(y, x) && cols % kWide<T> == 0, [&]<int N>() {
    const std::int64_t packs = rows * cols / N;
    gated_forward_kernel<Gate, N>
        <<<static_cast<unsigned>(ceil_div(packs, kThreads)), kThreads, 0, stream>>>(y, x, packs,
                                                                                    cols / N);
  });
  check(cudaGetLastError());
}

template <class Gate, class T>
void gated_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols,
                    cudaStream_t stream) {
  if (rows * cols == 0) return;
  with_width<kWide<T>>(aligned(dx, dy, x) && cols % kWide<T> == 0, [&]<int N>() {
    const std::int64_t packs = rows * cols / N;
    gated_backward_kernel<Gate, N>
        <<<static_cast<unsigned>(ceil_div(packs, kThreads)), kThreads, 0, stream>>>(
            dx, dy, x, packs, cols / N);
  });
  check(cudaGetLastError());
}

// An element's place in x, where its row's gates and then its ups lie.
__device__ std::int64_t place_of_gate(std::int64_t i, std::int64_t cols) {
  return i / cols * cols + i;
}

template <class T>
__global__ __launch_bounds__(kThreads) void clamped_forward_kernel(T* y, const T* x,
                                                                   std::int64_t count,
                                                                   std::int64_t cols, float limit,
                                                                   float offset) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= count) return;
  const std::int64_t at = place_of_gate(i, cols);
  const float gate = fminf(to_float(x[at]), limit),
              up = fminf(fmaxf(to_float(x[at + cols]), -limit), limit);
  y[i] = static_cast<T>(gate / (1 + expf(-float{kQuickGelu} * gate)) * (up + offset));
}

template <class T>
__global__ __launch_bounds__(kThreads) void clamped_backward_kernel(T* dx, const T* dy, const T* x,
                                                                    std::int64_t count,
                                                                    std::int64_t cols, float limit,
                                                                    float offset) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= count) return;
  const std::int64_t at = place_of_gate(i, cols);
  const float at_gate = to_float(x[at]), at_up = to_float(x[at + cols]), d = to_float(dy[i]);
  const float gate = fminf(at_gate, limit), up = fminf(fmaxf(at_up, -limit), limit);
  const float s = 1 / (1 + expf(-float{kQuickGelu} * gate));
  const bool gate_moves = at_gate <= limit, up_moves = -limit <= at_up && at_up <= limit;
  dx[at] = static_cast<T>(
      gate_moves ? d * (up + offset) * s * (1 + float{kQuickGelu} * gate * (1 - s)) : 0);
  dx[at + cols] = static_cast<T>(up_moves ? d * gate * s : 0);
}

unsigned blocks_of(std::int64_t count) {
  return static_cast<unsigned>(ceil_div(count, std::int64_t{kThreads}));
}

float limit_of(const ClampedGate& of) {
  return of.limit > 0 ? static_cast<float>(of.limit) : INFINITY;
}

}  // namespace

template <class T>
void clamped_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols, const ClampedGate& of,
                     cudaStream_t stream) {
  if (rows * cols == 0) return;
  clamped_forward_kernel<<<blocks_of(rows * cols), kThreads, 0, stream>>>(
      y, x, rows * cols, cols, limit_of(of), static_cast<float>(of.offset));
  check(cudaGetLastError());
}

template <class T>
void clamped_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols,
                      const ClampedGate& of, cudaStream_t stream) {
  if (rows * cols == 0) return;
  clamped_backward_kernel<<<blocks_of(rows * cols), kThreads, 0, stream>>>(
      dx, dy, x, rows * cols, cols, limit_of(of), static_cast<float>(of.offset));
  check(cudaGetLastError());
}

template <class T>
void gelu_forward(T* y, const T* x, std::int64_t count, GeluForm form, cudaStream_t stream) {
  if (form == GeluForm::tanh)
    map(y, Inputs<T, 1>{{x}}, count, GeluTanh{}, stream);
  else if (form == GeluForm::quick)
    map(y, Inputs<T, 1>{{x}}, count, GeluQuick{}, stream);
  else
    map(y, Inputs<T, 1>{{x}}, count, GeluErf{}, stream);
}

template <class T>
void gelu_backward(T* dx, const T* dy, const T* x, std::int64_t count, GeluForm form,
                   cudaStream_t stream) {
  if (form == GeluForm::tanh)
    map(dx, Inputs<T, 2>{{dy, x}}, count, GeluTanhSlope{}, stream);
  else if (form == GeluForm::quick)
    map(dx, Inputs<T, 2>{{dy, x}}, count, GeluQuickSlope{}, stream);
  else
    map(dx, Inputs<T, 2>{{dy, x}}, count, GeluErfSlope{}, stream);
}

template <class T>
void relu_forward(T* y, const T* x, std::int64_t count, cudaStream_t stream) {
  map(y, Inputs<T, 1>{{x}}, count, Relu{}, stream);
}

template <class T>
void relu_backward(T* dx, const T* dy, const T* x, std::int64_t count, cudaStream_t stream) {
  map(dx, Inputs<T, 2>{{dy, x}}, count, ReluSlope{}, stream);
}

template <class T>
void squared_relu_forward(T* y, const T* x, std::int64_t count, cudaStream_t stream) {
  map(y, Inputs<T, 1>{{x}}, count, SquaredRelu{}, stream);
}

template <class T>
void squared_relu_backward(T* dx, const T* dy, const T* x, std::int64_t count,
                           cudaStream_t stream) {
  map(dx, Inputs<T, 2>{{dy, x}}, count, SquaredReluSlope{}, stream);
}

template <class T>
void tanh_forward(T* y, const T* x, std::int64_t count, cudaStream_t stream) {
  map(y, Inputs<T, 1>{{x}}, count, Tanh{}, stream);
}

template <class T>
void tanh_backward(T* dx, const T* dy, const T* y, std::int64_t count, cudaStream_t stream) {
  map(dx, Inputs<T, 2>{{dy, y}}, count, TanhSlope{}, stream);
}

template <class T>
void swiglu_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols, cudaStream_t stream) {
  gated_forward<Silu>(y, x, rows, cols, stream);
}

template <class T>
void swiglu_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols,
                     cudaStream_t stream) {
  gated_backward<Silu>(dx, dy, x, rows, cols, stream);
}

template <class T>
void geglu_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols, cudaStream_t stream) {
  gated_forward<TanhGelu>(y, x, rows, cols, stream);
}

template <class T>
void geglu_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols,
                    cudaStream_t stream) {
  gated_backward<TanhGelu>(dx, dy, x, rows, cols, stream);
}

#define INSTANTIATE(T)                                                                             \
  template void gelu_forward(T*, const T*, std::int64_t, GeluForm, cudaStream_t);                  \
  template void gelu_backward(T*, const T*, const T*, std::int64_t, GeluForm, cudaStream_t);       \
  template void relu_forward(T*, const T*, std::int64_t, cudaStream_t);                            \
  template void relu_backward(T*, const T*, const T*, std::int64_t, cudaStream_t);                 \
  template void squared_relu_forward(T*, const T*, std::int64_t, cudaStream_t);                    \
  template void squared_relu_backward(T*, const T*, const T*, std::int64_t, cudaStream_t);         \
  template void tanh_forward(T*, const T*, std::int64_t, cudaStream_t);                            \
  template void tanh_backward(T*, const T*, const T*, std::int64_t, cudaStream_t);                 \
  template void swiglu_forward(T*, const T*, std::int64_t, std::int64_t, cudaStream_t);            \
  template void swiglu_backward(T*, const T*, const T*, std::int64_t, std::int64_t, cudaStream_t); \
  template void geglu_forward(T*, const T*, std::int64_t, std::int64_t, cudaStream_t);             \
  template void geglu_backward(T*, const T*, const T*, std::int64_t, std::int64_t, cudaStream_t);  \
  template void clamped_forward(T*, const T*, std::int64_t, std::int64_t, const ClampedGate&,      \
                                cudaStream_t);                                                     \
  template void clamped_backward(T*, const T*, const T*, std::int64_t, std::int64_t,               \
                                 const ClampedGate&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
