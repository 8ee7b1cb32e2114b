// StageBlocks: an array whose rows are items of a stage, in files of so many items each
// (block_list.h): FOLDER/A-B.hdf5 has rows A to B - 1.  What is made and undamaged stays
// (stage_files.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/run_context.h"
#include "retro/block_list.h"
#include "retro/stage_files.h"
#include "search/hdf5_file.h"

namespace mt {

struct StageCounts {
  std::int64_t made = 0, found = 0, left = 0;  // files; left: to other shares

  StageCounts& operator+=(const StageCounts& more) {
    made += more.made;
    found += more.found;
    left += more.left;
    return *this;
  }
};

struct StageLayout {
  std::string folder, array;  // the folder in that of the stage; empty: that one
  std::int64_t items = 0, block_size = 0, columns = 0;
  std::string made_of;  // a hash of all that rows depend on

  std::string file(const RetroBlock& block) const {
    return folder.empty() ? block.file : folder + "/" + block.file;
  }
};

// Rows of some items, one behind the other.
template <class T>
using StageRows = std::function<std::vector<T>(ItemRange)>;

template <Hdf5Number T>
class StageBlocks {
 public:
  StageBlocks(StageFiles& files, StageLayout layout);

  // Makes those of this share that are missing, some items at a time.
  void make(const StageShare& share, const RunContext& context, Progress& progress,
            StageCounts& counts, const StageRows<T>& rows);
  // How many rows the first `share` of each block has, of all blocks.
  std::int64_t rows(double share) const;
  // Calls use(rows, first) for these rows, some at a time.
  void read(double share, const RunContext& context,
            const std::function<void(std::vector<T>, std::int64_t)>& use) const;
  void refuse_others() const;

 private:
  static std::int64_t rows_of(double share, const RetroBlock& block);
  std::string made_of(const RetroBlock& block) const { return layout_.made_of + " " + block.file; }

  StageFiles& files_;
  StageLayout layout_;
  std::vector<RetroBlock> blocks_;
};

// Compares every n-th block, the first with them, that there is in a stage's folder, to what is
// made now, and writes nothing; returns how many it compared.  Exit::difference where one is
// another.
template <Hdf5Number T>
std::int64_t compare_blocks(const std::string& folder, const StageLayout& layout,
                            std::int64_t every, const RunContext& context, Progress& progress,
                            const StageRows<T>& rows);

}  // namespace mt
