// Not a test: prints the time of attention on the GPU, one JSON object a line.
//   attention_cuda_bench [TYPE MASK SEQUENCES QUERIES KEYS HEADS KV_HEADS HEAD_DIM]...
//   attention_cuda_bench --tensors IN OUT TYPE MASK ... HEAD_DIM
// TYPE: float, half or bf16.  MASK: causal or full.  HEAD_DIM: 192/128 are heads of 192 channels,
// of values 128 and zeros.  Forward and backward are timed, but for causal
// ones with fewer queries than keys, the last of them, forward alone.  Medians of 30 repetitions
// after 10, in milliseconds.  --tensors: nothing is timed; the file IN has q, k, v and do one after
// the other, the file OUT gets o, dq, dk and dv.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <fstream>
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
std::vector<T> random(std::int64_t count, unsigned seed) {
  const std::vector<float> some =
      check::random<float>(std::min<std::int64_t>(count, 999'983), seed);
  std::vector<T> x;
  x.reserve(static_cast<std::size_t>(count));
  while (std::ssize(x) < count)
    for (std::size_t i = 0; i < some.size() && std::ssize(x) < count; ++i) x.push_back(T(some[i]));
  return x;
}

enum Which : unsigned { kQueries = 1, kKeys, kValues, kOutput };

template <class T>
struct Attention {
  AttentionShape shape;
  DeviceArray<T> q, k, v, d_o, o, dq, dk, dv;
  DeviceArray<float> lse;
  DeviceArray<unsigned char> work;

  // tensor(elements, Which): of q, k, v, do.
  template <class F>
  Attention(const AttentionShape& s, std::int64_t q_size, std::int64_t k_size, const F& tensor)
      : shape(s),
        q(tensor(q_size, kQueries)),
        k(tensor(k_size, kKeys)),
        v(tensor(k_size, kValues)),
        d_o(tensor(q_size, kOutput)),
        o(size(q_size)),
        dq(size(q_size)),
        dk(size(k_size)),
        dv(size(k_size)),
        lse(size(q_size / s.head_dim)),
        work(std::max(cuda::attention_forward_work<T>(s), cuda::attention_backward_work<T>(s))) {}
  template <class F>
  Attention(const AttentionShape& s, const F& tensor)
      : Attention(s, s.sequences * s.q_length * s.heads * s.head_dim,
                  s.sequences * s.kv_length * s.kv_heads * s.head_dim, tensor) {}

  void forward() const {
    cuda::attention_forward(o.data(), lse.data(), q.data(), k.data(), v.data(), nullptr, shape,
                            Dropout(), work.data(), nullptr);
  }
  void backward() const {
    cuda::attention_backward(dq.data(), dk.data(), dv.data(), d_o.data(), o.data(), lse.data(),
                             q.data(), k.data(), v.data(), nullptr, shape, Dropout(), work.data(),
                             nullptr);
  }

 private:
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
};

template <class T>
void bench(const std::string& type, const AttentionShape& s) {
  const auto numbers = [&](std::int64_t count, unsigned which) {
    std::vector<T> x = random<T>(count, which);
    if (which == kValues || which == kOutput)
      for (std::size_t i = 0; i < x.size(); ++i)
        if (static_cast<std::int64_t>(i) % s.head_dim >= s.value_channels()) x[i] = T(0.0f);
    return x;
  };
  const Attention<T> attention(s, numbers);
  std::cout << "{\"type\":\"" << type << "\",\"mask\":\"" << (s.causal ? "causal" : "full")
            << "\",\"sequences\":" << s.sequences << ",\"queries\":" << s.q_length
            << ",\"keys\":" << s.kv_length << ",\"heads\":" << s.heads
            << ",\"kv_heads\":" << s.kv_heads << ",\"head_dim\":" << s.head_dim
            << ",\"values\":" << s.value_channels()
            << ",\"forward_ms\":" << time_of([&] { attention.forward(); });
  if (s.q_length == s.kv_length || !s.causal)
    std::cout << ",\"backward_ms\":" << time_of([&] { attention.backward(); });
  std::cout << "}" << std::endl;
}

template <class T>
void compute(const AttentionShape& s, const std::string& from, const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  const Attention<T> attention(s, [&](std::int64_t count, unsigned) {
    std::vector<T> x(static_cast<std::size_t>(count));
    if (!in.read(reinterpret_cast<char*>(x.data()),
                 count * static_cast<std::streamsize>(sizeof(T))))
      fail(Exit::bad_data, from, ": too short for these tensors");
    return x;
  });
  attention.forward();
  attention.backward();
  std::ofstream out(to, std::ios::binary);
  for (const auto* tensor : {&attention.o, &attention.dq, &attention.dk, &attention.dv})
    out.write(reinterpret_cast<const char*>(tensor->values().data()),
              static_cast<std::streamsize>(tensor->bytes()));
  if (!out.flush()) fail(Exit::io_error, to, ": cannot write");
}

AttentionShape shape_of(char** arguments) {
  std::int64_t n[6];
  for (int i = 0; i < 6; ++i) n[i] = std::stoll(arguments[i + 1]);
  const std::string mask = arguments[0], head_dim = arguments[6];
  const std::size_t slash = head_dim.find('/');
  if (mask != "causal" && mask != "full")
    fail(Exit::usage, "mask ", mask, ", expected causal or full");
  return {.sequences = n[0],
          .q_length = n[1],
          .kv_length = n[2],
          .kv_stride = n[2],
          .heads = n[3],
          .kv_heads = n[4],
          .head_dim = n[5],
          .values = slash == head_dim.npos ? 0 : std::stoll(head_dim.substr(slash + 1)),
          .causal = mask == "causal",
          .scale = 1 / std::sqrt(static_cast<double>(n[5]))};
}

// f.operator()<T>().
template <class F>
void with_type(const std::string& type, const F& f) {
  if (type == "float") return f.template operator()<float>();
  if (type == "half") return f.template operator()<__half>();
  if (type == "bf16") return f.template operator()<__nv_bfloat16>();
  fail(Exit::usage, "type ", type, ", expected float, half or bf16");
}

void run(int count, char** arguments) {
  if (count == 11 && std::string(arguments[0]) == "--tensors")
    return with_type(arguments[3], [&]<class T>() {
      compute<T>(shape_of(arguments + 4), arguments[1], arguments[2]);
    });
  for (int i = 0; i + 8 <= count; i += 8)
    with_type(arguments[i],
              [&]<class T>() { bench<T>(arguments[i], shape_of(arguments + i + 1)); });
}

}  // namespace
}  // namespace mt

int main(int argc, char** argv) {
  try {
    mt::run(argc - 1, argv + 1);
  } catch (const std::exception& e) {
    std::cerr << "attention_cuda_bench: " << e.what() << "\n";
    return 1;
  }
}
