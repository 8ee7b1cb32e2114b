// The same bits on every instruction set: this program runs itself with MT_CPU_ISA set to each and
// compares the hashes of results that it prints.
#include "kernels/isa.h"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/hash.h"
#include "kernels/activation.h"
#include "kernels/adam.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/layer_norm.h"
#include "kernels/near_rows.h"
#include "kernels/packed_rows.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/simd.h"
#include "tests/kernels/check.h"
#include "tests/kernels/packed_bytes.h"

namespace mt {
namespace {

using check::random;

template <class T>
void print_hash(const char* name, const std::vector<T>& x) {
  const auto* bytes = reinterpret_cast<const char*>(x.data());
  std::printf("hash %s %s\n", name, hash_hex(as_bytes({bytes, x.size() * sizeof(T)})).c_str());
}

constexpr std::int64_t kRows = 37, kCols = 77, kCount = kRows * kCols;
const StepRecord kRecord = {.first_sample = 5,
                            .learning_rate = 0.1,
                            .weight_decay = 0.1,
                            .bias_correction1 = 0.3,
                            .bias_correction2 = 0.2};
const Dropout kDropout = {
    .p = 0.2, .key = RandomKey::make(3, 4), .seq_length = 5, .record = &kRecord};

void print_activations() {
  const auto x = random<float>(2 * kCount, 1, -9, 9), dy = random<float>(kCount, 2);
  std::vector<float> y(kCount), wide(2 * kCount);
  for (const GeluForm form : {GeluForm::tanh, GeluForm::erf}) {
    cpu::gelu_forward(y.data(), x.data(), kCount, form);
    print_hash("gelu_forward", y);
    cpu::gelu_backward(y.data(), dy.data(), x.data(), kCount, form);
    print_hash("gelu_backward", y);
  }
  cpu::swiglu_forward(y.data(), x.data(), kRows, kCols);
  print_hash("swiglu_forward", y);
  cpu::swiglu_backward(wide.data(), dy.data(), x.data(), kRows, kCols);
  print_hash("swiglu_backward", wide);
  cpu::simd::exp(wide.data(), x.data(), 2 * kCount);
  print_hash("exp", wide);
  cpu::simd::normal_cdf(wide.data(), x.data(), 2 * kCount);
  print_hash("normal_cdf", wide);
}

template <class T>
void print_norms() {
  const auto x = random<T>(kCount, 1), dy = random<T>(kCount, 2), w = random<T>(kCols, 3);
  std::vector<T> y(kCount), mean(kRows), rstd(kRows), dw(kCols), db(kCols);
  cpu::layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), w.data(), w.data(), kRows,
                          kCols, 1e-5);
  print_hash("layer_norm_forward", y);
  cpu::layer_norm_backward(y.data(), dw.data(), db.data(), dy.data(), x.data(), mean.data(),
                           rstd.data(), w.data(), kRows, kCols);
  print_hash("layer_norm_backward dx", y);
  print_hash("layer_norm_backward dw", dw);
  cpu::rms_norm_forward(y.data(), rstd.data(), x.data(), w.data(), kRows, kCols, 1e-5);
  print_hash("rms_norm_forward", y);
  cpu::rms_norm_backward(y.data(), dw.data(), dy.data(), x.data(), rstd.data(), w.data(), kRows,
                         kCols);
  print_hash("rms_norm_backward dx", y);
  print_hash("rms_norm_backward dw", dw);
}

template <class T>
void print_elements() {
  const auto g = random<T>(kCount, 1);
  auto p = random<T>(kCount, 2), m = random<T>(kCount, 3), v = random<T>(kCount, 4, 0, 1);
  cpu::adam(p.data(), m.data(), v.data(), g.data(), kCount, {}, 1.0, 1.0, &kRecord);
  print_hash("adam", p);
  cpu::bias_dropout_add(m.data(), g.data(), p.data(), v.data(), kRows, kCols, kDropout);
  print_hash("bias_dropout_add", m);
  cpu::column_sum(v.data(), g.data(), kRows, kCols);
  print_hash("column_sum", v);
  print_hash("sum_squares", std::vector<double>{cpu::sum_squares(g.data(), kCount)});
  const std::vector<double> inv_freq = {1, 0.1, 0.01};
  cpu::rope(p.data(), inv_freq.data(),
            {.tokens = kRows, .heads = 7, .head_dim = 11, .rotary_dim = 6, .seq_length = 9}, false);
  print_hash("rope", p);
  std::vector<std::int32_t> labels(kRows, 3);
  std::vector<T> loss(kRows);
  cpu::cross_entropy(loss.data(), p.data(), labels.data(), v.data(), kRows, kCols, kCols, 0.1);
  print_hash("cross_entropy", p);
}

