#include "formats/awq.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/file.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "formats/finite_weights.h"
#include "formats/hugging_face/weight_quantizer.h"
#include "model/config/model_config.h"
#include "model/model.h"
#include "model/model_table.h"
#include "model/pass.h"
#include "nn/probe.h"
#include "text/put_in_front.h"

namespace mt {
namespace {

constexpr std::int64_t kRead = 256;  // inputs of a layer that errors are of

bool is_of_layer(const Param& row, std::string_view param) {
  return row.place.layer && row.place.param == param;
}

// What a linear layer reads of the text.
struct Inputs {
  std::vector<double> sums;  // of |x|, for each channel
  std::int64_t tokens = 0;
  std::vector<float> some;  // kRead of them or fewer, those of a channel one after another
  std::int64_t kept = 0;
};

class InputProbe final : public Probe {
 public:
  InputProbe(const std::string& path, std::int64_t sequences)
      : path_(path), each_((kRead + sequences - 1) / sequences) {}

  void look(const Param& module, const char* what, ConstTensor tensor, Stream&) override {
    if (tensor.device() == Device::meta || what != std::string_view("input") ||
        !is_of_layer(module, "weight"))
      return;
    Inputs& in = inputs_[module.name()];
    const std::int64_t tokens = tensor.shape()[0], channels = tensor.shape()[1];
    const auto* const x = tensor.as<float>();
    in.sums.resize(static_cast<std::size_t>(channels));
    in.some.resize(static_cast<std::size_t>(channels * kRead));
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t c = 0; c < channels; ++c)
        in.sums[static_cast<std::size_t>(c)] += std::fabs(x[t * channels + c]);
    if (!std::ranges::all_of(in.sums, [](double sum) { return std::isfinite(sum); }))
      fail(Exit::bad_data, path_, ": ", module.name(),
           ": what it reads of the text is not finite, and has no scales");
    in.tokens += tokens;
    const std::int64_t step = std::max<std::int64_t>(1, tokens / each_);
    for (std::int64_t t = step - 1; t < tokens && in.kept < kRead; t += step, ++in.kept)
      for (std::int64_t c = 0; c < channels; ++c)
        in.some[static_cast<std::size_t>(c * kRead + in.kept)] = x[t * channels + c];
  }
  const Inputs& of(const Param& row) const { return inputs_.at(row.name()); }

