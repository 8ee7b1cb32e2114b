#include "formats/megatron/bucket_states.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ckpt/tensor_source.h"
#include "formats/megatron/rank_optimizer.h"
#include "model/config/model_config.h"
#include "model/model_table.h"

namespace mt {

constexpr const char *kGathered = "dp_zero_gather_scatter", *kReshardable = "dp_reshardable",
                     *kPadded = "fully_sharded_bucket_space";

std::string sharding_type(const PyValue& common, const std::string& where) {
  const auto named = [&](const PyValue* settings, const char* type) -> std::string {
    if (settings == nullptr || !settings->is(PyValue::Kind::dict)) return "";
    const PyValue* const name = settings->find(type);
    return name == nullptr || name->is_none() ? "" : name->as_string(concat(where, ": ", type));
  };
  const char *const in_optimizer = "param_state_sharding_type", *const in_metadata =
                                                                    "distrib_optim_sharding_type";
  const PyValue* const optimizer = common.find("optimizer");
  std::string type = named(optimizer, in_optimizer);
  if (type.empty() && optimizer != nullptr && optimizer->is(PyValue::Kind::dict)) {
    const std::vector<PyValue>& entries = optimizer->entries(where);  // maybe a chain
    for (std::size_t i = 0; i + 1 < entries.size() && type.empty(); i += 2)
      type = named(&entries[i + 1], in_optimizer);
  }
  return type.empty() ? named(common.find("content_metadata"), in_metadata) : type;
}

bool is_by_buckets(const std::string& sharding_type) {
  return sharding_type == kGathered || sharding_type == kReshardable || sharding_type == kPadded;
}

BucketStates::BucketStates(const DistReader& tensors, const ModelConfig& config,
                           const PyValue& args, const std::string& sharding_type)
    : tensors_(tensors),
      config_(config),
      type_(sharding_type),
      where_(concat(tensors.folder(), ": optimizer state of ", sharding_type)) {
  read_run(args);
  find_places(args);
}

// --- The run ------------------------------------------------------------------------------------

static const PyValue* given(const PyValue& args, const char* name) {
  const PyValue* const value = args.find(name);
  return value == nullptr || value->is_none() ? nullptr : value;
}

// At least `least`, which is also what it is where none is given, unless `otherwise` is.
static std::int64_t number_in(const PyValue& args, const char* name, std::int64_t least,
                              const std::string& where, std::int64_t otherwise = -1) {
  const PyValue* const value = given(args, name);
  if (value == nullptr) return otherwise < 0 ? least : otherwise;
  const std::int64_t number = value->as_integer(where);
  if (number < least || number > 4096) fail(Exit::bad_data, where, ": args.", name, " is ", number);
  return number;
}

static bool is_on(const PyValue& args, const char* name, const std::string& where) {
  const PyValue* const value = given(args, name);
  return value != nullptr && value->as_bool(where);
}

static PipelineStages stages_in(const PyValue& args, const std::vector<LayerPlan>& layers_there,
                                const std::string& where) {
  const auto layers = [&](const char* name) -> std::optional<std::int64_t> {
    if (given(args, name) == nullptr) return {};
    return number_in(args, name, 0, where);
  };
  PipelineOptions options;
  if (const PyValue* layout = given(args, "pipeline_model_parallel_layout")) {
    options.layout = layout->as_string(where + ": args.pipeline_model_parallel_layout");
  } else {
    const auto chunks =
        static_cast<int>(number_in(args, "virtual_pipeline_model_parallel_size", 1, where));
    if (chunks > 1) options.virtual_stages_per_rank = chunks;
    options.first_layers = layers("decoder_first_pipeline_num_layers");
    options.last_layers = layers("decoder_last_pipeline_num_layers");
    options.account_for_embedding = is_on(args, "account_for_embedding_in_pipeline_split", where);
    options.account_for_loss = is_on(args, "account_for_loss_in_pipeline_split", where);
  }
  try {
    return make_pipeline_stages(
        options, static_cast<int>(number_in(args, "pipeline_model_parallel_size", 1, where)),
        layers_there);
  } catch (const Error& error) {
    fail(Exit::bad_data, where, ": args: ", error.what());
  }
}

void BucketStates::read_run(const PyValue& args) {
  const auto size = [&](const char* name) { return number_in(args, name, 1, where_); };
  counts_ = {.tensor = size("tensor_model_parallel_size"),
             .stages = size("pipeline_model_parallel_size"),
             .expert = config_.num_experts > 0 ? size("expert_model_parallel_size") : 1};
  if (config_.num_experts % counts_.expert != 0)
    fail(Exit::bad_data, where_, ": args.expert_model_parallel_size ", counts_.expert,
         ": does not divide ", config_.num_experts, " experts");
  const char* const of_experts = "expert_tensor_parallel_size";
  if (config_.num_experts > 0 &&
      number_in(args, of_experts, 1, where_, counts_.tensor) != counts_.tensor)
    fail(Exit::bad_data, where_, ": args.", of_experts,
         ": experts have other tensor ranks than all else, of which it is not read");
  if (config_.family == ModelFamily::t5 &&
      (counts_.stages > 1 ||
       number_in(args, "encoder_pipeline_model_parallel_size", 0, where_) > 0))
    fail(Exit::bad_data, where_,
         ": args.pipeline_model_parallel_size: a T5 of several stages, of which Megatron-Core "
         "saves no torch_dist checkpoint");
  stages_ = stages_in(args, layers_of(config_), where_);
  const PyValue* const implementation = given(args, "transformer_impl");
  names_ = {.local_spec = implementation != nullptr && implementation->as_string(where_) == "local",
            .grouped = config_.num_experts > 0 && is_on(args, "moe_grouped_gemm", where_)};
  gemm_ =
      names_.grouped && (names_.local_spec || is_on(args, "moe_use_legacy_grouped_gemm", where_));
  experts_in_front_ = args.find(of_experts) == nullptr;  // up to core_v0.9.0
}

// --- Places -------------------------------------------------------------------------------------

std::string BucketStates::group_key(const Rank& rank) const {
  const std::int64_t experts = rank.optimizer == 0 ? 1 : counts_.expert,
                     part = experts_in_front_ ? rank.expert * counts_.stages + rank.stage
                                              : rank.stage * experts + rank.expert;
  const std::string chain = counts_.expert > 1 ? concat("chained_", rank.optimizer, ".") : "";
  return concat(chain, "optimizer.distributed.dp_group_idx_", part * counts_.tensor + rank.tensor,
                ".");
}

// The one value of an object.
static const PyValue& only(const PyValue& object, const std::string& where) {
  const std::vector<PyValue>& items = object.as_items(where);
  if (items.size() != 1) fail(Exit::bad_data, where, ": a list of ", items.size(), ", expected 1");
  return items[0];
}

void BucketStates::find_places(const PyValue& args) {
  for (std::int64_t tensor = 0; tensor < counts_.tensor; ++tensor) {
    parts_.push_back(rank_rows(config_, tensor, counts_.tensor));
    places_.emplace_back();
    for (std::int64_t stage = 0; stage < counts_.stages; ++stage) {
      find_buffers({stage, tensor, 0, 0}, args);
      for (std::int64_t expert = 0; counts_.expert > 1 && expert < counts_.expert; ++expert)
        find_buffers({stage, tensor, expert, 1}, args);
    }
  }
}

// In the order of their registration.  A GroupedMLP has one parameter for all of a rank's
// linear_fc1, and one for linear_fc2.
std::vector<ParamRows> BucketStates::params_of(const Rank& rank, const ChunkLayers& chunk) const {
  const auto same_module = [](const Param& a, const Param& b) {
    RowPlace place = a.place;
    place.expert = b.place.expert;
    return a.place.expert && place == b.place;
  };
  std::vector<ParamRows> params;
  for (const Param* row : registered_rows(parts_[static_cast<std::size_t>(rank.tensor)], chunk,
                                          names_, !config_.untie_embeddings_and_output_weights)) {
    const std::int64_t expert_rank = expert_rank_of(*row, config_, counts_).value_or(rank.expert);
    if (row->is_buffer || optimizer_of(*row, counts_.expert) != rank.optimizer ||
        expert_rank != rank.expert)
      continue;
    if (gemm_ && !params.empty() && same_module(*row, params.back().first()))
      params.back().rows.push_back(row);
    else
      params.push_back({{row}, gemm_ && row->place.expert});
  }
  return params;
}

void BucketStates::find_buffers(const Rank& rank, const PyValue& args) {
  const std::string group = group_key(rank);
  Places& places = places_[static_cast<std::size_t>(rank.tensor)];
  std::optional<TorchReader> object;
  std::int64_t number = 0;
  for (std::int64_t chunk = 0; chunk < stages_.chunks; ++chunk) {
    const ChunkLayers at = ChunkLayers::of(
        layers_of(config_),
        stages_.ranges[static_cast<std::size_t>(chunk * counts_.stages + rank.stage)],
        config_.mtp_num_layers > 0);
    const std::vector<ParamRows> params = params_of(rank, at);
    if (params.empty()) continue;
    const std::vector<BufferParam> sizes = buffer_params(params, config_, at, counts_.stages);
    std::vector<Place> starts;
    if (type_ == kGathered) {
      if (!object) object.emplace(tensors_.open_object(group + "param_state/shard_0_1"));
      const UnpaddedLayout layout =
          rank_buffer(sizes, buffer_rules(args, rank.stage, chunk, where_));
      buffers_.push_back(buffer_states(only(object->value(), where_),
                                       static_cast<std::size_t>(number), *object, layout.size,
                                       where_));
      for (const std::int64_t start : layout.starts)
        starts.push_back({.buffer = &buffers_.back(), .start = start});
    } else {
      starts = places_in_buckets(group, number, sizes);
    }
    for (std::size_t p = 0; p < params.size(); ++p)
      for (const Param* row : params[p].rows) {
        starts[p].transposed = params[p].transposed;
        places.emplace(row->index, starts[p]);
        starts[p].start += row->local.numel();
        if (params[p].rows.front() == row && row->place.expert) telling_.insert(row->index);
      }
    ++number;
  }
}

// What per_bucket_numel_unpadded says of a buffer.
std::vector<std::int64_t> BucketStates::filled_buckets(const std::string& group,
                                                       std::int64_t number) const {
  const PyValue object = tensors_.read_object(group + "per_bucket_numel_unpadded/shard_0_1");
  const std::string where = concat(where_, ": ", group, "per_bucket_numel_unpadded");
  const std::vector<PyValue>& buffers = only(object, where).as_items(where);
  if (static_cast<std::size_t>(number) >= buffers.size())
    fail(Exit::bad_data, where, ": of ", buffers.size(), " buffers, expected more");
  const std::vector<PyValue>& types = buffers[static_cast<std::size_t>(number)].entries(where);
  if (types.size() != 2)
    fail(Exit::bad_data, where, ": ", types.size() / 2, " pairs of types, expected 1");
  std::vector<std::int64_t> filled;
  for (const PyValue& count : types[1].as_items(where)) filled.push_back(count.as_integer(where));
  return filled;
}

namespace {

struct BucketPlace {
  std::size_t bucket;
  std::int64_t start;
};

}  // namespace

// Where parameters lie in buckets that hold so much: from the last to the first, each at a multiple
// of `alignment`.  Nothing if they do not end where buckets do.
static std::vector<BucketPlace> bucket_places(std::span<const BufferParam> params,
                                              std::span<const std::int64_t> filled,
                                              std::int64_t alignment) {
  std::vector<BucketPlace> places(params.size());
  std::size_t bucket = 0;
  std::int64_t end = 0;  // of what lies in it
  for (std::size_t i = params.size(); i-- > 0;) {
    std::int64_t start = (end + alignment - 1) / alignment * alignment;
    if (params[i].shared && end > 0 && bucket < filled.size() && start == filled[bucket]) {
      ++bucket;  // it ends where the shared one would begin
      start = 0;
    }
    places[i] = {bucket, start};
    end = start + params[i].elements;
    if (bucket >= filled.size() || end > filled[bucket]) return {};
    if (end < filled[bucket]) continue;
    ++bucket;
    end = 0;
  }
  return bucket == filled.size() ? places : std::vector<BucketPlace>();
}

std::vector<BucketStates::Place> BucketStates::places_in_buckets(
    const std::string& group, std::int64_t number, std::span<const BufferParam> params) const {
  const char* const kOther = "was it written with other buckets than args say?";
  const std::string buffer = concat(group, "gbuf_idx_", number, ".dtype_");
  const auto found = tensors_.tensors().lower_bound(buffer);  // of the only type
  if (found == tensors_.tensors().end() || !found->first.starts_with(buffer))
    fail(Exit::bad_data, where_, ": has no tensor ", buffer, "...");
  const std::string typed = found->first.substr(0, found->first.rfind(".bucket_idx_"));
  const std::vector<std::int64_t> filled = filled_buckets(group, number);
  std::vector<BucketPlace> parts = bucket_places(params, filled, 64);
  if (parts.empty() && type_ == kPadded) parts = bucket_places(params, filled, 1);  // core_v0.7.0
  if (parts.empty())
    fail(Exit::bad_data, where_, ": ", buffer,
         "...: parameters do not end where buckets do: ", kOther);
  for (std::size_t i = 0; i < filled.size(); ++i)
    for (const char* state : {".param", ".exp_avg", ".exp_avg_sq"}) {
      const std::string key = concat(typed, ".bucket_idx_", i, state);
      const DistTensor& tensor = tensors_.at(key);
      const Shape& shape = tensor.own_shape();
      if (shape.rank() != 1 || shape[0] < filled[i] || !is_float(*tensor.dtype))
        fail(Exit::bad_data, where_, ": ", key, " is ", tensor.dtype_name, ' ', shape,
             ", expected at least [", filled[i], "] numbers: ", kOther);
    }
  std::vector<Place> places;
  places.reserve(parts.size());
  for (const BucketPlace& part : parts)
    places.push_back({.bucket = concat(typed, ".bucket_idx_", part.bucket), .start = part.start});
  return places;
}

// --- Reading ------------------------------------------------------------------------------------

PyValue BucketStates::common_optimizer(const KeepTensor& keep) const {
  std::vector<PyValue> optimizers;
  for (std::size_t optimizer = 0; optimizer < optimizer_count(counts_.expert); ++optimizer) {
    const std::string group = group_key({0, 0, 0, optimizer});
    PyValue own = PyValue::dict();
    for (const char* part : {"optimizer", "grad_scaler"}) {
      const std::string key = concat(group, part, "/shard_0_1");
      if (!tensors_.objects().contains(key) && part == std::string_view("grad_scaler")) continue;
      const TorchReader object = tensors_.open_object(key);
      own.set_item(part, copied_value(only(object.value(), where_), object, keep));
    }
    optimizers.push_back(mt::common_optimizer(own, true, where_));
  }
  return as_chain(optimizers);
}

const BucketStates::Place& BucketStates::place_of(const Param& row, std::size_t tensor_rank) const {
  const auto found = places_[tensor_rank].find(row.index);
  if (found == places_[tensor_rank].end())
    fail(Exit::bad_data, where_, ": nothing of ", row.name());
  return found->second;
}

static std::string name_there(const std::string& state) {
  return state == "fp32_param" ? "param" : state;
}

DType BucketStates::dtype_of(const Param& row, const std::string& state) const {
  const Place& place = place_of(row, 0);
  return place.buffer != nullptr ? place.buffer->at(state).dtype
                                 : *tensors_.at(concat(place.bucket, ".", name_there(state))).dtype;
}

// Elements from `begin` on of the parameter there.
void BucketStates::read_part(const Place& place, const std::string& state, std::int64_t begin,
                             Tensor out) const {
  const Shape offset{place.start + begin};
  if (place.buffer != nullptr)
    place.buffer->at(state).copy_to(offset, out);
  else
    tensors_.read_original(concat(place.bucket, ".", name_there(state)), offset, out);
}

// Elements from `begin` on of a rank's part to where they are in the row.
static void copy_part(ConstTensor part, std::int64_t begin, std::span<const ElementRun> runs,
                      Tensor row) {
  const std::int64_t end = begin + part.numel();
  auto run =
      std::ranges::find_if(runs, [&](const ElementRun& r) { return r.local + r.count > begin; });
  for (; run != runs.end() && run->local < end; ++run) {
    const std::int64_t from = std::max(begin, run->local),
                       to = std::min(end, run->local + run->count),
                       first = run->global + from - run->local,
                       count = std::min(to - from, row.numel() - first);  // other padding
    if (count > 0)
      std::memcpy(row.rows(first, first + count).data(),
                  part.rows(from - begin, from - begin + count).data(),
                  static_cast<std::size_t>(count) * size_of(row.dtype()));
  }
}

void BucketStates::read(const Param& row, const std::string& state, Tensor out) const {
  constexpr std::int64_t kBlock = 1 << 20;  // elements
  if (row.is_vocabulary()) std::memset(out.data(), 0, out.bytes());
  const Tensor all = out.reshape({out.numel()});
  for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
    const Param& cut = parts_[rank].rows()[row.index];
    const Place& place = place_of(row, rank);
    const std::vector<ElementRun> runs = cut.runs();
    const std::int64_t count = cut.local.numel(),
                       each = place.transposed ? count : std::min(kBlock, count);
    const std::size_t bytes = static_cast<std::size_t>(each) * size_of(out.dtype());
    const Buffer buffer(Device::cpu, bytes), turned(Device::cpu, place.transposed ? bytes : 0);
    for (std::int64_t at = 0; at < count; at += each) {
      Tensor block = buffer.tensor(out.dtype(), {std::min(each, count - at)});
      read_part(place, state, at, block);
      if (place.transposed) {
        const Tensor whole = turned.tensor(out.dtype(), cut.local);
        expert_part(dense(block.dtype(), block.shape(),
                          {static_cast<const std::byte*>(block.data()), block.bytes()}),
                    0, 1, cut.local)
            .copy_to(whole);
        block = whole.reshape({count});
      }
      copy_part(block, at, runs, all);
    }
    if (!cut.is_cut()) return;  // all ranks have the same
  }
}

}  // namespace mt
