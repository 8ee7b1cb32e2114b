#include "model/checkpoint_tokenizer.h"

#include <simdjson.h>

#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "text/null_tokenizer.h"

namespace mt {

// A file option of a tokenizer, and what its copy is called.
struct TokenizerFile {
  const char* option;
  std::string TokenizerOptions::*path;
  const char* copy;
};
constexpr TokenizerFile kFiles[] = {
    {"vocab-file", &TokenizerOptions::vocab_file, "tokenizer/vocab"},  // .json, or .txt of lines
    {"merge-file", &TokenizerOptions::merge_file, "tokenizer/merges.txt"},
    {"tokenizer-model", &TokenizerOptions::model, "tokenizer/tokenizer.model"},
};

static std::string copy_of(const TokenizerFile& file, const TokenizerOptions& options) {
  if (file.path != &TokenizerOptions::vocab_file) return file.copy;
  return std::string(file.copy) + (options.type.starts_with("Bert") ? ".txt" : ".json");
}

std::vector<WrittenFile> write_tokenizer(const std::string& folder,
                                         const TokenizerOptions& options) {
  std::error_code error;
  std::filesystem::create_directory(folder + "/tokenizer", error);
  std::vector<WrittenFile> written;
  for (const TokenizerFile& file : kFiles) {
    if ((options.*file.path).empty()) continue;
    const std::string content = read_file(options.*file.path);
    const std::string name = copy_of(file, options);
    File copy = File::create(folder + "/" + name);
    copy.write(content);
    copy.sync();
    copy.close();
    written.push_back({{name, content.size(), hash_hex(as_bytes(content))}, {}});
  }
  sync_directory(folder + "/tokenizer");
  return written;
}

std::string tokenizer_manifest(const TokenizerOptions& options, const std::string& identity) {
  JsonWriter json;
  json.begin_object().key("tokenizer").begin_object();
  json.member("type", options.type).member("identity", identity);
  for (const TokenizerFile& file : kFiles)
    if (!(options.*file.path).empty()) json.member(file.option, copy_of(file, options));
  if (options.type == NullTokenizer::kType)
    json.member("vocab-size", std::to_string(options.vocab_size));
  if (options.extra_ids != 0) json.member("vocab-extra-ids", std::to_string(options.extra_ids));
  return json.end_object().end_object().text();
}

// tokenizer.NAME of the manifest, or nothing.
static std::string manifest_field(const MegatronCheckpoint& checkpoint, const char* name) {
  if (!checkpoint.has_manifest()) return {};
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view text;
  if (parser.parse(checkpoint.manifest_extra()).get(root) || root["tokenizer"][name].get(text))
    return {};
  return std::string(text);
}

static void take_number(const MegatronCheckpoint& checkpoint, const char* name,
                        std::int64_t& number) {
  const std::string text = manifest_field(checkpoint, name);
  std::from_chars(text.data(), text.data() + text.size(), number);
}

std::string tokenizer_identity(const MegatronCheckpoint& checkpoint) {
  return manifest_field(checkpoint, "identity");
}

std::unique_ptr<Tokenizer> load_tokenizer(const MegatronCheckpoint& checkpoint,
                                          TokenizerOptions options) {
  const std::string& folder = checkpoint.tensors().folder();
  check_no_files_without_type(options);
  if (options.type.empty()) {
    options.type = manifest_field(checkpoint, "type");
    if (options.type.empty())
      fail(Exit::usage, "--tokenizer-type: required, because ", folder, " names no tokenizer");
    for (const TokenizerFile& file : kFiles)
      if (const std::string name = manifest_field(checkpoint, file.option); !name.empty())
        options.*file.path = concat(folder, "/", name);
    take_number(checkpoint, "vocab-size", options.vocab_size);
    take_number(checkpoint, "vocab-extra-ids", options.extra_ids);
  }
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options);
  const std::string expected = tokenizer_identity(checkpoint);
  if (!expected.empty() && expected != tokenizer->identity())
    fail(Exit::bad_config, folder, ": was trained with a tokenizer of identity ", expected,
         ", but the one given has ", tokenizer->identity());
  return tokenizer;
}

}  // namespace mt
