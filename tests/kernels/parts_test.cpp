// Kernels of which ranks compute parts, put together again: attention over some keys at a time,
// cross-entropy over some of the vocabulary, and rows of a part of a table.
#include "kernels/attention_part.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;
using Doubles = std::vector<double>;

const StepRecord kRecord = {.first_sample = 40};
constexpr double kInf = std::numeric_limits<double>::infinity();

// One sequence of 12 tokens in chunks of 3, whose queries see at most 7 keys before their own; the
// dropout's words change within a chunk.
struct Attended {
  static constexpr std::int64_t kLength = 12, kChunk = 3, kHeads = 4, kKeyHeads = 2, kWidth = 5;
  AttentionShape shape{.sequences = 1,
                       .q_length = kLength,
                       .kv_length = kLength,
                       .kv_stride = kLength,
                       .heads = kHeads,
                       .kv_heads = kKeyHeads,
                       .head_dim = kWidth,
                       .first_head = 3,
                       .window = 7,
                       .scale = 0.6};
  const Dropout dropout{.p = 0.3, .key = RandomKey::make(77, 5), .record = &kRecord};
  const Doubles q = random<double>(kLength * kHeads * kWidth, 1, -2, 2);
  const Doubles k = random<double>(kLength * kKeyHeads * kWidth, 2, -2, 2);
  const Doubles v = random<double>(kLength * kKeyHeads * kWidth, 3);
  const Doubles d_o = random<double>(kLength * kHeads * kWidth, 4);

  // What all queries find in all keys, and the gradients.
  struct Whole {
    Doubles o, lse, dq, dk, dv;
  };
  Whole whole() const {
    Whole w{Doubles(q.size()), Doubles(kHeads * kLength), Doubles(q.size()), Doubles(k.size()),
            Doubles(v.size())};
    cpu::attention_forward(w.o.data(), w.lse.data(), q.data(), k.data(), v.data(), nullptr, shape,
                           dropout);
    cpu::attention_backward(w.dq.data(), w.dk.data(), w.dv.data(), d_o.data(), w.o.data(),
                            w.lse.data(), q.data(), k.data(), v.data(), nullptr, shape, dropout);
    return w;
  }

  AttentionShape chunk() const {
    AttentionShape part = shape;
    part.q_length = part.kv_length = part.kv_stride = kChunk;
    return part;
  }
  static std::int64_t query(std::int64_t chunk) { return chunk * kChunk * kHeads * kWidth; }
  static std::int64_t key(std::int64_t chunk) { return chunk * kChunk * kKeyHeads * kWidth; }
};

TEST(Parts, AttentionOverSomeKeysAtATime) {
  const Attended a;
  const Attended::Whole whole = a.whole();
  const auto& [o, lse, dq, dk, dv] = whole;
  const AttentionShape chunk = a.chunk();
  Doubles parts(o.size()), d_queries(o.size()), d_keys(a.k.size()), d_values(a.v.size());
  for (std::int64_t i = 0; i < 4; ++i) {
    Doubles sums(a.kHeads * a.kChunk, -kInf), expected;
    for (const std::int64_t j : {3, 0, 2, 1}) {  // any order; keys behind the queries give nothing
      const AttentionRange range{.query = i * a.kChunk, .key = j * a.kChunk};
      cpu::attention_part_forward(&parts[a.query(i)], sums.data(), &a.q[a.query(i)], &a.k[a.key(j)],
                                  &a.v[a.key(j)], nullptr, chunk, range, a.dropout, {});
      const Doubles none(sums.size(), -kInf);
      EXPECT_EQ(sums == none, j == 3 && i < 3);
    }
    for (std::int64_t h = 0; h < a.kHeads; ++h)
      for (std::int64_t n = 0; n < a.kChunk; ++n)
        expected.push_back(lse[h * a.kLength + i * a.kChunk + n]);
    EXPECT_TRUE(check::near(sums, expected)) << "lse of chunk " << i;
    for (std::int64_t j = 0; j < 4; ++j)
      cpu::attention_part_backward(&d_queries[a.query(i)], &d_keys[a.key(j)], &d_values[a.key(j)],
                                   &a.d_o[a.query(i)], &parts[a.query(i)], sums.data(),
                                   &a.q[a.query(i)], &a.k[a.key(j)], &a.v[a.key(j)], nullptr, chunk,
                                   {.query = i * a.kChunk, .key = j * a.kChunk}, a.dropout, {});
  }
  EXPECT_TRUE(check::near(parts, o));
  EXPECT_TRUE(check::near(d_queries, dq));
  EXPECT_TRUE(check::near(d_keys, dk));
  EXPECT_TRUE(check::near(d_values, dv));
}

