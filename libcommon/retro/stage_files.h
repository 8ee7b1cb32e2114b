// StageFiles: which files of a stage of Retro's preprocessing are made, so that the same command
// goes on where it was stopped.  FOLDER/manifest.jsonl has a line for each:
//   {"file":"individual/wiki/0000-1000.hdf5","made_of":"<XXH3-128>","hash":"<of the file>"}
// "made_of" hashes all that the file's content depends on.  A line is written before its file gets
// its name, and the last one of a file counts, for what it was made of.  One process makes a stage,
// or a share of it, at a time: share I of N has the list FOLDER/manifest-I-of-N.jsonl, and whoever
// comes later reads them all.  Not thread-safe.
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

// StageShare: of the blocks of a stage, those that a process makes: every count-th, from the
// index-th on.
struct StageShare {
  std::int64_t index = 0, count = 1;
  bool has(std::size_t block) const { return static_cast<std::int64_t>(block) % count == index; }
  bool is_whole() const { return count == 1; }
};

class StageFiles {
 public:
  // With `force` files of other content, or of others, are made anew; else they are errors.
  StageFiles(const std::string& folder, bool force, const StageShare& share = {});

  // Whether the file is there, made of this, and undamaged.  Exit::cannot_create for one that this
  // program did not make, Exit::bad_config for one that was made of something else.
  bool has(const std::string& file, const std::string& made_of, const Log& log);
  // Exit::cannot_create for files of a folder in this one that end with `.hdf5` and are not among
  // these; with force they are removed.
  void refuse_others(const std::string& folder, const std::vector<std::string>& files) const;
  const std::string& hash(const std::string& file) const;  // of one that has() found, or was made

  std::string path(const std::string& file) const { return folder_ + "/" + file; }
  void commit(Hdf5Writer& writer, const std::string& file, const std::string& made_of);
  // Another file, that is written and hashed by whoever asks.
  void commit(AtomicFile& written, const std::string& hash, const std::string& file,
              const std::string& made_of);
  void remove(const std::string& folder);  // in this one, with all that is in it

 private:
  void read(const std::string& list);
  void note(const std::string& file, const std::string& made_of, const std::string& hash);

  std::string folder_;
  bool force_;
  std::map<std::string, std::map<std::string, std::string>> entries_;  // file, made_of: hash
  std::map<std::string, std::string> hashes_;
  File list_;
  std::unique_ptr<SaveLock> lock_;
};

}  // namespace mt
