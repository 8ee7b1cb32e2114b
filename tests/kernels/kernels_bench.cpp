// kernels_bench: time of each CPU kernel on all cores, in f32: first at the shapes of a small GPT
// (hidden 128, 4 heads, sequence 64, micro-batch 12, ffn 512, vocab 384), then at those of a layer
// of hidden 768, 12 heads, sequence 1024.  Columns GFLOP/s for products, GB/s for the rest.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "kernels/activation.h"
#include "kernels/adam.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/fill_random.h"
#include "kernels/gemm.h"
#include "kernels/layer_norm.h"
#include "kernels/qkv.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"

namespace mt {
namespace {

using benchmark::State;

std::vector<float> random(std::int64_t count, std::uint32_t purpose = 1) {
  std::vector<float> x(static_cast<std::size_t>(count));
  cpu::fill_normal(x.data(), 0, count, 0.0, 1.0, RandomKey::make(1, purpose));
  return x;
}

void report(State& state, const char* unit, double per_iteration) {
  state.counters[unit] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

struct Product {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
};

void gemm(State& state, const Product& p) {
  const auto a = random(p.m * p.k), b = random(p.k * p.n);
  std::vector<float> c(static_cast<std::size_t>(p.m * p.n));
  for (auto _ : state)
    cpu::gemm<float>({.c = c.data(),
                      .a = a.data(),
                      .b = b.data(),
                      .m = p.m,
                      .n = p.n,
                      .k = p.k,
                      .transpose_a = p.transpose_a,
                      .transpose_b = p.transpose_b,
                      .accumulate = p.accumulate});
  report(state, "GFLOP/s", 2.0 * double(p.m * p.n * p.k));
}

struct Size {
  std::int64_t rows, cols;
  std::int64_t count() const { return rows * cols; }
};

void layer_norm(State& state, const Size& s, bool backward) {
  const auto x = random(s.count()), w = random(s.cols), dy = random(s.count(), 2);
  std::vector<float> y(x.size()), mean(s.rows), rstd(s.rows), dw(s.cols), db(s.cols);
  cpu::layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), w.data(), w.data(), s.rows,
                          s.cols, 1e-5);
  for (auto _ : state)
    if (backward)
      cpu::layer_norm_backward(y.data(), dw.data(), db.data(), dy.data(), x.data(), mean.data(),
                               rstd.data(), w.data(), s.rows, s.cols);
    else
      cpu::layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), w.data(), w.data(),
                              s.rows, s.cols, 1e-5);
  report(state, "GB/s", double(s.count()) * (backward ? 12 : 8));
}

void rms_norm(State& state, const Size& s, bool backward) {
  const auto x = random(s.count()), w = random(s.cols), dy = random(s.count(), 2);
  std::vector<float> y(x.size()), rstd(s.rows), dw(s.cols);
  cpu::rms_norm_forward(y.data(), rstd.data(), x.data(), w.data(), s.rows, s.cols, 1e-5);
  for (auto _ : state)
    if (backward)
      cpu::rms_norm_backward(y.data(), dw.data(), dy.data(), x.data(), rstd.data(), w.data(),
                             s.rows, s.cols);
    else
      cpu::rms_norm_forward(y.data(), rstd.data(), x.data(), w.data(), s.rows, s.cols, 1e-5);
  report(state, "GB/s", double(s.count()) * (backward ? 12 : 8));
}

void gelu(State& state, const Size& s, GeluForm form, bool backward) {
  const auto x = random(s.count()), dy = random(s.count(), 2);
  std::vector<float> y(x.size());
  for (auto _ : state)
    if (backward)
      cpu::gelu_backward(y.data(), dy.data(), x.data(), s.count(), form);
    else
      cpu::gelu_forward(y.data(), x.data(), s.count(), form);
  report(state, "GB/s", double(s.count()) * (backward ? 12 : 8));
}

