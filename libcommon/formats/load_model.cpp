#include "formats/load_model.h"

#include <algorithm>

#include "formats/hugging_face/hugging_face_config.h"
#include "formats/model_source.h"
#include "model/checkpoint_tokenizer.h"
#include "model/config/model_config.h"
#include "tensor/host_copy.h"
#include "text/same_ids.h"

namespace mt {
namespace {

// A family with which no text is continued or scored; null for others.
const char* other_family(ModelFamily family) {
  switch (family) {
    case ModelFamily::gpt:
      return nullptr;
    case ModelFamily::mixtral:
      return "a Mixtral";
    case ModelFamily::gemma:
      return "a Gemma";
    case ModelFamily::bert:
      return "a BERT";
    case ModelFamily::mamba:
      return "a Mamba";
    case ModelFamily::t5:
      return "a T5";
  }
  return nullptr;
}

std::unique_ptr<Tokenizer> choose_tokenizer(const ModelSource& source,
                                            const TokenizerOptions& options) {
  check_no_files_without_type(options);
  if (options.type.empty()) return source.make_tokenizer(options);
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options);
  const std::string expected = tokenizer_identity(source.manifest_extra());
  if (!expected.empty() && expected != tokenizer->identity() &&
      !same_ids(*source.make_tokenizer(options), *tokenizer))
    fail(Exit::bad_config, source.path(), ": was trained with a tokenizer of identity ", expected,
         ", but the one given has ", tokenizer->identity());
  return tokenizer;
}

void check_fits(const Tokenizer& tokenizer, const ModelConfig& config, const std::string& path,
                bool travels) {
  if (!travels && tokenizer.vocab_size() > config.padded_vocab_size)
    fail(Exit::bad_config, path, ": the tokenizer has ", tokenizer.vocab_size(),
         " tokens, more than the model's ", config.padded_vocab_size);
  if (tokenizer.eod() < 0)
    fail(Exit::bad_config, path,
         ": the tokenizer has no end-of-document token, behind which a text begins");
}

// As transformers' generate() takes them: eos_token_id, one or a list, of generation_config.json,
// or, where that is absent, of config.json.
std::vector<std::int32_t> end_tokens_of(const ModelSource& source) {
  for (const char* name : {"generation_config.json", "config.json"})
    if (const Companion* const file = find_companion(source.companions(), name))
      return eos_token_ids(file->read(), file->path.empty() ? file->name : file->path);
  return {};
}

}  // namespace

std::int64_t LoadedModel::vocab_size() const {
  return std::min<std::int64_t>(tokenizer->vocab_size(), model->config().vocab_size);
}

LoadedModel load_model(const std::string& path, const TokenizerOptions& tokenizer,
                       const DeviceOptions& compute) {
  const std::unique_ptr<ModelSource> source = open_model(path);
  const ModelConfig& config = source->config();
  if (const char* const family = other_family(config.family))
    fail(Exit::bad_config, source->path(), ": is ", family,
         ", with which no text is continued or scored");
  LoadedModel loaded{.model = std::make_unique<Gpt>(config),
                     .tokenizer = choose_tokenizer(*source, tokenizer),
                     .path = source->path(),
                     .end_tokens = end_tokens_of(*source)};
  check_fits(*loaded.tokenizer, config, source->path(), tokenizer.type.empty());
  ParamTable& table = loaded.model->table();
  table.allocate(compute.device(), compute.compute_dtype(source->dtype()), false);
  source->check_all_used(table);
  for (const Param& row : table.rows()) {
    const HostCopy here = HostCopy::for_writing(row.value);
    source->read(row, "", here.tensor());
    here.upload();
  }
  return loaded;
}

}  // namespace mt
