#include "formats/model_source.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/near_path.h"
#include "ckpt/torch_file.h"
#include "formats/gguf/gguf_source.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "formats/hugging_face/image_processor.h"
#include "formats/megatron/core_source.h"
#include "formats/megatron/dcp_source.h"
#include "formats/megatron/rank_files.h"
#include "formats/megatron/run_config.h"
#include "formats/meta/meta_source.h"
#include "formats/peft/adapted_source.h"
#include "model/checkpoint_tokenizer.h"
#include "model/config/model_config.h"
#include "text/file_names.h"

namespace mt {

namespace fs = std::filesystem;

ModelSource::ModelSource() : config_(std::make_unique<ModelConfig>()) {}

ModelSource::~ModelSource() = default;

PyValue ModelSource::common() const { return {}; }

bool ModelSource::has_states(const Param& row) const {
  return states().size() > 1 && !row.is_buffer;
}

bool lacks_states(const ModelSource& source, const Param& row) {
  return source.states().size() > 1 && row.trainable && !row.is_buffer && !source.has_states(row);
}

// Files of a tokenizer; without one that holds its words there is none.
struct TokenizerFile {
  const char* name;
  bool holds_words;
};
constexpr auto kTokenizerFiles = std::to_array<TokenizerFile>({{kTokenizerJson, true},
                                                               {kTokenizerConfig, false},
                                                               {kSpecialTokensMap, false},
                                                               {kAddedTokensJson, false},
                                                               {kVocabJson, true},
                                                               {kMergesTxt, false},
                                                               {kVocabTxt, true},
                                                               {kModelFiles[0], true},
                                                               {kModelFiles[1], true},
                                                               {kModelFiles[2], true},
                                                               {kModelFiles[3], true},
                                                               {kModelFiles[4], true},
                                                               {kTekkenJson, true},
                                                               {kQwenRanks, true},
                                                               {kChatTemplate, false},
                                                               {"chat_template.json", false}});
bool is_tokenizer_file(const std::string& name) {
  return std::ranges::find(kTokenizerFiles, name, &TokenizerFile::name) != kTokenizerFiles.end() ||
         (name.starts_with(kMoreChatTemplates) && name.ends_with(".jinja"));
}

bool brings_tokenizer(const ModelSource& source) {
  return std::ranges::any_of(kTokenizerFiles, [&](const TokenizerFile& file) {
    return file.holds_words && find_companion(source.companions(), file.name) != nullptr;
  });
}

std::unique_ptr<Tokenizer> readable_tokenizer(const ModelSource& source) {
  try {
    return source.make_tokenizer({});
  } catch (const Error&) {
    return nullptr;
  }
}

std::vector<Companion> companions_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const TokenizerFile& file : kTokenizerFiles) names.push_back(file.name);
  names.insert(names.end(), {"generation_config.json", "config.json", kVideoProcessor});
  std::vector<Companion> found;
  for (const std::string& name : names)
    if (const std::string path = folder + "/" + name; fs::exists(path))
      found.push_back({name, path});
  std::error_code none;
  std::vector<Companion> more;
  for (const auto& file : fs::directory_iterator(concat(folder, "/", kMoreChatTemplates), none))
    if (const std::string name = concat(kMoreChatTemplates, file.path().filename().string());
        is_tokenizer_file(name))
      more.push_back({name, file.path().string()});
  std::ranges::sort(more, {}, &Companion::name);
  found.insert(found.end(), more.begin(), more.end());
  return found;
}

const Companion* find_companion(const std::vector<Companion>& companions, std::string_view name) {
  const auto found = std::ranges::find(companions, name, &Companion::name);
  return found == companions.end() ? nullptr : &*found;
}

std::vector<Companion> read_companions(const std::string& folder) {
  std::vector<Companion> files = companions_in(folder);
  for (Companion& file : files) file = {.name = file.name, .content = file.read()};
  return files;
}

void write_companion(const Companion& file, const std::string& folder) {
  const std::string path = concat(folder, "/", file.name);
  if (fs::create_directories(parent_directory(path))) sync_directory(folder);
  write_file_atomically(path, file.read(), false);
}

TokenizerOptions ModelSource::tokenizer_options(const TokenizerOptions& others) const {
  const TokenizerOptions stored = tokenizer_of_manifest(manifest_extra_);
  if (stored.type.empty() && !tokenizer_problem_.empty())
    fail(Exit::bad_config, path_, ": its tokenizer is not read: ", tokenizer_problem_,
         "; --tokenizer-type names another");
  const auto refuse_without_files = [&] {
    fail(Exit::bad_config, path_,
         ": its tokenizer has no files of its own; --tokenizer-type and its files name it, and "
         "mt-convert --saver hf writes them");
  };
  const auto is_made = [](const Companion& file) {
    return file.path.empty() && is_tokenizer_file(file.name);
  };
  if (stored.type.empty() && std::ranges::any_of(companions_, is_made)) refuse_without_files();
  if (stored.type.empty())
    fail(Exit::usage, "--tokenizer-type: required, because ", path_, " names no tokenizer");
  TokenizerOptions options = others;
  options.type = stored.type;
  for (const TokenizerField& field : tokenizer_fields(stored.type)) {
    if (field.is_default(stored)) continue;
    const std::string value = field.get(stored);
    const Companion* const file = find_companion(companions_, value.substr(value.rfind('/') + 1));
    if (file != nullptr && file->path.empty()) refuse_without_files();
    field.set(options, !field.is_file    ? value
                       : file != nullptr ? file->path
                                         : concat(path_, "/", value));
  }
  return options;
}

