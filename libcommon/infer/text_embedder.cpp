#include "infer/text_embedder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/config/model_config.h"

namespace mt {

static const LoadedModel& checked(const LoadedModel& loaded, TextPooling pooling) {
  if (pooling == TextPooling::pooler && !loaded.model->config().has_pooler())
    fail(Exit::bad_config, "--pooled: ", loaded.path, " has no pooler");
  return loaded;
}

TextEmbedder::TextEmbedder(const LoadedModel& loaded, const Options& options)
    : pooling_(options.pooling),
      normalize_(options.normalize),
      vocab_size_(checked(loaded, options.pooling).vocab_size()),
      columns_(loaded.model->config().hidden_size),
      words_(*loaded.tokenizer),
      pass_(*loaded.model, {.wanted = pooling_ == TextPooling::pooler ? EncoderPass::Wanted::pooled
                                                                      : EncoderPass::Wanted::means,
                            .vocab_size = vocab_size_,
                            .batch = options.batch,
                            .threads = options.threads}) {}

// Zeros stay.
static void normalize(std::span<float> embedding) {
  double squares = 0;
  for (const float x : embedding) squares += static_cast<double>(x) * x;
  if (squares == 0) return;
  for (float& x : embedding) x = static_cast<float>(x / std::sqrt(squares));
}

ModelUse TextEmbedder::use() { return {{ModelFamily::bert}, "of which no embeddings are made"}; }

std::vector<std::int32_t> TextEmbedder::ids(std::string_view text, std::string_view place) const {
  std::vector<std::int32_t> ids = words_.ids(text);
  for (const std::int32_t id : ids)
    if (id < 0 || id >= vocab_size_)
      fail(Exit::bad_data, place, ": token ", id, " is none of the model's ", vocab_size_);
  return ids;
}

std::vector<float> TextEmbedder::embed(std::span<const std::vector<std::int32_t>> texts) {
  std::vector<EncoderPass::Text> asked;
  for (const auto& ids : texts) asked.push_back({.ids = ids, .asked = asked_of(ids)});
  const auto columns = static_cast<std::size_t>(columns_);
  std::vector<float> found(texts.size() * columns);
  pass_.run(asked, [&](std::size_t i, ConstTensor said) {
    with_float_type(said.dtype(), [&]<class T>() {
      std::ranges::transform(said.span<T>(), &found[i * columns],
                             [](T x) { return static_cast<float>(x); });
    });
    if (normalize_) normalize(std::span(found).subspan(i * columns, columns));
  });
  return found;
}

std::vector<std::int32_t> TextEmbedder::asked_of(const std::vector<std::int32_t>& ids) const {
  if (pooling_ == TextPooling::pooler || pooling_ == TextPooling::cls) return {0};
  const std::int32_t beside = pooling_ == TextPooling::mean ? 0 : 1;
  std::vector<std::int32_t> asked;
  for (std::int32_t i = beside; i + beside < std::ssize(ids); ++i) asked.push_back(i);
  return asked;
}

}  // namespace mt
