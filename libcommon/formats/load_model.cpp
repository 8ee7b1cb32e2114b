#include "formats/load_model.h"

#include <algorithm>
#include <map>

#include "base/command.h"
#include "formats/chat_files.h"
#include "formats/finite_weights.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/model_source.h"
#include "kernels/packed_rows.h"
#include "model/checkpoint_tokenizer.h"
#include "model/config/model_config.h"
#include "model/model_table.h"
#include "nn/packed_weight.h"
#include "ops/ops.h"
#include "tensor/host_copy.h"
#include "text/bpe/tik_tokenizer.h"
#include "text/hf/hf_tokenizer.h"
#include "text/null_tokenizer.h"
#include "text/same_ids.h"

namespace mt {
namespace {

const char* name_of(ModelFamily family) {
  switch (family) {
    case ModelFamily::gpt:
      return "a GPT";
    case ModelFamily::mixtral:
      return "a Mixtral";
    case ModelFamily::bert:
      return "a BERT";
    case ModelFamily::mamba:
      return "a Mamba";
    case ModelFamily::retro:
      return "a Retro";
    case ModelFamily::vit:
      return "a ViT";
    case ModelFamily::llava:
      return "a LLaVA";
    case ModelFamily::biencoder:
      return "a model of two towers";
    case ModelFamily::t5:
      break;
  }
  return "a T5";
}

std::unique_ptr<Tokenizer> choose_tokenizer(const ModelSource& source, TokenizerOptions options) {
  check_no_files_without_type(options);
  if (options.type.empty()) return source.make_tokenizer(options);
  if (options.type == NullTokenizer::kType && options.vocab_size == 0)
    options.vocab_size = source.config().vocab_size - 1;
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options);
  const std::string expected = tokenizer_identity(source.manifest_extra());
  if (!expected.empty() && expected != tokenizer->identity() &&
      !same_ids(*source.make_tokenizer(options), *tokenizer))
    fail(Exit::bad_config, source.path(), ": was trained with a tokenizer of identity ", expected,
         ", but the one given has ", tokenizer->identity());
  return tokenizer;
}

// What --vocab-size says of a vocabulary that is known without it.
void check_vocab_size(std::int64_t said, const Tokenizer& tokenizer, const ModelConfig& config,
                      const std::string& path) {
  const std::int64_t of_tokenizer =
      tokenizer.type() == NullTokenizer::kType ? tokenizer.eod() : tokenizer.vocab_size();
  if (said != 0 && said != of_tokenizer && said != config.vocab_size)
    fail(Exit::bad_config, "--vocab-size ", said, ": ", path, " knows ", config.vocab_size,
         " tokens, and its tokenizer is of ", of_tokenizer);
}

void check_fits(const Tokenizer& tokenizer, const ModelConfig& config, const std::string& path,
                bool travels) {
  if (!travels && tokenizer.vocab_size() > config.padded_vocab_size)
    fail(Exit::bad_config, path, ": the tokenizer has ", tokenizer.vocab_size(),
         " tokens, more than the model's ", config.padded_vocab_size);
  if (tokenizer.eod() < 0 && config.family != ModelFamily::bert)
    fail(Exit::bad_config, path,
         ": the tokenizer has no end-of-document token, behind which a text begins");
}

// As transformers' generate() takes them: a member of generation_config.json, one or a list, or,
// where that file is absent, of config.json.
std::vector<std::int32_t> token_ids_of(const ModelSource& source, const char* member) {
  for (const char* name : {"generation_config.json", "config.json"})
    if (const Companion* const file = find_companion(source.companions(), name))
      return token_ids_at(member, file->read(), file->path.empty() ? file->name : file->path);
  return {};
}

// Has the rows that lie in blocks held in these; which they are.  On a GPU words of several types
// are not, as none of them would be found.
std::map<std::size_t, std::vector<BlockType>> hold_blocks(const ModelSource& source,
                                                          ParamTable& table, Device device) {
  std::map<std::size_t, std::vector<BlockType>> held;
  for (Param& row : table.rows()) {
    std::vector<BlockType> types;
    if (row.reads_blocks) types = source.block_types(row);
    if (types.empty()) continue;
    if (device != Device::cpu && row.is_vocabulary() &&
        std::ranges::any_of(types, [&](BlockType type) { return type != types.front(); }))
      continue;
    hold_in_blocks(row, types, device);
    held[row.index] = std::move(types);
  }
  return held;
}

}  // namespace

void add_vocab_size_to(CommandLine& cl, TokenizerOptions& tokenizer) {
  cl.option("--vocab-size", &tokenizer.vocab_size, "N",
            "NullTokenizer: ids below the one that ends a document, by default all that the model "
            "has; TikTokenizer: all ids; with others it must be the model's, or the tokenizer's",
            at_least(1));
}

