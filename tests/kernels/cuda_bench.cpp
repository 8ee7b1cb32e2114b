// cuda_bench: bytes per second of each memory-bound kernel on a GPU against those of a large copy,
// at the shapes of a step of 32768 tokens, hidden size 2048.  One JSON line a kernel: `bytes` are
// the compulsory ones (each input read once, each output written once), `of_copy` is the rate over
// that of copies timed in turn with the kernel; medians.  An argument selects kernels whose name
// contains it.  A scan of Mamba-2's is of 8192 tokens, in heads of 64 channels and states of 128; a
// gated delta rule is of as many, in Qwen3-Next's heads.
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <string>

#include "kernels/activation.h"
#include "kernels/adam.h"
#include "kernels/chunk_scan.h"
#include "kernels/cross_entropy.h"
#include "kernels/delta_rule.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/fill_random.h"
#include "kernels/fp8_blocks.h"
#include "kernels/layer_norm.h"
#include "kernels/qkv.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/sgd.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::check_cuda;
using check::DeviceArray;

constexpr std::int64_t kTokens = 32768, kHidden = 2048, kFfn = 8192, kHeads = 16, kHeadDim = 128;
constexpr std::int64_t kVocab = 131072;

// Normal numbers: a few million, again and again.
template <class T>
class Data {
 public:
  explicit Data(std::int64_t count) : array_(static_cast<std::size_t>(count)) {
    static const std::vector<T> some = [] {
      std::vector<float> normal(1 << 22);
      cpu::fill_normal(normal.data(), 0, std::ssize(normal), 0, 1, RandomKey::make(1, 1));
      return std::vector<T>(normal.begin(), normal.end());
    }();
    for (std::int64_t i = 0; i < count; i += std::ssize(some))
      check_cuda(cudaMemcpy(data() + i, some.data(),
                            std::min(count - i, std::ssize(some)) * sizeof(T),
                            cudaMemcpyHostToDevice));
  }
  T* data() const { return array_.data(); }

 private:
  DeviceArray<T> array_;
};
using Work = DeviceArray<unsigned char>;

class Bench {
 public:
  explicit Bench(std::string filter) : filter_(std::move(filter)) {
    for (cudaEvent_t& event : events_) check_cuda(cudaEventCreate(&event));
    check_cuda(cudaMemset(from_.data(), 1, from_.bytes()));
  }

  bool wants(const std::string& name) const { return name.find(filter_) != std::string::npos; }
  bool wants_any(const std::vector<std::string>& names) const {
    return std::ranges::any_of(names, [&](const std::string& name) { return wants(name); });
  }

  // bytes: of one run.
  void operator()(const std::string& name, double bytes, const std::function<void()>& run) {
    if (!wants(name)) return;
    constexpr int kWarmUp = 5, kRepetitions = 21, kRuns = 4;
    std::vector<double> copy_rates, rates;
    for (int i = 0; i < kWarmUp + kRepetitions; ++i) {
      check_cuda(cudaEventRecord(events_[0]));
      check_cuda(
          cudaMemcpyAsync(to_.data(), from_.data(), from_.bytes(), cudaMemcpyDeviceToDevice));
      check_cuda(cudaEventRecord(events_[1]));
      for (int r = 0; r < kRuns; ++r) run();
      check_cuda(cudaEventRecord(events_[2]));
      check_cuda(cudaDeviceSynchronize());
      if (i < kWarmUp) continue;
      copy_rates.push_back(2 * static_cast<double>(from_.bytes()) / seconds(0));
      rates.push_back(kRuns * bytes / seconds(1));
    }
    const double copy = median(copy_rates), rate = median(rates);
    std::printf(
        "{\"kernel\": \"%s\", \"bytes\": %.0f, \"microseconds\": %.1f, \"bytes_per_second\": "
        "%.4g, \"copy\": %.4g, \"of_copy\": %.3f}\n",
        name.c_str(), bytes, bytes / rate * 1e6, rate, copy, rate / copy);
    std::fflush(stdout);
  }

 private:
  double seconds(int first_event) const {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, events_[first_event], events_[first_event + 1]));
    return milliseconds * 1e-3;
  }
  static double median(std::vector<double> x) {
    std::ranges::nth_element(x, x.begin() + std::ssize(x) / 2);
    return x[x.size() / 2];
  }

  std::string filter_;
  Work from_{1u << 30}, to_{1u << 30};
  cudaEvent_t events_[3];
};

