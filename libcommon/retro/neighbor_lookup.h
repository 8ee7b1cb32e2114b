// NeighborLookup: the neighbours of a text that a Retro continues, looked up in a project's index
// as query-neighbors looks up those of its training (project_stages.h).
#pragma once

#include <memory>

#include "formats/load_model.h"
#include "infer/neighbor_source.h"
#include "retro/project_stages.h"

namespace mt {

class CommandLine;

struct NeighborLookupOptions {
  ProjectIndexOptions index;
  std::int64_t lists = 65536, ef_search = 256;
  std::int64_t gate = 1;  // 0: nothing is retrieved
  void add_to(CommandLine& cl);
  // After parsing; whether neighbours are looked up.  Exit::usage where only a part is said of how.
  bool complete(const CommandLine& cl, const DeviceOptions& compute, int threads);
};

// Exit::bad_config where the Retro has other tokens, or other chunks, than the project.
std::unique_ptr<NeighborSource> open_neighbor_lookup(const NeighborLookupOptions& options,
                                                     const LoadedModel& retro);

}  // namespace mt
