#include "model/loaded_gpt.h"

#include "model/checkpoint_tokenizer.h"
#include "model/gpt_checkpoint.h"

namespace mt {

LoadedGpt load_gpt(const std::string& save_folder, const TokenizerOptions& tokenizer) {
  const std::optional<CheckpointPlace> place = find_checkpoint(save_folder);
  if (!place) fail(Exit::no_input, save_folder, ": no checkpoint there");
  const MegatronCheckpoint checkpoint(place->folder);
  const std::string where = place->folder + ": common.pt";
  const PyValue& args = checkpoint.common().at("args", where);
  const GptConfig config = gpt_config_of(args, where);
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
  // The CPU computes with values of 16 bits as f32.
  const DType stored = dtype_of_args(args, where);
  loaded.model->table().allocate(Device::cpu, stored == DType::f64 ? stored : DType::f32, false);
  check_all_used(checkpoint.tensors(), loaded.model->table());
  read_rows(checkpoint.tensors(), loaded.model->table());
  return loaded;
}

}  // namespace mt
