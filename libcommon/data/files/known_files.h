// KnownFiles: what took reading all of a large file, its hash and that its content is right,
// kept for as long as the file stays as it is, so that opening it again takes no time.
//
//   FOLDER/<XXH3-128 of the file's absolute path>.known, five lines of text:
//     "MTKNOWN1"; the path; size and inode; when the content and when the inode changed, in
//     nanoseconds since the epoch; the hash, 32 hexadecimal digits
//
// Whatever writes to a file or takes its place changes a number of these.  What is damaged or of
// another state is not known.  Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace mt {

class KnownFiles {
 public:
  KnownFiles() = default;  // nothing is known or kept
  explicit KnownFiles(std::string folder) : folder_(std::move(folder)) {}

  bool kept() const { return !folder_.empty(); }

  // The hash of a file, if it is known; else what `read` returns, kept unless the file changes
  // meanwhile or changed just before.
  std::string hash(const std::string& path, const std::function<std::string()>& read) const;

  // For a file that this process has just written and put in its place.
  void keep(const std::string& path, const std::string& hash) const;

 private:
  std::string name_of(const std::string& path) const;
  std::optional<std::string> find(const std::string& path) const;

  std::string folder_;
};

}  // namespace mt
