#include "infer/tower_embedder.h"

#include "base/error.h"
#include "model/config/model_config.h"

namespace mt {

TowerEmbedder::TowerEmbedder(const LoadedModel& loaded, const Options& options)
    : vocab_size_(loaded.model->config().vocab_size),
      columns_(loaded.model->config().embedding_width()),
      pass_(*loaded.model, {.wanted = options.of_contexts ? EncoderPass::Wanted::contexts
                                                          : EncoderPass::Wanted::queries,
                            .vocab_size = vocab_size_,
                            .batch = options.batch,
                            .threads = options.threads}) {}

ModelUse TowerEmbedder::use() {
  return {{ModelFamily::biencoder}, "and vectors are made by a model of two towers"};
}

std::vector<std::int32_t> TowerEmbedder::checked(std::vector<std::int32_t> ids,
                                                 std::string_view place) const {
  for (const std::int32_t id : ids)
    if (id < 0 || id >= vocab_size_)
      fail(Exit::bad_data, place, ": token ", id, " is none of the model's ", vocab_size_);
  return ids;
}

std::vector<float> TowerEmbedder::embed(std::span<const std::vector<std::int32_t>> texts) {
  std::vector<EncoderPass::Text> asked;
  for (const auto& ids : texts) asked.push_back({.ids = ids, .asked = {0}});
  const auto columns = static_cast<std::size_t>(columns_);
  std::vector<float> found(texts.size() * columns);
  pass_.run(asked, [&](std::size_t i, ConstTensor said) {
    with_float_type(said.dtype(), [&]<class T>() {
      for (std::size_t c = 0; c < columns; ++c)
        found[i * columns + c] = static_cast<float>(said.as<T>()[c]);
    });
  });
  return found;
}

}  // namespace mt
