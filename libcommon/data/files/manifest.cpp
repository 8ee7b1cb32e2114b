#include "data/files/manifest.h"

#include <simdjson.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_parse.h"
#include "data/files/indexed_dataset.h"
#include "text/null_tokenizer.h"
#include "text/tokenizer.h"

namespace mt {
namespace {

namespace dom = simdjson::dom;
constexpr const char* kSchema = "mt-data/1";

// Reads members of one object; errors name the file and the member.
struct Reader {
  const std::string& path;
  dom::object object;

  template <class T>
  T get(const char* key) const {
    T value;
    if (object[key].get(value) != simdjson::SUCCESS)
      fail(Exit::bad_data, path, ": \"", key, "\" is missing or of the wrong type");
    return value;
  }
  std::string text(const char* key) const { return std::string(get<std::string_view>(key)); }
  std::int64_t count(const char* key, std::int64_t least = 0) const {
    const auto value = get<std::int64_t>(key);
    if (value < least)
      fail(Exit::bad_data, path, ": \"", key, "\" is ", value, ", expected ", least, " or more");
    return value;
  }
};

std::string text_of(const std::string& path, const char* key, dom::element element) {
  std::string_view text;
  if (element.get(text) != simdjson::SUCCESS)
    fail(Exit::bad_data, path, ": \"", key, "\" holds something else than strings");
  return std::string(text);
}

Manifest::Tokenizer read_tokenizer(const Reader& in) {
  Manifest::Tokenizer tokenizer;
  tokenizer.type = in.text("type");
  tokenizer.identity = in.text("identity");
  tokenizer.vocab_size = in.count("vocab_size");
  tokenizer.eod = in.count("eod", -1);
  for (const auto& [option, value] : in.get<dom::object>("files"))
    tokenizer.files.emplace_back(option, text_of(in.path, "files", value));
  if (!in.object["settings"].error())  // which the first manifests lack
    for (const auto& [option, value] : in.get<dom::object>("settings"))
      tokenizer.settings.emplace_back(option, text_of(in.path, "settings", value));
  return tokenizer;
}

Manifest parse(const std::string& path, dom::object root) {
  const Reader in{path, root};
  if (const std::string schema = in.text("schema"); schema != kSchema)
    fail(Exit::bad_data, path, ": schema \"", schema, "\", expected \"", kSchema, "\"");
  Manifest manifest;
  manifest.version = in.text("version");
  for (const dom::element argument : in.get<dom::array>("arguments"))
    manifest.arguments.push_back(text_of(path, "arguments", argument));
  for (const dom::element input : in.get<dom::array>("inputs")) {
    dom::object object;
    if (input.get(object) != simdjson::SUCCESS)
      fail(Exit::bad_data, path, ": \"inputs\" holds something else than objects");
    const Reader reader{path, object};
    manifest.inputs.push_back({reader.text("path"), reader.count("bytes"), reader.text("hash")});
  }
  if (!in.get<dom::element>("tokenizer").is_null())
    manifest.tokenizer = read_tokenizer({path, in.get<dom::object>("tokenizer")});
  manifest.dtype = in.text("dtype");
  manifest.sequences = in.count("sequences");
  manifest.documents = in.count("documents");
  manifest.tokens = in.count("tokens");
  manifest.bin_hash = in.text("bin_hash");
  manifest.idx_hash = in.text("idx_hash");
  return manifest;
}

void write_tokenizer(JsonWriter& json, const Manifest::Tokenizer& tokenizer) {
  json.begin_object().member("type", tokenizer.type).member("identity", tokenizer.identity);
  json.member("vocab_size", tokenizer.vocab_size).member("eod", tokenizer.eod);
  json.key("files").begin_object();
  for (const auto& [option, value] : tokenizer.files) json.member(option, value);
  json.end_object().key("settings").begin_object();
  for (const auto& [option, value] : tokenizer.settings) json.member(option, value);
  json.end_object().end_object();
}

}  // namespace

std::string manifest_path(const std::string& prefix) { return prefix + ".manifest.json"; }

Manifest read_manifest(const std::string& prefix) {
  const std::string path = manifest_path(prefix);
  dom::parser parser;
  dom::object root;
  const std::string content = read_file(path);
  if (const auto error = parser.parse(content).get(root)) fail_json(content, path, error);
  return parse(path, root);
}

void refuse_part_of_token_file(const std::string& path) {
  if (!path.ends_with(".bin") && !path.ends_with(".idx")) return;
  const std::string prefix = path.substr(0, path.size() - 4);
  if (std::filesystem::exists(idx_path(prefix)) && !std::filesystem::exists(idx_path(path)))
    fail(Exit::usage, path, ": is part of a token file; give its prefix, ", prefix);
}

std::optional<Manifest> find_manifest(const std::string& prefix) {
  refuse_part_of_token_file(prefix);
  if (!std::filesystem::exists(manifest_path(prefix))) return std::nullopt;
  return read_manifest(prefix);
}

std::string manifest_text(const Manifest& manifest) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("version", manifest.version);
  json.key("arguments").begin_array();
  for (const std::string& argument : manifest.arguments) json.value(argument);
  json.end_array().key("inputs").begin_array();
  for (const InputFile& input : manifest.inputs)
    json.begin_object()
        .member("path", input.path)
        .member("bytes", input.bytes)
        .member("hash", input.hash)
        .end_object();
  json.end_array().key("tokenizer");
  if (manifest.tokenizer)
    write_tokenizer(json, *manifest.tokenizer);
  else
    json.null();
  json.member("dtype", manifest.dtype).member("sequences", manifest.sequences);
  json.member("documents", manifest.documents).member("tokens", manifest.tokens);
  json.member("bin_hash", manifest.bin_hash).member("idx_hash", manifest.idx_hash).end_object();
  return json.text() + "\n";
}

Manifest::Tokenizer describe_tokenizer(const TokenizerOptions& options,
                                       const Tokenizer& tokenizer) {
  Manifest::Tokenizer result{.type = std::string(tokenizer.type()),
                             .identity = tokenizer.identity(),
                             .vocab_size = tokenizer.vocab_size(),
                             .eod = tokenizer.eod(),
                             .files = {},
                             .settings = {}};
  for (const TokenizerField& field : tokenizer_fields(tokenizer.type())) {
    const std::string value = field.get(options);
    if (field.is_default(options)) continue;
    if (field.is_file)
      result.files.emplace_back(field.name,
                                std::filesystem::absolute(value).lexically_normal().string());
    else
      result.settings.emplace_back(field.name, value);
  }
  return result;
}

TokenizerOptions tokenizer_options(const Manifest::Tokenizer& tokenizer) {
  TokenizerOptions options;
  options.type = tokenizer.type;
  if (options.type == NullTokenizer::kType) options.vocab_size = tokenizer.vocab_size - 1;
  for (const TokenizerField& field : tokenizer_fields(tokenizer.type))
    for (const auto* list : {&tokenizer.files, &tokenizer.settings})
      for (const auto& [name, value] : *list)
        if (name == field.name) field.set(options, value);
  return options;
}

}  // namespace mt
