#include "formats/peft/peft_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/fits_float.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "ckpt/safetensors.h"
#include "ckpt/tensor_numbers.h"
#include "formats/peft/linear_modules.h"
#include "model/config/model_config.h"
#include "nn/adapter.h"

namespace mt {

namespace fs = std::filesystem;

static constexpr const char* kPrefix = "base_model.model.";
static constexpr const char* kPickled = "adapter_model.bin";

bool is_peft_folder(const std::string& folder) {
  std::error_code none;
  return fs::exists(concat(folder, "/", kAdapterConfig), none);
}

// --- Names --------------------------------------------------------------------------------------

static constexpr const char* kScore = "base_model.model.score.weight";

PeftNames::PeftNames(const ModelConfig& config) {
  for (const LinearModule& module : linear_modules(config))
    for (const std::string_view param : {Adapter::kA, Adapter::kB, Adapter::kMagnitude}) {
      const bool is_magnitude = param == Adapter::kMagnitude;
      ForeignName name{
          .name = concat(kPrefix, module.path, ".", param, is_magnitude ? "_vector" : ".weight")};
      if (param != Adapter::kA) name.transform = module.of_outputs;
      names_[adapter_place(module.weight, module.part, param).name()] = std::move(name);
    }
  if (config.task_head == kScoreHead)
    names_[RowPlace{.stack = kScoreHead, .param = "weight"}.name()].name = kScore;
}

ForeignName PeftNames::of(const Param& row) const {
  const auto found = names_.find(row.name());
  if (found == names_.end()) fail(Exit::internal, row.name(), ": is no adapter's");
  return found->second;
}

// --- Reading ------------------------------------------------------------------------------------

// A list of names, or one, which may be a regular expression.
static std::vector<std::string> targets_of(const JsonObject& config) {
  std::string_view one;
  if (!config.member("target_modules").get(one)) return {std::string(one)};
  simdjson::dom::array several;
  if (config.member("target_modules").get(several))
    config.refuse("target_modules: expected a list of names");
  std::vector<std::string> names;
  for (const simdjson::dom::element element : several) {
    if (element.get(one)) config.refuse("target_modules: expected a list of names");
    names.emplace_back(one);
  }
  return names;
}

// Whether it says something: null, false, [], {} and "none" do not.
static bool is_set(const JsonObject& config, const char* name) {
  if (!config.has(name)) return false;
  const simdjson::dom::element value = config.member(name);
  bool flag = false;
  std::string_view text;
  simdjson::dom::array array;
  simdjson::dom::object object;
  if (!value.get(flag)) return flag;
  if (!value.get(text)) return text != "none";
  if (!value.get(array)) return array.size() > 0;
  if (!value.get(object)) return object.size() > 0;
  return true;
}

// The tables of words, as a Llama, a GPT-2, a Falcon, an OPT and a GPT-NeoX call them, and of
// logits, of which the latter has a name of its own.
static constexpr std::string_view kTables[] = {"model.embed_tokens",
                                               "transformer.wte",
                                               "transformer.word_embeddings",
                                               "model.decoder.embed_tokens",
                                               "gpt_neox.embed_in",
                                               "lm_head",
                                               "embed_out"};
static bool is_of_logits(std::string_view path) { return path == "lm_head" || path == "embed_out"; }

static bool is_table(std::string_view module) {
  const auto last = [](std::string_view path) { return path.substr(path.rfind('.') + 1); };
  return std::ranges::any_of(kTables, [&](auto table) { return last(table) == last(module); });
}

// Modules that PEFT learns whole: the head of a task, by either of its names, words and logits.
static bool has_known_modules(const JsonObject& config) {
  simdjson::dom::array names;
  if (!config.has("modules_to_save") || config.member("modules_to_save").get(names)) return false;
  return std::ranges::all_of(names, [](const simdjson::dom::element name) {
    std::string_view text;
    return !name.get(text) && (text == "classifier" || text == "score" || is_table(text));
  });
}

// Whether tables are among those, copies of which are learnt; else a table is that of the model,
// whose vocabulary was made another size.
static bool saves_tables(const JsonObject& config) {
  simdjson::dom::array names;
  if (!config.has("modules_to_save") || config.member("modules_to_save").get(names)) return false;
  return std::ranges::any_of(names, [](const simdjson::dom::element name) {
    std::string_view text;
    return !name.get(text) && is_table(text);
  });
}

static void refuse_others(const JsonObject& config) {
  if (config.text_or("peft_type", "LORA") != "LORA")
    config.refuse("peft_type: is ", config.text("peft_type"), ", expected LORA");
  for (const char* name :
       {"bias", "lora_bias", "modules_to_save", "rank_pattern", "alpha_pattern",
        "layers_to_transform", "exclude_modules", "megatron_config", "layer_replication",
        "trainable_token_indices", "target_parameters", "use_qalora", "alora_invocation_tokens"})
    if (is_set(config, name) &&
        !(name == std::string_view("modules_to_save") && has_known_modules(config)))
      config.refuse(name, ": is set, which is not supported");
  std::string_view text;
  if (config.has("init_lora_weights") && !config.member("init_lora_weights").get(text) &&
      text != "gaussian")
    config.refuse("init_lora_weights: ", text,
                  " changes the base model, too; convert the adapter to one of the base as it was");
}

PeftFolder::PeftFolder(const std::string& folder) : path_(folder) {
  const std::string path = concat(folder, "/", kAdapterConfig), text = read_regular_file(path);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, text).get(root)) fail_json(text, path, error);
  const JsonObject config(root, path);
  refuse_others(config);
  constexpr std::int64_t kMostRank = 1 << 16;
  settings_.lora_rank = config.number("r", kMostRank);
  settings_.lora_alpha = config.real("lora_alpha");
  settings_.lora_dropout = config.has("lora_dropout") ? config.real("lora_dropout") : 0;
  settings_.use_rslora = config.flag_or("use_rslora", false);
  settings_.use_dora = config.flag_or("use_dora", false);
  if (!fits_float(settings_.lora_alpha))
    config.refuse("lora_alpha: is ", settings_.lora_alpha, ", expected a number that float32 has");
  if (settings_.lora_rank < 1) config.refuse("r: is 0, expected a rank");
  if (!(settings_.lora_dropout >= 0 && settings_.lora_dropout < 1))
    config.refuse("lora_dropout: is ", settings_.lora_dropout, ", expected less than 1");
  targets_ = targets_of(config);
  is_pattern_ = targets_.size() == 1 && !config.member("target_modules").is_array() &&
                targets_[0].find_first_of("*+?()[]|\\^$") != std::string::npos;
  unties_words_ = saves_tables(config) && !config.flag_or("ensure_weight_tying", false);
  base_ = config.text_or("base_model_name_or_path", "");
  const std::string safe = concat(folder, "/", kAdapterModel);
  tensors_ = open_tensor_file(fs::exists(safe) ? safe : concat(folder, "/", kPickled));
}