void norms(Bench& bench) {
  for (const std::int64_t cols : {128, 768, 1600, 2048, 8192}) {
    const std::int64_t rows = kTokens * kHidden / cols, count = rows * cols;
    const std::string suffix = " bf16 " + std::to_string(rows) + "x" + std::to_string(cols);
    if (!bench.wants_any({"layer_norm_forward" + suffix, "layer_norm_backward" + suffix,
                          "rms_norm_forward" + suffix, "rms_norm_backward" + suffix}))
      continue;
    const Data<bf16> x(count), dy(count), y(count), z(count), w(cols), b(cols);
    const Data<float> mean(rows), rstd(rows), dw(cols), db(cols);
    const Work work(cuda::layer_norm_backward_work(rows, cols));
    const auto array = static_cast<double>(count) * sizeof(bf16);
    const auto statistic = static_cast<double>(rows) * sizeof(float);  // mean or rstd
    bench("layer_norm_forward" + suffix, 2 * array + 2 * statistic, [&] {
      cuda::layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(),
                               rows, cols, 1e-5, nullptr);
    });
    bench("layer_norm_backward" + suffix, 4 * array + 2 * statistic, [&] {
      cuda::layer_norm_backward(y.data(), dw.data(), db.data(), z.data(), dy.data(), x.data(),
                                mean.data(), rstd.data(), w.data(), rows, cols, work.data(),
                                nullptr);
    });
    bench("rms_norm_forward" + suffix, 2 * array + statistic, [&] {
      cuda::rms_norm_forward(y.data(), rstd.data(), x.data(), w.data(), rows, cols, 1e-5, nullptr);
    });
    bench("rms_norm_backward" + suffix, 4 * array + statistic, [&] {
      cuda::rms_norm_backward(y.data(), dw.data(), z.data(), dy.data(), x.data(), rstd.data(),
                              w.data(), rows, cols, work.data(), nullptr);
    });
  }
}

template <class T>
void activations(Bench& bench, const std::string& suffix) {
  const std::int64_t count = kTokens * kFfn;
  const Data<T> x(count), dy(count), y(count);
  const auto array = static_cast<double>(count) * sizeof(T);
  for (const GeluForm form : {GeluForm::tanh, GeluForm::erf}) {
    const std::string name = form == GeluForm::tanh ? "gelu_tanh_" : "gelu_erf_";
    bench(name + "forward" + suffix, 2 * array,
          [&] { cuda::gelu_forward(y.data(), x.data(), count, form, nullptr); });
    bench(name + "backward" + suffix, 3 * array,
          [&] { cuda::gelu_backward(y.data(), dy.data(), x.data(), count, form, nullptr); });
  }
  bench("squared_relu_forward" + suffix, 2 * array,
        [&] { cuda::squared_relu_forward(y.data(), x.data(), count, nullptr); });
  bench("squared_relu_backward" + suffix, 3 * array,
        [&] { cuda::squared_relu_backward(y.data(), dy.data(), x.data(), count, nullptr); });
  bench("swiglu_forward" + suffix, 1.5 * array,
        [&] { cuda::swiglu_forward(y.data(), x.data(), kTokens, kFfn / 2, nullptr); });
  bench("swiglu_backward" + suffix, 2.5 * array,
        [&] { cuda::swiglu_backward(y.data(), dy.data(), x.data(), kTokens, kFfn / 2, nullptr); });
}

void rotary(Bench& bench) {
  const RopeShape rope{.tokens = kTokens,
                       .heads = kHeads,
                       .head_dim = kHeadDim,
                       .rotary_dim = kHeadDim,
                       .seq_length = 4096};
  std::vector<double> inv_freq;
  for (int i = 0; i < kHeadDim / 2; ++i) inv_freq.push_back(std::pow(10000, -i / 64.0));
  const DeviceArray<double> frequencies(inv_freq);
  const Data<float> table(rope.seq_length * rope.rotary_dim);
  bench("rope_table 4096x128", double(rope.seq_length * rope.rotary_dim) * sizeof(float),
        [&] { cuda::rope_table(table.data(), frequencies.data(), rope, nullptr); });
  const std::int64_t count = kTokens * kHeads * kHeadDim;
  const Data<bf16> q(count), k(count), v(count), qkv(3 * count);
  const auto array = static_cast<double>(count) * sizeof(bf16);
  bench("rope bf16", 2 * array, [&] { cuda::rope(q.data(), table.data(), rope, false, nullptr); });
  const QkvShape shape{kTokens, kHeads, kHeads, kHeadDim};
  bench("qkv_split bf16", 6 * array,
        [&] { cuda::qkv_split<bf16>(q.data(), k.data(), v.data(), qkv.data(), shape, nullptr); });
  bench("qkv_merge bf16", 6 * array,
        [&] { cuda::qkv_merge<bf16>(qkv.data(), q.data(), k.data(), v.data(), shape, nullptr); });
  RopeShape packed = rope;
  packed.heads = 3 * kHeads;
  packed.packed_group = 3;
  bench("rope packed bf16", 4 * array,
        [&] { cuda::rope(qkv.data(), table.data(), packed, false, nullptr); });
}