template <class T>
void print_attention(std::int64_t head_dim, const std::int32_t* first_key) {
  const AttentionShape s = {.sequences = 2,
                            .q_length = 75,
                            .kv_length = 75,
                            .kv_stride = 75,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = head_dim,
                            .scale = 0.3};
  const std::int64_t size = 2 * 75 * 4 * head_dim;
  const auto q = random<T>(size, 1), k = random<T>(size / 2, 2), v = random<T>(size / 2, 3),
             d_o = random<T>(size, 4);
  std::vector<T> o(size), lse(2 * 75 * 4), dq(size), dk(size / 2), dv(size / 2);
  cpu::attention_forward(o.data(), lse.data(), q.data(), k.data(), v.data(), first_key, s,
                         kDropout);
  print_hash("attention o", o);
  print_hash("attention lse", lse);
  cpu::attention_backward(dq.data(), dk.data(), dv.data(), d_o.data(), o.data(), lse.data(),
                          q.data(), k.data(), v.data(), first_key, s, kDropout);
  print_hash("attention dq", dq);
  print_hash("attention dk", dk);
  print_hash("attention dv", dv);
}

void print_packed_rows() {
  constexpr std::int64_t kLong = 512;
  for (const BlockType type : check::kBlockTypes) {
    const std::vector<std::uint8_t> w = check::packed(std::vector<BlockType>(kRows, type), kLong);
    const auto x = random<float>(3 * kLong, 1);
    std::vector<float> y(3 * kRows);
    for (const std::int64_t m : {1, 3}) {
      cpu::packed_product({.y = y.data(),
                           .x = x.data(),
                           .w = w.data(),
                           .bias = nullptr,
                           .m = m,
                           .n = kRows,
                           .accumulate = false});
      print_hash("packed_product", y);
    }
  }
}

void print_near_rows() {
  const std::int64_t columns = 37, rows = 70, count = 5;
  const auto x = random<float>(rows * columns, 1), others = random<float>(300 * columns, 2);
  for (const bool inner : {false, true}) {
    const RowCodes codes(others.data(), 300, columns, inner);
    std::vector<std::int64_t> numbers(rows * count);
    std::vector<float> distances(rows * count);
    cpu::near_rows(
        numbers.data(), distances.data(),
        {.x = x.data(), .rows = rows, .vectors = others.data(), .codes = &codes, .count = count});
    print_hash("near_rows", numbers);
    print_hash("near_rows distances", distances);
  }
}

// Not a test: what SameBitsOnEveryInstructionSet compares.
TEST(Isa, DISABLED_PrintHashes) {
  std::printf("chosen %d\n", static_cast<int>(cpu::isa()));
  print_activations();
  print_norms<float>();
  print_norms<double>();
  print_elements<float>();
  print_elements<double>();
  std::vector<std::int32_t> documents(150);
  for (std::int32_t i = 0; i < 150; ++i) documents[i] = i % 75 / 20 * 20;
  print_attention<float>(32, nullptr);
  print_attention<float>(32, documents.data());
  print_attention<float>(7, nullptr);
  print_attention<double>(32, documents.data());
  print_packed_rows();
  print_near_rows();
}

struct Output {
  std::string chosen, hashes;
};

Output run_with(const std::string& isa) {
  char self[PATH_MAX + 1] = {};
  if (readlink("/proc/self/exe", self, PATH_MAX) <= 0) return {};
  const std::string command = "MT_CPU_ISA=" + isa + " '" + self +
                              "' --gtest_also_run_disabled_tests --gtest_filter=*PrintHashes";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return {};
  Output output;
  for (char line[256]; std::fgets(line, sizeof line, pipe);) {
    const std::string text = line;
    if (text.starts_with("chosen ")) output.chosen = text;
    if (text.starts_with("hash ")) output.hashes += text;
  }
  pclose(pipe);
  return output;
}

TEST(Isa, SameBitsOnEveryInstructionSet) {
  const Output base = run_with("base"), avx2 = run_with("avx2"), widest = run_with("avx512");
  ASSERT_EQ(base.chosen, "chosen 0\n");
  if (widest.chosen == base.chosen) GTEST_SKIP() << "this machine has the base set alone";
  EXPECT_NE(base.hashes, "");
  EXPECT_EQ(base.hashes, avx2.hashes);
  EXPECT_EQ(base.hashes, widest.hashes);
}

}  // namespace
}  // namespace mt
