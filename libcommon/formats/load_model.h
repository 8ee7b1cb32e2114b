// load_model: a model from a checkpoint of any format, ready to be evaluated or to generate, with
// its tokenizer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model_source.h"
#include "model/model.h"
#include "tensor/device_options.h"
#include "text/chat/chat_sources.h"
#include "text/tokenizer.h"

namespace mt {

enum class ModelFamily : std::uint8_t;

// Helps of --load, --adapter and, behind the options' own, of --dtype, for programs that call
// load_model().
inline constexpr const char* kLoadedModel =
    "folder of checkpoints, or of one; a model's folder of Hugging Face's or Meta's; or a GGUF "
    "file";
inline constexpr const char* kLoadedAdapter =
    "adapter that is merged into the model: a folder of PEFT's, or of a run that trains one; "
    "either may be --load itself where it names its model";
inline constexpr const char* kDtypeAsStored =
    "; default: what the checkpoint is in, but on the CPU fp32 for 16 bits, and on a GPU for fp64";

// The --vocab-size of such a program, behind what TokenizerOptions declares.
void add_vocab_size_to(CommandLine& cl, TokenizerOptions& tokenizer);
// Forgets it where it is no more than a check: of a model that says itself how many tokens it has
// (--use-checkpoint-args), and of one that is loaded beside the one it was said of.
void leave_vocab_size_unchecked(TokenizerOptions& tokenizer);

struct LoadedModel {
  std::unique_ptr<Model> model;  // without gradients
  std::unique_ptr<Tokenizer> tokenizer;
  std::string path;                           // of the checkpoint itself
  std::vector<std::int32_t> end_tokens = {};  // at which its folder's own settings end a text
  // Behind which a T5's decoder begins: what its folder's own settings say, else the tokenizer's
  // BOS, or, without one, its padding.
  std::optional<std::int32_t> start_token = {};
  std::vector<ChatFile> chat_files = {};  // where its chat templates are

  // The tokens that both know: rows of the model's behind them are no text, and ids beyond the
  // model, of words that were added to its tokenizer, have no row.
  std::int64_t vocab_size() const;

  // Calls `warn`, if there is one, with what is to be told of the tokenizer, if that is anything.
  void tell(const std::function<void(const std::string&)>& warn) const;
};

// Behind which token a decoder begins, as LoadedModel has it; of a T5 alone.
std::optional<std::int32_t> start_token_of(const ModelSource& source, const Tokenizer& tokenizer);

// At which the settings of a model's folder end a text; empty where they do not say.
std::vector<std::int32_t> end_tokens_of(const ModelSource& source);

// ModelUse: the families of models that a program can use, and what it says of the others, as in
// "is a BERT, with which no text is continued"; and the head of a task that they must have, else
// none.
struct ModelUse {
  std::vector<ModelFamily> families;
  const char* others;
  std::string_view task_head = {};
  bool continues = false;  // texts, a token behind the other, with a cache
};

// The model at `path`, of whatever format open_model() finds there, its values on the device in the
// type that computes; the same bits as of the torch_dist checkpoint that mt-convert makes of it.
// Or, unless `compute` says otherwise, matrices that lie in blocks stay as they are.
// The tokenizer is the one that `tokenizer` names or else the one that travels with the model.
// Exit::no_input if there is no model.  Exit::bad_config for a family or a head that is of no use,
// for other layers that predict further tokens than `source` says, for experts that the device does
// not compute, for another tokenizer than the checkpoint's, and for a given one with more tokens
// than the model knows.
LoadedModel load_model(const std::string& path, const TokenizerOptions& tokenizer,
                       const DeviceOptions& compute, const ModelUse& use,
                       const ModelSourceOptions& source = {});

}  // namespace mt
