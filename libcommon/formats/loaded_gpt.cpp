#include "formats/loaded_gpt.h"

#include "model/checkpoint_tokenizer.h"
#include "model/config/megatron_args.h"
#include "model/gpt_checkpoint.h"

namespace mt {

LoadedGpt load_gpt(const std::string& save_folder, const TokenizerOptions& tokenizer,
                   const DeviceOptions& compute) {
  const std::optional<CheckpointPlace> place = find_checkpoint(save_folder);
  if (!place) fail(Exit::no_input, save_folder, ": no checkpoint there");
  const MegatronCheckpoint checkpoint(place->folder);
  const std::string where = place->folder + ": common.pt";
  const PyValue& args = checkpoint.common().at("args", where);
  const ModelConfig config = model_config_of(args, ModelFamily::gpt, where);
  LoadedGpt loaded{.model = std::make_unique<Gpt>(config),
                   .tokenizer = load_tokenizer(checkpoint, tokenizer),
                   .folder = place->folder,
                   .iteration = place->iteration};
  if (loaded.tokenizer->vocab_size() > config.padded_vocab_size)
    fail(Exit::bad_config, place->folder, ": the tokenizer has ", loaded.tokenizer->vocab_size(),
         " tokens, more than the model's ", config.padded_vocab_size);
  if (loaded.tokenizer->eod() < 0)
    fail(Exit::bad_config, place->folder,
         ": the tokenizer has no end-of-document token, behind which "
         "a text begins");
  loaded.model->table().allocate(compute.device(),
                                 compute.compute_dtype(dtype_of_args(args, where)), false);
  check_all_used(checkpoint.tensors(), loaded.model->table());
  read_rows(checkpoint.tensors(), loaded.model->table());
  return loaded;
}

}  // namespace mt
