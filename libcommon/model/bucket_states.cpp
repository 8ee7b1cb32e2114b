#include "model/bucket_states.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "model/gpt_checkpoint.h"
#include "model/model_rows.h"
#include "model/pipeline_stages.h"
#include "model/rank_optimizer.h"

namespace mt {

constexpr const char* kGathered = "dp_zero_gather_scatter";

std::string sharding_type(const PyValue& common, const std::string& where) {
  for (const auto& [part, type] : {std::pair("optimizer", "param_state_sharding_type"),
                                   {"content_metadata", "distrib_optim_sharding_type"}}) {
    const PyValue* const settings = common.find(part);
    const PyValue* const name =
        settings == nullptr || settings->is_none() ? nullptr : settings->find(type);
    if (name != nullptr && !name->is_none()) return name->as_string(concat(where, ": ", type));
  }
  return "";
}

bool is_by_buckets(const std::string& sharding_type) {
  return sharding_type == "dp_reshardable" || sharding_type == kGathered;
}

BucketStates::BucketStates(const DistReader& tensors, const ModelConfig& config,
                           const PyValue& args, const std::string& sharding_type)
    : tensors_(tensors),
      config_(config),
      where_(concat(tensors.folder(), ": optimizer state of ", sharding_type)),
      gathered_(sharding_type == kGathered) {
  check_run(args);
  find_places(args);
}

// --- The run ------------------------------------------------------------------------------------

static const PyValue* given(const PyValue& args, const char* name) {
  const PyValue* const value = args.find(name);
  return value == nullptr || value->is_none() ? nullptr : value;
}

static std::int64_t number_in(const PyValue& args, const char* name, std::int64_t otherwise,
                              const std::string& where) {
  const PyValue* const value = given(args, name);
  const std::int64_t number = value == nullptr ? otherwise : value->as_integer(where);
  if (number < 0 || number > 4096) fail(Exit::bad_data, where, ": args.", name, " is ", number);
  return number;
}

static bool is_on(const PyValue& args, const char* name, const std::string& where) {
  const PyValue* const value = given(args, name);
  return value != nullptr && value->as_bool(where);
}

static bool has_local_spec(const PyValue& args, const std::string& where) {
  const PyValue* const name = given(args, "transformer_impl");
  return name != nullptr && name->as_string(where) == "local";
}

void BucketStates::check_run(const PyValue& args) const {
  const auto refuse = [&](const char* name, const char* why) {
    fail(Exit::bad_data, where_, ": args.", name, ": ", why, ", of which it is not read");
  };
  if (config_.num_experts > 0 && number_in(args, "expert_model_parallel_size", 1, where_) > 1)
    refuse("expert_model_parallel_size", "experts are shared out among ranks");
  if (config_.num_experts > 0 && is_on(args, "moe_grouped_gemm", where_) &&
      (has_local_spec(args, where_) || is_on(args, "moe_use_legacy_grouped_gemm", where_)))
    refuse("moe_grouped_gemm", "experts are GroupedMLP's");
  if (config_.family == ModelFamily::t5 &&
      (number_in(args, "encoder_pipeline_model_parallel_size", 0, where_) > 0 ||
       number_in(args, "pipeline_model_parallel_size", 1, where_) > 1))
    refuse("pipeline_model_parallel_size", "a T5 of several stages");
  if (given(args, "pipeline_model_parallel_layout") != nullptr)
    refuse("pipeline_model_parallel_layout", "stages of a layout");
}

static PipelineStages stages_in(const PyValue& args, std::int64_t num_layers,
                                const std::string& where) {
  const auto layers = [&](const char* name) -> std::optional<std::int64_t> {
    if (given(args, name) == nullptr) return {};
    return number_in(args, name, 0, where);
  };
  const auto chunks =
      static_cast<int>(number_in(args, "virtual_pipeline_model_parallel_size", 1, where));
  PipelineOptions options{
      .first_layers = layers("decoder_first_pipeline_num_layers"),
      .last_layers = layers("decoder_last_pipeline_num_layers"),
      .account_for_embedding = is_on(args, "account_for_embedding_in_pipeline_split", where),
      .account_for_loss = is_on(args, "account_for_loss_in_pipeline_split", where)};
  if (chunks > 1) options.virtual_stages_per_rank = chunks;
  try {
    return make_pipeline_stages(
        options, static_cast<int>(number_in(args, "pipeline_model_parallel_size", 1, where)),
        num_layers);
  } catch (const Error& error) {
    fail(Exit::bad_data, where, ": args: ", error.what());
  }
}

// --- Places -------------------------------------------------------------------------------------

static std::string group_key(std::size_t rank) {
  return concat("optimizer.distributed.dp_group_idx_", rank, ".");
}

// The one value of an object.
static const PyValue& only(const PyValue& object, const std::string& where) {
  const std::vector<PyValue>& items = object.as_items(where);
  if (items.size() != 1) fail(Exit::bad_data, where, ": a list of ", items.size(), ", expected 1");
  return items[0];
}

void BucketStates::find_places(const PyValue& args) {
  const auto ranks = static_cast<int>(number_in(args, "tensor_model_parallel_size", 1, where_));
  const PipelineStages stages = stages_in(args, config_.num_layers, where_);
  const std::int64_t stage_count = std::ssize(stages.ranges) / stages.chunks;
  const SpecNames names{has_local_spec(args, where_), is_on(args, "moe_grouped_gemm", where_)};
  for (int rank = 0; rank < ranks; ++rank) {
    const ParamTable& table =
        parts_.emplace_back(model_rows(config_, {.rank = rank, .ranks = ranks}));
    Places& places = places_.emplace_back();
    for (std::int64_t stage = 0; stage < stage_count; ++stage) {
      const std::string group = group_key(static_cast<std::size_t>(stage * ranks + rank));
      std::optional<TorchReader> object;
      if (gathered_) object.emplace(tensors_.open_object(group + "param_state/shard_0_1"));
      for (std::int64_t chunk = 0; chunk < stages.chunks; ++chunk) {
        const ChunkLayers at{stages.ranges[static_cast<std::size_t>(chunk * stage_count + stage)]};
        std::vector<ParamRows> params;
        for (const Param* row :
             registered_rows(table, at, names, !config_.untie_embeddings_and_output_weights))
          params.push_back({{row}});
        const BufferLayout layout = rank_buckets(buffer_params(params, config_, at, stage_count),
                                                 buffer_rules(args, stage, chunk, where_));
        if (!object) {
          find_buckets(layout, params, concat(group, "gbuf_idx_", chunk, ".dtype_"), places);
          continue;
        }
        const UnpaddedLayout whole = without_padding(layout);
        buffers_.push_back(buffer_states(only(object->value(), where_),
                                         static_cast<std::size_t>(chunk), *object, whole.size,
                                         where_));
        for (std::size_t p = 0; p < params.size(); ++p)
          places.emplace(params[p].first().index,
                         Place{.buffer = &buffers_.back(), .start = whole.starts[p]});
      }
    }
  }
}

void BucketStates::find_buckets(const BufferLayout& layout, std::span<const ParamRows> params,
                                const std::string& buffer, Places& places) const {
  const auto found = tensors_.tensors().lower_bound(buffer);  // of the only type
  if (found == tensors_.tensors().end() || !found->first.starts_with(buffer))
    fail(Exit::bad_data, where_, ": has no tensor ", buffer, "...");
  const std::string typed = found->first.substr(0, found->first.rfind(".bucket_idx_"));
  for (std::size_t p = 0; p < params.size(); ++p) {
    const std::size_t number = layout.bucket_at(layout.starts[p]);
    const std::int64_t start = layout.starts[p] - layout.buckets[number].begin;
    const std::string bucket = concat(typed, ".bucket_idx_", number);
    for (const char* state : {".param", ".exp_avg", ".exp_avg_sq"}) {
      const DistTensor& tensor = tensors_.at(bucket + state);
      const Shape& shape = tensor.own_shape();
      if (shape.rank() != 1 || shape[0] < start + params[p].elements() || !is_float(*tensor.dtype))
        fail(Exit::bad_data, where_, ": ", bucket, state, " is ", tensor.dtype_name, ' ', shape,
             ", expected at least [", start + params[p].elements(),
             "] numbers: was it written with other buckets than args say?");
    }
    places.emplace(params[p].first().index, Place{.bucket = bucket, .start = start});
  }
}

// --- Reading ------------------------------------------------------------------------------------

PyValue BucketStates::common_optimizer() const {
  const std::string group = group_key(0);
  if (tensors_.objects().contains(group + "grad_scaler/shard_0_1"))
    fail(Exit::bad_data, where_, ": is not read with a grad_scaler");
  const PyValue stored = tensors_.read_object(group + "optimizer/shard_0_1");
  return mt::common_optimizer(PyValue::dict({{"optimizer", only(stored, where_)}}), true, where_);
}

const BucketStates::Place& BucketStates::place_of(const Param& row, std::size_t tensor_rank) const {
  const auto found = places_[tensor_rank].find(row.index);
  if (found == places_[tensor_rank].end()) fail(Exit::bad_data, where_, ": nothing of ", row.name);
  return found->second;
}

static std::string name_there(const std::string& state) {
  return state == "fp32_param" ? "param" : state;
}

DType BucketStates::dtype_of(const Param& row, const std::string& state) const {
  const Place& place = place_of(row, 0);
  return gathered_ ? place.buffer->at(state).dtype
                   : *tensors_.at(concat(place.bucket, ".", name_there(state))).dtype;
}

// Elements from `begin` on of the parameter there.
void BucketStates::read_part(const Place& place, const std::string& state, std::int64_t begin,
                             Tensor out) const {
  const Shape offset{place.start + begin};
  if (gathered_)
    place.buffer->at(state).copy_to(offset, out);
  else
    tensors_.read_original(concat(place.bucket, ".", name_there(state)), offset, out);
}

void BucketStates::read(const Param& row, const std::string& state, Tensor out) const {
  constexpr std::int64_t kBlock = 1 << 20;  // elements
  if (is_vocabulary(row)) std::memset(out.data(), 0, out.bytes());
  const Tensor all = out.reshape({out.numel()});
  const Buffer buffer(Device::cpu, static_cast<std::size_t>(std::min(kBlock, row.shape.numel())) *
                                       size_of(out.dtype()));
  for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
    const Param& cut = parts_[rank].rows()[row.index];
    const Place& place = place_of(row, rank);
    const std::vector<ElementRun> runs = cut.runs();
    std::size_t next = 0;  // the first run that is not read yet
    for (std::int64_t at = 0, end = 0; at < cut.local.numel(); at = end) {
      end = std::min(cut.local.numel(), at + kBlock);
      const Tensor block = buffer.tensor(out.dtype(), {end - at});
      read_part(place, state, at, block);
      for (; next < runs.size() && runs[next].local < end; ++next) {
        const ElementRun& run = runs[next];
        const std::int64_t from = std::max(at, run.local),
                           to = std::min(end, run.local + run.count),
                           first = run.global + from - run.local,
                           count = std::min(to - from, all.numel() - first);  // other padding
        if (count > 0)
          std::memcpy(all.rows(first, first + count).data(),
                      block.rows(from - at, from - at + count).data(),
                      static_cast<std::size_t>(count) * size_of(out.dtype()));
        if (run.local + run.count > end) break;
      }
    }
    if (!cut.is_cut()) return;  // all ranks have the same
  }
}

}  // namespace mt
