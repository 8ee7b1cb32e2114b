#include "post/retrieval/ict_task.h"

#include "data/samples/batch_options.h"
#include "data/samples/ict_samples.h"
#include "model/config/megatron_args.h"
#include "model/model.h"
#include "model/model_table.h"
#include "post/finetune_options.h"

namespace mt {

std::unique_ptr<Model> IctTask::make_model(const StageRanges& stages,
                                           const TensorPart& part) const {
  return mt::make_model(model_, stages, part);
}

FieldSpecs IctTask::sample_fields() const { return query_fields(options_.samples.seq_length); }

void IctTask::build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
                    const Log& log) {
  IctDatasetOptions samples = options_.samples;
  samples.seed = static_cast<std::uint32_t>(seed);
  SetRequest request;
  request.length = length;
  request.layout.type = options_.text.dataloader_type;
  request.layout.data_sharding = options_.text.data_sharding;
  request.layout.micro_batch_size = batch.micro_batch_size;
  request.layout.data_parallel_size = batch.ranks;
  request.cache_path = options_.text.cache_path;
  request.threads = options_.text.threads;
  sets_.build(*ict_samples(data_->files, data_->titles, data_->pieces, samples), data_->sources,
              request, log);
}

void IctTask::describe(DType dtype, PyValue& args) const { add_model_args(model_, dtype, args); }

std::unique_ptr<Task> IctTask::changed(const Change& change) const {
  ModelConfig model = model_;
  Options options = options_;
  mt::change(model, options.samples.seq_length, change);
  options.objective.seq_length = options.samples.seq_length;
  return std::make_unique<IctTask>(model, options);
}

}  // namespace mt