// Ranks' chunks as they lie on them: of four, the first and the last, and the two between.
TEST(Parts, AttentionOfTwoChunksThatAreApart) {
  const Attended a;
  const Attended::Whole whole = a.whole();
  const auto& [o, lse, dq, dk, dv] = whole;
  constexpr std::int64_t kC = Attended::kChunk;
  const std::int64_t chunks[2][2] = {{0, 3}, {1, 2}};
  const auto pick = [&](const Doubles& all, int rank, std::int64_t width) {
    Doubles own;
    for (const std::int64_t chunk : chunks[rank])
      own.insert(own.end(), &all[chunk * kC * width], &all[chunk * kC * width] + kC * width);
    return own;
  };
  constexpr std::int64_t kQ = Attended::kHeads * Attended::kWidth;
  constexpr std::int64_t kK = Attended::kKeyHeads * Attended::kWidth;
  AttentionShape both = a.shape;
  both.q_length = both.kv_length = both.kv_stride = 2 * kC;
  const auto range = [&](int of, int theirs) {
    return AttentionRange{.query = chunks[of][0] * kC,
                          .key = chunks[theirs][0] * kC,
                          .query_gap = (chunks[of][1] - chunks[of][0] - 1) * kC,
                          .key_gap = (chunks[theirs][1] - chunks[theirs][0] - 1) * kC,
                          .chunk = kC};
  };
  std::vector<Doubles> d_keys(2, Doubles(2 * kC * kK)), d_values = d_keys;
  for (const int rank : {0, 1}) {
    const Doubles q = pick(a.q, rank, kQ), d_o = pick(a.d_o, rank, kQ);
    Doubles part(q.size(), 7), sums(2 * kC * a.kHeads, 7), d_q(q.size(), 7);  // overwritten first
    const auto meet = [&](int source, const auto& f) {
      const Doubles k = pick(a.k, source, kK), v = pick(a.v, source, kK);
      AttentionShape shape = both;
      AttentionRange r = range(rank, source);
      std::int64_t from = 0;
      if (source > rank) {  // the second chunk alone sees them
        shape.q_length = kC, from = kC;
        r.query = chunks[rank][1] * kC, r.query_gap = 0, r.lse_stride = 2 * kC;
      }
      f(k, v, shape, r, from, AttentionSoFar{.of_queries = source != rank, .of_keys = false});
    };
    for (const int source : {rank, 1 - rank})
      meet(source, [&](const Doubles& k, const Doubles& v, const AttentionShape& shape,
                       const AttentionRange& r, std::int64_t from, AttentionSoFar so_far) {
        cpu::attention_part_forward(&part[from * kQ], &sums[from], &q[from * kQ], k.data(),
                                    v.data(), nullptr, shape, r, a.dropout, so_far);
      });
    EXPECT_TRUE(check::near(part, pick(o, rank, kQ))) << rank;
    for (const int source : {rank, 1 - rank})
      meet(source, [&](const Doubles& k, const Doubles& v, const AttentionShape& shape,
                       const AttentionRange& r, std::int64_t from, AttentionSoFar so_far) {
        Doubles d_k(k.size(), 7), d_v(k.size(), 7);
        cpu::attention_part_backward(&d_q[from * kQ], d_k.data(), d_v.data(), &d_o[from * kQ],
                                     &part[from * kQ], &sums[from], &q[from * kQ], k.data(),
                                     v.data(), nullptr, shape, r, a.dropout, so_far);
        for (std::size_t i = 0; i < d_k.size(); ++i) {
          d_keys[source][i] += d_k[i];
          d_values[source][i] += d_v[i];
        }
      });
    EXPECT_TRUE(check::near(d_q, pick(dq, rank, kQ))) << rank;
  }
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(check::near(d_keys[rank], pick(dk, rank, kK))) << rank;
    EXPECT_TRUE(check::near(d_values[rank], pick(dv, rank, kK))) << rank;
  }
}