void residuals(Bench& bench) {
  const std::int64_t count = kTokens * kHidden;
  const Data<bf16> x(count), residual(count), y(count), bias(kHidden);
  const DeviceArray<StepRecord> record(std::vector<StepRecord>(1));
  const auto array = static_cast<double>(count) * sizeof(bf16);
  for (const double p : {0.0, 0.1}) {
    const Dropout dropout{
        .p = p, .key = RandomKey::make(1, 2), .seq_length = 4096, .record = record.data()};
    const std::string suffix = p > 0 ? " bf16 p=0.1" : " bf16 p=0";
    bench("bias_dropout_add" + suffix, 3 * array, [&] {
      cuda::bias_dropout_add<bf16>(y.data(), residual.data(), x.data(), bias.data(), kTokens,
                                   kHidden, dropout, nullptr);
    });
    bench("dropout_backward" + suffix, 2 * array, [&] {
      cuda::dropout_backward<bf16>(y.data(), x.data(), kTokens, kHidden, dropout, nullptr);
    });
  }
}

// Words are counted once, however often they come: those that L2 does not keep until they come
// again are read again, which need not be.
void embedding(Bench& bench, const std::string& suffix, const std::vector<std::int32_t>& ids) {
  const auto distinct = std::ssize(std::set<std::int32_t>(ids.begin(), ids.end()));
  const DeviceArray<std::int32_t> device_ids(ids);
  const auto array = static_cast<double>(kTokens * kHidden) * sizeof(bf16);
  const auto touched = static_cast<double>(distinct * kHidden);
  const Data<bf16> table(kVocab * kHidden), y(kTokens * kHidden);
  const Data<float> dtable(kVocab * kHidden);
  const Work work(cuda::embedding_backward_work(kTokens, kHidden));
  bench("embedding_forward" + suffix, array + touched * sizeof(bf16), [&] {
    cuda::embedding_forward(y.data(), device_ids.data(), table.data(), kTokens, kHidden,
                            {0, kVocab}, false, nullptr);
  });
  bench("embedding_backward" + suffix, array + touched * 2 * sizeof(float), [&] {
    cuda::embedding_backward(dtable.data(), device_ids.data(), y.data(), kTokens, kHidden,
                             {0, kVocab}, work.data(), nullptr);
  });
}

void vocabulary(Bench& bench) {
  std::vector<std::int32_t> ids, different;
  for (const double u : check::random<double>(kTokens, 3, 0, 1))  // roughly Zipf's law
    ids.push_back(static_cast<std::int32_t>(std::pow(double(kVocab), u)) - 1);
  for (std::int64_t i = 0; i < kTokens; ++i)  // an odd number of steps at a time
    different.push_back(static_cast<std::int32_t>(i * 40503 % kVocab));
  embedding(bench, " bf16", ids);
  embedding(bench, " bf16 words all different", different);
  for (const std::int64_t vocab : {std::int64_t{50304}, kVocab}) {
    const std::int64_t rows = 8192;
    const Data<bf16> logits(rows * vocab);
    const Data<float> loss(rows), weight(rows);
    std::vector<std::int32_t> in_vocab(ids.begin(), ids.begin() + rows);
    for (std::int32_t& id : in_vocab) id = static_cast<std::int32_t>(id % vocab);
    const DeviceArray<std::int32_t> labels(in_vocab);
    bench("cross_entropy bf16 8192x" + std::to_string(vocab),
          2.0 * static_cast<double>(rows * vocab) * sizeof(bf16), [&] {
            cuda::cross_entropy(loss.data(), logits.data(), labels.data(), weight.data(), rows,
                                vocab, vocab, 0, nullptr);
          });
  }
}

