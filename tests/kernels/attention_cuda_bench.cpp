// Not a test: prints the time of attention on the GPU, one JSON object a line.
//   attention_cuda_bench [TYPE HEAD_DIM LENGTH HEADS KV_HEADS]...
// Without arguments a list of usual shapes.  16384 tokens in sequences of LENGTH, causal; Medians
// of 30 repetitions after 10; TFLOP/s count 2 products forward and 5 backward over half the pairs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "kernels/attention.h"
#include "tests/kernels/check.h"
#include "tests/kernels/device_array.h"

namespace mt {
namespace {

using check::check_cuda;
using check::DeviceArray;

struct Shape {
  std::string type;
  std::int64_t head_dim, length, heads, kv_heads;
};

// Milliseconds.
double time_of(const std::function<void()>& work) {
  cudaEvent_t begin, end;
  check_cuda(cudaEventCreate(&begin));
  check_cuda(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 40; ++i) {
    float time = 0;
    check_cuda(cudaEventRecord(begin));
    work();
    check_cuda(cudaEventRecord(end));
    check_cuda(cudaEventSynchronize(end));
    check_cuda(cudaEventElapsedTime(&time, begin, end));
    if (i >= 10) times.push_back(time);
  }
  std::nth_element(times.begin(), times.begin() + 15, times.end());
  check_cuda(cudaEventDestroy(begin));
  check_cuda(cudaEventDestroy(end));
  return times[15];
}

template <class T>
DeviceArray<T> random(std::int64_t count, unsigned seed) {
  std::vector<T> x;
  for (const float value : check::random<float>(count, seed, -2, 2)) x.push_back(T(value));
  return DeviceArray<T>(x);
}

template <class T>
void bench(const Shape& s) {
  const AttentionShape shape = {.sequences = std::max<std::int64_t>(1, 16384 / s.length),
                                .q_length = s.length,
                                .kv_length = s.length,
                                .kv_stride = s.length,
                                .heads = s.heads,
                                .kv_heads = s.kv_heads,
                                .head_dim = s.head_dim,
                                .scale = 1 / std::sqrt(static_cast<double>(s.head_dim))};
  const std::int64_t rows = shape.sequences * s.length * s.heads;
  const std::int64_t q_size = rows * s.head_dim, kv_size = q_size / s.heads * s.kv_heads;
  const DeviceArray<T> q = random<T>(q_size, 1), k = random<T>(kv_size, 2),
                       v = random<T>(kv_size, 3), d_o = random<T>(q_size, 4), o(q_size), dq(q_size),
                       dk(kv_size), dv(kv_size);
  const DeviceArray<float> lse(rows);
  const DeviceArray<unsigned char> work(
      std::max(cuda::attention_forward_work<T>(shape), cuda::attention_backward_work<T>(shape)));
  const double forward = time_of([&] {
    cuda::attention_forward(o.data(), lse.data(), q.data(), k.data(), v.data(), nullptr, shape,
                            Dropout(), work.data(), nullptr);
  });
  const double backward = time_of([&] {
    cuda::attention_backward(dq.data(), dk.data(), dv.data(), d_o.data(), o.data(), lse.data(),
                             q.data(), k.data(), v.data(), nullptr, shape, Dropout(), work.data(),
                             nullptr);
  });
  const double product =
      2.0 * static_cast<double>(q_size) * static_cast<double>(s.length) / 2 / 1e9;  // per ms
  std::printf(
      "{\"type\":\"%s\",\"head_dim\":%d,\"length\":%d,\"sequences\":%d,\"heads\":%d,"
      "\"kv_heads\":%d,\"forward_ms\":%.4f,\"forward_tflops\":%.1f,\"backward_ms\":%.4f,"
      "\"backward_tflops\":%.1f}\n",
      s.type.c_str(), int(s.head_dim), int(s.length), int(shape.sequences), int(s.heads),
      int(s.kv_heads), forward, 2 * product / forward, backward, 5 * product / backward);
  std::fflush(stdout);
}

void run(const Shape& s) {
  if (s.type == "float") return bench<float>(s);
  if (s.type == "half") return bench<__half>(s);
  if (s.type == "bf16") return bench<__nv_bfloat16>(s);
  fail(Exit::usage, "type ", s.type, ", expected float, half or bf16");
}

}  // namespace
}  // namespace mt

int main(int argc, char** argv) {
  std::vector<mt::Shape> shapes;
  for (int i = 1; i + 4 < argc; i += 5)
    shapes.push_back({argv[i], std::stoll(argv[i + 1]), std::stoll(argv[i + 2]),
                      std::stoll(argv[i + 3]), std::stoll(argv[i + 4])});
  if (shapes.empty())
    for (const std::int64_t head_dim : {64, 128})
      for (const std::int64_t length : {1024, 2048, 4096, 8192, 16384})
        shapes.push_back({"bf16", head_dim, length, 2048 / head_dim, 2048 / head_dim});
  try {
    for (const mt::Shape& shape : shapes) mt::run(shape);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "attention_cuda_bench: %s\n", e.what());
    return 1;
  }
}
