#include "kernels/sample.h"

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

template <class T>
static void sample_rows(const Sample& p, std::int64_t rows) {
  auto* const choices = reinterpret_cast<Choice*>(p.choices.as<std::uint8_t>());
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto row = p.logits.rows(i, i + 1).span<T>();
    const std::vector<double> logits(row.begin(), row.end());
    p.tokens.as<std::int32_t>()[i] = cpu::sample(logits, choices[i]);
    ++choices[i].place.token;
    for (const Tensor& count : {p.positions, p.lengths})
      if (count) ++count.as<std::int32_t>()[i];
  }
}

void sample(const Sample& p, Stream& stream) {
  const std::int64_t rows = p.logits.shape()[0], vocab = p.logits.shape()[1];
  check_shape("sample", "tokens", p.tokens, {rows});
  check_shape("sample", "choices", p.choices, {rows * static_cast<std::int64_t>(sizeof(Choice))});
  if (p.positions) check_shape("sample", "positions", p.positions, {rows});
  if (p.lengths) check_shape("sample", "lengths", p.lengths, {rows});
  void* const work = gpu_work(p.logits, stream, [&] { return cuda::sample_work(rows, vocab); });
  if constexpr (kWithCuda)
    if (p.logits.device() == Device::cuda)
      return cuda::sample(p.tokens.as<std::int32_t>(),
                          reinterpret_cast<Choice*>(p.choices.as<std::uint8_t>()),
                          p.positions ? p.positions.as<std::int32_t>() : nullptr,
                          p.lengths ? p.lengths.as<std::int32_t>() : nullptr,
                          p.shown ? p.shown.as<std::int32_t>() : nullptr,
                          p.scores ? p.scores.as<double>() : nullptr, p.logits.as<float>(), rows,
                          vocab, work, stream.handle());
  dispatch_cpu(Family::elementwise, "sample", p.logits, moves(p.logits), stream,
               [&]<class T>() { sample_rows<T>(p, rows); });
}

}  // namespace mt
