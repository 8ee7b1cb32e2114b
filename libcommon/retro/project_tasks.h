// Megatron-LM core_v0.12.1's own command for a Retro project (tools/retro/preprocess_data.py):
// stages (chunk_db.h, project_stages.h), one after another, by one command line with the flags of
// them all.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/run_context.h"
#include "retro/chunk_db.h"
#include "retro/project_stages.h"

namespace mt {

class CommandLine;

enum class ProjectTask { db_build, index_train, index_add, query_neighbors };

struct ProjectTasksOptions {
  std::string list = "build";
  ChunkDbOptions db;
  ProjectQueryOptions query;
  // What a launch script says of the training, which Megatron counts samples by.
  std::optional<std::int64_t> train_samples = {}, global_batch_size = {}, eval_interval = {},
                              eval_iters = {};

  // Set by complete().
  std::vector<ProjectTask> tasks = {};
  RetroProject::Settings said = {};  // of config.json, where no chunks are made

  void add_to(CommandLine& cl);
  // After parsing.  Exit::usage where a task lacks an option that it needs.
  void complete(const CommandLine& cl);
};

// Makes them in their order, and calls tell() with the summary of each when it is done; ends behind
// one of which others make a share.
void run_project_tasks(const ProjectTasksOptions& options, const RunContext& context,
                       const std::function<void(const JsonWriter&)>& tell);

}  // namespace mt