void elementwise(Bench& bench) {
  const std::int64_t count = kTokens * kFfn;
  const Data<bf16> a(count), b(count), y(count);
  const Data<float> f(count), g(count);
  const Work work(std::max(cuda::column_sum_work(kTokens, kFfn), cuda::sum_work(count)));
  const DeviceArray<double> sum(1);
  const DeviceArray<std::int32_t> finite(1);
  const auto narrow = static_cast<double>(count) * sizeof(bf16), wide = 2 * narrow;
  bench("add bf16", 3 * narrow, [&] { cuda::add(y.data(), a.data(), b.data(), count, nullptr); });
  bench("scale bf16", 2 * narrow, [&] { cuda::scale(y.data(), a.data(), 1.0f, count, nullptr); });
  bench("convert f32 bf16", narrow + wide,
        [&] { cuda::convert(y.data(), f.data(), count, nullptr); });
  bench("fill f32", wide, [&] { cuda::fill(g.data(), 0.5, count, nullptr); });
  bench("column_sum bf16 32768x8192", narrow,
        [&] { cuda::column_sum(f.data(), a.data(), kTokens, kFfn, work.data(), nullptr); });
  bench("sum_squares f32", wide,
        [&] { cuda::sum_squares(sum.data(), f.data(), count, work.data(), nullptr); });
  bench("count_zeros f32", wide,
        [&] { cuda::count_zeros(sum.data(), f.data(), count, work.data(), nullptr); });
  bench("all_finite bf16", narrow,
        [&] { cuda::all_finite(finite.data(), a.data(), count, work.data(), nullptr); });
  bench("dot f32", 2 * wide,
        [&] { cuda::dot(sum.data(), f.data(), g.data(), count, work.data(), nullptr); });
}

void optimizers(Bench& bench) {
  const std::int64_t count = kTokens * kFfn;
  const Data<float> p(count), m(count), v(count), g(count);
  const Data<bf16> copy(count);
  std::vector<UpdateChunk> list;
  for (std::int64_t i = 0; i < count; i += kUpdateChunk)
    list.push_back({.first = i, .state = i, .count = kUpdateChunk});
  const DeviceArray<UpdateChunk> chunks(list);
  const DeviceArray<StepRecord> record(std::vector<StepRecord>{{.learning_rate = 1e-9}});
  const DeviceArray<float> scale(std::vector<float>{1, 0});
  const auto n = static_cast<double>(count);
  const auto adam = [&]<class P, class Q>(const char* name, double bytes, const Data<P>& master,
                                          const Data<Q>& first, const Data<Q>& second) {
    const auto kept = [&]<class X>(const Data<X>& values) {
      return cuda::Kept<X>{values.data(), scale.data(), scale.data() + 1};
    };
    bench(name, bytes * n, [&] {
      cuda::adam(kept(master), kept(first), kept(second), copy.data(), g.data(), chunks.data(),
                 std::ssize(list), {}, record.data(), nullptr);
    });
  };
  adam("adam f32 bf16", 30, p, m, v);
  adam("adam bf16 bf16", 22, p, Data<bf16>(count), Data<bf16>(count));
  adam("adam fp16 bf16", 30, p, Data<check::fp16>(count), Data<check::fp16>(count));
  adam("adam fp8 bf16", 24, p, Data<__nv_fp8_e4m3>(count), Data<__nv_fp8_e4m3>(count));
  adam("adam f32 bf16 of fp16", 40, Data<check::fp16>(count), m, v);
  bench("sgd f32 bf16", 22 * n, [&] {
    cuda::sgd(p.data(), m.data(), copy.data(), g.data(), chunks.data(), std::ssize(list), 0.9,
              record.data(), nullptr);
  });
}

void casts(Bench& bench) {
  const Data<bf16> x(kTokens * kHidden);
  const DeviceArray<std::uint8_t> codes(kTokens * kHidden), transposed(kTokens * kHidden);
  const DeviceArray<float> inverse(kTokens * kHidden / kFp8Block),
      transposed_inverse(kTokens * kHidden / kFp8Block);
  const DeviceArray<float> scale(std::vector<float>{100}), amax(std::vector<float>{0});
  const auto array = static_cast<double>(kTokens * kHidden);  // bytes of codes
  bench("fp8_amax bf16", 2 * array,
        [&] { cuda::fp8_amax(amax.data(), x.data(), kTokens * kHidden, nullptr); });
  for (const int form : {1, 2, 3}) {
    const std::string what = form == 1 ? "codes" : form == 2 ? "transposed" : "both";
    const double bytes = (form == 3 ? 4 : 3) * array;
    auto* const to = form & 1 ? codes.data() : nullptr;
    auto* const transposed_to = form & 2 ? transposed.data() : nullptr;
    bench("fp8_cast bf16 " + what, bytes, [&] {
      cuda::fp8_cast(to, transposed_to, nullptr, x.data(), scale.data(), kTokens, kHidden,
                     Fp8Format::e4m3, nullptr);
    });
    bench("fp8_block_cast bf16 " + what, bytes, [&] {
      cuda::fp8_block_cast(Fp8BlockCast<bf16>{.x = x.data(),
                                              .codes = to,
                                              .inverse = inverse.data(),
                                              .transposed = transposed_to,
                                              .transposed_inverse = transposed_inverse.data(),
                                              .rows = kTokens,
                                              .cols = kHidden},
                           nullptr);
    });
  }
}

