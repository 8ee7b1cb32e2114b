// Looking into Energon folders: `mt-preprocess cat`, `check` and `verify`.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/run_context.h"
#include "data/energon/energon_folder.h"
#include "data/files/inspect.h"

namespace mt {

// Throws Exit::no_input for a shard, or the .idx beside it, that is not there, and Exit::bad_data
// where that is of another number of samples than .info.json says, or ends outside of the shard.
void check_indexes(const EnergonFolder& folder);
// What `check` prints of a folder, without the newline; as JSON of schema mt-check-mm/1.
std::string summary_text(const EnergonFolder& folder);
std::string summary_json(const EnergonFolder& folder);

// Calls print(line) for the chosen samples of all shards.  Exit::bad_data for one that has no line.
void print_samples(const EnergonFolder& folder, const DocumentChoice& choice,
                   const std::function<void(std::string_view)>& print);

// What `verify` finds wrong, a line each: shards that are damaged or not there, that hold another
// number of samples than .info.json says or begin elsewhere than their .idx does; keys that occur
// twice; samples without what dataset.yaml says they have; images that cannot be read; parts of
// shards that .info.json does not know.
std::vector<std::string> differences_in(const EnergonFolder& folder, const RunContext& context);

// What it prints of them, without the last newline.
std::string verdict_text(const EnergonFolder& folder, const std::vector<std::string>& differences);

}  // namespace mt
