#include "formats/text_reader.h"

#include <algorithm>

#include "base/file.h"
#include "base/json_place.h"
#include "base/utf8.h"
#include "formats/finite_weights.h"
#include "model/config/model_config.h"
#include "model/model_table.h"
#include "tensor/device.h"
#include "tensor/host_copy.h"
#include "text/put_in_front.h"

namespace mt {

// The first bytes of a file of text, and whole characters.
static std::string beginning_of(const std::string& path, std::uint64_t bytes) {
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

// Lines of JSON would be read with all their signs among the words.
static void refuse_json(const std::string& path, std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  if ((line.starts_with('{') && json_place(line).empty()) || !other_json_form(line).empty())
    fail(Exit::bad_data, path, ": is JSON, expected plain text, which jq -r .text makes of lines");
}

TextSequences read_sequences(const ModelSource& source, const TextOptions& options,
                             const char* flag) {
  if (!brings_tokenizer(source) && readable_tokenizer(source) == nullptr)
    fail(Exit::bad_config, flag, ": ", source.path(), " has no tokenizer, by which it is read");
  const ModelConfig& config = source.config();
  const std::int64_t length =
      std::min(options.seq_length, static_cast<std::int64_t>(config.max_position_embeddings));
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
    const std::string text = beginning_of(options.text, bytes);
    refuse_json(options.text, text);
    encode_alone(*tokenizer, text, ids);
    if (std::ssize(ids) > enough || bytes >= all) break;
  }
  if (std::ssize(ids) < each)
    fail(Exit::bad_data, options.text, ": holds ", ids.size(), " tokens, and a sequence ", each,
         "; see --calib-seq");
  TextSequences sequences{.length = length,
                          .count = std::min(most_sequences, std::ssize(ids) / each)};
  for (auto at = ids.begin(); at != ids.begin() + sequences.count * each; at += each) {
    sequences.ids.insert(sequences.ids.end(), front.begin(), front.end());
    sequences.ids.insert(sequences.ids.end(), at, at + each);
  }
  if (const std::int32_t most = std::ranges::max(sequences.ids); most >= config.vocab_size)
    fail(Exit::bad_config, source.path(), ": its tokenizer finds token ", most, " in ",
         options.text, ", but the model has ", config.vocab_size);
  return sequences;
}

// Where so many readers of such a model, with what they make of a text meanwhile, are to be.
static Device device_for(const TextOptions& options, const ParamTable& table, int models) {
  if (options.device == Device::cpu || options.device_was_given) return options.device;
  std::uint64_t numbers = 0;
  for (const Param& row : table.rows()) numbers += static_cast<std::uint64_t>(row.shape.numel());
  constexpr std::uint64_t kMade = std::uint64_t{2} << 30;
  const std::uint64_t bytes = numbers * size_of(DType::f32) + kMade;
  return bytes * static_cast<std::uint64_t>(models) <= device::free_memory() ? Device::cuda
                                                                             : Device::cpu;
}

TextReader::TextReader(const ModelSource& source, const TextOptions& options, Probe* probe,
                       int models)
    : vocab_size_(source.config().vocab_size),
      model_(make_model(source.config(), {{.end = source.config().all_layers()}})),
      stream_(device_for(options, model_->table(), models)),
      pass_(*model_, stream_, vocab_size_) {
  model_->table().allocate(stream_.device(), DType::f32, false);
  for (const Param& row : model_->table().rows()) {
    const HostCopy here = HostCopy::for_writing(row.value);
    source.read(row, "", here.tensor());
    check_finite(source.path(), row, here.tensor());
    here.upload();
  }
  if (probe != nullptr) pass_.show_to(*probe);
}

std::span<const float> TextReader::read(std::span<const std::int32_t> tokens, std::int64_t rows) {
  const PassSize size{.length = std::ssize(tokens), .rows = rows};
  if (size.length != reserved_.length || size.rows != reserved_.rows)
    pass_.reserve([&](Pass& meta) {
      meta.input(size);
      meta.on_host(meta.logits());
    });
  reserved_ = size;
  const PassInput in = pass_.input(size);
  std::ranges::copy(tokens, in.ids.as<std::int32_t>());
  for (std::int64_t i = 0; i < size.length; ++i)
    in.positions.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
  for (std::int64_t i = 0; i < rows; ++i)
    in.rows.as<std::int32_t>()[i] = static_cast<std::int32_t>(size.length - rows + i);
  return pass_.on_host(pass_.logits()).span<float>();
}

}  // namespace mt