 private:
  const std::string& path_;  // of the model
  std::int64_t each_;
  std::map<std::string, Inputs> inputs_;
};

// The first bytes of a file of text, and whole characters.
std::string beginning_of(const std::string& path, std::uint64_t bytes) {
  const File file = File::open_regular(path);
  std::string text(std::min(bytes, file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  if (text.size() < file.size()) {
    const auto goes_on = [](char byte) { return (byte & 0xC0) == 0x80; };
    std::size_t end = text.size() - 1;
    for (int bytes_back = 0; bytes_back < 3 && end > 0 && goes_on(text[end]); ++bytes_back) --end;
    text.resize(end);
  }
  if (!is_valid_utf8(text)) fail(Exit::bad_data, path, ": is no text in UTF-8");
  return text;
}

// Sequences of `length` tokens, each begun as the tokenizer begins a text: one behind another.
std::vector<std::int32_t> sequences_of(const ModelSource& source, const CalibrationOptions& options,
                                       std::int64_t length) {
  if (!brings_tokenizer(source) && readable_tokenizer(source) == nullptr)
    fail(Exit::bad_config, "--quantize int4_awq: ", source.path(),
         " has no tokenizer, by which --calib is read");
  const auto tokenizer = source.make_tokenizer({});
  const std::vector<std::int32_t> front = put_in_front(*tokenizer);
  const std::int64_t each = length - std::ssize(front);
  if (each < 1)
    fail(Exit::bad_config, "--calib-seq ", length, ": the tokenizer of ", source.path(), " puts ",
         front.size(), " tokens in front of a text");
  constexpr std::uint64_t kBytesOfToken = 8;  // or more, then more of the file is read
  const std::uint64_t all = File::open_regular(options.text).size();
  const std::int64_t most_sequences = std::min(options.size, static_cast<std::int64_t>(all));
  const std::int64_t enough = most_sequences * each;
  std::vector<std::int32_t> ids;
  for (std::uint64_t bytes = static_cast<std::uint64_t>(enough) * kBytesOfToken;; bytes *= 2) {
    ids.clear();
    encode_alone(*tokenizer, beginning_of(options.text, bytes), ids);
    if (std::ssize(ids) > enough || bytes >= all) break;
  }
  if (std::ssize(ids) < each)
    fail(Exit::bad_data, options.text, ": holds ", ids.size(), " tokens, and a sequence ", each,
         "; see --calib-seq");
  std::vector<std::int32_t> sequences;
  const std::int64_t count = std::min(most_sequences, std::ssize(ids) / each);
  for (auto at = ids.begin(); at != ids.begin() + count * each; at += each) {
    sequences.insert(sequences.end(), front.begin(), front.end());
    sequences.insert(sequences.end(), at, at + each);
  }
  if (const std::int32_t most = std::ranges::max(sequences); most >= source.config().vocab_size)
    fail(Exit::bad_config, source.path(), ": its tokenizer finds token ", most, " in ",
         options.text, ", but the model has ", source.config().vocab_size);
  return sequences;
}

// The model reads the text.
InputProbe inputs_of(const ModelSource& source, const CalibrationOptions& options, const Log& log) {
  const ModelConfig& config = source.config();
  const std::int64_t length =
      std::min(options.seq_length, static_cast<std::int64_t>(config.max_position_embeddings));
  const std::vector<std::int32_t> ids = sequences_of(source, options, length);
  const std::int64_t sequences = std::ssize(ids) / length;
  log.note(concat(options.text, ": scales are found by ", sequences, " sequences of ", length,
                  " tokens"));
  const auto model = make_model(config, {{.end = config.all_layers()}});
  model->table().allocate(Device::cpu, DType::f32, false);
  for (const Param& row : model->table().rows()) {
    source.read(row, "", row.value);
    check_finite(source.path(), row, row.value);
  }
  InputProbe probe(source.path(), sequences);
  Stream stream(Device::cpu);
  Pass pass(*model, stream, config.vocab_size);
  pass.show_to(probe);
  const auto see = [&](Pass& by, std::span<const std::int32_t> tokens) {
    const PassInput in = by.input({.length = length});
    if (by.stream().device() != Device::meta) {
      std::ranges::copy(tokens, in.ids.as<std::int32_t>());
      for (std::int64_t i = 0; i < length; ++i)
        in.positions.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
      *in.rows.as<std::int32_t>() = static_cast<std::int32_t>(length - 1);
    }
    by.on_host(by.hidden());
  };
  pass.reserve([&](Pass& meta) { see(meta, {}); });
  for (std::int64_t i = 0; i < sequences; ++i)
    see(pass, std::span(ids).subspan(static_cast<std::size_t>(i * length),
                                     static_cast<std::size_t>(length)));
  return probe;
}

// A row's value.
std::vector<float> matrix_of(const ModelSource& source, const Param& row) {
  std::vector<float> numbers(static_cast<std::size_t>(row.shape.numel()));
  source.read(row, "", {numbers.data(), DType::f32, row.shape});
  return numbers;
}

// w_j of every column.
std::vector<double> shares_of(const std::vector<float>& matrix, std::int64_t in) {
  constexpr float kTiny = 1e-30F;
  std::vector<double> shares(static_cast<std::size_t>(in));
  for (std::size_t at = 0; at < matrix.size(); at += kGroupOfFourBits) {
    const auto group = std::span(matrix).subspan(at, kGroupOfFourBits);
    float largest = kTiny;
    for (const float x : group) largest = std::max(largest, std::fabs(x));
    for (std::size_t i = 0; i < group.size(); ++i)
      shares[(at + i) % static_cast<std::size_t>(in)] += std::fabs(group[i]) / largest;
  }
  for (double& share : shares) share /= static_cast<double>(std::ssize(matrix) / in);
  return shares;
}

std::vector<float> scales_of(const Inputs& inputs, const std::vector<double>& shares, double p) {
  std::vector<double> s(shares.size());
  for (std::size_t j = 0; j < s.size(); ++j) {
    const double a = inputs.sums[j] / static_cast<double>(inputs.tokens);
    s[j] = shares[j] > 0 ? std::clamp(std::pow(a, p) / std::pow(shares[j], 1 - p), 1e-4, 1e4) : 1;
  }
  const auto [least, most] = std::ranges::minmax(s);
  std::vector<float> scales;
  for (const double x : s) scales.push_back(static_cast<float>(x / std::sqrt(least * most)));
  return scales;
}

// The squared error of what a row of the matrix makes of the inputs.
double error_of_row(std::span<const float> row, const std::vector<float>& s, const Inputs& x) {
  std::vector<float> scaled(row.size()), sums(kRead);
  for (std::size_t j = 0; j < row.size(); ++j) scaled[j] = row[j] * s[j];
  for (std::size_t at = 0; at < row.size(); at += kGroupOfFourBits) {
    const float scale = scale_of_four_bits(std::span(scaled).subspan(at, kGroupOfFourBits));
    for (std::size_t j = at; j < at + kGroupOfFourBits; ++j) {
      const float off = static_cast<float>(four_bits_of(scaled[j], scale)) * scale / s[j] - row[j];
      const float* const channel = &x.some[j * kRead];
      for (std::int64_t i = 0; i < kRead; ++i)
        sums[static_cast<std::size_t>(i)] += off * channel[i];
    }
  }
  double error = 0;
  for (const float sum : sums) error += static_cast<double>(sum) * sum;
  return error;
}

std::vector<float> best_scales(const ModelSource& source, const Param& row, const Inputs& inputs) {
  const std::vector<float> matrix = matrix_of(source, row);
  const std::int64_t out = row.shape[0], in = row.shape[1];
  const std::vector<double> shares = shares_of(matrix, in);
  std::vector<float> best;
  double least = INFINITY;
  for (int tenths = 0; tenths <= 10; ++tenths) {
    std::vector<float> s = scales_of(inputs, shares, tenths / 10.0);
    std::vector<double> errors(static_cast<std::size_t>(out));
    parallel_for(out, [&](std::int64_t r) {
      errors[static_cast<std::size_t>(r)] = error_of_row(
          std::span(matrix).subspan(static_cast<std::size_t>(r * in), static_cast<std::size_t>(in)),
          s, inputs);
    });
    double error = 0;
    for (const double one : errors) error += one;
    if (error >= least) continue;
    least = error;
    best = std::move(s);
  }
  return best;
}

// The rows of what makes a layer's inputs, of the same layer: one for each channel, in order.
struct Makers {
  std::string module;
  std::vector<std::string_view> params = {};
  std::vector<std::int64_t> rows = {};
  float shift = 0;
};

Makers makers_of(const ModelConfig& c, const Param& row) {
  Makers makers{.module = row.place.module};
  const std::string& module = row.place.module;
  const auto take = [&](std::int64_t row_of_channel) { makers.rows.push_back(row_of_channel); };
  const std::int64_t channels = row.shape[1];
  const bool behind_norm = module.ends_with(".linear_qkv") || module.ends_with(".linear_fc1");
  if (behind_norm && !c.parallel_block) {  // else the norm is that of attention and the MLP
    makers.params = {"layer_norm_weight", "layer_norm_bias"};
    makers.shift = c.apply_layernorm_1p ? 1 : 0;
    for (std::int64_t j = 0; j < channels; ++j) take(j);
  } else if (module == "mlp.linear_fc2" && c.is_gated()) {
    makers.module = "mlp.linear_fc1";
    makers.params = {"weight", "bias"};
    for (std::int64_t j = 0; j < channels; ++j) take(channels + j);
  } else if (module == "self_attention.linear_proj" && c.kv_heads() == c.num_attention_heads) {
    makers.module = "self_attention.linear_qkv";  // of each head the query, the key, the value
    makers.params = {"weight", "bias"};
    const std::int64_t width = c.head_dim();
    for (std::int64_t j = 0; j < channels; ++j) take(j / width * 3 * width + 2 * width + j % width);
  }
  return makers;
}

}  // namespace

RowFactorsByName awq_factors(const ModelSource& source, const CalibrationOptions& options,
                             const Log& log) {
  const InputProbe inputs = inputs_of(source, options, log);
  const ParamTable table = model_rows(source.config());
  const auto at = [&](const Param& near, const std::string& module, std::string_view param) {
    RowPlace place = near.place;
    place.module = module;
    place.param = param;
    const auto found = std::ranges::find(table.rows(), place, &Param::place);
    return found == table.rows().end() ? nullptr : &*found;
  };
  RowFactorsByName factors;
  for (const Param& row : table.rows()) {
    if (!is_of_layer(row, "weight") || row.shape.rank() != 2) continue;
    const Makers makers = makers_of(source.config(), row);
    if (makers.params.empty() || at(row, makers.module, makers.params.front()) == nullptr) continue;
    const std::vector<float> scales = best_scales(source, row, inputs.of(row));
    factors[row.name()].columns = scales;
    for (const std::string_view param : makers.params) {
      const Param* const maker = at(row, makers.module, param);
      if (maker == nullptr) continue;
      RowFactors& by = factors[maker->name()];
      by.rows.resize(static_cast<std::size_t>(maker->shape[0]), 1);
      if (param == "layer_norm_weight") by.shift = makers.shift;
      for (std::size_t j = 0; j < scales.size(); ++j)
        by.rows[static_cast<std::size_t>(makers.rows[j])] = 1 / scales[j];
    }
  }
  return factors;
}

}  // namespace mt