ModelConfig PeftFolder::adapted(const ModelConfig& base) const {
  if (base.family == ModelFamily::llava)
    fail(Exit::bad_config, path_, ": is an adapter, and the base is a LLaVA, which takes none");
  if (has_words() && !base.untie_embeddings_and_output_weights && unties_words_)
    fail(Exit::bad_config, path_,
         ": has words of its own, and the base's are its logits, too, "
         "which PEFT leaves as they were without ensure_weight_tying");
  ModelConfig config = base;
  if (const std::int64_t words = vocab_size(base); words != base.vocab_size) {
    config.vocab_size = words;
    config.padded_vocab_size = 0;
    config.pad_vocabulary(1);
  }
  static_cast<AdapterConfig&>(config) = settings_;
  const std::string file = concat(path_, "/", kAdapterConfig);
  config.lora_targets =
      is_pattern_ ? lora_targets_by(base, targets_[0], file) : lora_targets(base, targets_, file);
  if (labels() > 0) {
    config.task_head = kScoreHead;
    config.num_labels = labels();
  }
  return config;
}

std::int64_t PeftFolder::labels() const {
  const DistTensor* const head = tensors_->find(kScore);
  return head != nullptr && head->shape.rank() == 2 ? head->shape[0] : 0;
}

// A Nemotron-H's classes of others call its layers as its files do, and not as transformers does.
static std::string name_in_files(const std::string& name) {
  const std::string in_class = concat(kPrefix, "model.layers.");
  if (!name.starts_with(in_class)) return name;
  return concat(kPrefix, "backbone.layers.", name.substr(in_class.size()));
}

