#include "formats/calibration.h"

#include <algorithm>
#include <cmath>

#include "base/threads.h"
#include "tensor/device.h"

namespace mt {

bool is_of_layer(const Param& row, std::string_view param) {
  return row.place.layer && row.place.param == param;
}

Calibration::Calibration(std::string path, std::int64_t sequences, bool keeps)
    : path_(std::move(path)),
      kept_of_sequence_((LayerInputs::kMostKept + sequences - 1) / sequences),
      keeps_(keeps) {}

void Calibration::look(const Param& module, const char* what, ConstTensor tensor, Stream& stream) {
  if (tensor.device() == Device::meta || what != std::string_view("input") ||
      !is_of_layer(module, "weight"))
    return;
  constexpr std::int64_t kMost = LayerInputs::kMostKept;
  LayerInputs& in = inputs_[module.name()];
  const std::int64_t tokens = tensor.shape()[0], channels = tensor.shape()[1];
  std::vector<float> copied;  // of a GPU's
  if (tensor.device() == Device::cuda) {
    copied.resize(static_cast<std::size_t>(tokens * channels));
    device::copy(copied.data(), tensor.data(), tensor.bytes(), stream.handle());
    stream.synchronize();
  }
  const float* const x = copied.empty() ? tensor.as<float>() : copied.data();
  in.sums.resize(static_cast<std::size_t>(channels));
  in.squares.resize(static_cast<std::size_t>(channels));
  in.largest.resize(static_cast<std::size_t>(channels));
  constexpr std::int64_t kTogether = 64;  // channels
  parallel_for((channels + kTogether - 1) / kTogether, [&](std::int64_t part) {
    const std::int64_t first = part * kTogether, end = std::min(first + kTogether, channels);
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t c = first; c < end; ++c) {
        const auto at = static_cast<std::size_t>(c);
        const float magnitude = std::fabs(x[t * channels + c]);
        in.sums[at] += magnitude;
        in.squares[at] += static_cast<double>(magnitude) * magnitude;
        in.largest[at] = std::max(in.largest[at], magnitude);
      }
  });
  if (!std::ranges::all_of(in.sums, [](double sum) { return std::isfinite(sum); }))
    fail(Exit::bad_data, path_, ": ", module.name(),
         ": what it reads of the text is not finite, and has no scales");
  in.tokens += tokens;
  if (!keeps_) return;
  in.some.resize(static_cast<std::size_t>(channels * kMost));
  const std::int64_t step = std::max<std::int64_t>(1, tokens / kept_of_sequence_);
  for (std::int64_t t = step - 1; t < tokens && in.kept < kMost; t += step, ++in.kept)
    for (std::int64_t c = 0; c < channels; ++c)
      in.some[static_cast<std::size_t>(c * kMost + in.kept)] = x[t * channels + c];
}

const LayerInputs* Calibration::find(const Param& row) const {
  const auto found = inputs_.find(row.name());
  return found != inputs_.end() ? &found->second : nullptr;
}

const LayerInputs& Calibration::of(const Param& row) const {
  const LayerInputs* const found = find(row);
  if (found == nullptr)
    fail(Exit::bad_config, path_, ": ", row.name(), ": what it reads of the text was not seen");
  return *found;
}

Calibration calibrate(const ModelSource& source, const TextOptions& options, bool keeps,
                      const Log& log) {
  const TextSequences text = read_sequences(source, options, "--calib");
  log.note(concat(options.text, ": scales are found by ", text.count, " sequences of ", text.length,
                  " tokens"));
  Calibration calibration(source.path(), text.count, keeps);
  TextReader reader(source, options, &calibration);
  for (std::int64_t i = 0; i < text.count; ++i) reader.read(text.at(i), 1);
  return calibration;
}

}  // namespace mt
