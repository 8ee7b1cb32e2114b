#include "model/neighbor_input.h"

#include "base/error.h"
#include "model/config/retro_config.h"
#include "text/tokenizer.h"

namespace mt {

std::vector<std::int32_t> neighbor_input(const RetroConfig& config, const Tokenizer& tokenizer,
                                         std::int64_t vocab_size,
                                         std::span<const std::string> texts) {
  if (texts.empty() || std::ssize(texts) > config.retro_num_neighbors)
    fail(Exit::bad_data, texts.size(), " neighbours; a Retro reads 1 to ",
         config.retro_num_neighbors, " beside a text, its \"neighbors\" in JSON");
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < config.retro_num_neighbors; ++i) {
    std::vector<std::int32_t> ids;
    if (i < std::ssize(texts)) tokenizer.encode(texts[static_cast<std::size_t>(i)], ids);
    for (const std::int32_t id : ids)
      if (id < 0 || id >= vocab_size)
        fail(Exit::bad_data, "neighbour ", i, ": token ", id, " is none of the model's ",
             vocab_size);
    ids.resize(static_cast<std::size_t>(config.retrieved_length()), tokenizer.eod());
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

}  // namespace mt