std::unique_ptr<Tokenizer> ModelSource::make_tokenizer(const TokenizerOptions& others) const {
  return mt::make_tokenizer(tokenizer_options(others));
}

std::string sign_of_model(const std::string& folder) {
  struct Sign {
    const char *name, *member;
  };
  for (const auto& [name, member] :
       {Sign{"config.json", "\"model_type\""}, Sign{"params.json", "\"dim\""},
        Sign{"adapter_config.json", "\"peft_type\""}, Sign{"model.gguf", ""},
        Sign{".metadata", ""}}) {
    const std::string path = concat(folder, "/", name);
    std::error_code none;
    if (!fs::is_regular_file(path, none)) continue;
    if (*member == 0 || read_regular_file(path).find(member) != std::string::npos) return name;
  }
  return {};
}

// Whether open_model() would find something there.
static bool holds_model(const std::string& folder) {
  std::error_code none;
  return fs::is_directory(folder, none) &&
         (fs::exists(concat(folder, "/", kTracker), none) || is_one_checkpoint(folder) ||
          !sign_of_model(folder).empty());
}

// What is no model, but lies in one, or in the folder that was meant to be.
[[noreturn]] static void fail_with_file(const std::string& path) {
  const std::string folder = parent_directory(path), prefix = path.substr(0, path.rfind('.'));
  if ((path.ends_with(".bin") || path.ends_with(".idx")) && fs::exists(prefix + ".idx"))
    fail(Exit::no_input, path, ": is part of a token file, expected a model");
  if (holds_model(folder))
    fail(Exit::no_input, path, ": is one file of a model; give its folder, ", folder);
  fail(Exit::no_input, path, ": is a file, but no GGUF file; expected one, or a model's folder");
}

void fail_without_model(const std::string& path) {
  std::error_code none;
  if (!fs::exists(path, none))
    fail(Exit::no_input, path.empty() ? "\"\"" : path, ": no model there: it does not exist",
         what_is_there(path));
  if (!fs::is_directory(path, none)) fail_with_file(path);
  const std::vector<std::string> names = names_beside(path + "/");
  if (names.empty()) fail(Exit::no_input, path, ": no model there: the folder is empty");
  for (const std::string& name : names)
    if (const std::string inner = concat(path, "/", name); holds_model(inner))
      fail(Exit::no_input, path, ": no model there, but ", names_text(names), "; did you mean ",
           inner, "?");
  fail(Exit::no_input, path, ": no model there, but ", names_text(names),
       "; expected checkpoints of a run, a folder of Hugging Face's or Meta's, or a GGUF file");
}

// The model at a path, with the adapter of a folder.
static std::unique_ptr<ModelSource> open_adapted(const std::string& base,
                                                 const std::string& adapter,
                                                 ModelSourceOptions options) {
  const bool merged = std::exchange(options.merges_adapter, true);
  options.adapter.clear();
  return std::make_unique<AdaptedSource>(open_model(base, options), adapter, merged);
}

// The model that an adapter names, whose iteration is not that of the adapter.
static std::unique_ptr<ModelSource> open_adapter(const std::string& folder,
                                                 ModelSourceOptions options) {
  options.iteration.reset();
  return open_adapted(base_of_adapter(folder), folder, options);
}

static std::unique_ptr<ModelSource> open_any(const std::string& path,
                                             const ModelSourceOptions& options) {
  if (!fs::exists(path)) fail_without_model(path);
  if (!options.adapter.empty()) return open_adapted(path, adapter_folder(options.adapter), options);
  refuse_unread(path);
  if (options.mock)
    return std::make_unique<MockSource>(path, *options.mock, options.further.value_or(0));
  if (const auto file = find_gguf(path)) {
    if (options.iteration)
      fail(Exit::no_input, *file, ": is a GGUF file and has no iterations, but ",
           *options.iteration, " was asked for");
    return std::make_unique<GgufSource>(*file, options);
  }
  if (!fs::is_directory(path)) fail_without_model(path);
  if (is_peft_folder(path)) return open_adapter(path, options);
  if (const auto place = find_checkpoint(path, options.iteration)) {
    if (is_peft_folder(place->folder)) return open_adapter(place->folder, options);
    switch (detect_checkpoint_format(place->folder)) {
      case CheckpointFormat::torch:
        return std::make_unique<RankFilesSource>(place->folder, options);
      case CheckpointFormat::torch_dcp:
        return std::make_unique<DcpSource>(place->folder, options);
      case CheckpointFormat::torch_dist:
        return std::make_unique<CoreSource>(place->folder, options);
    }
  }
  if (is_core_dcp(path)) return std::make_unique<DcpSource>(path, options);
  const bool hugging_face = fs::exists(path + "/config.json");
  if (!hugging_face && !fs::exists(path + "/params.json")) fail_without_model(path);
  if (!hugging_face) return std::make_unique<MetaSource>(path, options);
  return std::make_unique<HuggingFaceSource>(path, options);
}

std::unique_ptr<ModelSource> open_model(const std::string& path,
                                        const ModelSourceOptions& options) {
  std::unique_ptr<ModelSource> model = open_any(path, options);
  if (!options.prefix.empty() && dynamic_cast<HuggingFaceSource*>(model.get()) == nullptr)
    fail(Exit::usage, "--prefix ", options.prefix, ": ", path,
         " holds one model; only a PyTorch state with transformers' names has several");
  return model;
}

}  // namespace mt
