// `mt-retro-index train`, `add`, `build`, `merge` and `query`: indexes (vector_index.h) of vectors
// that come from files or a pipe (vector_reader.h), in files of faiss's (index_file.h).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "base/run_context.h"
#include "tensor/device_options.h"

namespace mt {

class CommandLine;

struct BuildIndexOptions {
  std::string index, string, output;  // of `add` an index; else an index string
  std::vector<std::string> inputs;
  std::optional<std::int64_t> columns = {};
  bool force = false;
  int threads = 0;
  DeviceOptions compute = {};          // completed
  void add_train_to(CommandLine& cl);  // also of build
  void add_add_to(CommandLine& cl);

 private:
  void add_rest_to(CommandLine& cl);
};

// An index that is trained on all vectors of the inputs, and has none of them, or all (`with`).
void train_index(const BuildIndexOptions& options, bool with, const RunContext& context);
// The index, and the vectors of the inputs behind those that it has.
void add_to_index(const BuildIndexOptions& options, const RunContext& context);

struct MergeIndexOptions {
  std::vector<std::string> indexes;
  std::string output;
  bool force = false;
  void add_to(CommandLine& cl);
};

// The vectors of indexes that were trained alike in one, those of each behind those before.
void merge_indexes(const MergeIndexOptions& options, const RunContext& context);

struct QueryIndexOptions {
  std::string index;
  std::vector<std::string> inputs;
  std::optional<std::int64_t> columns = {};
  std::int64_t count = 200, lists = 65536, ef_search = 256;
  std::optional<double> refine = {};
  int threads = 0;
  DeviceOptions compute = {};  // completed
  void add_to(CommandLine& cl);
};

// A line of JSON for each vector of the inputs, as it comes:
//   {"id":0,"neighbors":[17,3],"distances":[0.25,1.5]}
// with its place among them, and those of the index that are nearest, which may be fewer than were
// asked for.
void query_index(const QueryIndexOptions& options, const RunContext& context, std::ostream& out);

}  // namespace mt
