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
};

template <Hdf5Number T>
class StageBlocks {
 public:
  struct Layout {
    std::string folder, array;  // the folder in that of the stage; empty: that one
    std::int64_t items = 0, block_size = 0, columns = 0;
    std::string made_of;  // a hash of all that rows depend on
  };
  // Rows of some items, one behind the other.
  using Rows = std::function<std::vector<T>(ItemRange)>;

  StageBlocks(StageFiles& files, Layout layout);

  // Makes those of this share that are missing, some items at a time.
  void make(const StageShare& share, const RunContext& context, Progress& progress,
            StageCounts& counts, const Rows& rows);
  // Compares every n-th block, the first with them, that there is, to what is made now; how many
  // it compared.  Exit::bad_data where one differs.
  std::int64_t compare(std::int64_t every, const RunContext& context, Progress& progress,
                       const Rows& rows);
  // Calls use(rows, first) for the first `share` of each block, some rows at a time.
  void read(double share, const RunContext& context,
            const std::function<void(std::vector<T>, std::int64_t)>& use) const;
  void refuse_others() const;

 private:
  std::string file(const RetroBlock& block) const {
    return layout_.folder.empty() ? block.file : layout_.folder + "/" + block.file;
  }
  std::string made_of(const RetroBlock& block) const { return layout_.made_of + " " + block.file; }

  StageFiles& files_;
  Layout layout_;
  std::vector<RetroBlock> blocks_;
};

}  // namespace mt
