// RankOptions: the ranks of a run: how many there are, who starts them, how they share the work.
#pragma once

#include <string>
#include <vector>

#include "comm/launch.h"
#include "model/pipeline_options.h"
#include "train/options/parallel_options.h"
#include "train/run/pipeline_layout.h"

namespace mt {

struct ModelConfig;

std::vector<int> ranks_between(int begin, int end);

struct RankOptions {
  int count = 1, threads = 0;
  int drawers = 0;  // further ranks behind these, which draw texts for them (Task::draw_for)
  LaunchOptions launch;
  ParallelOptions parallel;
  PipelineOptions pipeline;

  void add_to(CommandLine& cl);
  void add_threads_to(CommandLine& cl);
  // The ranks are processes, of which this is one, or this starts those of its host; or, where
  // there is but one, they are --ranks threads.
  void take_process(const Launch& launched);
  void complete() const;  // checks that so many can share the work like this
  // Divides the model's layers among the stages.  Exit::bad_config where the ranks cannot share a
  // model like this, or its texts of so many tokens.
  void complete_for(const ModelConfig& model, std::int64_t seq_length);
  // Exit::unavailable if this host has fewer GPUs than its ranks need.
  void check_gpus() const;

  bool has_processes() const { return process.size > 1; }
  std::vector<int> drawing_ranks() const { return ranks_between(count, count + drawers); }
  // These, behind the first of those that learn, which tells them what to draw.
  std::vector<int> linked_ranks() const;
  // Whether this process trains, which those that draw for others do not.
  bool learns() const { return !has_processes() || process.rank < count; }
  // How often they are started again after a failure, at most.
  int max_restarts() const;
  // Worker threads of one rank: an equal share of what all of a host may use.
  int threads_of_each() const;
  ParallelSizes sizes() const { return parallel.sizes(count); }

  Launch process;         // set by take_process()
  PipelineLayout layout;  // set by complete_for()

 private:
  void check_shares(const ModelConfig& model, std::int64_t seq_length) const;
  void check_mixers(const ModelConfig& model) const;
  void check_experts(const ModelConfig& model) const;
  void check_overlap(const ModelConfig& model) const;
};

}  // namespace mt