void swiglu(State& state, const Size& s, bool backward) {
  const auto x = random(2 * s.count()), dy = random(s.count(), 2);
  std::vector<float> y(x.size());
  for (auto _ : state)
    if (backward)
      cpu::swiglu_backward(y.data(), dy.data(), x.data(), s.rows, s.cols);
    else
      cpu::swiglu_forward(y.data(), x.data(), s.rows, s.cols);
  report(state, "GB/s", double(s.count()) * (backward ? 20 : 12));
}

// In documents of `document` tokens, or one if it is 0.
void attention(State& state, const AttentionShape& s, bool backward, double p,
               std::int64_t document) {
  const std::int64_t q_size = s.sequences * s.q_length * s.heads * s.head_dim;
  const std::int64_t kv_size = s.sequences * s.kv_length * s.kv_heads * s.head_dim;
  const auto q = random(q_size), k = random(kv_size), v = random(kv_size), d_o = random(q_size, 2);
  std::vector<float> o(q.size()), lse(s.sequences * s.heads * s.q_length), dq(q.size()),
      dk(k.size()), dv(v.size());
  std::vector<std::int32_t> first_key;
  for (std::int64_t i = 0; document > 0 && i < s.sequences * s.q_length; ++i)
    first_key.push_back(static_cast<std::int32_t>(i % s.q_length / document * document));
  const std::int32_t* first = document > 0 ? first_key.data() : nullptr;
  const StepRecord record;
  const Dropout dropout = {.p = p, .key = RandomKey::make(1, 1), .record = &record};
  cpu::attention_forward(o.data(), lse.data(), q.data(), k.data(), v.data(), first, s, dropout);
  for (auto _ : state)
    if (backward)
      cpu::attention_backward(dq.data(), dk.data(), dv.data(), d_o.data(), o.data(), lse.data(),
                              q.data(), k.data(), v.data(), first, s, dropout);
    else
      cpu::attention_forward(o.data(), lse.data(), q.data(), k.data(), v.data(), first, s, dropout);
  const double length = document > 0 ? double(document) : double(s.q_length);
  const double pairs =
      double(s.q_length) * double(s.kv_length - s.q_length) + double(s.q_length) * length / 2;
  report(state, "GFLOP/s",
         (backward ? 10 : 4) * pairs * double(s.sequences * s.heads * s.head_dim));
}

void cross_entropy(State& state, const Size& s) {
  auto logits = random(s.count());
  const std::vector<float> row_weight(s.rows, 1.0f);
  const std::vector<std::int32_t> labels(s.rows, 1);
  std::vector<float> loss(s.rows);
  for (auto _ : state)
    cpu::cross_entropy(loss.data(), logits.data(), labels.data(), row_weight.data(), s.rows, s.cols,
                       s.cols, 0.0);
  report(state, "GB/s", double(s.count()) * 8);
}

void adam(State& state, const Size& s) {
  auto p = random(s.count()), m = random(s.count());
  std::vector<float> v(p.size(), 0.5f);
  const auto g = random(s.count(), 2);
  const StepRecord record = {.learning_rate = 1e-9};
  for (auto _ : state)
    cpu::adam(p.data(), m.data(), v.data(), g.data(), s.count(), {}, 1.0, 1.0, &record);
  report(state, "GB/s", double(s.count()) * 28);
}

void bias_dropout_add(State& state, const Size& s, double p) {
  const auto x = random(s.count()), residual = random(s.count(), 2), bias = random(s.cols);
  std::vector<float> y(x.size());
  const StepRecord record;
  const Dropout dropout = {
      .p = p, .key = RandomKey::make(1, 1), .seq_length = 64, .record = &record};
  for (auto _ : state)
    cpu::bias_dropout_add(y.data(), residual.data(), x.data(), bias.data(), s.rows, s.cols,
                          dropout);
  report(state, "GB/s", double(s.count()) * 12);
}

