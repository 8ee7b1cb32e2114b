// PREFIX.journal: how far a run of preprocess() with --resume is, so that the same command goes on
// after it was ended, whatever ended it.  Lines of JSON:
//   {"schema":"mt-journal/1","run":"<XXH3-128 of all that the results depend on>"}
//   {"lines":N,"bad_lines":N,"quarantine_bytes":N,"datasets":[[sequences,documents,tokens],...]}
//   {"commit":true}
// The last state counts; a last line that was cut counts for nothing.  Each is written when what it
// says is on the disk.  After "commit" files may have got their names.  Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/corpus/bad_lines.h"
#include "data/files/indexed_dataset_writer.h"

namespace mt {

std::string journal_path(const std::string& prefix);

class PreprocessJournal {
 public:
  struct State {
    std::int64_t lines = 0;  // of the input, done
    BadLines::State bad;
    std::vector<IndexedDatasetWriter::State> datasets;
  };

  // Opens the journal of PREFIX, or begins it.  `run` says what the results depend on.  Throws
  // Exit::bad_config where it is another run's, Exit::cannot_create while another process has it,
  // Exit::bad_data where it is damaged.
  PreprocessJournal(const std::string& prefix, const std::string& run, std::size_t datasets);

  const State& state() const { return state_; }  // the last that was saved
  bool commit_begun() const { return commit_begun_; }

  void save(const State& state);
  void begin_commit();
  void remove();  // all files have their names

 private:
  void read(const std::string& content, const std::string& run);
  void append(const std::string& line);

  std::string path_;
  File file_;
  State state_;
  bool commit_begun_ = false;
};

}  // namespace mt
