// Attention over some keys at a time on the GPU, against the CPU's over all at once in double.
#include "kernels/attention_part.h"

#include <algorithm>

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

// The second of a micro-batch's sequences among two ranks: of its four chunks one has the first and
// the last, the other those between (nn/context_attention.cpp).  Q: of o and dq; K: of dk and dv.
template <class T, class Q, class K>
class Parts {
 public:
  explicit Parts(const Sizes& sizes)
      : s_{.sequences = 1,
           .q_length = 2 * sizes.chunk,
           .kv_length = 2 * sizes.chunk,
           .kv_stride = 2 * sizes.chunk,
           .heads = sizes.heads,
           .kv_heads = sizes.kv_heads,
           .head_dim = sizes.head_dim,
           .first_head = 3,
           .scale = 1 / std::sqrt(static_cast<double>(sizes.head_dim))},
        dropout_{.p = sizes.dropout, .key = RandomKey::make(77, 5)},
        chunk_(sizes.chunk),
        query_(sizes.heads * sizes.head_dim),
        key_(sizes.kv_heads * sizes.head_dim),
        q_(4 * chunk_ * query_, 1),
        k_(4 * chunk_ * key_, 2),
        v_(4 * chunk_ * key_, 3),
        d_o_(4 * chunk_ * query_, 4) {}

  void expect_as_on_the_cpu() {
    on_cpu();
    const DeviceArray<StepRecord> record(std::vector<StepRecord>{{.first_sample = 40}});
    dropout_.record = record.data();
    Doubles d_keys[2] = {Doubles(size(key_)), Doubles(size(key_))},
            d_values[2] = {d_keys[0], d_keys[0]};
    for (const int rank : {0, 1}) {
      SCOPED_TRACE(testing::Message() << "rank " << rank);
      compute(rank, d_keys, d_values);
    }
    for (const int rank : {0, 1}) {
      EXPECT_LT(relative_error(d_keys[rank], of_rank(dk_, rank, key_)), kTolerance<T>);
      EXPECT_LT(relative_error(d_values[rank], of_rank(dv_, rank, key_)), kTolerance<T>);
    }
  }

 private:
  static constexpr std::int64_t kChunks[2][2] = {{0, 3}, {1, 2}};

  std::size_t size(std::int64_t width) const {
    return static_cast<std::size_t>(2 * chunk_ * width);
  }
  Doubles of_rank(const Doubles& all, int rank, std::int64_t width) const {
    Doubles own;
    for (const std::int64_t chunk : kChunks[rank]) {
      const auto begin = all.begin() + chunk * chunk_ * width;
      own.insert(own.end(), begin, begin + chunk_ * width);
    }
    return own;
  }