static std::string name_there(const TensorSource& tensors, const ForeignName& name) {
  std::vector<std::string> names = {name_in_files(name.name), name.name};
  for (const std::string& path : paths_in_whole(name.name.substr(std::strlen(kPrefix))))
    names.push_back(kPrefix + path);
  for (const std::string& one : names)
    for (const char* const end : {"", ".weight"})  // the latter of an older magnitude
      if (tensors.find(one + end) != nullptr) return one + end;
  return name.name;
}

static const DistTensor& stored(const TensorSource& tensors, const ForeignName& name,
                                const Param& row) {
  const DistTensor& tensor = tensors.at(name_there(tensors, name));
  const Shape expected = transformed_shape(name.transform, row.shape);
  if (!(tensor.shape == expected))
    fail(Exit::bad_config, tensors.path(), ": tensor ", name.name, " is ", tensor.shape,
         ", expected ", expected, ": it is an adapter of another base model");
  return tensor;
}

const DistTensor* PeftFolder::find(Table table) const {
  for (const std::string_view path : kTables) {
    if ((table == Table::logits) != is_of_logits(path)) continue;
    const std::string wanted = concat(kPrefix, path, ".weight");
    if (const auto* found = tensors_->find(name_there(*tensors_, {.name = wanted}))) return found;
  }
  return nullptr;
}

const DistTensor* PeftFolder::words(const Param& row) const {
  if (row.place.param != "weight" || !row.is_vocabulary()) return nullptr;
  return find(row.place.stack == "output_layer" ? Table::logits : Table::words);
}

std::int64_t PeftFolder::vocab_size(const ModelConfig& base) const {
  const DistTensor *const words = find(Table::words), *const logits = find(Table::logits);
  for (const DistTensor* const table : {words, logits}) {
    if (table == nullptr || table->shape.rank() != 2 || table->shape[0] == base.vocab_size)
      continue;
    const bool has_both =
        words != nullptr && (logits != nullptr || !base.untie_embeddings_and_output_weights);
    if (!has_both)
      fail(Exit::bad_config, tensors_->path(), ": tensor ", table->key, " has ", table->shape[0],
           " words, and the base ", base.vocab_size, ", whose ",
           words == nullptr ? "words" : "logits", " are not in the adapter");
    return table->shape[0];
  }
  return base.vocab_size;
}

bool PeftFolder::has_words() const {
  return std::ranges::any_of(tensors_->tensors(), [](const auto& tensor) {
    constexpr std::string_view kWeight = ".weight";
    const std::string_view name = tensor.first;
    return name.ends_with(kWeight) && is_table(name.substr(0, name.size() - kWeight.size()));
  });
}

void PeftFolder::read_words(const Param& row, std::int64_t vocab_size, Tensor out) const {
  const DistTensor& tensor = *words(row);
  if (!(tensor.shape == Shape{vocab_size, row.shape[1]}))
    fail(Exit::bad_config, tensors_->path(), ": tensor ", tensor.key, " is ", tensor.shape,
         ", expected ", Shape{vocab_size, row.shape[1]}, ", as the model has");
  tensors_->read_original(tensor.key, origin_of(2), out.rows(0, vocab_size));
  const Tensor padding = out.rows(vocab_size, out.shape()[0]);
  std::memset(padding.data(), 0, padding.bytes());
}

bool PeftFolder::has(const PeftNames& names, const Param& row) const {
  return names.has(row) && tensors_->find(name_there(*tensors_, names.of(row))) != nullptr;
}

DType PeftFolder::dtype_of(const PeftNames& names, const Param& row) const {
  return *stored(*tensors_, names.of(row), row).dtype;
}

void PeftFolder::read(const PeftNames& names, const Param& row, Tensor out) const {
  const ForeignName name = names.of(row);
  const DistTensor& tensor = stored(*tensors_, name, row);
  const Shape origin = origin_of(tensor.shape.rank());
  if (name.transform.empty()) {
    tensors_->read_original(tensor.key, origin, out);
  } else {
    const Buffer buffer(Device::cpu, out.bytes());
    const Tensor theirs = buffer.tensor(out.dtype(), tensor.shape);
    tensors_->read_original(tensor.key, origin, theirs);
    apply_inverse(name.transform, out, theirs);
  }
  if (is_finite(out)) return;
  const TensorNumbers numbers = numbers_of(out);
  fail(Exit::bad_data, tensors_->path(), ": tensor ", tensor.key, ": of ", numbers.count,
       " numbers ", numbers.nans, " are NaN and ", numbers.infinities,
       " infinite; take an earlier adapter, or this one anew from where it is from; mt-convert "
       "verify ",
       path_, " names all such tensors");
}