void leave_vocab_size_unchecked(TokenizerOptions& tokenizer) {
  if (tokenizer.type != NullTokenizer::kType && tokenizer.type != TikTokenizer::kType)
    tokenizer.vocab_size = 0;
}

std::optional<std::int32_t> start_token_of(const ModelSource& source, const Tokenizer& tokenizer) {
  if (source.config().family != ModelFamily::t5) return {};
  const SpecialTokens special = tokenizer.special_ids();
  std::int32_t token = special.bos >= 0 ? special.bos : special.pad;
  for (const char* member : {"bos_token_id", "decoder_start_token_id"})  // the latter goes first
    if (const auto ids = token_ids_of(source, member); !ids.empty()) token = ids.front();
  if (token < 0)
    fail(Exit::bad_config, source.path(),
         ": neither settings nor the tokenizer say behind which token the decoder begins");
  if (token >= source.config().vocab_size)
    fail(Exit::bad_config, source.path(), ": the decoder begins behind token ", token,
         ", but the model has ", source.config().vocab_size);
  return token;
}

std::vector<std::int32_t> end_tokens_of(const ModelSource& source) {
  return token_ids_of(source, "eos_token_id");
}

std::int64_t LoadedModel::vocab_size() const {
  return std::min<std::int64_t>(tokenizer->vocab_size(), model->config().vocab_size);
}

void LoadedModel::tell(const std::function<void(const std::string&)>& warn) const {
  const std::string note = hf_note_of(*tokenizer);
  if (warn && !note.empty()) warn(note);
}

LoadedModel load_model(const std::string& path, const TokenizerOptions& tokenizer,
                       const DeviceOptions& compute, const ModelUse& use,
                       const ModelSourceOptions& options) {
  const std::unique_ptr<ModelSource> source = open_model(path, options);
  const ModelConfig& config = source->config();
  if (std::ranges::find(use.families, config.family) == use.families.end())
    fail(Exit::bad_config, source->path(), ": is ", name_of(config.family), ", ", use.others);
  if (const char* const flag = config.setting_of_cpus();
      flag != nullptr && compute.device() == Device::cuda)
    fail(Exit::unavailable, source->path(), ": has ", flag,
         ", for which GPUs have no kernels; see --device cpu");
  if (use.continues && config.qk_layernorm_behind_rope && compute.device() == Device::cuda)
    fail(Exit::unavailable, source->path(),
         ": has --qk-layernorm-behind-rope, with which GPUs continue no text; see --device cpu");
  if (options.further && *options.further != config.mtp_num_layers)
    fail(Exit::bad_config, source->path(), ": has ", config.mtp_num_layers,
         " layers that predict further tokens, expected ", *options.further);
  if (config.task_head != use.task_head && !config.has_task_head())
    fail(Exit::bad_config, source->path(), ": has no head of a task, ", use.task_head, ": a model ",
         use.others);
  if (config.task_head != use.task_head)
    fail(Exit::bad_config, source->path(), ": has the head of a task, ", config.task_head, ", ",
         use.task_head.empty() ? "with which no text is continued or scored" : use.others);
  LoadedModel loaded{.model = make_model(config, {{.end = config.all_layers()}}),
                     .tokenizer = choose_tokenizer(*source, tokenizer),
                     .path = source->path(),
                     .end_tokens = end_tokens_of(*source),
                     .chat_files = chat_files_of(source->companions(), tokenizer)};
  check_vocab_size(tokenizer.vocab_size, *loaded.tokenizer, config, source->path());
  check_fits(*loaded.tokenizer, config, source->path(), tokenizer.type.empty());
  loaded.start_token = start_token_of(*source, *loaded.tokenizer);
  ParamTable& table = loaded.model->table();
  std::map<std::size_t, std::vector<BlockType>> held;
  if (compute.keeps_blocks(source->dtype()) &&
      (compute.device() == Device::cpu || has_tiles_products()))
    held = hold_blocks(*source, table, compute.device());
  table.allocate(compute.device(), compute.compute_dtype(source->dtype()), false);
  source->check_all_used(table);
  for (const Param& row : table.rows()) {
    if (const auto types = held.find(row.index); types != held.end()) {
      fill_blocks(row, types->second,
                  [&](std::uint8_t* packed) { source->read_blocks(row, packed); });
      continue;
    }
    const HostCopy here = HostCopy::for_writing(row.value);
    source->read(row, "", here.tensor());
    check_finite(source->path(), row, here.tensor());
    here.upload();
  }
  return loaded;
}

}  // namespace mt
