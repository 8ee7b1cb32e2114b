// A checkpoint of TensorRT-LLM's (formats/names/trtllm.h): config.json, and rankN.safetensors for
// each of the ranks that share every matrix.  Those of linear layers may be
//   FP8        X.weight E4M3 [out, in], X.weights_scaling_factor and X.activation_scaling_factor,
//              f32 [1], which multiply
//   W4A16_AWQ  X.weight i8 [out / 2, in], of rows 2i and 2i + 1 in the low and high four bits of a
//              byte; X.weights_scaling_factor [out, in / 128]; X.prequant_scaling_factor [in], by
//              which inputs are multiplied: 1, as norms and others have been divided already
#include <cstring>
#include <deque>

#include "ckpt/folder_save.h"
#include "ckpt/safetensors.h"
#include "ckpt/torch_file.h"
#include "formats/model_sink.h"
#include "formats/names/trtllm.h"
#include "formats/trtllm/trtllm_config.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

constexpr const char* kConfig = "config.json";

// A tensor of all ranks together.
struct Made {
  std::string name;
  DType dtype;
  Shape shape;
  TrtllmShare share;
};

class TrtllmSink : public ModelSink {
 public:
  TrtllmSink(const ModelTarget& target, const ParamTable& table, const RowTypes& types)
      : target_(target),
        config_(trtllm_config(target)),
        save_(target.path, trtllm_files(), target.replaces) {
    std::vector<Made> all;
    for (const Param& row : table.rows())
      for (const TrtllmName& name : trtllm_names(target.config, row))
        std::ranges::move(made_of(row, name, types(row, "")), std::back_inserter(all));
    for (std::int64_t rank = 0; rank < target.tensor_parallel; ++rank) {
      std::vector<SafetensorsWriter::Entry> entries;
      for (const Made& made : all)
        entries.push_back({made.name, made.dtype, shape_on_rank(made.shape, made.share)});
      ranks_.emplace_back(save_.folder(), entries, concat("rank", rank, ".safetensors").c_str());
    }
  }

  void write(std::size_t, const Param& row, const std::string&, ConstTensor value) override {
    for (const TrtllmName& name : trtllm_names(target_.config, row)) {
      const ForeignValue theirs(row, name, value, target_.config.vocab_size);
      if (is_quantized(target_.weights, row))
        write_quantized(row, name, value, theirs.tensor());
      else
        put(name.name, name.share, theirs.tensor());
    }
  }

  std::vector<std::string> warnings() const override {
    const ModelConfig& c = target_.config;
    for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
      if (c.window(layer) >= 0)
        return {concat("--saver trtllm: layers have windows of ", c.window(layer) + 1,
                       " tokens, of which TensorRT-LLM is told when it runs "
                       "(--max_attention_window_size)")};
    return {};
  }

  std::string finish() override {
    for (SafetensorsWriter& rank : ranks_) rank.close();
    write_file_atomically(save_.folder() + "/" + kConfig, config_, false);
    return save_.folder();
  }

  void publish() override { save_.publish(); }

 private:
  static std::string module_of(const std::string& name) {  // with the dot behind it
    return name.substr(0, name.rfind('.') + 1);
  }

  std::vector<Made> made_of(const Param& row, const TrtllmName& name, DType dtype) const {
    const Shape shape = hugging_face_whole(row, name);
    const WeightFormat format = target_.weights.format;
    if (!is_quantized(target_.weights, row)) return {{name.name, dtype, shape, name.share}};
    const std::string module = module_of(name.name);
    using enum TrtllmShare;
    if (format == WeightFormat::fp8)
      return {{name.name, DType::f8, shape, name.share},
              {module + "weights_scaling_factor", DType::f32, {1}, all},
              {module + "activation_scaling_factor", DType::f32, {1}, all}};
    const auto made = quantized_entries(target_.weights, name.name, dtype, shape);
    return {{name.name, DType::i8, {shape[0] / 2, shape[1]}, name.share},
            {module + "weights_scaling_factor", made[1].dtype, made[1].shape, name.share},
            {module + "prequant_scaling_factor",
             dtype,
             {shape[1]},
             name.share == columns ? rows : all}};
  }

  // Without the vocabulary's padding.
  Shape hugging_face_whole(const Param& row, const TrtllmName& name) const {
    const Shape shape = transformed_shape(name.transform, row.shape);
    return row.is_vocabulary() ? Shape{target_.config.vocab_size, shape[1]} : shape;
  }

  std::int64_t tensor_ranks() const { return target_.tensor_parallel; }

  // Rows or columns [begin, end) of the whole.
  struct Range {
    std::int64_t begin, end;
  };
  std::vector<Range> rows_of(std::int64_t rows, TrtllmShare share, std::int64_t rank) const {
    const ModelConfig& c = target_.config;
    const std::int64_t ranks = tensor_ranks();
    if (share == TrtllmShare::rows) return {{rank * rows / ranks, (rank + 1) * rows / ranks}};
    if (share == TrtllmShare::words) {
      const std::int64_t own = (rows + ranks - 1) / ranks;
      return {{std::min(rows, rank * own), std::min(rows, (rank + 1) * own)}};
    }
    if (share != TrtllmShare::heads) return {{0, rows}};
    const std::int64_t queries = c.num_attention_heads, keys = c.kv_heads(),
                       of_head = rows / (queries + 2 * keys), most = std::max(keys, ranks),
                       first = rank * keys / ranks, count = most / ranks;
    const auto heads = [&](std::int64_t begin, std::int64_t end) {
      return Range{begin * of_head, end * of_head};
    };
    return {heads(rank * queries / ranks, (rank + 1) * queries / ranks),
            heads(queries + first, queries + first + count),
            heads(queries + keys + first, queries + keys + first + count)};
  }