void column_sum(State& state, const Size& s) {
  const auto x = random(s.count());
  std::vector<float> y(s.cols);
  for (auto _ : state) cpu::column_sum(y.data(), x.data(), s.rows, s.cols);
  report(state, "GB/s", double(s.count()) * 4);
}

void sum_squares(State& state, const Size& s) {
  const auto x = random(s.count());
  for (auto _ : state) benchmark::DoNotOptimize(cpu::sum_squares(x.data(), s.count()));
  report(state, "GB/s", double(s.count()) * 4);
}

void add(State& state, const Size& s) {
  const auto a = random(s.count()), b = random(s.count(), 2);
  std::vector<float> y(a.size());
  for (auto _ : state) cpu::add(y.data(), a.data(), b.data(), s.count());
  report(state, "GB/s", double(s.count()) * 12);
}

void qkv_split(State& state, const QkvShape& s) {
  const auto qkv = random(s.tokens * (s.heads + 2 * s.groups) * s.head_dim);
  std::vector<float> q(s.tokens * s.heads * s.head_dim), k(s.tokens * s.groups * s.head_dim),
      v(k.size());
  for (auto _ : state) cpu::qkv_split(q.data(), k.data(), v.data(), qkv.data(), s);
  report(state, "GB/s", double(qkv.size()) * 8);
}

void rope(State& state, const QkvShape& s, std::int64_t seq_length) {
  auto x = random(s.tokens * s.heads * s.head_dim);
  const std::vector<double> inv_freq(s.head_dim / 2, 0.5);
  const RopeShape shape = {.tokens = s.tokens,
                           .heads = s.heads,
                           .head_dim = s.head_dim,
                           .rotary_dim = s.head_dim,
                           .seq_length = seq_length};
  for (auto _ : state) cpu::rope(x.data(), inv_freq.data(), shape, false);
  report(state, "GB/s", double(x.size()) * 8);
}

void embedding(State& state, const Size& s, bool backward) {
  std::vector<std::int32_t> ids(s.rows);
  for (std::int64_t r = 0; r < s.rows; ++r) ids[r] = static_cast<std::int32_t>(r * 7 % 257);
  auto table = random(257 * s.cols), y = random(s.count());
  const WordRange words{0, 257};
  for (auto _ : state)
    if (backward)
      cpu::embedding_backward(table.data(), ids.data(), y.data(), s.rows, s.cols, words);
    else
      cpu::embedding_forward(y.data(), ids.data(), table.data(), s.rows, s.cols, words, false);
  report(state, "GB/s", double(s.count()) * 8);
}

void fill_normal(State& state, const Size& s) {
  std::vector<float> y(s.count());
  for (auto _ : state) cpu::fill_normal(y.data(), 0, s.count(), 0.0, 1.0, RandomKey::make(1, 1));
  report(state, "GB/s", double(s.count()) * 4);
}

