// RoutingFiles: what a run's routers choose, kept in a file, and what a file has them choose
// instead.  Each line is
//   {"text":5,"layer":1,"experts":[[0,3],[2,4]]}
// Texts, the sequences of the samples that a run trains on, and layers are numbered from 0; of each
// token of the text, in whole sequences whatever ranks share, come its experts, ascending.  Of
// several lines of a text and layer the last counts: a run that goes on adds to its file.  A line
// without its end, which a killed run leaves, counts for nothing.
#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "nn/expert_choices.h"
#include "train/options/routing_options.h"

namespace mt {

class Group;
class Task;
struct ModelConfig;
struct RunOptions;

class RoutingFiles {
 public:
  // Reads what is to be replayed: Exit::bad_data, with the line, where it is nothing of the kind.
  // of_process: other ranks, which are other processes, have files of their own.
  RoutingFiles(const RoutingOptions& options, const ModelConfig& model, bool of_process);
  // Opens the file that is written, once its folder is there; by rank 0's process.
  void open();

  ExpertChoices& choices() { return choices_; }
  const ExpertChoices& choices() const { return choices_; }
  // Has rank 0 write what all ranks, each of which calls it, kept of texts before this one.
  void write_before(std::int64_t text, Group& ranks);

 private:
  void write(const ExpertChoices::All& all);

  std::int64_t chosen_;  // experts of a token
  std::string path_;     // of the file that is written, if any is
  bool of_process_;
  ExpertChoices choices_;
  std::optional<File> trace_;
};

// A rank's share of the bytes of host memory that a step's experts take until they are in the file,
// and those that a file has them choose; 0 of a GPU's rank, whose memory is the GPU's.  routing:
// null, or the run's.
std::size_t route_bytes(const RunOptions& options, const Task& task, const RoutingFiles* routing);

}  // namespace mt
