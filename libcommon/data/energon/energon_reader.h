// EnergonReader: the samples of some shards of an Energon folder, one after another, each as a line
// of training data, as mt-preprocess mm takes them and mt-finetune and mt-pretrain learn them, with
// where its images lie.  A sample, or the rest of a shard, that cannot be used says why.  Not
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/file_part.h"
#include "data/energon/energon_folder.h"
#include "data/energon/tar.h"
#include "text/chat/chat_value.h"

namespace mt {

struct EnergonSample {
  std::string shard;        // its file
  std::int64_t number = 0;  // in it, from 1
  std::string key = {};
  std::string line = {};   // JSON; its "images" are the names of members
  std::string wrong = {};  // why there is no line
  bool cut = false;        // the shard is damaged here, and what follows is lost
  std::vector<FilePart> images = {};
  std::uint64_t begin = 0;  // where its first member begins in the shard
};

class EnergonReader {
 public:
  // What is there beside the samples that count, and whose number is not checked then: those that
  // split.yaml excludes.
  enum class Excluded : std::uint8_t { left_out, read };
  // `folder` must outlive it.
  EnergonReader(const EnergonFolder& folder, std::vector<EnergonFolder::Shard> shards,
                Excluded excluded = Excluded::left_out)
      : folder_(folder), shards_(std::move(shards)), excluded_(excluded) {}

  // False at the end.  Throws Exit::no_input for a shard that is not there.
  bool next(EnergonSample& sample);
  // Behind the last sample of the shard that was read last: where its last member ends.
  std::uint64_t end() const { return end_; }

 private:
  struct Open {  // a shard
    explicit Open(const std::string& path) : file(path), tar(file) {}
    MappedFile file;
    TarReader tar;
    std::optional<TarMember> ahead;  // the first member of the next sample
    std::int64_t samples = 0;
  };
  bool next_member(TarMember& member);
  void make_line(EnergonSample& sample, const std::vector<TarMember>& members) const;
  ChatValue value_of(const TarMember& member) const;
  ChatValue field_of(const std::string& name, const std::vector<TarMember>& members) const;
  FilePart image_of(const TarMember& member) const;

  const EnergonFolder& folder_;
  std::vector<EnergonFolder::Shard> shards_;
  Excluded excluded_;
  std::size_t opened_ = 0;
  std::unique_ptr<Open> open_;
  std::uint64_t end_ = 0;
};

}  // namespace mt
