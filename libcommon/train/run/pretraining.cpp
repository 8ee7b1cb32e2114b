#include "train/run/pretraining.h"

#include "data/samples/batch_options.h"
#include "model/config/megatron_args.h"
#include "model/model.h"
#include "model/model_table.h"
#include "train/options/pretrain_options.h"
#include "train/run/further_objective.h"

namespace mt {

std::unique_ptr<const Objective> pretraining_objective(const ModelConfig& model,
                                                       const DataOptions& options) {
  if (model.family == ModelFamily::bert)
    return std::make_unique<MaskedModelling>(model.bert_binary_head, options.masks.texts_of_row());
  if (model.mtp_num_layers > 0)
    return std::make_unique<FurtherObjective>(std::make_unique<LanguageModelling>(),
                                              model.mtp_num_layers, model.mtp_loss_scaling_factor,
                                              options.seq_length);
  return std::make_unique<LanguageModelling>();
}

std::unique_ptr<Model> Pretraining::make_model(const StageRanges& stages,
                                               const TensorPart& part) const {
  return mt::make_model(model_, stages, part);
}

FieldSpecs Pretraining::sample_fields() const { return mt::sample_fields(options_); }

void Pretraining::build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
                        const Log& log) {
  data_->build(length, seed,
               {.type = options_.dataloader_type,
                .data_sharding = options_.data_sharding,
                .micro_batch_size = batch.micro_batch_size,
                .data_parallel_size = batch.ranks},
               log);
}

void Pretraining::describe(DType dtype, PyValue& args) const {
  add_model_args(model_, dtype, args);
  if (options_.masks.pack_sequences) args.set_item("pack_sequences", true);
}

std::unique_ptr<Task> Pretraining::changed(const Change& change) const {
  ModelConfig model = model_;
  DataOptions options = options_;
  if (change.seq_length) options.seq_length = *change.seq_length;
  change.put_into(model, [&](int ranks) { complete_model(model, options, ranks); });
  return std::make_unique<Pretraining>(model, options);
}

Pretraining open_pretraining(PretrainOptions& options) {
  TrainData data(options.data);
  options.take_vocabulary(data.tokenizer());
  options.complete();
  return {options.model, options.data, std::move(data)};
}

}  // namespace mt
