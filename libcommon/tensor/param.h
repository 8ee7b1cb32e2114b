// Param and ParamTable: a model's weights as one table (DESIGN D4).  Initialising, counting,
// sharding, the optimizer, saving, loading, converting and planning all iterate over its rows; a
// module holds references to its own.  References stay valid as the table grows.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

class PackedTiles;

// Which ranks divide an axis of a weight among themselves.
enum class ShardAxis : std::uint8_t { none, tp, expert_tp };

// A part of a weight that is cut by itself: `extent` consecutive indices of axis `dimension`. q|k|v
// rows of one query group lie together, so a qkv weight is one segment whose cuts fall between
// groups.
struct Segment {
  std::string name;
  std::int64_t extent = 0;
  int dimension = 0;
  ShardAxis axis = ShardAxis::none;
  std::int64_t granularity = 1;  // cuts fall at multiples of this
  // Extents of the parts that each of those consists of: queries, key and value of a query group.
  std::vector<std::int64_t> parts = {};
};

struct Initializer {
  // decays: logarithms of numbers that are uniform in [1, 16);  steps: what softplus makes of them
  // has a logarithm that is uniform in [log 0.001, log 0.1).  Both are a Mamba-2's.
  enum class Kind : std::uint8_t {
    zeros,
    ones,
    normal,
    uniform,
    decays,
    steps,
    constant
  } kind = Kind::zeros;
  double std = 0;  // standard deviation of normal and uniform, whose mean is 0; or the constant
};

// Consecutive indices of the axis that a weight is cut along: a rank holds them from `local` on,
// and the whole weight from `global` on.
struct Cut {
  std::int64_t local = 0, global = 0, extent = 0;
};

// Elements that lie one after another in a rank's part of a weight and in the whole.
struct ElementRun {
  std::int64_t local = 0, global = 0, count = 0;
};

// RowPlace: where in a model a row stands.  Names and keys in all formats are made of this, and no
// name of ours is ever parsed.
struct RowPlace {
  std::string_view stack = {};             // what all names begin with: "decoder", "embedding"
  std::optional<std::int64_t> layer = {};  // of the stack
  std::string_view inner = {};             // the layer in it that all else is of, if it has one,
  std::optional<std::int64_t> inner_layer = {};  // or the stack of layers in it, and which
  std::optional<std::int64_t> expert = {};       // of the layer
  std::string module = {};      // of the layer, expert or stack: "self_attention.linear_qkv"
  std::string_view param = {};  // of the module: "weight", "layer_norm_bias"
  std::string_view also = {};   // the stack that has it, too, where a model has a row twice

  // Megatron-Core's name of it: decoder.layers.3.mlp.linear_fc2.weight.
  std::string name() const;
  friend bool operator==(const RowPlace&, const RowPlace&) = default;
};

// Copies: which ranks have the same rows: those that differ in their data alone, or, of experts,
// those with the same experts.
enum class Copies : std::uint8_t { dense, experts };

// SummedOver: the ranks that each see a part of a row's gradient, though they all have the row
// whole.
enum class SummedOver : std::uint8_t { none, tp };

// PackedAs: what a value is, where it is bytes that stand for numbers: nothing of the kind; NF4
// (kernels/nf4.h); or blocks of llama.cpp's files (kernels/packed_rows.h), or what lies in these as
// GPUs multiply it (kernels/packed_tiles.h).
enum class PackedAs : std::uint8_t { none, nf4, blocks, tiles };

struct Param {
  RowPlace place;
  Shape shape;  // global
  Initializer init = {};
  std::string drawn_as = {};  // the name by which random initial values are drawn; empty: its own
  std::vector<Segment> segments = {};
  Copies copies = Copies::dense;
  SummedOver summed_over = SummedOver::none;
  // Several stages of a pipeline have this row each (tied embeddings): its gradient is the sum of
  // theirs.  All but one are copies, which neither count nor are stored.
  bool shared = false, copy = false;
  int sharing_stages = 0;  // which stages those are: the World's groups of them are numbered
  bool trainable = true;   // else it is frozen: it has no gradient, and keeps its value
  // It is not trained either, but each step's end changes it (a router's biases, by how its experts
  // were chosen): Megatron-Core has it in a buffer, of which optimizers know nothing.
  bool is_buffer = false;
  // What its values need where those of the table have fewer bits: a router's, an expert's bias.
  std::optional<DType> dtype = {};
  // Packed: it is frozen, and its value is so many bytes, which are unpacked where it is used, or
  // multiplied with as they are.
  PackedAs packed_as = PackedAs::none;
  std::int64_t packed_bytes = 0;
  std::shared_ptr<const PackedTiles> tiles = {};  // where the value is tiles: how they lie
  bool reads_blocks = false;  // whether those who use it can do so where it is blocks
  double decay_mult = 1, learning_rate_mult = 1;
  bool embedding_or_output = false;  // of words: may have a learning rate of its own
  // What a step first adds to its gradient replaces what was there, which need not be zeroed.
  bool gradient_replaced = false;

  // A torch_dist checkpoint stacks equal layers, and their experts, under one key: each with an
  // axis in front, of so many.  0: the layer's number is part of the key (model/keys.h).
  std::int64_t layers = 0, experts = 0;
  bool key_by_segments = false;  // each segment has a key
  // The key of its state has its layer, where some of the rows that it is stacked with are frozen.
  bool state_key_has_layer = false;

