#include "model/checkpoint_tokenizer.h"

#include <simdjson.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "ckpt/dist_checkpoint.h"
#include "text/hf/hf_tokenizer.h"

namespace mt {

static std::vector<HfConfigFile> hf_copies(const TokenizerOptions& options) {
  return HfTokenizer::copies(options.model, static_cast<int>(options.transformers_version));
}

// What the copy of a file is called.
static std::string copy_name(const TokenizerField& field, const TokenizerOptions& options) {
  if (field.name == "vocab-file")
    return options.type.starts_with("Bert") ? "tokenizer/vocab.txt" : "tokenizer/vocab.json";
  if (field.name == "merge-file") return "tokenizer/merges.txt";
  if (options.type == HfTokenizer::kType) return concat("tokenizer/", hf_copies(options)[0].path);
  return "tokenizer/tokenizer.model";
}

std::vector<TokenizerCopy> tokenizer_copies(const TokenizerOptions& options) {
  std::vector<TokenizerCopy> list;
  for (const TokenizerField& field : tokenizer_fields(options.type)) {
    if (!field.is_file) continue;
    if (options.type != HfTokenizer::kType) {
      list.push_back({copy_name(field, options), read_file(field.get(options))});
      continue;
    }
    for (auto& [path, content] : hf_copies(options))
      list.push_back({concat("tokenizer/", path), std::move(content)});
  }
  return list;
}

std::vector<WrittenFile> write_tokenizer(const std::string& folder,
                                         const std::vector<TokenizerCopy>& copies) {
  std::error_code error;
  std::filesystem::create_directory(folder + "/tokenizer", error);
  std::vector<WrittenFile> written;
  for (const auto& [name, content] : copies) {
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
  for (const TokenizerField& field : tokenizer_fields(options.type))
    if (!field.is_default(options))
      json.member(field.name, field.is_file ? copy_name(field, options) : field.get(options));
  return json.end_object().end_object().text();
}

// tokenizer.NAME of the manifest, or nothing.
static std::string manifest_field(const std::string& extra, std::string_view name) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view text;
  if (parser.parse(extra).get(root) || root["tokenizer"][name].get(text)) return {};
  return std::string(text);
}

std::string tokenizer_identity(const std::string& manifest_extra) {
  return manifest_field(manifest_extra, "identity");
}

TokenizerOptions tokenizer_of_manifest(const std::string& manifest_extra) {
  TokenizerOptions options{.type = manifest_field(manifest_extra, "type")};
  for (const TokenizerField& field : tokenizer_fields(options.type))
    if (const std::string value = manifest_field(manifest_extra, field.name); !value.empty())
      field.set(options, value);
  return options;
}

}  // namespace mt
