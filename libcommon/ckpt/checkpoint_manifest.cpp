#include "ckpt/checkpoint_manifest.h"

#include <simdjson.h>

#include <filesystem>

#include "base/allowance.h"
#include "base/error.h"
#include "base/json.h"

namespace mt {

constexpr const char* kSchema = "mt-checkpoint/1";
constexpr std::string_view kHashMember = ",\"hash\":\"";

static std::string hash_member(std::string_view before) {
  return concat(kHashMember, hash_hex(as_bytes(before)), "\"}\n");
}

std::string encode_checkpoint_manifest(const CheckpointManifest& manifest) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("iteration", manifest.iteration);
  json.member("algorithm", "xxh3-128").key("files").begin_object();
  for (const FileHash& file : manifest.files)
    json.key(file.name)
        .begin_object()
        .member("bytes", file.bytes)
        .member("hash", file.hash)
        .end_object();
  json.end_object().key("extra").raw(manifest.extra);
  return json.text() + hash_member(json.text());
}

static CheckpointManifest parse(const std::string& text) {
  Allowance(text.size()).take_json(text, "its list");
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(text);
  if (std::string_view(root["schema"]) != kSchema)
    fail(Exit::bad_data, "schema ", std::string_view(root["schema"]), ", expected ", kSchema);
  CheckpointManifest manifest;
  manifest.iteration = std::int64_t(root["iteration"]);
  for (const auto& [name, file] : simdjson::dom::object(root["files"]))
    manifest.files.push_back({std::string(name), std::uint64_t(file["bytes"]),
                              std::string(std::string_view(file["hash"]))});
  manifest.extra = simdjson::minify(root["extra"]);
  return manifest;
}

std::optional<CheckpointManifest> read_checkpoint_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestName;
  if (!std::filesystem::exists(path)) return {};
  const std::string text = read_regular_file(path);
  const std::size_t end = text.rfind(kHashMember);
  if (end == std::string::npos || text.substr(end) != hash_member(text.substr(0, end)))
    fail(Exit::bad_data, path, ": does not match its own hash: damaged");
  try {
    return parse(text);
  } catch (const simdjson::simdjson_error& error) {
    fail(Exit::bad_data, path, ": ", error.what());
  } catch (const Error& error) {
    fail(error.code(), path, ": ", error.what());
  }
}

void verify_file(const std::string& folder, const FileHash& expected, bool with_hash) {
  const std::string path = folder + "/" + expected.name;
  const std::uint64_t size = File::open_regular(path).size();
  if (size != expected.bytes)
    fail(Exit::bad_data, path, ": ", size, " bytes, expected ", expected.bytes, " (", kManifestName,
         "): damaged");
  if (with_hash) check_hash(folder, expected, hash_file(path));
}

void check_hash(const std::string& folder, const FileHash& expected, const std::string& hash) {
  if (hash != expected.hash)
    fail(Exit::bad_data, folder, "/", expected.name, ": hash ", hash, ", expected ", expected.hash,
         " (", kManifestName, "): damaged");
}

}  // namespace mt
