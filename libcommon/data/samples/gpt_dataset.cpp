#include "data/samples/gpt_dataset.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/json_object.h"
#include "data/samples/token_sequences.h"
#include "text/tokenizer.h"

namespace mt {

GptSample GptSample::of(const Fields& fields) {
  return {.tokens = fields.span<std::int32_t>(Field::ids),
          .labels = fields.span<std::int32_t>(Field::labels),
          .positions = fields.span<std::int32_t>(Field::positions),
          .first_key = fields.span<std::int32_t>(Field::first_key),
          .loss_mask = fields.span<float>(Field::loss_mask)};
}

FieldSpecs gpt_fields(std::int64_t seq_length, bool first_keys) {
  FieldSpecs fields = {{.field = Field::ids, .per_sample = seq_length},
                       {.field = Field::labels, .per_sample = seq_length},
                       {.field = Field::positions, .per_sample = seq_length}};
  if (first_keys) fields.push_back({.field = Field::first_key, .per_sample = seq_length});
  fields.push_back({.field = Field::loss_mask, .dtype = DType::f32, .per_sample = seq_length});
  return fields;
}

GptDataset::GptDataset(const TokenSequences& data, const GptDatasetOptions& options,
                       const IndexCache& cache)
    : data_(data),
      options_(options),
      fields_(gpt_fields(seq_length(), options.reset_attention_mask)),
      index_(data, options.index, cache) {
  if (!options.index.extra_token)
    fail(Exit::usage, "a GPT dataset needs samples with one extra token, for the last label");
  if (options.eod_id >= 0) return;
  for (const auto& [given, name] :
       {std::pair{options.reset_position_ids, "--reset-position-ids"},
        std::pair{options.reset_attention_mask, "--reset-attention-mask"},
        std::pair{options.eod_mask_loss, "--eod-mask-loss"}})
    if (given) fail(Exit::bad_config, name, ": needs a tokenizer with an end-of-document token");
}

std::vector<GptDataset::Part> GptDataset::parts(std::int64_t k) const {
  assert(k >= 0 && k < size());
  // What comes from a file of the cache is not trusted further than its hash.
  const auto check = [&](bool holds) {
    if (!holds) fail(Exit::bad_data, data_.name(), ": its index leads outside of it");
  };
  const std::int64_t sample = index_.shuffled(k);
  check(0 <= sample && sample < size());
  const SamplePlace first = index_.sample(sample), last = index_.sample(sample + 1);
  check(0 <= first.position && last.position < std::ssize(index_.document_index()));
  std::vector<Part> parts;
  for (std::int64_t at = first.position; at <= last.position; ++at) {
    const std::int64_t sequence = index_.document(at);
    check(0 <= sequence && sequence < data_.sequences());
    const std::int64_t begin = at == first.position ? first.offset : 0;
    const std::int64_t end = at == last.position ? last.offset + 1 : data_.length(sequence);
    check(0 <= begin && end <= data_.length(sequence));
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
    fail(Exit::bad_data, data_.name(), ": sequence ", part.sequence, ": token ",
         part.begin + (bad - text.begin()), " is ", *bad, ", expected 0 to ", limit - 1);
}

std::vector<std::int64_t> GptDataset::text(std::int64_t k) const {
  std::vector<std::int64_t> text(static_cast<std::size_t>(seq_length()) + 1, options_.pad_id);
  std::size_t filled = 0;
  for (const Part& part : parts(k)) {
    const auto count = static_cast<std::size_t>(part.end - part.begin);
    assert(filled + count <= text.size());
    const auto into = std::span(text).subspan(filled, count);
    data_.read(part.sequence, part.begin, into);
    check_tokens(into, part);
    filled += count;
  }
  return text;
}

void GptDataset::get(std::int64_t k, const GptSample& sample) const {
  const auto S = static_cast<std::size_t>(seq_length());
  assert(sample.tokens.size() == S && sample.labels.size() == S && sample.positions.size() == S &&
         sample.first_key.size() == (options_.reset_attention_mask ? S : 0) &&
         sample.loss_mask.size() == S);
  const std::vector<std::int64_t> text = this->text(k);
  const std::int64_t pad = options_.pad_id;
  const auto embeddable = [&](std::int64_t token) {
    return token == pad ? 0 : static_cast<std::int32_t>(token);
  };
  std::size_t document = 0;  // where the token's document begins
  for (std::size_t i = 0; i < S; ++i) {
    const bool end = text[i] == options_.eod_id && options_.eod_id >= 0;
    const bool masked = text[i + 1] == pad || (options_.eod_mask_loss && end);
    sample.loss_mask[i] = masked ? 0.0F : 1.0F;
    sample.tokens[i] = embeddable(text[i]);
    sample.labels[i] = embeddable(text[i + 1]);
    sample.positions[i] = static_cast<std::int32_t>(options_.reset_position_ids ? i - document : i);
    if (options_.reset_attention_mask) sample.first_key[i] = static_cast<std::int32_t>(document);
    if (end) document = i + 1;
  }
}

std::string GptDataset::text_of(const Part& part, const Tokenizer& tokenizer) const {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(part.end - part.begin));
  data_.read(part.sequence, part.begin, tokens);
  return tokenizer.decode_text(std::vector<std::int32_t>(tokens.begin(), tokens.end()));
}

std::vector<std::string> GptDataset::lines(std::int64_t k, const Tokenizer& tokenizer) const {
  std::vector<std::string> lines;
  for (const Part& part : parts(k)) {
    const std::int64_t document = data_.document_of(part.sequence);
    const std::string sequence =
        document != part.sequence ? concat(" (sequence ", part.sequence, ")") : "";
    lines.push_back(concat(data_.name(), ", document ", document, sequence, ", tokens ", part.begin,
                           " to ", part.end, ": ", json_quoted(text_of(part, tokenizer))));
  }
  return lines;
}

void GptDataset::write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const {
  json.key("parts").begin_array();
  for (const Part& part : parts(k))
    json.begin_object()
        .member("file", data_.name())
        .member("document", data_.document_of(part.sequence))
        .member("sequence", part.sequence)
        .member("begin", part.begin)
        .member("end", part.end)
        .member("text", text_of(part, tokenizer))
        .end_object();
  json.end_array();
}

}  // namespace mt
