#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "formats/convert.h"
#include "model/checkpoint_tokenizer.h"
#include "model/config/megatron_args.h"
#include "model/config/model_config.h"
#include "model/families/distilled.h"
#include "model/model.h"
#include "model/row_checkpoint.h"
#include "nn/adapter.h"
#include "train/run/adapter_save.h"
#include "train/run/broadcast_text.h"
#include "train/run/checkpoint.h"
#include "train/run/fp8_checkpoint.h"
#include "train/run/optimizer_checkpoint.h"

namespace mt {

static PyValue make_args(const RunOptions& o, const Task& task, const TrainCounters& counters) {
  PyValue args = PyValue::dict();
  const auto set = [&](const char* name, PyValue value) { args.set_item(name, std::move(value)); };
  task.describe(o.compute_dtype(), args);
  const ParallelSizes sizes = o.ranks.sizes();
  set("tensor_model_parallel_size", sizes.tp);
  const int encoder = o.ranks.pipeline.encoder_ranks;
  set("pipeline_model_parallel_size", sizes.pp - encoder);
  set("context_parallel_size", sizes.cp);
  set("expert_model_parallel_size", sizes.ep);
  set("encoder_tensor_model_parallel_size", encoder > 0 ? sizes.tp : 0);
  set("encoder_pipeline_model_parallel_size", encoder);
  const int chunks = o.ranks.layout.chunks;
  set("virtual_pipeline_model_parallel_size", chunks > 1 ? PyValue(chunks) : PyValue());
  const auto& per_stage = o.ranks.pipeline.layers_per_virtual_stage;
  set("num_layers_per_virtual_pipeline_stage", per_stage ? PyValue(*per_stage) : PyValue());
  set("world_size", o.ranks.count);
  set("data_parallel_size", sizes.dp);
  set("use_distributed_optimizer", o.optimizer.use_distributed_optimizer);
  set("ckpt_fully_parallel_save", o.checkpoint.fully_parallel_save);
  set("ckpt_format", "torch_dist");
  set("async_save", o.checkpoint.async_save);
  set("data_parallel_random_init", false);
  set("no_save_optim", o.checkpoint.save_optimizer ? PyValue() : PyValue(true));
  set("no_save_rng", true);  // there is no state of random numbers
  set("seq_length", task.seq_length());
  set("micro_batch_size", o.batch.micro_batch_size);
  set("global_batch_size", o.batch.largest());
  set("train_iters", o.length.train_iters);
  set("calculate_per_token_loss", o.batch.calculate_per_token_loss);
  set("seed", static_cast<std::int64_t>(o.seed));
  set("tokenizer_type", std::string(task.tokenizer().type()));
  set("consumed_train_samples", counters.consumed_train_samples);
  set("skipped_train_samples", counters.skipped_train_samples);
  set("consumed_valid_samples", counters.consumed_valid_samples);
  return PyValue::make(PyValue::global("argparse", "Namespace"), args);
}

// What every rank wrote, on all ranks.
static std::vector<WrittenFile> gather_files(Group& ranks, const std::vector<WrittenFile>& own) {
  std::vector<WrittenFile> files;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const std::string packed =
        broadcast_text(ranks, rank == ranks.rank() ? pack_files(own) : "", rank);
    for (WrittenFile& file : unpack_files(as_bytes(packed), "files of a rank"))
      files.push_back(std::move(file));
  }
  return files;
}

// `whole` has all rows of the model, of which a rank may have some.
static PyValue make_common(const RunOptions& o, const TrainingState& state, const ParamTable& whole,
                           TorchWriter& tensors) {
  const TrainCounters& counters = state.counters;
  PyValue common = PyValue::dict(
      {{"args", make_args(o, state.task, counters)},
       {"checkpoint_version", 3.0},
       {"iteration", counters.iteration},
       {"opt_param_scheduler", make_scheduler(state.schedule, counters.scheduled_samples)},
       {"num_floating_point_operations_so_far", counters.floating_point_operations}});
  if (o.checkpoint.save_optimizer)
    common.set_item("optimizer", make_optimizer(state.optimizer, whole, state.schedule,
                                                counters.scheduled_samples, tensors));
  return common;
}

// Deletes checkpoints before iteration `latest`, whose own is complete: all but the `count` newest,
// with it, and multiples of `retained`.
static void delete_old_checkpoints(const std::string& folder, std::int64_t latest,
                                   std::int64_t count, std::optional<std::int64_t> retained) {
  std::int64_t kept = 1;
  std::vector<std::int64_t> iterations = list_checkpoints(folder);
  for (auto i = iterations.rbegin(); i != iterations.rend(); ++i) {
    if (*i >= latest || kept++ < count) continue;
    if (!retained || *i % *retained != 0) delete_checkpoint(folder, *i);
  }
}

// Rows that a rank writes of those that it has in common with others: each goes to the one that has
// the fewest elements so far, so that all write at once.
static std::vector<bool> rows_to_write(const ParamTable& table, const World& world, bool share) {
  struct Equals {
    explicit Equals(const Group& ranks)
        : rank(ranks.rank()), elements(static_cast<std::size_t>(ranks.size()), 0) {}
    int rank;
    std::vector<std::uint64_t> elements;
  };
  Equals dense(world.data_context()), experts(world.expert_data());
  std::vector<bool> mine;
  for (const Param& row : table.rows()) {
    const bool apart = row.copies == Copies::experts && world.sizes().experts_apart();
    auto& [rank, elements] = apart ? experts : dense;
    const auto least =
        share ? std::min_element(elements.begin(), elements.end()) : elements.begin();
    mine.push_back(least - elements.begin() == rank);
    *least += static_cast<std::uint64_t>(row.local.numel());
  }
  return mine;
}

