// Attention on the GPU while other kernels hold some of its multiprocessors.
#include <algorithm>
#include <chrono>
#include <thread>

#include "kernels/attention.h"
#include "kernels/peer_reduce.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::DeviceArray;
using check::Input;
using check::Numbers;

// Blocks that hold multiprocessors, as NCCL's do that wait for other ranks: a sum with a rank that
// does not come.
class HeldMultiprocessors {
 public:
  HeldMultiprocessors() : boxes_(std::vector<std::byte>(2 * kBox)), sums_(kCount) {
    for (cudaStream_t* stream : {&held_, &beside_})
      check::check_cuda(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    cuda::PeerMailboxes boxes{.of = {box(0), box(1)}, .rank = 0, .ranks = 2};
    cuda::peer_reduce(sums_.data(), kCount, false, boxes, held_);
    while (!all_run()) std::this_thread::yield();
  }
  HeldMultiprocessors(const HeldMultiprocessors&) = delete;
  ~HeldMultiprocessors() {
    let_go();
    for (const cudaStream_t stream : {held_, beside_}) cudaStreamDestroy(stream);
  }
  void let_go() {
    cudaMemsetAsync(box(0)->arrived, 1, sizeof box(0)->arrived, beside_);
    cudaStreamSynchronize(held_);
  }

 private:
  static constexpr std::size_t kBox = sizeof(cuda::PeerMailbox);
  static constexpr std::int64_t kCount = cuda::PeerMailbox::kBytes / sizeof(float);

  cuda::PeerMailbox* box(int rank) const {
    return reinterpret_cast<cuda::PeerMailbox*>(boxes_.data()) + rank;
  }
  bool all_run() const {  // and have told the other rank
    std::vector<std::uint32_t> arrived(cuda::PeerMailbox::kBlocks * cuda::PeerMailbox::kRanks);
    check::check_cuda(cudaMemcpyAsync(arrived.data(), box(1)->arrived, sizeof box(1)->arrived,
                                      cudaMemcpyDeviceToHost, beside_));
    check::check_cuda(cudaStreamSynchronize(beside_));
    return std::ranges::count(arrived, 1) == cuda::PeerMailbox::kBlocks;
  }

  DeviceArray<std::byte> boxes_;
  DeviceArray<float> sums_;
  cudaStream_t held_ = nullptr, beside_ = nullptr;
};

bool happens(cudaEvent_t event, std::chrono::seconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  while (cudaEventQuery(event) == cudaErrorNotReady)
    if (std::chrono::steady_clock::now() > until) return false;
  return true;
}

// A backward, and the forward before it.
class Backward {
 public:
  explicit Backward(const AttentionShape& shape)
      : shape_(shape),
        q_(shape.q_length * shape.heads * shape.head_dim, 1),
        k_(shape.q_length * shape.kv_heads * shape.head_dim, 2),
        v_(shape.q_length * shape.kv_heads * shape.head_dim, 3),
        d_o_(shape.q_length * shape.heads * shape.head_dim, 4),
        o_(std::ssize(q_.host)),
        dq_(std::ssize(q_.host)),
        dk_(std::ssize(k_.host)),
        dv_(std::ssize(k_.host)),
        lse_(static_cast<std::size_t>(shape.q_length * shape.heads)),
        work_(cuda::attention_backward_work<bf16>(shape)) {
    const DeviceArray<unsigned char> work(cuda::attention_forward_work<bf16>(shape));
    cuda::attention_forward(o_.data(), lse_.data(), q_.data(), k_.data(), v_.data(), nullptr,
                            shape_, {}, work.data(), nullptr);
    check::check_cuda(cudaDeviceSynchronize());
  }
  void queue() const {
    cuda::attention_backward(dq_.data(), dk_.data(), dv_.data(), d_o_.data(), o_.data(),
                             lse_.data(), q_.data(), k_.data(), v_.data(), nullptr, shape_, {},
                             work_.data(), nullptr);
  }
  std::vector<bf16> gradients() const {
    check::check_cuda(cudaDeviceSynchronize());
    std::vector<bf16> all = dq_.bits();
    for (const auto& part : {dk_.bits(), dv_.bits()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }

 private:
  AttentionShape shape_;
  Input<bf16> q_, k_, v_, d_o_;
  Numbers<bf16> o_, dq_, dk_, dv_;
  DeviceArray<float> lse_;
  DeviceArray<unsigned char> work_;
};

// Tiles that wait for one another are all done by the blocks that have a multiprocessor.
TEST(AttentionBeside, TheBackwardEndsWhileOtherKernelsDoNot) {
  if (const char* why = check::skips<bf16>()) GTEST_SKIP() << why;
  cudaEvent_t done = nullptr;
  check::check_cuda(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  for (const std::int64_t head_dim : {64, 128, 256})
    for (const bool causal : {true, false}) {
      SCOPED_TRACE(testing::Message() << head_dim << (causal ? " causal" : ""));
      const Backward backward({.sequences = 1,
                               .q_length = 2560,
                               .kv_length = 2560,
                               .kv_stride = 2560,
                               .heads = 16,
                               .kv_heads = 16,
                               .head_dim = head_dim,
                               .causal = causal,
                               .scale = 0.1});
      backward.queue();
      const std::vector<bf16> alone = backward.gradients();
      HeldMultiprocessors held;
      backward.queue();
      check::check_cuda(cudaEventRecord(done));
      EXPECT_TRUE(happens(done, std::chrono::seconds(5)));
      held.let_go();
      EXPECT_TRUE(check::same_bits(backward.gradients(), alone));
    }
  cudaEventDestroy(done);
}

}  // namespace
}  // namespace mt
