// DataSources: which token files a run reads, as Megatron-LM's options say it (core_v0.12.1,
// megatron/training/utils.py): one blend cut by --split, or a blend for each of training,
// validation and test, or made-up text; and exactly one of them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "data/samples/blend.h"
#include "data/samples/split.h"

namespace mt {

class CommandLine;

struct DataSourceOptions {
  std::vector<std::string> data_path = {};
  std::array<std::vector<std::string>, kSplits> split_paths = {};  // --train-data-path and so on
  std::string data_args_path = {}, per_split_data_args_path = {};
  bool mock_data = false;
  std::optional<std::string> split = {};
  std::string split_option = "--split";
  void add_to(CommandLine& cl);
};

struct DataSources {
  bool mock = false;
  std::optional<Blend> blend;                              // with `split`
  std::array<std::optional<Blend>, kSplits> split_blends;  // else
  std::string split, split_option = "--split";             // and who gave it, as messages name it
  bool split_is_default = false;

  std::vector<std::string> prefixes() const;  // each once, in the order given
};

inline constexpr const char* kSplitNames[] = {"training", "validation", "test"};

bool names_a_source(const DataSourceOptions& options);

// Throws Exit::usage unless there is exactly one source, and Exit::bad_data for a file of arguments
// that is not as expected.
DataSources read_sources(const DataSourceOptions& options);

}  // namespace mt