TrainingSave::TrainingSave(const RunOptions& run, bool lasting, const TrainingState& state,
                           const World& world, std::function<void()> when_written)
    : run_(run),
      options_(run.checkpoint),
      ranks_(world.all()),
      lasting_(lasting),
      save_folder_(lasting ? options_.save : options_.non_persistent_folder(options_.save)),
      first_folder_(options_.format == "torch" ? save_folder_ + "/torch_dist" : save_folder_),
      iteration_(state.counters.iteration),
      when_written_(std::move(when_written)) {
  const CheckpointOptions& o = options_;
  const Task& task = state.task;
  const bool adapted = task.model().has_adapters();  // then they are saved alone
  state.stream.synchronize();
  const bool first = ranks_.rank() == 0;
  if (first) save_.emplace(first_folder_, iteration_);
  const std::string folder = broadcast_text(ranks_, first ? save_->folder() : "", 0);
  const bool has_state = o.save_optimizer && state.optimizer.keeps_own_pieces();
  const std::vector<bool> mine = rows_to_write(state.model.table(), world, o.fully_parallel_save);
  if (first || has_state || std::ranges::count(mine, true) > 0)
    writer_.emplace(folder, ranks_.rank(), 0,
                    o.async_save ? DistWriter::When::in_close : DistWriter::When::at_once);
  state.optimizer.read_values(
      [&](const Param& row) {
        const bool is_frozen =
            adapted && !is_adapter(row.place) && !task.model().is_new_head(row.place.stack);
        if (is_frozen || is_teachers(row.place)) return;
        if (mine[row.index] && state.optimizer.counts(row)) write_row(*writer_, row, {}, row.value);
      },
      state.stream);
  if (adapted)
    content_.files = write_adapters(folder, task.model(), task.rows(), state.optimizer, mine,
                                    ranks_, state.stream);
  const bool delayed = state.fp8 != nullptr && state.fp8->is_delayed();
  const std::map<std::string, std::string> remembered =
      delayed ? fp8_states(*state.fp8, task.rows(), world, state.stream)
              : std::map<std::string, std::string>();
  if (first && !adapted) write_extra_states(*writer_, task.model(), remembered);
  if (has_state) write_optimizer(*writer_, state.optimizer);
  if (first) {
    const ParamTable whole = task.rows();
    for (WrittenFile& file : write_tokenizer(folder, state.tokenizer.files))
      content_.files.push_back(std::move(file));
    for (const Companion& file : state.companions) add_companion(file, folder);
    content_.common = make_common(run, state, whole, save_->common_writer());
    if (o.save_optimizer && run.optimizer.use_distributed_optimizer)
      content_.mcore_data = make_mcore_data(state.optimizer, whole);
    content_.manifest_extra = state.tokenizer.manifest;
  }
  if (o.async_save)
    thread_ = std::thread([this] { write_own(); });
  else
    write_own();
}

void TrainingSave::add_companion(const Companion& file, const std::string& folder) {
  const std::string name = "tokenizer/" + file.name;
  if (std::ranges::any_of(content_.files, [&](const WrittenFile& f) { return f.name == name; }))
    return;
  write_companion(file, folder + "/tokenizer");
  content_.files.push_back({{name, file.content.size(), hash_hex(as_bytes(file.content))}, {}});
}

void TrainingSave::write_own() {
  try {
    if (writer_) own_.push_back(writer_->close());
  } catch (...) {
    error_ = std::current_exception();
  }
  when_written_();
}

TrainingSave::~TrainingSave() {
  if (thread_.joinable()) thread_.join();
}

ConvertOptions conversion_for(const RankOptions& ranks) {
  ConvertOptions conversion;
  conversion.target_tensor_parallel = ranks.parallel.tensor_model_parallel_size;
  conversion.pipeline = ranks.pipeline;
  conversion.target_encoder_pipeline_parallel = ranks.pipeline.encoder_ranks;
  conversion.target_pipeline_parallel = ranks.parallel.stages() - ranks.pipeline.encoder_ranks;
  conversion.threads = ranks.threads;
  conversion.force = true;  // as a save, it replaces an iteration of the same number
  return conversion;
}

void TrainingSave::publish_ranks() {
  ConvertOptions conversion = conversion_for(run_.ranks);
  conversion.load = save_->folder();
  conversion.save = save_folder_;
  conversion.ckpt_format = options_.format;
  conversion.with_optimizer = options_.save_optimizer;
  conversion.complete();
  convert_checkpoint(conversion, Log({.level = Log::Level::quiet, .progress = Log::Show::none}),
                     [] {});
  save_.reset();
  ::rmdir(first_folder_.c_str());  // unless others put something there
}

void TrainingSave::publish() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(error_);
  for (WrittenFile& file : gather_files(ranks_, own_)) content_.files.push_back(std::move(file));
  if (save_) {
    save_->finish(content_);
    if (options_.format == "torch")
      publish_ranks();
    else
      save_->publish();
    if (!lasting_)
      delete_old_checkpoints(save_folder_, iteration_, 1, {});
    else if (options_.save_retain_interval || options_.keep_last)
      delete_old_checkpoints(save_folder_, iteration_, options_.keep_last.value_or(1),
                             options_.save_retain_interval);
  }
  ranks_.barrier();
}

}  // namespace mt
