#include "infer/text_embedder.h"

#include <algorithm>

#include "base/error.h"
#include "model/config/model_config.h"

namespace mt {

static const LoadedModel& checked(const LoadedModel& loaded, bool pooled) {
  if (pooled && !loaded.model->config().bert_binary_head)
    fail(Exit::bad_config, "--pooled: ", loaded.path,
         " has no pooler, as it was trained with --bert-no-binary-head");
  return loaded;
}

TextEmbedder::TextEmbedder(const LoadedModel& loaded, const Options& options)
    : pooled_(options.pooled),
      vocab_size_(checked(loaded, options.pooled).vocab_size()),
      columns_(loaded.model->config().hidden_size),
      words_(*loaded.tokenizer),
      pass_(*loaded.model,
            {.wanted = pooled_ ? EncoderPass::Wanted::pooled : EncoderPass::Wanted::means,
             .vocab_size = vocab_size_,
             .batch = options.batch,
             .threads = options.threads}) {}

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
  });
  return found;
}

std::vector<std::int32_t> TextEmbedder::asked_of(const std::vector<std::int32_t>& ids) const {
  if (pooled_) return {0};
  std::vector<std::int32_t> asked;
  for (std::int32_t i = 1; i + 1 < std::ssize(ids); ++i) asked.push_back(i);
  return asked;
}

}  // namespace mt