template <class Function>
void add_case(const std::string& name, const Function& function) {
  benchmark::RegisterBenchmark(name.c_str(), function)
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

std::string size_name(const Size& s) {
  return std::to_string(s.rows) + "x" + std::to_string(s.cols);
}

void add_products(std::int64_t tokens, std::int64_t outputs, std::int64_t inputs) {
  const auto one = [](const char* what, const Product& p) {
    add_case("gemm_" + std::string(what) + "/" + std::to_string(p.m) + "x" + std::to_string(p.n) +
                 "x" + std::to_string(p.k),
             [p](State& s) { gemm(s, p); });
  };
  one("forward", {tokens, outputs, inputs, false, true, false});
  one("dgrad", {tokens, inputs, outputs, false, false, false});
  one("wgrad", {outputs, inputs, tokens, true, false, true});
}

struct Model {
  std::int64_t sequences, length, hidden, heads, ffn, vocab;
};

void add_rows(const Model& m) {
  const Size hidden = {m.sequences * m.length, m.hidden}, ffn = {hidden.rows, m.ffn};
  for (const bool backward : {false, true}) {
    const std::string way = backward ? "_backward/" : "_forward/";
    add_case("layer_norm" + way + size_name(hidden),
             [=](State& s) { layer_norm(s, hidden, backward); });
    add_case("rms_norm" + way + size_name(hidden),
             [=](State& s) { rms_norm(s, hidden, backward); });
    add_case("gelu_tanh" + way + size_name(ffn),
             [=](State& s) { gelu(s, ffn, GeluForm::tanh, backward); });
    add_case("gelu_erf" + way + size_name(ffn),
             [=](State& s) { gelu(s, ffn, GeluForm::erf, backward); });
    add_case("swiglu" + way + size_name(ffn), [=](State& s) { swiglu(s, ffn, backward); });
    add_case("embedding" + way + size_name(hidden),
             [=](State& s) { embedding(s, hidden, backward); });
  }
  for (const double p : {0.0, 0.1})
    add_case("bias_dropout_add/" + size_name(hidden) + (p > 0 ? "/p" : ""),
             [=](State& s) { bias_dropout_add(s, hidden, p); });
  add_case("add/" + size_name(hidden), [=](State& s) { add(s, hidden); });
  add_case("column_sum/" + size_name(hidden), [=](State& s) { column_sum(s, hidden); });
  add_case("column_sum/" + size_name(ffn), [=](State& s) { column_sum(s, ffn); });
  const Size logits = {hidden.rows, m.vocab};
  add_case("cross_entropy/" + size_name(logits), [=](State& s) { cross_entropy(s, logits); });
  const Size weights = {12 * m.hidden, m.hidden};  // of a layer
  add_case("adam/" + size_name(weights), [=](State& s) { adam(s, weights); });
  add_case("sum_squares/" + size_name(weights), [=](State& s) { sum_squares(s, weights); });
  add_case("fill_normal/" + size_name(weights), [=](State& s) { fill_normal(s, weights); });
}

void add_model(const Model& m) {
  const std::int64_t tokens = m.sequences * m.length, head_dim = m.hidden / m.heads;
  add_products(tokens, 3 * m.hidden, m.hidden);
  add_products(tokens, m.hidden, m.hidden);
  add_products(tokens, m.ffn, m.hidden);
  add_products(tokens, m.hidden, m.ffn);
  add_products(tokens, m.vocab, m.hidden);
  const AttentionShape shape = {.sequences = m.sequences,
                                .q_length = m.length,
                                .kv_length = m.length,
                                .kv_stride = m.length,
                                .heads = m.heads,
                                .kv_heads = m.heads,
                                .head_dim = head_dim,
                                .scale = 0.1};
  for (const bool backward : {false, true})
    for (const double p : {0.0, 0.1})
      add_case(std::string("attention_") + (backward ? "backward/" : "forward/") +
                   std::to_string(m.sequences) + "x" + std::to_string(m.length) + "x" +
                   std::to_string(m.heads) + "x" + std::to_string(head_dim) + (p > 0 ? "/p" : ""),
               [=](State& s) { attention(s, shape, backward, p, 0); });
  for (const bool backward : {false, true})
    add_case(std::string("attention_") + (backward ? "backward/" : "forward/") + "documents/" +
                 std::to_string(m.length),
             [=](State& s) { attention(s, shape, backward, 0, m.length / 4); });
  const QkvShape qkv = {tokens, m.heads, m.heads, head_dim};
  add_case("qkv_split/" + std::to_string(tokens), [=](State& s) { qkv_split(s, qkv); });
  add_case("rope/" + std::to_string(tokens), [=](State& s) { rope(s, qkv, m.length); });
  add_rows(m);
}

}  // namespace
}  // namespace mt

int main(int argc, char** argv) {
  mt::add_model({12, 64, 128, 4, 512, 384});
  mt::add_model({1, 1024, 768, 12, 3072, 50304});
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
