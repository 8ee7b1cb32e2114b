// ProjectSamples: the samples of a project's training, validation and test, as the training draws
// them, cut in chunks: of which neighbours are looked for.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "data/samples/train_data.h"
#include "retro/chunk_text.h"
#include "retro/project.h"

namespace mt {

class ProjectSamples {
 public:
  // As config.json says: Exit::bad_config, naming what it must say and does not.  What `poll`
  // throws while indexes are made ends it.
  ProjectSamples(const RetroProject& project, int threads, const Log& log,
                 const std::function<void()>& poll);

  std::int64_t chunks_of_sample() const { return seq_length_ / chunk_length_; }
  std::int64_t chunks(Split which) const;  // of all samples; 0: the split has none
  // A hash of all that the samples depend on.
  const std::string& identity() const { return identity_; }

  using Document = std::pair<std::uint32_t, std::uint32_t>;  // its dataset's number, and its own
  struct Sample {
    std::vector<std::string> texts;   // of its chunks, without ends of document
    std::vector<Document> documents;  // that it is made of
  };
  Sample read(Split which, std::int64_t k) const;

 private:
  std::int64_t seq_length_, chunk_length_;
  TrainingLength length_;
  TrainData data_;
  std::string identity_;
  std::optional<ChunkText> text_;
};

}  // namespace mt
