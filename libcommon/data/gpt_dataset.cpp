#include "data/gpt_dataset.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/error.h"

namespace mt {

GptDataset::GptDataset(const IndexedDataset& data, const GptDatasetOptions& options)
    : data_(data), options_(options), index_(data, options.index) {
  if (!options.index.extra_token)
    fail(Exit::usage, "a GPT dataset needs samples with one extra token, for the last label");
  if (options.eod_mask_loss && options.eod_id < 0)
    fail(Exit::bad_config, "--eod-mask-loss needs a tokenizer with an end-of-document token");
}

std::vector<GptDataset::Part> GptDataset::parts(std::int64_t k) const {
  assert(k >= 0 && k < size());
  const std::int64_t sample = index_.shuffled(k);
  const SamplePlace first = index_.sample(sample), last = index_.sample(sample + 1);
  std::vector<Part> parts;
  for (std::int64_t at = first.position; at <= last.position; ++at) {
    const std::int64_t sequence = index_.document(at);
    const std::int64_t begin = at == first.position ? first.offset : 0;
    const std::int64_t end = at == last.position ? last.offset + 1 : data_.length(sequence);
    if (begin < end) parts.push_back({sequence, begin, end});
  }
  return parts;
}

void GptDataset::check_tokens(std::span<const std::int64_t> text, const Part& part) const {
  const std::int64_t limit = options_.vocab_size > 0
                                 ? options_.vocab_size
                                 : std::int64_t{std::numeric_limits<std::int32_t>::max()} + 1;
  const auto bad = std::find_if(text.begin(), text.end(), [&](std::int64_t token) {
    return (token < 0 || token >= limit) && token != options_.pad_id;
  });
  if (bad != text.end())
    fail(Exit::bad_data, bin_path(data_.prefix()), ": sequence ", part.sequence, ": token ",
         part.begin + (bad - text.begin()), " is ", *bad, ", expected 0 to ", limit - 1);
}

void GptDataset::get(std::int64_t k, std::span<std::int32_t> tokens, std::span<std::int32_t> labels,
                     std::span<float> loss_mask) const {
  const auto S = static_cast<std::size_t>(seq_length());
  assert(tokens.size() == S && labels.size() == S && loss_mask.size() == S);
  std::vector<std::int64_t> text(S + 1, options_.pad_id);
  std::size_t filled = 0;
  for (const Part& part : parts(k)) {
    const auto count = static_cast<std::size_t>(part.end - part.begin);
    assert(filled + count <= text.size());
    const auto into = std::span(text).subspan(filled, count);
    data_.read(part.sequence, part.begin, into);
    check_tokens(into, part);
    filled += count;
  }
  const std::int64_t pad = options_.pad_id;
  const auto embeddable = [&](std::int64_t token) {
    return token == pad ? 0 : static_cast<std::int32_t>(token);
  };
  for (std::size_t i = 0; i < S; ++i) {
    const bool masked =
        text[i + 1] == pad || (options_.eod_mask_loss && text[i] == options_.eod_id);
    loss_mask[i] = masked ? 0.0F : 1.0F;
    tokens[i] = embeddable(text[i]);
    labels[i] = embeddable(text[i + 1]);
  }
}

}  // namespace mt