// The first `words` of so many columns are a vocabulary, the others its padding.
static void check_cross_entropy_in_parts(std::int64_t words) {
  SCOPED_TRACE(words);
  constexpr std::int64_t kRows = 5, kPart = 7, kParts = 3, kVocabulary = kPart * kParts;
  const Doubles all = random<double>(kRows * kVocabulary, 1, -30, 30), weight{1, 0.5, 0, 2, 1};
  std::vector<std::int32_t> labels{0, 6, 7, 13, 20};
  for (std::int32_t& label : labels) label = std::min(label, static_cast<std::int32_t>(words) - 1);
  for (const double smoothing : {0.0, 0.1}) {
    Doubles expected = all, loss(kRows);
    cpu::cross_entropy(loss.data(), expected.data(), labels.data(), weight.data(), kRows,
                       kVocabulary, words, smoothing);
    std::vector<Doubles> parts(kParts);
    const auto part = [&](std::int64_t p) {
      return VocabularyPart{
          .rows = kRows, .cols = kPart, .first = p * kPart, .vocab = words, .ranks = kParts};
    };
    Doubles sums(kParts * 4 * kRows);
    for (std::int64_t p = 0; p < kParts; ++p) {
      for (std::int64_t r = 0; r < kRows; ++r)
        for (std::int64_t c = 0; c < kPart; ++c)
          parts[p].push_back(all[r * kVocabulary + p * kPart + c]);
      cpu::cross_entropy_sums(&sums[p * 4 * kRows], parts[p].data(), labels.data(), part(p));
    }
    for (std::int64_t p = 0; p < kParts; ++p) {
      Doubles losses(kRows), columns;
      cpu::cross_entropy_part(losses.data(), parts[p].data(), labels.data(), weight.data(),
                              sums.data(), part(p), smoothing);
      EXPECT_TRUE(check::near(losses, loss));
      for (std::int64_t r = 0; r < kRows; ++r)
        for (std::int64_t c = 0; c < kPart; ++c)
          columns.push_back(expected[r * kVocabulary + p * kPart + c]);
      EXPECT_TRUE(check::near(parts[p], columns)) << p;
    }
  }
}

// Padding in no part, in one, in all of one, and in all of two.
TEST(Parts, CrossEntropyOfAVocabularyInThreeParts) {
  for (const std::int64_t words : {21, 20, 15, 14, 12, 8, 7, 1})
    check_cross_entropy_in_parts(words);
}

TEST(Parts, RowsOfAPartOfATable) {
  const Doubles table{10, 11, 20, 21}, dy{1, 2, 3, 4, 5, 6, 7, 8};  // words 3 and 4
  const std::vector<std::int32_t> ids{4, 2, 3, 5};
  Doubles y(8, -1), dtable(4, 100);
  cpu::embedding_forward(y.data(), ids.data(), table.data(), 4, 2, {3, 2}, false);
  EXPECT_EQ(y, (Doubles{20, 21, 0, 0, 10, 11, 0, 0}));
  cpu::embedding_forward(y.data(), ids.data(), table.data(), 4, 2, {3, 2}, true);
  EXPECT_EQ(y, (Doubles{40, 42, 0, 0, 20, 22, 0, 0}));
  cpu::embedding_backward(dtable.data(), ids.data(), dy.data(), 4, 2, {3, 2});
  EXPECT_EQ(dtable, (Doubles{105, 106, 101, 102}));
}

}  // namespace
}  // namespace mt