  Shape shape_on_rank(const Shape& whole, TrtllmShare share) const {
    if (share == TrtllmShare::columns) return {whole[0], whole[1] / tensor_ranks()};
    std::int64_t rows = 0;
    for (const Range& range : rows_of(whole[0], share, 0)) rows += range.end - range.begin;
    std::vector<std::int64_t> extents(whole.extents().begin(), whole.extents().end());
    extents[0] = rows;
    return Shape(std::span<const std::int64_t>(extents));
  }

  void put(const std::string& name, TrtllmShare share, ConstTensor whole) {
    const Shape shape = shape_on_rank(whole.shape(), share);
    const Buffer buffer(Device::cpu,
                        static_cast<std::size_t>(shape.numel()) * size_of(whole.dtype()));
    const Tensor own = buffer.tensor(whole.dtype(), shape);
    for (std::int64_t rank = 0; rank < tensor_ranks(); ++rank) {
      auto* to = static_cast<std::byte*>(own.data());
      const auto append = [&](const std::byte* from, std::size_t bytes) {
        std::memcpy(to, from, bytes);
        to += bytes;
      };
      if (share == TrtllmShare::columns) {
        const std::size_t bytes = own.bytes() / static_cast<std::size_t>(shape[0]);
        const auto* from = static_cast<const std::byte*>(whole.data());
        for (std::int64_t row = 0; row < shape[0]; ++row)
          append(from + static_cast<std::size_t>(row * tensor_ranks() + rank) * bytes, bytes);
      } else {
        for (const Range& range : rows_of(whole.shape()[0], share, rank)) {
          const ConstTensor rows = whole.rows(range.begin, range.end);
          append(static_cast<const std::byte*>(rows.data()), rows.bytes());
        }
        const auto* const end = static_cast<std::byte*>(own.data()) + own.bytes();
        std::memset(to, 0, static_cast<std::size_t>(end - to));  // padding
      }
      ranks_[static_cast<std::size_t>(rank)].write(name, own);
    }
  }

  void write_quantized(const Param& row, const TrtllmName& name, ConstTensor all,
                       ConstTensor matrix) {
    const SharedRange range = range_of(target_, row, all);
    check_room(target_.weights, name.name, matrix, range);
    const QuantizedMatrix made(target_.weights, name.name, matrix, range);
    const std::string module = module_of(name.name);
    if (target_.weights.format == WeightFormat::fp8) {
      put(name.name, name.share, made.value(name.name));
      put(module + "weights_scaling_factor", TrtllmShare::all,
          made.value(name.name + "_scale").reshape({1}));
      put(module + "activation_scaling_factor", TrtllmShare::all,
          made.value(module + "input_scale").reshape({1}));
      return;
    }
    const Shape& shape = matrix.shape();
    const Buffer buffer(Device::cpu, static_cast<std::size_t>(shape.numel()) / 2);
    const Tensor pairs = buffer.tensor(DType::i8, {shape[0] / 2, shape[1]});
    pack_pairs(pairs, made.value(name.name + "_packed"));
    put(name.name, name.share, pairs);
    put(module + "weights_scaling_factor", name.share, made.value(name.name + "_scale"));
    const Buffer ones(Device::cpu, static_cast<std::size_t>(shape[1]) * size_of(matrix.dtype()));
    const Tensor factors = ones.tensor(matrix.dtype(), {shape[1]});
    const std::vector<float> numbers(static_cast<std::size_t>(shape[1]), 1);
    dense(DType::f32, factors.shape(), std::as_bytes(std::span(numbers))).copy_to({0}, factors);
    put(module + "prequant_scaling_factor",
        name.share == TrtllmShare::columns ? TrtllmShare::rows : TrtllmShare::all, factors);
  }

  // words: i32 [out, in / 8], the first of eight numbers in the lowest bits, each with 8 added.
  static void pack_pairs(const Tensor& pairs, ConstTensor words) {
    constexpr std::int64_t kInWord = 8;
    const auto* const word = words.as<std::int32_t>();
    const std::int64_t in = pairs.shape()[1];
    const auto bits = [&](std::int64_t row, std::int64_t column) {
      const auto of = static_cast<std::uint32_t>(word[(row * in + column) / kInWord]);
      return ((of >> (column % kInWord * 4)) & 15) ^ 8;  // of two's complement
    };
    auto* to = static_cast<std::uint8_t*>(pairs.data());
    for (std::int64_t row = 0; row < 2 * pairs.shape()[0]; row += 2)
      for (std::int64_t column = 0; column < in; ++column)
        *to++ = static_cast<std::uint8_t>(bits(row, column) | bits(row + 1, column) << 4);
  }

  ModelTarget target_;
  std::string config_;
  FolderSave save_;
  std::deque<SafetensorsWriter> ranks_;
};

}  // namespace

FolderFiles trtllm_files() {
  const OwnFile own = [](const std::string& name) {
    return name == kConfig || has_form(name, "rank#.safetensors") ||
           has_form(name, "rank##.safetensors") || has_form(name, "rank###.safetensors");
  };
  return {.own = [own](const std::string&) { return own; }, .keys = {kConfig}};
}

std::unique_ptr<ModelSink> make_trtllm_sink(const ModelTarget& target, const ParamTable& table,
                                            const RowTypes& types) {
  return std::make_unique<TrtllmSink>(target, table, types);
}

}  // namespace mt
