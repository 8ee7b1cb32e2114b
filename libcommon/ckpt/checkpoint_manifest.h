// mt-manifest.json: what a checkpoint's folder must hold, byte for byte.  One line of JSON:
//   {"schema":"mt-checkpoint/1","iteration":1000,"algorithm":"xxh3-128",
//    "files":{"__0_0.distcp":{"bytes":1577,"hash":"<32 hexadecimal digits>"},...},
//    "extra":{...},"hash":"<of all bytes before this member's comma>"}
// "extra" belongs to the caller.  The last member makes the manifest check itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/hashed_file.h"

namespace mt {

inline constexpr const char* kManifestName = "mt-manifest.json";

struct CheckpointManifest {
  std::int64_t iteration = 0;
  std::vector<FileHash> files;
  std::string extra = "{}";  // JSON
};

std::string encode_checkpoint_manifest(const CheckpointManifest& manifest);

// Nothing if the folder has none; Exit::bad_data if it is damaged.
std::optional<CheckpointManifest> read_checkpoint_manifest(const std::string& folder);

// Compares a file of `folder` with its entry: its size, and its hash if asked.  A difference is
// Exit::bad_data, "FILE: hash 0123..., expected 4567... (mt-manifest.json): damaged".
void verify_file(const std::string& folder, const FileHash& expected, bool with_hash);
void check_hash(const std::string& folder, const FileHash& expected, const std::string& hash);

}  // namespace mt
