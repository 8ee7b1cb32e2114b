// A run that goes on in another layout after each of its three steps, against one rank that does
// not stop.
#include "tests/train/layouts.h"

namespace mt {
namespace {

class Resumed : public Layouts {
 protected:
  // The steps from the checkpoint in `load`, if any, to the one after which `stop` divides.
  void train(const TrainedLayout& layout, const std::string& save, int stop,
             const std::string& load) const {
    PretrainOptions o = options_of(layout);
    o.run.checkpoint.save = path(save);
    o.run.checkpoint.load = load.empty() ? "" : path(load);
    o.run.length.train_iters = 3;
    o.run.length.exit_interval = stop;
    o.run.evaluation.eval_iters = 0;
    train_with(o);
  }
};

std::vector<TrainedLayout> saved_layouts() {
  std::vector<TrainedLayout> all;
  for (const bool distributed : {false, true})
    for (const int tensor : {1, 2, 4}) {
      TrainedLayout layout{.ranks = 4, .distributed = distributed};
      layout.style = distributed == (tensor == 2) ? Style::gpt : Style::llama;
      layout.tied = tensor < 4;
      layout.parallel.tensor_model_parallel_size = tensor;
      layout.parallel.sequence_parallel = tensor == 2;
      all.push_back(layout);
    }
  for (const char* strategy : {"optim", "optim_grads", "optim_grads_params"})
    for (const int stages : {1, 2}) {
      TrainedLayout layout{.style = stages == 1 ? Style::gpt : Style::llama, .ranks = 4};
      layout.parallel.pipeline_model_parallel_size = stages;
      layout.sharding = strategy;
      all.push_back(layout);
    }
  for (const bool tied : {true, false}) {
    TrainedLayout bert{.style = Style::bert, .tied = tied, .ranks = 4};
    bert.parallel.tensor_model_parallel_size = tied ? 2 : 1;
    bert.parallel.sequence_parallel = tied;
    bert.parallel.pipeline_model_parallel_size = tied ? 1 : 2;
    all.push_back(bert);
  }
  TrainedLayout shared{.ranks = 4, .distributed = true};
  shared.parallel.tensor_model_parallel_size = shared.parallel.context_parallel_size = 2;
  all.push_back(shared);
  TrainedLayout further{.style = Style::llama, .ranks = 4};
  further.further = 2;
  further.parallel.tensor_model_parallel_size = further.parallel.pipeline_model_parallel_size = 2;
  all.push_back(further);
  for (const bool distributed : {true, false}) {
    TrainedLayout hybrid{.style = Style::hybrid, .ranks = 4, .distributed = distributed};
    hybrid.parallel.tensor_model_parallel_size = hybrid.parallel.context_parallel_size = 2;
    all.push_back(hybrid);
  }
  TrainedLayout mixture{.style = Style::mixture, .tied = false, .ranks = 4};
  mixture.parallel.expert_model_parallel_size = 2;
  mixture.sharding = "optim_grads_params";
  all.push_back(mixture);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Resumed, in_this_run(saved_layouts()), name_of_layout);

TEST_P(Resumed, InAnyOtherLayout) {
  TrainedLayout one{.style = GetParam().style, .tied = GetParam().tied};
  one.further = GetParam().further;
  train(one, "one", 3, "");
  train(GetParam(), "first", 1, "");
  TrainedLayout other = one;
  other.ranks = 2;
  other.distributed = !GetParam().distributed;
  other.parallel.tensor_model_parallel_size = 2;
  other.parallel.sequence_parallel = one.style == Style::mixture;  // which its experts need
  train(other, "second", 2, "first");
  train(GetParam(), "third", 3, "second");
  expect_near_tensors("third", "one", 3, kWeights, 1e-9);
}

}  // namespace
}  // namespace mt