void scans(Bench& bench) {
  for (const auto& [heads, groups] : {std::pair(128, 8), std::pair(80, 1)}) {
    const std::string suffix = " bf16 " + std::to_string(heads) + "x" + std::to_string(groups);
    if (!bench.wants_any({"chunk_scan_forward" + suffix, "chunk_scan_backward" + suffix})) continue;
    const MambaShape s{.sequences = 1,
                       .length = 8192,
                       .heads = heads,
                       .head_dim = 64,
                       .groups = groups,
                       .state_dim = 128};
    const Data<bf16> mixed(s.tokens() * s.mixed()), projected(s.tokens() * s.projected()),
        y(s.tokens() * s.inner()), dy(s.tokens() * s.inner()), d_mixed(s.tokens() * s.mixed()),
        d_projected(s.tokens() * s.projected()), of_heads(3 * heads);
    const Data<float> gradients(3 * heads);
    const Work work(std::max(cuda::chunk_scan_work(s), cuda::chunk_scan_backward_work(s)));
    const ScanWeights<bf16> weights{of_heads.data(), of_heads.data() + heads,
                                    of_heads.data() + 2 * heads};
    const ScanGradients<float> d_weights{gradients.data(), gradients.data() + heads,
                                         gradients.data() + 2 * heads};
    const auto token = static_cast<double>(s.tokens() * sizeof(bf16));
    const auto in = static_cast<double>(s.mixed() + heads), out = static_cast<double>(s.inner());
    bench("chunk_scan_forward" + suffix, token * (in + out), [&] {
      cuda::chunk_scan_forward<bf16>(y.data(), mixed.data(), projected.data(), weights, nullptr, {},
                                     s, work.data(), nullptr);
    });
    bench("chunk_scan_backward" + suffix, token * (2 * in + out), [&] {
      cuda::chunk_scan_backward<bf16, float>(d_mixed.data(), d_projected.data(), d_weights,
                                             dy.data(), mixed.data(), projected.data(), weights,
                                             nullptr, s, work.data(), nullptr);
    });
  }
}

void rules(Bench& bench) {
  if (!bench.wants_any({"delta_rule_forward", "delta_rule_backward"})) return;
  const DeltaShape s{.sequences = 1,
                     .length = 8192,
                     .key_heads = 16,
                     .value_heads = 32,
                     .key_dim = 128,
                     .value_dim = 128};
  const Data<bf16> mixed(s.tokens() * s.mixed()), projected(s.tokens() * s.projected()),
      y(s.tokens() * s.values()), d_mixed(s.tokens() * s.mixed()),
      d_projected(s.tokens() * s.projected()), heads(s.value_heads);
  const Data<float> sums(2 * s.value_heads);
  const Work work(cuda::delta_rule_backward_work(s));
  const double token = 2 * static_cast<double>(s.tokens());
  const auto in = static_cast<double>(s.mixed()), out = static_cast<double>(s.values());
  bench("delta_rule_forward", token * (in + out), [&] {
    cuda::delta_rule_forward<bf16>(y.data(), mixed.data(), projected.data(), heads.data(),
                                   heads.data(), nullptr, {}, s, nullptr);
  });
  bench("delta_rule_backward", token * (2 * in + out), [&] {
    cuda::delta_rule_backward<bf16, float>(d_mixed.data(), d_projected.data(), sums.data(),
                                           sums.data() + s.value_heads, y.data(), mixed.data(),
                                           projected.data(), heads.data(), heads.data(), nullptr, s,
                                           work.data(), nullptr);
  });
}

}  // namespace
}  // namespace mt

int main(int argc, char** argv) {
  if (!mt::check::has_gpu()) return 125;
  mt::Bench bench(argc > 1 ? argv[1] : "");
  mt::norms(bench);
  mt::activations<mt::check::bf16>(bench, " bf16");
  mt::activations<float>(bench, " f32");
  mt::rotary(bench);
  mt::residuals(bench);
  mt::vocabulary(bench);
  mt::elementwise(bench);
  mt::optimizers(bench);
  mt::casts(bench);
  mt::scans(bench);
  mt::rules(bench);
}