void PeftFolder::check_all_used(const PeftNames& names, const ParamTable& table) const {
  std::set<std::string> used;
  const auto is_further = [](const Param& row) {
    return is_adapter(row.place) && row.place.stack == kFurtherStack;
  };
  // Layers that predict further tokens have adapters, all of them, or none.
  const bool has_further = std::ranges::any_of(
      table.rows(), [&](const Param& row) { return is_further(row) && has(names, row); });
  for (const Table one : {Table::words, Table::logits}) {
    const DistTensor* const whole = find(one);
    if (whole == nullptr) continue;
    // Logits that are the words, too, are stored once more.
    if (one == Table::logits && !unties_words_) used.insert(whole->key);
    // So is a table of another size that modules_to_save lists, twice.
    const std::string module = whole->key.substr(0, whole->key.rfind('.'));
    used.insert(module + ".modules_to_save.weight");
    used.insert(module + ".original_module.weight");
  }
  for (const Param& row : table.rows()) {
    if (const DistTensor* const whole = words(row)) used.insert(whole->key);
    if (!is_adapter(row.place) && (labels() == 0 || !names.has(row))) continue;
    if (is_further(row) && !has_further) continue;
    used.insert(stored(*tensors_, names.of(row), row).key);
  }
  for (const auto& [key, tensor] : tensors_->tensors())
    if (!used.contains(key))
      fail(Exit::bad_data, tensors_->path(), ": tensor ", key,
           " has no place in the adapters that ", kAdapterConfig, " describes");
}

// --- Writing ------------------------------------------------------------------------------------

// As PEFT writes it: keys sorted, two spaces deep.
static std::string config_text(const ModelConfig& config) {
  const auto quoted = [](const std::string& text) { return json_quoted(text); };
  const auto number = [](double value) { return JsonWriter().value(value).text(); };
  const bool is_gpt2 =
      (config.family == ModelFamily::gpt || config.family == ModelFamily::mixtral) &&
      config.position_embedding_type == "learned_absolute" && config.hf_model_type.empty();
  std::string targets;
  for (const std::string& name : peft_targets(config))
    targets += concat(targets.empty() ? "" : ",", "\n    ", quoted(name));
  const std::map<std::string, std::string> members = {
      {"alpha_pattern", "{}"},
      {"base_model_name_or_path", quoted(config.lora_base)},
      {"bias", quoted("none")},
      {"fan_in_fan_out", is_gpt2 ? "true" : "false"},
      {"inference_mode", "true"},
      {"init_lora_weights", "true"},
      {"layers_pattern", "null"},
      {"layers_to_transform", "null"},
      {"lora_alpha", number(config.lora_alpha)},
      {"lora_dropout", number(config.lora_dropout)},
      {"modules_to_save",
       config.has_task_head() ? "[\n    \"classifier\",\n    \"score\"\n  ]" : "null"},
      {"peft_type", quoted("LORA")},
      {"r", std::to_string(config.lora_rank)},
      {"rank_pattern", "{}"},
      {"revision", "null"},
      {"target_modules", concat("[", targets, "\n  ]")},
      {"task_type", quoted(config.has_task_head()             ? "SEQ_CLS"
                           : config.family == ModelFamily::t5 ? "SEQ_2_SEQ_LM"
                                                              : "CAUSAL_LM")},
      {"use_dora", config.use_dora ? "true" : "false"},
      {"use_rslora", config.use_rslora ? "true" : "false"}};
  std::string text;
  for (const auto& [name, value] : members)
    text += concat(text.empty() ? "{\n  " : ",\n  ", quoted(name), ": ", value);
  return text + "\n}";
}

void write_peft_folder(const std::string& folder, const ModelConfig& config,
                       const std::vector<PeftTensor>& tensors) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const PeftTensor& one : tensors)
    entries.push_back({one.name, one.tensor.dtype(), one.tensor.shape()});
  SafetensorsWriter writer(folder, entries, kAdapterModel);
  for (const PeftTensor& one : tensors) writer.write(one.name, one.tensor);
  writer.close();
  write_file_atomically(concat(folder, "/", kAdapterConfig), config_text(config), false);
}

}  // namespace mt
