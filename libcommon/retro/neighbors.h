// ProjectNeighbors: what a project's query stage has found for the chunks of a training's samples.
//   query/FOLDER/A-B.hdf5    neighbours of chunks A to B - 1, in the order of samples: `neighbors`,
//                            i64 [B - A, n]: chunks of db/merged/train.hdf5, the nearest first, and
//                            -1 behind the last
// FOLDER is what config.json's retro_neighbor_dirs has for training, validation or test.
// Thread-safe.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/samples/retro_samples.h"
#include "retro/chunk_reader.h"
#include "retro/project.h"

namespace mt {

class ProjectNeighbors final : public RetrievedChunks {
 public:
  // Exit::no_input or Exit::bad_data, naming the file, where something is missing or damaged.
  explicit ProjectNeighbors(const RetroProject& project);

  std::int64_t size() const override { return chunks_.size(); }
  void read(std::int64_t chunk, std::span<std::int32_t> tokens) const override;
  std::int64_t queried(Split which) const override;
  std::vector<std::int64_t> neighbors(Split which, std::int64_t first, std::int64_t count,
                                      std::int64_t each) const override;

 private:
  struct Block {
    ItemRange chunks;
    std::string path;
    std::unique_ptr<Hdf5Reader> file = nullptr;
    std::int64_t columns = 0;
  };
  static std::vector<Block> blocks_of(const std::string& folder);

  ChunkReader chunks_;
  std::array<std::vector<Block>, kSplits> blocks_;  // one behind the other
  mutable std::mutex mutex_;                        // of all that reads HDF5
};

}  // namespace mt
