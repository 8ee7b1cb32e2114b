// ModelSource: a model in a checkpoint of any format: its settings, and its weights row by row of
// its family's table (model/model_table.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/tensor_source.h"
#include "tensor/param.h"
#include "text/tokenizer.h"

namespace mt {

enum class BlockType : std::uint8_t;
class PyValue;
class TorchReader;
struct ModelConfig;

// A file that travels with a model: a tokenizer's, or of settings that no row depends on.
struct Companion {
  std::string name;
  std::string path = {}, content = {};  // where it lies, or, without a path, what it holds

  std::string read() const { return path.empty() ? content : read_regular_file(path); }
};

// What a checkpoint's manifest says of a tokenizer's files; {} if there are none, or if they are
// not read, of which the problem says why.  The note is what is to be told of those that are.
struct FolderTokenizer {
  std::string manifest = "{}", problem = {}, note = {};
};

// Several threads may read at once.
class ModelSource {
 public:
  virtual ~ModelSource();

  const std::string& path() const { return path_; }  // of the checkpoint itself, for errors
  const std::string& format() const { return format_; }
  const ModelConfig& config() const { return *config_; }  // completed
  DType dtype() const { return dtype_; }                  // that the settings name
  const std::vector<Companion>& companions() const { return companions_; }
  // What a user should know of how it is read; lines.
  const std::vector<std::string>& notes() const { return notes_; }
  // The tokenizer, as model/checkpoint_tokenizer.h writes it into a manifest.
  const std::string& manifest_extra() const { return manifest_extra_; }
  // The options that load the tokenizer that travels with the model from files, with what `others`
  // say that no file does.  Exit::usage if there is none, Exit::bad_config if it has no files.
  TokenizerOptions tokenizer_options(const TokenizerOptions& others) const;
  // That tokenizer, which may lie in the model's own file.
  virtual std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& others) const;
  // The common state of a Megatron checkpoint (a dict), and what it refers to; else None, null.
  virtual PyValue common() const;
  virtual const TorchReader* common_tensors() const { return nullptr; }

  // A row has a state of each name; "" is the weight itself, others are an optimizer's (exp_avg).
  virtual std::vector<std::string> states() const { return {""}; }
  // Whether a row has the others: a buffer, and a row that was frozen, have their value alone.
  virtual bool has_states(const Param& row) const;
  // Whether the states but "" are of Megatron's distributed optimizer, as v0.12 keeps it.
  virtual bool is_reformulated() const { return false; }
  // Whether they are, as its main branch keeps it (fully_reshardable).
  virtual bool is_reshardable() const { return false; }
  // Whether tensors of those states have elements between the rows', which may be anything.
  virtual bool has_gaps() const { return false; }
  virtual DType dtype_of(const Param& row, const std::string& state) const = 0;
  // Fills `out`, which has the row's shape and any floating-point type.  Of the vocabulary's rows
  // there may be fewer here or more than in `out`; those that are missing become zeros.
  virtual void read(const Param& row, const std::string& state, Tensor out) const = 0;
  // What Transformer Engine's module of a weight remembers (ckpt/te_state.h); empty: nothing.
  virtual std::string extra_state(const Param& /*weight*/) const { return {}; }
  // A view of the value without copying it, where it lies in a file as the row is; else nothing.
  virtual std::optional<MappedTensor> view(const Param&, const std::string& /*state*/) const {
    return {};
  }
  // The types of the blocks that the rows of a matrix lie in (kernels/packed_rows.h); none where
  // they lie in none.
  virtual std::vector<BlockType> block_types(const Param&) const { return {}; }
  // Fills PackedRows, laid out by these types.  Exit::bad_data for a scale that is not finite.
  virtual void read_blocks(const Param&, std::uint8_t* /*packed*/) const {}
  // Once all is read that is wanted, before what was made of it is kept: Exit::bad_data if it was
  // not what had been written.  See ModelSourceOptions.
  virtual void finish_reading() const {}
  // Exit::bad_data for a tensor here that is no row's.
  virtual void check_all_used(const ParamTable& table) const = 0;

 protected:
  ModelSource();

  // The tokenizer that travels with the model; a note where it cannot be read.
  void take_tokenizer(FolderTokenizer found);

  std::string path_, format_, manifest_extra_ = "{}";
  std::string tokenizer_problem_;  // why the one that travels with the model is not read
  std::unique_ptr<ModelConfig> config_;
  DType dtype_ = DType::f32;
  std::vector<Companion> companions_;
  std::vector<std::string> notes_;
};

struct ModelSourceOptions {
  std::optional<std::int64_t> iteration = {};   // of those that a folder has; default the tracker's
  std::optional<std::int64_t> vocab_size = {};  // where the checkpoint does not say
  bool check_while_reading = false;  // by finish_reading(), and not before anything is read
  std::string prefix = {};  // of the model's names, where a folder has several models or states
  std::optional<std::uint64_t> mock = {};  // a seed: config.json alone is read, weights are drawn
  // The layers that predict further tokens, of those that there are, which the model is to have;
  // default none of a folder of Hugging Face's, else all.
  std::optional<std::int64_t> further = {};
  bool with_optimizer = false;  // read its state too
  std::string adapter = {};    // a folder of PEFT's with one of the model, or of a run that has one
  bool merges_adapter = true;  // into the weights; else its rows are the model's, too
};

// By content: a folder of Megatron checkpoints or one of them, a plain distributed checkpoint of
// PyTorch, or one of Hugging Face's with a config.json, or of Meta's with a params.json, or a GGUF
// file, or a folder with a model.gguf; or an adapter, with its base.
// Exit::no_input or bad_data if it is none.
std::unique_ptr<ModelSource> open_model(const std::string& path,
                                        const ModelSourceOptions& options = {});

// The file by which a folder is one of a model that no Megatron saved: "config.json", say, with the
// member that a model's has, as other programs' settings may have its name.  Empty: none.
std::string sign_of_model(const std::string& folder);

// Exit::no_input: no model is there, but what is, and which path was perhaps meant.
[[noreturn]] void fail_without_model(const std::string& path);

// Names of the files that travel with a model in a folder of Hugging Face's.
std::vector<Companion> companions_in(const std::string& folder);
// This reads what companions_in() finds, so that the files may go.
std::vector<Companion> read_companions(const std::string& folder);
// Writes it there, in the subfolder that its name may have.
void write_companion(const Companion& file, const std::string& folder);
// The one of that name; null if there is none.
const Companion* find_companion(const std::vector<Companion>& companions, std::string_view name);

// Whether a file of such a name belongs to a tokenizer; the other companions are settings.
bool is_tokenizer_file(const std::string& name);

// Whether a row that learns has no state of the optimizer, and others do: it was frozen when the
// model was saved, or the state is lost.
bool lacks_states(const ModelSource& source, const Param& row);

// Whether a tokenizer travels with a model.
bool brings_tokenizer(const ModelSource& source);
// It, or null for one that cannot be read, or that is none.
std::unique_ptr<Tokenizer> readable_tokenizer(const ModelSource& source);

}  // namespace mt
