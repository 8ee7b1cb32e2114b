#include "ckpt/hashed_reads.h"

#include <algorithm>

#include "base/threads.h"
#include "ckpt/checkpoint_manifest.h"

namespace mt {

HashedReads::Read::Read(const std::string& folder, const FileHash& file)
    : expected(file), mapped(folder + "/" + file.name) {}

HashedReads::HashedReads(const std::string& folder, const std::vector<FileHash>& files)
    : folder_(folder) {
  for (const FileHash& file : files) reads_.emplace_back(folder, file);
}

void HashedReads::Read::reach(std::uint64_t end) {
  const std::scoped_lock lock(hashing);
  if (end <= hashed) return;
  hash_once(mapped, mapped.bytes().subspan(hashed, end - hashed), hasher);
  hashed = end;
}

void HashedReads::reach(const std::string& name, std::uint64_t end) {
  const auto read = std::find_if(reads_.begin(), reads_.end(),
                                 [&](const Read& one) { return one.expected.name == name; });
  if (read != reads_.end()) read->reach(end);
}

void HashedReads::finish() {
  parallel_for_ordered_errors(std::ssize(reads_), [&](std::int64_t i) {
    Read& read = reads_[static_cast<std::size_t>(i)];
    read.reach(read.mapped.bytes().size());
    check_hash(folder_, read.expected, read.hasher.hex());
  });
}

}  // namespace mt
