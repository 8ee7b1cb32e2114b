// Attention without the causal mask as an operation: which shapes it takes, and what it counts.
#include <gtest/gtest.h>

#include "ops/ops.h"
#include "tensor/arena.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

struct Problem {
  std::int64_t queries = 4, keys = 4, window = -1;
  bool causal = false, documents = false;
};

AttentionShape shape_of(const Problem& p) {
  return {.sequences = 1,
          .q_length = p.queries,
          .kv_length = p.keys,
          .kv_stride = p.keys,
          .heads = 2,
          .kv_heads = 2,
          .head_dim = 1,
          .window = p.window,
          .causal = p.causal};
}

// One sequence of two heads with one channel each, all of whose numbers are 0 but for the values.
struct Attended {
  explicit Attended(const Problem& p, Stream& stream) : o(DType::f64, {p.queries, 2, 1}) {
    const HostTensor q(DType::f64, {p.queries, 2, 1}), k(DType::f64, {p.keys, 2, 1});
    const HostTensor v(DType::f64, {p.keys, 2, 1}), lse(DType::f64, {1, 2, p.queries});
    for (std::int64_t j = 0; j < p.keys; ++j) v.span<double>()[2 * j] = static_cast<double>(j);
    const HostTensor first_key({p.queries}, std::vector<std::int32_t>(p.queries));
    attention_forward(o, lse, q, k, v, p.documents ? first_key.view() : Tensor(), shape_of(p), {},
                      stream);
  }
  // Of the first head: means of the values seen.
  std::vector<double> means() const {
    std::vector<double> of_first;
    for (std::size_t i = 0; i < o.span<double>().size(); i += 2)
      of_first.push_back(o.span<double>()[i]);
    return of_first;
  }
  HostTensor o;
};

TEST(AttentionMask, IsTheShapes) {
  Stream stream(Device::cpu);
  const auto means = [&](const Problem& p) { return Attended(p, stream).means(); };
  EXPECT_EQ(means({.causal = true}), (std::vector<double>{0, 0.5, 1, 1.5}));
  EXPECT_EQ(means({}), (std::vector<double>{1.5, 1.5, 1.5, 1.5}));
  EXPECT_EQ(means({.window = 1}), (std::vector<double>{0.5, 1, 2, 2.5}));
  EXPECT_EQ(means({.queries = 2, .keys = 5}), (std::vector<double>{2, 2}));
  EXPECT_EQ(means({.queries = 3, .keys = 1}), (std::vector<double>{0, 0, 0}));
}

TEST(AttentionMask, TakesOtherKeysThanQueriesOnlyWhereAllAreSeen) {
  Stream stream(Device::cpu);
  const auto fails = [&](const Problem& p) { EXPECT_THROW(Attended(p, stream), Error); };
  fails({.queries = 5, .keys = 4, .causal = true});
  fails({.queries = 3, .keys = 4, .window = 1});
  fails({.queries = 5, .keys = 4, .documents = true});
  fails({.queries = 0, .keys = 4});
}

TEST(AttentionMask, CountsThePairsThatItLeaves) {
  const auto pairs = [](const Problem& p) {
    Stream meta(Device::meta);
    Arena arena(Buffer(Device::meta, 1 << 20));
    const Tensor q = arena.alloc(DType::f64, {p.queries, 2, 1});
    const Tensor k = arena.alloc(DType::f64, {p.keys, 2, 1});
    attention_forward(q, arena.alloc(DType::f64, {1, 2, p.queries}), q, k, k, {}, shape_of(p), {},
                      meta);
    return meta.cost().flops / 8;  // two products of two heads, two operations each
  };
  EXPECT_EQ(pairs({.causal = true}), 10);
  EXPECT_EQ(pairs({.queries = 2, .keys = 5, .causal = true}), 9);
  EXPECT_EQ(pairs({.window = 1, .causal = true}), 7);
  EXPECT_EQ(pairs({}), 16);
  EXPECT_EQ(pairs({.window = 1}), 10);
  EXPECT_EQ(pairs({.window = 0}), 4);
  EXPECT_EQ(pairs({.window = 9}), 16);
  EXPECT_EQ(pairs({.queries = 2, .keys = 5}), 10);
}

}  // namespace
}  // namespace mt
