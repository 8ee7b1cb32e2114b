#include "retro/chunk_embedder.h"

#include <algorithm>

#include "base/command.h"
#include "base/error.h"
#include "base/hash.h"
#include "model/checkpoint_tokenizer.h"
#include "tensor/host_copy.h"

namespace mt {

constexpr std::int64_t kMaxLength = 256;  // Megatron's, of a chunk

void ChunkEmbedderOptions::add_to(CommandLine& cl) {
  cl.section("Embeddings");
  cl.option("--load", &load, "PATH",
            "the BERT: a folder of checkpoints, or of one, or a model's folder of Hugging Face's");
  compute.add_to(cl, kDtypeAsStored);
  cl.option("--retro-bert-batch-size", &batch, "N",
            "chunks of the model's length at a time, of shorter ones more; changes no result, but "
            "by rounding on a GPU",
            between(1, 65536));
  cl.option("--retro-bert-max-chunk-length", &max_length, "N",
            "tokens of a chunk to BERT, [CLS] and [SEP] among them, to which it is cut; default: "
            "256, or as many as the model takes",
            between(3, 1 << 20));
}

static std::string identity_of(const LoadedModel& loaded, std::int64_t max_length) {
  Hasher hasher;
  hasher.update(
      concat("mt-chunk-embedder/1\n", loaded.tokenizer->identity(), "\n", max_length, "\n"));
  for (const Param& row : loaded.model->table().rows()) {
    const HostCopy here = HostCopy::of(row.value);
    hasher.update(concat(row.name(), " ", static_cast<int>(row.value.dtype()), "\n"));
    hasher.update(
        Bytes(static_cast<const std::byte*>(here.tensor().data()), here.tensor().bytes()));
  }
  return hasher.hex();
}

// What load_model() is told: nothing where the model has its own.
static TokenizerOptions unless_own(const std::string& load, const TokenizerOptions& tokenizer) {
  return tokenizer_identity(open_model(load)->manifest_extra()).empty() ? tokenizer
                                                                        : TokenizerOptions();
}

ChunkEmbedder::ChunkEmbedder(const ChunkEmbedderOptions& options, const TokenizerOptions& tokenizer)
    : workers_(options.threads),
      loaded_(load_model(
          options.load,
          options.tokenizer.type.empty() ? unless_own(options.load, tokenizer) : options.tokenizer,
          options.compute, TextEmbedder::use())),
      embedder_(loaded_, {.batch = options.batch, .threads = options.threads}),
      max_length_(options.max_length.value_or(std::min(kMaxLength, embedder_.max_tokens()))),
      identity_(identity_of(loaded_, max_length_)) {
  options.launch.check(loaded_.model->config(), loaded_.path);
  if (max_length_ > embedder_.max_tokens())
    fail(Exit::bad_config, "--retro-bert-max-chunk-length ", max_length_, ": ", loaded_.path,
         " takes at most ", embedder_.max_tokens(), " tokens");
}

std::vector<std::int32_t> ChunkEmbedder::ids_of(const std::string& text) const {
  std::vector<std::int32_t> ids = embedder_.ids(text, "a chunk");
  if (ids.size() == 2)
    ids.insert(ids.begin() + 1, std::max(loaded_.tokenizer->special_ids().pad, 0));
  if (std::ssize(ids) > max_length_) {
    ids[static_cast<std::size_t>(max_length_) - 1] = ids.back();
    ids.resize(static_cast<std::size_t>(max_length_));
  }
  return ids;
}

std::vector<float> ChunkEmbedder::embed(std::span<const std::string> texts) {
  std::vector<std::vector<std::int32_t>> ids(texts.size());
  workers_.run([&] {
    parallel_for_ordered_errors(std::ssize(texts), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      ids[at] = ids_of(texts[at]);
    });
  });
  return embedder_.embed(ids);
}

}  // namespace mt
