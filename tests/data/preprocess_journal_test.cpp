// Two runs that want the same journal: whatever one does until the other has the lock.
#include "data/corpus/preprocess_journal.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "base/error.h"
#include "tests/base/scratch.h"

namespace mt {

static std::function<void()> before_next_lock;

// In place of the C library's.
extern "C" int flock(int descriptor, int operation) noexcept {
  if (before_next_lock) std::exchange(before_next_lock, {})();
  return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
}

TEST(PreprocessJournal, KnowsWhatWasSavedUntilItHasTheLock) {
  const Scratch folder;
  const std::string prefix = folder.path("o");
  before_next_lock = [&] {
    PreprocessJournal other(prefix, "run", 1);
    other.save({.lines = 7, .bad = {}, .datasets = {{5, 6, 90}}});
  };
  const PreprocessJournal journal(prefix, "run", 1);
  EXPECT_EQ(journal.state().lines, 7);
  EXPECT_EQ(journal.state().datasets, (std::vector<IndexedDatasetWriter::State>{{5, 6, 90}}));
}

TEST(PreprocessJournal, IsNotWrittenWithoutAName) {
  const Scratch folder;
  const std::string prefix = folder.path("o");
  before_next_lock = [&] { PreprocessJournal(prefix, "run", 1).remove(); };
  EXPECT_EQ(error_of([&] { PreprocessJournal(prefix, "run", 1); }),
            "73 " + journal_path(prefix) + ": another process has just ended the run it was of");
}

TEST(PreprocessJournal, IsOneProcess) {
  const Scratch folder;
  const std::string prefix = folder.path("o");
  const PreprocessJournal journal(prefix, "run", 1);
  EXPECT_EQ(error_of([&] { PreprocessJournal(prefix, "run", 1); }),
            "73 " + journal_path(prefix) + ": another process is writing it");
}

}  // namespace mt
