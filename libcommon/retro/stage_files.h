// StageFiles: which files of a stage of Retro's preprocessing are made, so that the same command
// goes on where it was stopped.  FOLDER/manifest.jsonl has a line for each:
//   {"file":"individual/wiki/0000-1000.hdf5","made_of":"<XXH3-128>","hash":"<of the file>"}
// "made_of" hashes all that the file's content depends on.  A line is written before its file gets
// its name, and the last one of a file counts.  One process makes a stage at a
// time.  Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "ckpt/save_lock.h"
#include "search/hdf5_file.h"

namespace mt {

class StageFiles {
 public:
  // With `force` files of other content, or of others, are made anew; else they are errors.
  StageFiles(const std::string& folder, bool force);

  // Whether the file is there, made of this, and undamaged.  Exit::cannot_create for one that this
  // program did not make, Exit::bad_config for one that was made of something else.
  bool has(const std::string& file, const std::string& made_of, const Log& log) const;
  // Exit::cannot_create for files of a folder in this one that end with `.hdf5` and are not among
  // these; with force they are removed.
  void refuse_others(const std::string& folder, const std::vector<std::string>& files) const;
  const std::string& hash(const std::string& file) const;  // of one that is there

  std::string path(const std::string& file) const { return folder_ + "/" + file; }
  void commit(Hdf5Writer& writer, const std::string& file, const std::string& made_of);

 private:
  struct Entry {
    std::string made_of, hash;
  };
  void read();

  std::string folder_;
  bool force_;
  std::map<std::string, Entry> entries_;
  File list_;
  std::unique_ptr<SaveLock> lock_;
};

}  // namespace mt