  // Set by the table.  A rank's part is cut along the dimension of its tensor-parallel segments.
  std::size_t index = 0;
  int unit = 0;
  Shape local = {};  // of this rank's part
  int dimension = 0;
  std::vector<Cut> cuts = {};    // in their order; one, if nothing is cut
  Tensor value = {}, grad = {};  // of the table's buffers, once allocated: the part

  std::string name() const { return place.name(); }
  bool is_vocabulary() const { return segments.front().name == "vocab"; }  // a row for each token
  bool is_cut() const { return !(local == shape); }
  // Elements of the value, and its shape.
  std::int64_t stored() const { return packed_as != PackedAs::none ? packed_bytes : local.numel(); }
  Shape stored_shape() const { return packed_as != PackedAs::none ? Shape{packed_bytes} : local; }
  std::vector<ElementRun> runs() const;  // of the part, in its order
};

struct RowRange {
  std::size_t begin = 0, end = 0;  // of a table
};

// What is due around the use of parameters that several ranks have in common.
class ParamSharing {
 public:
  virtual ~ParamSharing() = default;
  // Before a row's value is read; it is not any more once a row of another unit is used.
  virtual void use(const Param& row) = 0;
  // Before a row's gradient is added to.  Whether what is added replaces what is there (only where
  // the row says that something may).
  virtual bool add_to(const Param& row, Stream& stream) = 0;
  // The micro-batch, the step's last if so said, adds nothing more to the gradients of a unit.
  virtual void complete(RowRange rows, bool last) = 0;
};

// Where rows lie in a flat tensor of values or of gradients, in elements.
struct ParamLayout {
  std::vector<std::int64_t> starts;  // of each row
  std::int64_t size = 0;
};

// FlatRows: rows of one kind, whose values lie in one flat tensor and their gradients in another.
// They are of one dtype, all trainable or all frozen, and, where experts are apart, the same ranks
// have copies of all of them.
struct FlatRows {
  std::vector<std::size_t> rows;  // indices, in the table's order
  Tensor values = {}, gradients = {};
};

class ParamTable {
 public:
  ParamTable() = default;
  ParamTable(ParamTable&&) = default;
  ParamTable& operator=(ParamTable&&) = default;

  // The rows are those of one of so many tensor-parallel ranks.  Before the first row.
  void divide(int rank, int ranks) {
    rank_ = expert_rank_ = rank;
    ranks_ = expert_ranks_ = ranks;
  }
  // Those of experts are one of so many's.
  void divide_experts(int rank, int ranks) {
    expert_rank_ = rank;
    expert_ranks_ = ranks;
  }

  // The rows from here on are used together: an embedding's, a block's.
  void begin_unit() { ++unit_; }

  // Appends a row.  Without segments it gets one, replicated.  Biases and one-dimensional
  // parameters (norms) do not decay.
  Param& add(Param row);

  std::deque<Param>& rows() { return rows_; }
  const std::deque<Param>& rows() const { return rows_; }
  Param& at(const std::string& name);  // Exit::internal if absent
  std::int64_t count() const;          // elements of all rows but copies, whole, without padding

  // Freezes the rows at the places of which this is true, which must be so of all experts of a
  // layer alike.  Before they are allocated.
  void freeze(const std::function<bool(const RowPlace&)>& is_frozen);

  // What gradients are kept in; otherwise the sum_dtype of the values.  It is not what gradients of
  // rows are kept in that have a dtype of their own.  Before they are allocated.
  void keep_gradients_in(DType dtype) { gradient_dtype_ = dtype; }

  // Allocates all rows, each kind in its flat tensors, in their order, each at a multiple of 64
  // elements.  Values are of `dtype`, but those of rows that need more bits; trainable rows have
  // gradients if that is asked.
  void allocate(Device device, DType dtype, bool with_gradients);

  // Allocating in parts: begin_allocation() frees what there was, and allocate() then follows for
  // the rows of each kind.  Its layouts have a start for each of the rows; rows whose turns come
  // one after another may lie at one place.  There are no gradients where their layout is empty.
  void begin_allocation(Device device, DType dtype);
  const FlatRows& allocate(std::vector<std::size_t> rows, const ParamLayout& values,
                           const ParamLayout& gradients);
  // Returns the rows of each kind, trainable ones first, and of these first those of which dense
  // ranks have copies.  Unless `experts_apart`, those of experts are no kind of their own.
  std::vector<std::vector<std::size_t>> kinds(bool experts_apart) const;
  ParamLayout one_after_another(std::span<const std::size_t> rows) const;

  const std::deque<FlatRows>& flat_rows() const { return flat_; }  // all that is allocated
  DType dtype() const { return dtype_; }                           // of values
  DType dtype_of(const Param& row) const;                          // of its values
  Device device() const { return device_; }

 private:
  void cut(Param& row) const;

  std::deque<Param> rows_;
  int rank_ = 0, ranks_ = 1;  // tensor-parallel
  int expert_rank_ = 0, expert_ranks_ = 1;
  int unit_ = 0;  // of the next row
  Device device_ = Device::cpu;
  DType dtype_ = DType::f32;
  std::optional<DType> gradient_dtype_;
  std::deque<FlatRows> flat_;
  std::vector<Buffer> storage_;
};

}  // namespace mt
