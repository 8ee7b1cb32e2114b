// Attention over some keys at a time on the GPU, against the CPU's over all at once in double.
#include "kernels/attention_part.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;
using Doubles = std::vector<double>;

template <class T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-5 : 1.5e-2;

double relative_error(const Doubles& got, const Doubles& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

// Of so many bytes, before others that nobody writes.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : bytes_(bytes), memory_(bytes + kBehind) {}
  void* data() const { return memory_.data(); }
  void expect_kept_to() const {
    const std::vector<unsigned char> all = memory_.values();
    const auto behind = all.begin() + static_cast<std::ptrdiff_t>(bytes_);
    EXPECT_EQ(std::count(behind, all.end(), 0xff), kBehind) << "behind the scratch";
  }

 private:
  static constexpr std::ptrdiff_t kBehind = 4 << 20;
  std::size_t bytes_;
  DeviceArray<unsigned char> memory_;  // each byte 0xff
};

struct Sizes {
  std::int64_t chunk, heads, kv_heads, head_dim;
  double dropout;
};

// The second of a micro-batch's sequences, in three chunks.
template <class T>
class Parts {
 public:
  static constexpr std::int64_t kChunks = 3;

  explicit Parts(const Sizes& sizes)
      : s_{.sequences = 1,
           .q_length = sizes.chunk,
           .kv_length = sizes.chunk,
           .kv_stride = sizes.chunk,
           .heads = sizes.heads,
           .kv_heads = sizes.kv_heads,
           .head_dim = sizes.head_dim,
           .first_head = 3,
           .scale = 1 / std::sqrt(static_cast<double>(sizes.head_dim))},
        dropout_{.p = sizes.dropout, .key = RandomKey::make(77, 5)},
        rows_(sizes.chunk * sizes.heads),
        queries_(rows_ * sizes.head_dim),
        keys_(sizes.chunk * sizes.kv_heads * sizes.head_dim),
        q_(kChunks * queries_, 1),
        k_(kChunks * keys_, 2),
        v_(kChunks * keys_, 3),
        d_o_(kChunks * queries_, 4) {}

  void expect_as_on_the_cpu() {
    on_cpu();
    const DeviceArray<StepRecord> record(std::vector<StepRecord>{{.first_sample = 40}});
    dropout_.record = record.data();
    const Scratch forward_work(cuda::attention_part_forward_work<T>(s_)),
        backward_work(cuda::attention_part_backward_work<T>(s_));
    const Numbers<float> dq(Doubles(q_.host.size()), 0), dk(Doubles(k_.host.size()), 0),
        dv(Doubles(k_.host.size()), 0), o(Doubles(q_.host.size()), 0),
        lse(Doubles(static_cast<std::size_t>(kChunks * rows_), -1.0 / 0.0), 0);
    const Numbers<T> narrow(kChunks * queries_);
    const auto range = [&](std::int64_t i, std::int64_t j) {
      return AttentionRange{.sequence = 1, .query = i * s_.q_length, .key = j * s_.q_length};
    };
    const auto for_pairs = [&](const auto& body) {
      for (std::int64_t i = 0; i < kChunks; ++i)
        for (const std::int64_t j : {1, 0, 2})
          if (j <= i) body(i, j, i * queries_, j * keys_);
    };
    for_pairs([&](std::int64_t i, std::int64_t j, std::int64_t at, std::int64_t key) {
      cuda::attention_part_forward(o.data() + at, lse.data() + i * rows_, q_.data() + at,
                                   k_.data() + key, v_.data() + key, s_, range(i, j), dropout_,
                                   forward_work.data(), nullptr);
    });
    if constexpr (std::is_same_v<T, float>)
      cuda::scale(narrow.data(), o.data(), 1.0f, kChunks * queries_, nullptr);
    else
      cuda::convert(narrow.data(), static_cast<const float*>(o.data()), kChunks * queries_,
                    nullptr);
    for_pairs([&](std::int64_t i, std::int64_t j, std::int64_t at, std::int64_t key) {
      cuda::attention_part_backward(dq.data() + at, dk.data() + key, dv.data() + key,
                                    d_o_.data() + at, narrow.data() + at, lse.data() + i * rows_,
                                    q_.data() + at, k_.data() + key, v_.data() + key, s_,
                                    range(i, j), dropout_, backward_work.data(), nullptr);
    });
    check::check_cuda(cudaDeviceSynchronize());
    EXPECT_LT(relative_error(o.values(), o_), kTolerance<T>);
    EXPECT_LT(relative_error(lse.values(), lse_), 1e-5);
    EXPECT_LT(relative_error(dq.values(), dq_), kTolerance<T>);
    EXPECT_LT(relative_error(dk.values(), dk_), kTolerance<T>);
    EXPECT_LT(relative_error(dv.values(), dv_), kTolerance<T>);
    forward_work.expect_kept_to();
    backward_work.expect_kept_to();
  }

 private:
  void on_cpu() {
    const StepRecord record{.first_sample = 41};
    AttentionShape whole = s_;
    whole.q_length = whole.kv_length = whole.kv_stride = kChunks * s_.q_length;
    Dropout dropout = dropout_;
    dropout.record = &record;
    o_.resize(q_.host.size()), dq_.resize(q_.host.size());
    dk_.resize(k_.host.size()), dv_.resize(k_.host.size());
    Doubles lse(static_cast<std::size_t>(kChunks * rows_));
    cpu::attention_forward(o_.data(), lse.data(), q_.host.data(), k_.host.data(), v_.host.data(),
                           nullptr, whole, dropout);
    cpu::attention_backward(dq_.data(), dk_.data(), dv_.data(), d_o_.host.data(), o_.data(),
                            lse.data(), q_.host.data(), k_.host.data(), v_.host.data(), nullptr,
                            whole, dropout);
    // By chunks.
    for (std::int64_t i = 0; i < kChunks; ++i)
      for (std::int64_t head = 0; head < s_.heads; ++head)
        for (std::int64_t n = 0; n < s_.q_length; ++n)
          lse_.push_back(lse[static_cast<std::size_t>((head * kChunks + i) * s_.q_length + n)]);
  }

  AttentionShape s_;  // of a chunk
  Dropout dropout_;
  std::int64_t rows_, queries_, keys_;  // of a chunk: those of all heads; elements
  Input<T> q_, k_, v_, d_o_;
  Doubles o_, lse_, dq_, dk_, dv_;
};

template <class T>
class AttentionPartCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(AttentionPartCuda, check::ElementTypes);

TYPED_TEST(AttentionPartCuda, ChunksJoinedAreTheWhole) {
  for (const Sizes& sizes :
       {Sizes{256, 4, 4, 64, 0}, Sizes{200, 4, 2, 128, 0.1}, Sizes{33, 2, 1, 40, 0.2},
        Sizes{8, 2, 2, 64, 0}, Sizes{512, 4, 4, 128, 0}, Sizes{1001, 2, 1, 64, 0.1}}) {
    SCOPED_TRACE(testing::Message() << sizes.chunk << " by " << sizes.head_dim);
    Parts<TypeParam>(sizes).expect_as_on_the_cpu();
  }
}

}  // namespace
}  // namespace mt
