#include "retro/neighbors.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "base/error.h"

namespace mt {

namespace fs = std::filesystem;

constexpr const char* kArray = "neighbors";
constexpr const char* kDirs = "retro_neighbor_dirs";

// The chunks that a file of this name is of: "00000-10000.hdf5".
static std::optional<ItemRange> range_of(const std::string& name) {
  ItemRange range;
  const char* const end = name.data() + name.size();
  const auto begins = std::from_chars(name.data(), end, range.begin);
  if (begins.ec != std::errc() || begins.ptr == end || *begins.ptr != '-') return {};
  const auto ends = std::from_chars(begins.ptr + 1, end, range.end);
  if (ends.ec != std::errc() || std::string_view(ends.ptr, end) != ".hdf5") return {};
  return range;
}

std::vector<ProjectNeighbors::Block> ProjectNeighbors::blocks_of(const std::string& folder) {
  if (!fs::is_directory(folder))
    fail(Exit::no_input, folder,
         ": no such folder, expected neighbours; see mt-retro-index query-neighbors");
  std::vector<Block> blocks;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (const auto range = range_of(entry.path().filename().string()))
      blocks.push_back({*range, entry.path().string()});
  std::ranges::sort(blocks, {}, [](const Block& block) { return block.chunks.begin; });
  std::int64_t next = 0;
  for (Block& block : blocks) {
    if (block.chunks.begin != next)
      fail(Exit::bad_data, folder, ": has no neighbours of chunk ", next,
           ", but of others behind it");
    block.file = std::make_unique<Hdf5Reader>(block.path);
    block.columns = block.file->columns(kArray);
    const std::int64_t rows = block.file->rows(kArray, Hdf5Type::i64, block.columns);
    if (rows != block.chunks.size() || block.columns == 0)
      fail(Exit::bad_data, block.path, ": ", kArray, ": has rows for ", rows,
           " chunks, expected some for ", block.chunks.size());
    next = block.chunks.end;
  }
  return blocks;
}

ProjectNeighbors::ProjectNeighbors(const RetroProject& project) : chunks_(project, "train") {
  const RetroProject::Settings settings = project.settings();
  const std::string path = project.path("config.json");
  const auto dirs = settings.find(kDirs);
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (dirs == settings.end() || parser.parse(dirs->second).get(object) != simdjson::SUCCESS)
    fail(Exit::bad_data, path, ": ", kDirs,
         ": names no folders of neighbours; see mt-retro-index query-neighbors");
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    simdjson::dom::element value;
    std::string_view folder;
    if (object[kRetroSplitKeys[i]].get(value) != simdjson::SUCCESS || value.is_null()) continue;
    if (value.get(folder) != simdjson::SUCCESS)
      fail(Exit::bad_data, path, ": ", kDirs, ": ", kRetroSplitKeys[i],
           ": expected a folder's name");
    blocks_[i] = blocks_of(project.path((fs::path("query") / folder).string()));
  }
  if (chunks_.size() == 0)
    fail(Exit::bad_data, project.db(), "/merged/train.hdf5: has no chunks to be retrieved");
}

void ProjectNeighbors::read(std::int64_t chunk, std::span<std::int32_t> tokens) const {
  const RetroChunk found = [&] {
    const std::lock_guard lock(mutex_);
    return chunks_.read({chunk, chunk + 1}).front();
  }();
  chunks_.tokens(found, tokens);
}

std::int64_t ProjectNeighbors::queried(Split which) const {
  const auto& blocks = blocks_[static_cast<std::size_t>(which)];
  return blocks.empty() ? 0 : blocks.back().chunks.end;
}

std::vector<std::int64_t> ProjectNeighbors::neighbors(Split which, std::int64_t first,
                                                      std::int64_t count, std::int64_t each) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> found;
  for (const Block& block : blocks_[static_cast<std::size_t>(which)]) {
    const std::int64_t begin = std::max(first, block.chunks.begin),
                       end = std::min(first + count, block.chunks.end);
    if (begin >= end) continue;
    if (each > block.columns)
      fail(Exit::bad_config, "--retro-num-neighbors ", each, ": ", block.path, " has ",
           block.columns, " of each chunk");
    const auto rows =
        block.file->read<std::int64_t>(kArray, begin - block.chunks.begin, end - begin);
    for (std::int64_t row = 0; row < end - begin; ++row) {
      const auto at = rows.begin() + row * block.columns;
      found.insert(found.end(), at, at + each);
    }
    for (const std::int64_t neighbor : found)
      if (neighbor < -1 || neighbor >= chunks_.size())
        fail(Exit::bad_data, block.path, ": ", kArray, ": chunk ", neighbor, " of a database of ",
             chunks_.size());
  }
  return found;
}

}  // namespace mt
