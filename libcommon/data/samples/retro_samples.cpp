#include "data/samples/retro_samples.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_object.h"
#include "data/samples/data_sources.h"
#include "text/tokenizer.h"

namespace mt {

void add_retro_fields(FieldSpecs& fields, std::int64_t seq_length,
                      const RetroSampleOptions& options) {
  const std::int64_t tokens =
      options.chunks(seq_length) * options.neighbors * options.retrieved_length();
  for (const Field field : {Field::encoder_ids, Field::encoder_positions})
    fields.push_back({.field = field, .per_sample = tokens, .of_tokens = false});
}

RetroSamples::RetroSamples(std::unique_ptr<Samples> samples, Split which, std::int64_t count,
                           std::int64_t seq_length, const RetroSampleOptions& options)
    : samples_(std::move(samples)),
      which_(which),
      count_(count),
      chunks_(options.chunks(seq_length)),
      options_(options),
      fields_(samples_->fields()) {
  add_retro_fields(fields_, seq_length, options);
  const std::int64_t asked = count * chunks_, known = options.retrieved->queried(which);
  const char* const split = kSplitNames[static_cast<int>(which)];
  if (options.verify_count && asked != known)
    fail(Exit::bad_config, "the project has neighbours for ", known, " chunks of ", split,
         ", and this run asks for ", asked, "; --retro-no-verify-neighbor-count takes those");
  count_ = std::min(count_, known / chunks_);
  if (count_ == 0)
    fail(Exit::bad_config, "the project has neighbours for ", known, " chunks of ", split,
         ", expected at least the ", chunks_, " of a sample");
}

std::vector<std::int64_t> RetroSamples::retrieved(std::int64_t k) const {
  const std::int64_t all = options_.retrieved->size();
  std::vector<std::int64_t> chunks;
  for (const std::int64_t neighbor :
       options_.retrieved->neighbors(which_, k * chunks_, chunks_, options_.neighbors))
    for (std::int64_t i = 0; i < options_.retrieved_chunks; ++i)
      chunks.push_back(((neighbor + i) % all + all) % all);  // -1, of none, is the last
  return chunks;
}

std::vector<std::int32_t> RetroSamples::tokens_of(std::span<const std::int64_t> chunks) const {
  const auto length = static_cast<std::size_t>(options_.chunk_length);
  std::vector<std::int32_t> tokens(chunks.size() * length);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    options_.retrieved->read(chunks[i], std::span(tokens).subspan(i * length, length));
  return tokens;
}

void RetroSamples::get(std::int64_t k, const Fields& sample) const {
  k %= count_;
  samples_->get(k, sample);
  const auto ids = sample.span<std::int32_t>(Field::encoder_ids),
             positions = sample.span<std::int32_t>(Field::encoder_positions);
  if (ids.empty() && positions.empty()) return;
  const std::vector<std::int32_t> tokens = tokens_of(retrieved(k));
  if (!ids.empty()) std::ranges::copy(tokens, ids.begin());
  if (positions.empty()) return;
  const auto length = static_cast<std::size_t>(options_.retrieved_length());
  std::int32_t position = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i % length == 0) position = 0;
    positions[i] = position++;
    if (options_.reset_position_ids && tokens[i] == options_.eod_id) position = 0;
  }
}

std::vector<std::string> RetroSamples::lines(std::int64_t k, const Tokenizer& tokenizer) const {
  k %= count_;
  std::vector<std::string> lines = samples_->lines(k, tokenizer);
  const std::vector<std::int64_t> chunks = retrieved(k);
  const auto each = static_cast<std::size_t>(options_.retrieved_chunks);
  for (std::size_t i = 0; i < chunks.size(); i += each) {
    const auto neighbor = std::span(chunks).subspan(i, each);
    lines.push_back(concat("chunk ", static_cast<std::int64_t>(i / each) / options_.neighbors,
                           ", neighbour from chunk ", neighbor.front(), ": ",
                           json_quoted(tokenizer.decode_text(tokens_of(neighbor)))));
  }
  return lines;
}

void RetroSamples::write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const {
  k %= count_;
  samples_->write(k, tokenizer, json);
  const std::vector<std::int64_t> chunks = retrieved(k);
  const auto each = static_cast<std::size_t>(options_.retrieved_chunks);
  json.key("neighbors").begin_array();
  for (std::size_t i = 0; i < chunks.size(); i += each) {
    const auto neighbor = std::span(chunks).subspan(i, each);
    json.begin_object()
        .member("chunk", static_cast<std::int64_t>(i / each) / options_.neighbors)
        .key("retrieved")
        .begin_array();
    for (const std::int64_t chunk : neighbor) json.value(chunk);
    json.end_array().member("text", tokenizer.decode_text(tokens_of(neighbor))).end_object();
  }
  json.end_array();
}

}  // namespace mt
