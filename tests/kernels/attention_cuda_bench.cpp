// Not a test: prints the time of attention on the GPU, one JSON object a line.
//   attention_cuda_bench [TYPE MASK SEQUENCES QUERIES KEYS HEADS KV_HEADS HEAD_DIM]...
// TYPE: float, half or bf16.  MASK: causal or full.  Forward and backward are timed, but for causal
// ones with fewer queries than keys, the last of them, forward alone.  Medians of 30 repetitions
// after 10, in milliseconds.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <string>

#include "kernels/attention.h"
#include "tests/kernels/check.h"
#include "tests/kernels/device_array.h"

namespace mt {
namespace {

using check::check_cuda;
using check::DeviceArray;

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

// A million numbers, again and again.
template <class T>
DeviceArray<T> random(std::int64_t count, unsigned seed) {
  const std::vector<float> some =
      check::random<float>(std::min<std::int64_t>(count, 999'983), seed);
  std::vector<T> x;
  x.reserve(static_cast<std::size_t>(count));
  while (std::ssize(x) < count)
    for (std::size_t i = 0; i < some.size() && std::ssize(x) < count; ++i) x.push_back(T(some[i]));
  return DeviceArray<T>(x);
}

template <class T>
void bench(const std::string& type, const AttentionShape& s) {
  const std::int64_t rows = s.sequences * s.q_length * s.heads, q_size = rows * s.head_dim;
  const std::int64_t kv_size = s.sequences * s.kv_length * s.kv_heads * s.head_dim;
  const DeviceArray<T> q = random<T>(q_size, 1), k = random<T>(kv_size, 2),
                       v = random<T>(kv_size, 3), d_o = random<T>(q_size, 4), o(q_size), dq(q_size),
                       dk(kv_size), dv(kv_size);
  const DeviceArray<float> lse(rows);
  const DeviceArray<unsigned char> work(
      std::max(cuda::attention_forward_work<T>(s), cuda::attention_backward_work<T>(s)));
  const double forward = time_of([&] {
    cuda::attention_forward(o.data(), lse.data(), q.data(), k.data(), v.data(), nullptr, s,
                            Dropout(), work.data(), nullptr);
  });
  std::cout << "{\"type\":\"" << type << "\",\"mask\":\"" << (s.causal ? "causal" : "full")
            << "\",\"sequences\":" << s.sequences << ",\"queries\":" << s.q_length
            << ",\"keys\":" << s.kv_length << ",\"heads\":" << s.heads
            << ",\"kv_heads\":" << s.kv_heads << ",\"head_dim\":" << s.head_dim
            << ",\"forward_ms\":" << forward;
  if (s.q_length == s.kv_length || !s.causal)
    std::cout << ",\"backward_ms\":" << time_of([&] {
      cuda::attention_backward(dq.data(), dk.data(), dv.data(), d_o.data(), o.data(), lse.data(),
                               q.data(), k.data(), v.data(), nullptr, s, Dropout(), work.data(),
                               nullptr);
    });
  std::cout << "}" << std::endl;
}

void run(char** arguments) {
  std::int64_t n[6];
  for (int i = 0; i < 6; ++i) n[i] = std::stoll(arguments[i + 2]);
  const std::string type = arguments[0], mask = arguments[1];
  if (mask != "causal" && mask != "full")
    fail(Exit::usage, "mask ", mask, ", expected causal or full");
  const AttentionShape shape = {.sequences = n[0],
                                .q_length = n[1],
                                .kv_length = n[2],
                                .kv_stride = n[2],
                                .heads = n[3],
                                .kv_heads = n[4],
                                .head_dim = n[5],
                                .causal = mask == "causal",
                                .scale = 1 / std::sqrt(static_cast<double>(n[5]))};
  if (type == "float") return bench<float>(type, shape);
  if (type == "half") return bench<__half>(type, shape);
  if (type == "bf16") return bench<__nv_bfloat16>(type, shape);
  fail(Exit::usage, "type ", type, ", expected float, half or bf16");
}

}  // namespace
}  // namespace mt

int main(int argc, char** argv) {
  try {
    for (int i = 1; i + 7 < argc; i += 8) mt::run(argv + i);
  } catch (const std::exception& e) {
    std::cerr << "attention_cuda_bench: " << e.what() << "\n";
    return 1;
  }
}
