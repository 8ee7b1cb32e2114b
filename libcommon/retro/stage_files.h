// StageFiles: which files of a stage of Retro's preprocessing are made, so that the same command
// goes on where it was stopped.  FOLDER/manifest.jsonl has a line for each:
//   {"file":"individual/wiki/0000-1000.hdf5","made_of":"<XXH3-128>","hash":"<of the file>"}
// "made_of" hashes all that the file's content depends on.  A line is written before its file gets
// its name; of several lines of a file those with its hash count.  One process makes a stage, or
// several make a share of it each: share I of N has the list FOLDER/manifest-I-of-N.jsonl, and
// whoever comes later reads them all.  Not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
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

// What the lists of a folder say.
class StageLists {
 public:
  StageLists() = default;
  explicit StageLists(const std::string& folder);  // which need not be there

  bool has(const std::string& file) const { return entries_.contains(file); }
  // All that a file of this hash was made of, as they say; and whether any line of the file says
  // that it was made of this.
  std::set<std::string> made_of(const std::string& file, const std::string& hash) const;
  bool was_made_of(const std::string& file, const std::string& made_of) const;
  void add(const std::string& file, const std::string& made_of, const std::string& hash) {
    entries_[file].emplace(hash, made_of);
  }

 private:
  void read(const std::string& list);

  std::map<std::string, std::set<std::pair<std::string, std::string>>> entries_;  // hash, made_of
};

class StageFiles {
 public:
  // Exit::cannot_create while another process makes the same share, or a share where this makes
  // all. With `force` files of other content, or of others, are made anew; else they are errors.
  StageFiles(const std::string& folder, bool force, const StageShare& share = {});

  // Whether the file is there, made of this, and undamaged.  Exit::cannot_create for one that this
  // program did not make, Exit::bad_config for one that was made of something else.
  bool has(const std::string& file, const std::string& made_of, const Log& log);
  // Exit::cannot_create for files of a folder in this one that end with `.hdf5` and are not among
  // these; with force they are removed.
  void refuse_others(const std::string& folder, const std::vector<std::string>& files) const;
  const std::string& hash(const std::string& file) const;  // of one that has() found, or was made

  const StageLists& lists() const { return lists_; }
  std::string path(const std::string& file) const { return folder_ + "/" + file; }
  void commit(Hdf5Writer& writer, const std::string& file, const std::string& made_of);
  // Another file, that is written and hashed by whoever asks.
  void commit(AtomicFile& written, const std::string& hash, const std::string& file,
              const std::string& made_of);
  void remove(const std::string& folder);  // in this one, with all that is in it

 private:
  void note(const std::string& file, const std::string& made_of, const std::string& hash);

  std::string folder_;
  bool force_;
  File list_;
  SaveLock lock_;
  StageLists lists_;
  std::map<std::string, std::string> hashes_;
};

}  // namespace mt