  // A rank's queries with both ranks' keys.
  void compute(int rank, Doubles (&d_keys)[2], Doubles (&d_values)[2]) {
    const Scratch forward_work(cuda::attention_part_forward_work<T>(s_)),
        backward_work(cuda::attention_part_backward_work<T>(s_));
    const Numbers<T> q(of_rank(q_.host, rank, query_), 0), d_o(of_rank(d_o_.host, rank, query_), 0);
    const Numbers<Q> o(2 * chunk_ * query_), dq(2 * chunk_ * query_);
    const Numbers<float> lse(2 * chunk_ * s_.heads);
    const auto meet = [&](const auto& f) {
      for (const int source : {rank, 1 - rank}) {
        const Numbers<T> k(of_rank(k_.host, source, key_), 0), v(of_rank(v_.host, source, key_), 0);
        AttentionShape shape = s_;
        AttentionRange range{.sequence = 1,
                             .query = kChunks[rank][0] * chunk_,
                             .key = kChunks[source][0] * chunk_,
                             .query_gap = (kChunks[rank][1] - kChunks[rank][0] - 1) * chunk_,
                             .key_gap = (kChunks[source][1] - kChunks[source][0] - 1) * chunk_,
                             .chunk = chunk_};
        std::int64_t from = 0;
        if (source < rank) shape.kv_length = shape.kv_stride = chunk_;
        if (source > rank) {
          from = shape.q_length = chunk_;
          range.query = kChunks[rank][1] * chunk_, range.query_gap = 0;
          range.lse_stride = 2 * chunk_;
        }
        f(source, k, v, shape, range, from,
          AttentionSoFar{.of_queries = source != rank, .of_keys = false});
      }
    };
    meet([&](int, const Numbers<T>& k, const Numbers<T>& v, const AttentionShape& shape,
             const AttentionRange& range, std::int64_t from, AttentionSoFar so_far) {
      cuda::attention_part_forward(o.data() + from * query_, lse.data() + from,
                                   static_cast<const T*>(q.data() + from * query_),
                                   static_cast<const T*>(k.data()), static_cast<const T*>(v.data()),
                                   shape, range, dropout_, so_far, forward_work.data(), nullptr);
    });
    const Numbers<T> narrow(o.values(), 0);
    meet([&](int source, const Numbers<T>& k, const Numbers<T>& v, const AttentionShape& shape,
             const AttentionRange& range, std::int64_t from, AttentionSoFar so_far) {
      const Numbers<K> dk(shape.kv_length * key_), dv(shape.kv_length * key_);
      cuda::attention_part_backward(
          dq.data() + from * query_, dk.data(), dv.data(),
          static_cast<const T*>(d_o.data() + from * query_),
          static_cast<const T*>(narrow.data() + from * query_), lse.data() + from,
          static_cast<const T*>(q.data() + from * query_), static_cast<const T*>(k.data()),
          static_cast<const T*>(v.data()), shape, range, dropout_, so_far, backward_work.data(),
          nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      const Doubles of_keys = dk.values(), of_values = dv.values();
      for (std::size_t i = 0; i < of_keys.size(); ++i) {
        d_keys[source][i] += of_keys[i];
        d_values[source][i] += of_values[i];
      }
    });
    EXPECT_LT(relative_error(o.values(), of_rank(o_, rank, query_)), kTolerance<T>);
    EXPECT_LT(relative_error(dq.values(), of_rank(dq_, rank, query_)), kTolerance<T>);
    Doubles of_lse;
    for (std::int64_t head = 0; head < s_.heads; ++head) {
      const auto begin = lse_.begin() + head * 4 * chunk_;
      const Doubles own = of_rank(Doubles(begin, begin + 4 * chunk_), rank, 1);
      of_lse.insert(of_lse.end(), own.begin(), own.end());
    }
    EXPECT_LT(relative_error(lse.values(), of_lse), 1e-5);
    forward_work.expect_kept_to();
    backward_work.expect_kept_to();
  }

  void on_cpu() {
    const StepRecord record{.first_sample = 41};
    AttentionShape whole = s_;
    whole.q_length = whole.kv_length = whole.kv_stride = 4 * chunk_;
    Dropout dropout = dropout_;
    dropout.record = &record;
    o_.resize(q_.host.size()), dq_.resize(q_.host.size());
    dk_.resize(k_.host.size()), dv_.resize(k_.host.size());
    lse_.resize(static_cast<std::size_t>(4 * chunk_ * s_.heads));
    cpu::attention_forward(o_.data(), lse_.data(), q_.host.data(), k_.host.data(), v_.host.data(),
                           nullptr, whole, dropout);
    cpu::attention_backward(dq_.data(), dk_.data(), dv_.data(), d_o_.host.data(), o_.data(),
                            lse_.data(), q_.host.data(), k_.host.data(), v_.host.data(), nullptr,
                            whole, dropout);
  }

  AttentionShape s_;  // of a rank
  Dropout dropout_;
  std::int64_t chunk_, query_, key_;  // elements of a query and a key of all heads
  Input<T> q_, k_, v_, d_o_;
  Doubles o_, lse_, dq_, dk_, dv_;
};

template <class T>
class AttentionPartCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(AttentionPartCuda, check::ElementTypes);

// Chunks of multiples of eight and others, whose random words no eight keys share.
TYPED_TEST(AttentionPartCuda, RanksTogetherAreTheWhole) {
  for (const Sizes& sizes :
       {Sizes{256, 4, 4, 64, 0}, Sizes{200, 4, 2, 128, 0.1}, Sizes{33, 2, 1, 40, 0.2},
        Sizes{8, 2, 2, 64, 0}, Sizes{512, 4, 4, 128, 0}, Sizes{1001, 2, 1, 64, 0.1},
        Sizes{264, 2, 1, 192, 0.3}}) {
    SCOPED_TRACE(testing::Message() << sizes.chunk << " by " << sizes.head_dim);
    Parts<TypeParam, float, float>(sizes).expect_as_on_the_cpu();
    Parts<TypeParam, float, TypeParam>(sizes).expect_as_on_the_cpu();
    Parts<TypeParam, TypeParam, TypeParam>(sizes).expect_as_on_the_cpu();
  }
}

}  // namespace
}  // namespace mt
